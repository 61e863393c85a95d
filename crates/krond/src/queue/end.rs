//! What the end of a process means for the run of a job.

use kron_config::Handler;
use kron_queue::{Outcome, RunEnd};
use kron_state::{Cause, ExitStatus, RunRecord};

use crate::machine::{Report, StartFailure};

/// How a run ended, as far as that is known.
pub(crate) fn of_report(report: &Report, handler: Option<&Handler>) -> RunEnd {
    match (&report.record, report.reaped) {
        (Some(RunRecord::Ended(end)), _) => match end.cause {
            Cause::Timeout => failed(end.status, timed_out(handler)),
            Cause::Asked => failed(end.status, format!("ended by request, {}", words(end.status))),
            Cause::Own => of_status(end.status, handler),
        },
        (Some(RunRecord::NotReleased), _) => {
            without_status("it was never let go".to_owned(), Outcome::Failed)
        }
        (Some(RunRecord::ExecFailed { message, .. }), _) => {
            without_status(format!("it could not be executed: {message}"), Outcome::Failed)
        }
        (None, Some(status)) => of_status(status, handler),
        // Its supervisor is gone and has left nothing: nobody knows how far it came.
        (None, None) => RunEnd::new(Outcome::Lost),
    }
}

/// The end of a run that was never executed.
pub(crate) fn of_failure(failure: &StartFailure) -> RunEnd {
    without_status(
        format!("it could not be started: {}: {}", failure.operation, failure.message),
        Outcome::Failed,
    )
}

/// The end of a run about which there is only a sentence to say.
pub(crate) fn without_status(error: String, outcome: Outcome) -> RunEnd {
    RunEnd { error: Some(error), ..RunEnd::new(outcome) }
}

fn of_status(status: ExitStatus, handler: Option<&Handler>) -> RunEnd {
    let skips = |code: i32| {
        handler
            .is_some_and(|handler| handler.skip_codes.iter().any(|skip| i32::from(*skip) == code))
    };
    match status {
        ExitStatus::ExitCode(0) => RunEnd { exit_code: Some(0), ..RunEnd::new(Outcome::Completed) },
        ExitStatus::ExitCode(code) if skips(code) => {
            RunEnd { exit_code: Some(i64::from(code)), ..RunEnd::new(Outcome::Skipped) }
        }
        status => failed(status, words(status)),
    }
}

fn failed(status: ExitStatus, error: String) -> RunEnd {
    RunEnd {
        exit_code: status.exit_code().map(i64::from),
        error: Some(error),
        ..RunEnd::new(Outcome::Failed)
    }
}

fn timed_out(handler: Option<&Handler>) -> String {
    match handler.and_then(|handler| handler.execution.timeout) {
        Some(timeout) => format!("timed out after {timeout}"),
        None => "timed out".to_owned(),
    }
}

fn words(status: ExitStatus) -> String {
    match status {
        ExitStatus::ExitCode(code) => format!("exit code {code}"),
        ExitStatus::Signal(signal) => match nix::sys::signal::Signal::try_from(signal) {
            Ok(name) => format!("killed by {name}"),
            Err(_) => format!("killed by signal {signal}"),
        },
    }
}
