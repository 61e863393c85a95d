//! The `krond` command.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use krond::options::{Command, Options};

fn main() -> ExitCode {
    // A supervisor is this very program under another name; nothing else may come before.
    if kron_exec::is_supervisor() {
        return kron_exec::supervise();
    }
    match Options::try_parse() {
        Ok(Options { command: Command::Run(options) }) => krond::daemon::run(&options),
        Err(error) => usage(&error),
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
