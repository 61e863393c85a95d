//! `kron spool`: tasks in directories, put in, looked at and started anew.

mod ls;
mod purge;
mod put;
mod retry;
mod show;
mod stats;

use std::io::{self, Write};

use crate::args::{SpoolArgs, SpoolCommand};
use crate::failure::{Exit, Failure};

pub(crate) fn run(args: &SpoolArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    match &args.command {
        SpoolCommand::Put(args) => put::run(args, out),
        SpoolCommand::Ls(args) => ls::run(args, out),
        SpoolCommand::Show(args) => show::run(args, out),
        SpoolCommand::Retry(args) => retry::run(args, out),
        SpoolCommand::Purge(args) => purge::run(args, out),
        SpoolCommand::Stats(args) => stats::run(args, out),
    }
}

fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {text}");
}

fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {text}");
}
