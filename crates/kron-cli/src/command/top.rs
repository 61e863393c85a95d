//! `kron top`: the daemon and its jobs, live.

use nix::sys::signal::Signal;

use crate::args::TopArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::live::{self, Jobs, Live, Manner};
use crate::screen::{self, Screen};

/// What ends it, and what tells that the terminal has another size.
pub(super) const SIGNALS: [Signal; 5] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGWINCH];

pub(crate) fn run(args: &TopArgs) -> Result<Exit, Failure> {
    if !screen::is_there() {
        return Err(Failure::Unclear {
            message: "standard input and output are no terminal to draw on".to_owned(),
            hint: "`kron status` shows the same once".to_owned(),
        });
    }
    live::block(&SIGNALS)?;
    let client = Client::of(&args.daemon);
    let socket = client.socket().display().to_string();
    let manner = Manner {
        notes: Vec::new(),
        before: format!("waiting for a daemon at {socket}"),
        lost: "no answer".to_owned(),
        leaving: "q quit".to_owned(),
        style: screen::style_of_output(args.ascii),
    };
    let mut live = Live::new(client, Jobs { sort: args.sort }, manner, &SIGNALS)?;
    let screen = Screen::enter()?;
    live.run(&screen)?;
    Ok(Exit::Ok)
}
