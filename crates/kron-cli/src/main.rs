//! The `kron` command.
//!
//! Every command is one file under `command/`: it turns arguments into output and an [`failure::Exit`], and
//! does nothing else. This file is the edge: it parses, dispatches, and translates failures into
//! exit codes. Output depends on nothing but inputs and flags; where a time is left out, the clock
//! is read here, once, and the time is shown in the output. What a daemon says is one of the inputs:
//! [`client`] asks it.

mod args;
mod board;
mod client;
mod clock;
mod command;
mod failure;
mod jobs;
mod lines;
mod live;
mod new_file;
mod outcome;
mod plot;
mod plugin;
mod queue;
mod schedule_words;
mod screen;
mod spool;
mod text;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command, PluginCli};
use crate::failure::Failure;

fn main() -> ExitCode {
    // A supervisor of `kron up` is this very program under another name; nothing else may come
    // before.
    if kron_exec::is_supervisor() {
        return kron_exec::supervise();
    }
    let called = match Called::parse() {
        Ok(called) => called,
        Err(error) => return usage(&error),
    };
    // Not locked: what draws on a terminal does so from other threads.
    let mut out = BufWriter::new(io::stdout());
    let result = called.run(&mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    // What was written before a failure belongs to the reader.
    let _ = out.flush();
    match result {
        Ok(code) => code,
        // Whoever reads the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(io::stderr(), "{failure}");
            failure.exit_code()
        }
    }
}

/// What somebody has typed, under one of the names of this program.
enum Called {
    Kron(Box<Cli>),
    Plugin(Box<PluginCli>),
    /// By kubectl, for somebody who is typing.
    PluginCompletion(Vec<OsString>),
}

impl Called {
    fn parse() -> Result<Called, clap::Error> {
        let mut words = std::env::args_os();
        let program = words.next();
        if plugin::is_called(program.as_deref()) {
            return PluginCli::try_parse().map(|cli| Called::Plugin(Box::new(cli)));
        }
        if plugin::is_asked_to_complete(program.as_deref()) {
            return Ok(Called::PluginCompletion(words.collect()));
        }
        Cli::try_parse().map(|cli| Called::Kron(Box::new(cli)))
    }

    fn run(&self, out: &mut dyn io::Write) -> Result<ExitCode, Failure> {
        match self {
            Called::Kron(cli) => run(&cli.command, out),
            Called::Plugin(cli) => plugin::run(cli, out).map(ExitCode::from),
            Called::PluginCompletion(words) => plugin::complete(words, out).map(ExitCode::from),
        }
    }
}

fn run(command: &Command, out: &mut dyn io::Write) -> Result<ExitCode, Failure> {
    let exit = match command {
        // A daemon has its own exit codes.
        Command::Up(args) => return command::up::run(args),
        Command::Top(args) => command::top::run(args),
        Command::Lint(args) => command::lint::run(args, out),
        Command::Next(args) => command::next::run(args, out),
        Command::Decide(args) => command::decide::run(args, out),
        Command::Explain(args) => command::explain::run(args, out),
        Command::Forecast(args) => command::forecast::run(args, out),
        Command::Diff(args) => command::diff::run(args, out),
        Command::Replay(args) => command::replay::run(args, out),
        Command::Import(args) => command::import::run(args, out),
        Command::Status(args) => command::status::run(args, out),
        Command::History(args) => command::history::run(args, out),
        Command::Why(args) => command::why::run(args, out),
        Command::Logs(args) => command::logs::run(args, out),
        Command::Run(args) => command::run::run(args, out),
        Command::Suspend(args) => command::suspend::run(args, out),
        Command::Resume(args) => command::resume::run(args, out),
        Command::Reload(args) => command::reload::run(args, out),
        Command::Stop(args) => command::stop::run(args, out),
        Command::Clock(args) => command::clock::run(args, out),
        Command::Doctor(args) => command::doctor::run(args, out),
        Command::State(args) => command::state::run(args, out),
        Command::Queue(args) => command::queue::run(args, out),
        Command::Template(args) => command::template::run(args, out),
        Command::Schedule(args) => command::schedule::run(args, out),
        Command::Spool(args) => command::spool::run(args, out),
        Command::Completions(args) => command::completions::run(args, out),
        Command::Man(args) => command::man::run(args, out),
    };
    exit.map(ExitCode::from)
}

/// Shows help on standard output and everything else on standard error.
fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    // The renderer indents empty lines.
    let text: String =
        error.render().to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if asked {
        let _ = write!(io::stdout(), "{text}");
        return ExitCode::SUCCESS;
    }
    let _ = write!(io::stderr(), "{text}");
    ExitCode::from(2)
}
