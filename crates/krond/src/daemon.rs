//! The daemon's body: real clocks, files, processes, signals and threads around the machine.
//!
//! [`run`] takes the state directory's lock, reads definitions and the recorded past, and then runs
//! one loop in one thread: select one event, let the [`Machine`](crate::machine::Machine) handle
//! it, carry out its actions. Around it work a few threads that wait where the loop must not: for
//! disks (`sync`), for the name service and new processes (`launch`), for definitions
//! (`reload`), for old logs (`logs`) and for people (`control`).
//!
//! Nothing here decides what runs when. What fails at start-up refuses the start with the exit code
//! of its category; what fails later becomes an event, and the machine decides what that means.

pub(crate) mod clock;
mod control;
mod definitions;
mod errand;
mod event_loop;
mod handle;
mod hooks;
mod inbox;
pub(crate) mod launch;
mod logs;
mod notify;
mod poll;
mod queue;
mod reload;
mod runs;
mod socket;
mod spool;
mod start;
mod sync;
mod sync_queue;
pub(crate) mod worker;

use std::process::ExitCode;

use kron_core::Category;
use kron_state::Lock;

pub use handle::{Gone, Handle, ReloadFailure, ReloadView};
pub(crate) use queue::QueueHandle;
pub(crate) use spool::SpoolShared;

use crate::log::{Log, LogFormat, told};
use crate::machine::{Entry, ExitReason, Level};
use crate::options::RunOptions;
use start::{StartError, Started};

// The exit codes of every program of Kron, as far as a daemon needs them.
const EXIT_CONFIGURATION: u8 = 2;
const EXIT_STATE: u8 = 3;
const EXIT_LOCKED: u8 = 4;
const EXIT_PERSISTENCE: u8 = 5;
const EXIT_SYSTEM: u8 = 6;

/// Runs the daemon until it is told to stop or has to.
#[must_use]
pub fn run(options: &RunOptions) -> ExitCode {
    let log = match prepare(options.log_format) {
        Ok(log) => log,
        Err(error) => return refuse(&error, Log::new(options.log_format)),
    };
    let code = match start::start(options, log) {
        Ok(started) => serve(started, log),
        Err(error) => refuse(&error, log),
    };
    log.flush();
    code
}

/// What comes before any thread, and the log's own.
fn prepare(format: LogFormat) -> Result<Log, StartError> {
    poll::block_signals().map_err(start::system("block signals"))?;
    Log::detached(format).map_err(start::system("start a thread"))
}

/// Says why the daemon does not start.
fn refuse(error: &StartError, log: Log) -> ExitCode {
    let mut entry = Entry::new(Level::Error, "refused_to_start").error(
        error.category(),
        error.operation(),
        &told(error),
    );
    if let Some(hint) = error.hint() {
        entry = entry.with("hint", hint);
    }
    if let StartError::Definitions(definitions::DefinitionsError::Invalid {
        diagnostics,
        cut_short,
    }) = error
    {
        definitions::show(log, diagnostics, *cut_short);
    }
    log.write(&entry);
    ExitCode::from(error.exit_code())
}

fn serve(started: Started, log: Log) -> ExitCode {
    let Started { mut event_loop, control, lock } = started;
    let code = match event_loop.run() {
        Ok(ExitReason::Stopped(_)) => match event_loop.sync.close() {
            Ok(()) => 0,
            Err(message) => {
                fatal(log, Category::Persistence, "write state", &message);
                EXIT_PERSISTENCE
            }
        },
        // Nothing is waited for: what stands at its gate is called off by the end of its socket,
        // which ends with this process at the latest.
        Ok(ExitReason::Persistence { .. }) => {
            keep_to_the_end(lock);
            return ExitCode::from(EXIT_PERSISTENCE);
        }
        Err(errno) => {
            fatal(log, Category::System, "wait for events", errno.desc());
            keep_to_the_end(lock);
            return ExitCode::from(EXIT_SYSTEM);
        }
    };
    // Whoever still asks hears that the daemon is leaving, because nobody takes requests any more.
    // The socket's file goes when nobody listens on it.
    let socket = event_loop.into_socket();
    control.close();
    drop(socket);
    drop(lock);
    ExitCode::from(code)
}

/// Lets the lock go with the process and no sooner: a thread may still be writing, and what it
/// writes must not come after what the next daemon does.
fn keep_to_the_end(lock: Lock) {
    std::mem::forget(lock);
}

fn fatal(log: Log, category: Category, operation: &str, message: &str) {
    log.write(&Entry::new(Level::Error, "fatal").error(category, operation, message));
}
