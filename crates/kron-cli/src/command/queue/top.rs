//! `kron queue top`: the queue, live.

use crate::args::QueueTopArgs;
use crate::client::Client;
use crate::command::top::SIGNALS;
use crate::failure::{Exit, Failure};
use crate::live::{self, Live, Manner, QueueScene};
use crate::screen::{self, Screen};

pub(crate) fn run(args: &QueueTopArgs) -> Result<Exit, Failure> {
    if !screen::is_there() {
        return Err(Failure::Unclear {
            message: "standard input and output are no terminal to draw on".to_owned(),
            hint: "`kron queue stats` and `kron queue ls` show the same once".to_owned(),
        });
    }
    live::block(&SIGNALS)?;
    let client = Client::of(&args.daemon);
    let socket = client.socket().display().to_string();
    let manner = Manner {
        notes: Vec::new(),
        before: format!("waiting for a daemon with a queue at {socket}"),
        lost: "no answer".to_owned(),
        leaving: "q quit".to_owned(),
        style: screen::style_of_output(args.ascii),
    };
    let mut live = Live::new(client, QueueScene, manner, &SIGNALS)?;
    let screen = Screen::enter()?;
    live.run(&screen)?;
    Ok(Exit::Ok)
}
