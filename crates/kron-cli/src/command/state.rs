//! `kron state`: what a daemon has recorded, looked at and mended without it.
//!
//! Looking never changes anything and needs no lock, so that it is safe beside a running daemon.
//! Mending takes the daemon's own lock.

mod check;
mod ls;
mod reset;
mod show;

use std::io::Write;
use std::path::Path;

use kron_state::{RealDirectory, Store};

use crate::args::{StateArgs, StateCommand};
use crate::failure::{Exit, Failure};

pub(crate) fn run(args: &StateArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    match &args.command {
        StateCommand::Ls(args) => ls::run(args, out),
        StateCommand::Show(args) => show::run(args, out),
        StateCommand::Check(args) => check::run(args, out),
        StateCommand::Reset(args) => reset::run(args, out),
    }
}

/// The store in a directory, to be looked at.
fn view(state_dir: &Path) -> Result<Store<RealDirectory>, Failure> {
    let directory = RealDirectory::open_existing(state_dir).map_err(Failure::State)?;
    Store::view(directory, usize::MAX).map_err(Failure::State)
}
