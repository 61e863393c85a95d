//! The `krond` command.

mod man;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;
use krond::options::{Command, Options};

use crate::man::Shipped;

fn main() -> ExitCode {
    // A supervisor is this very program under another name; nothing else may come before.
    if kron_exec::is_supervisor() {
        return kron_exec::supervise();
    }
    match typed() {
        Ok(Typed::Daemon(Options { command: Command::Run(options) })) => {
            krond::daemon::run(&options)
        }
        Ok(Typed::Shipped(shipped)) => match shipped.write(&mut io::stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "error: cannot write to standard output: {error}");
                ExitCode::from(6)
            }
        },
        Err(error) => usage(&error),
    }
}

enum Typed {
    Daemon(Options),
    Shipped(Shipped),
}

fn typed() -> Result<Typed, clap::Error> {
    let matches = Shipped::beside_options().try_get_matches()?;
    match matches.subcommand_name() {
        Some("man" | "completions") => Shipped::from_arg_matches(&matches).map(Typed::Shipped),
        _ => Options::from_arg_matches(&matches).map(Typed::Daemon),
    }
}

/// Shows help on standard output and everything else on standard error.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    // Whoever cannot be told learns from the exit code.
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = write!(io::stdout(), "{text}");
        return ExitCode::SUCCESS;
    }
    let _ = write!(io::stderr(), "{text}");
    ExitCode::from(2)
}
