//! `kron completions`: what a shell needs to complete commands and flags.

use std::io::Write;

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::{Exit, Failure};

pub(crate) fn run(args: &CompletionsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kron", &mut text);
    out.write_all(&text)?;
    Ok(Exit::Ok)
}
