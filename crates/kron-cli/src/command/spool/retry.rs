//! `kron spool retry`: tasks that have ended without success wait again.

use std::io::{self, Write};

use kron_spool::{RetryError, Spool, SpoolLock, State, TaskId};
use krond::api::view::SpoolRetried;

use crate::args::{OutputFormat, SpoolRetryArgs};
use crate::client::ClientError;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::spool::place::{self, Asked, Place, no_such, task_id};
use crate::text::write_json;

/// Who does it.
enum Holder {
    Daemon(Asked),
    /// Nobody else may, as long as the lock is held.
    Here {
        spool: Box<Spool>,
        _lock: SpoolLock,
    },
}

pub(crate) fn run(args: &SpoolRetryArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let ids: Vec<TaskId> =
        args.tasks.iter().map(|text| task_id("TASK", text)).collect::<Result<_, _>>()?;
    let Place { dir, daemon } = Place::of(&args.place)?;
    let holder = match daemon {
        Some(asked) => Holder::Daemon(asked),
        None => {
            let (spool, lock) = place::held(&dir)?;
            Holder::Here { spool: Box::new(spool), _lock: lock }
        }
    };
    let mut exit = Exit::Ok;
    for id in &ids {
        match holder.retry(id) {
            Ok(()) => match args.format {
                OutputFormat::Json => write_json(out, &SpoolRetried { task_id: id.to_string() })?,
                OutputFormat::Text => writeln!(out, "{id}: it waits again")?,
            },
            // One that cannot be retried does not save the others.
            Err(failure) if ids.len() > 1 && is_about_the_task(&failure) => {
                out.flush()?;
                let _ = writeln!(io::stderr(), "{failure}");
                exit = Exit::No;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(exit)
}

impl Holder {
    fn retry(&self, id: &TaskId) -> Result<(), Failure> {
        match self {
            Holder::Daemon(asked) => {
                let path = asked.path(&format!("tasks/{id}/retry"));
                let _: SpoolRetried = asked.client.post(&path, &serde_json::Map::new())?;
            }
            Holder::Here { spool, .. } => {
                // A crash may have left it elsewhere, too, where it may even run.
                for state in [State::Running, State::Pending] {
                    if spool.read(State::Completed, id)?.is_some()
                        && spool.read(state, id)?.is_some()
                    {
                        return Err(Failure::Doubled { id: id.clone(), state });
                    }
                }
                spool
                    .retry(id, clock::now_timestamp())
                    .map_err(|error| not_retried(spool, id, error))?;
            }
        }
        Ok(())
    }
}

fn not_retried(spool: &Spool, id: &TaskId, error: RetryError) -> Failure {
    let is_there = |state| matches!(spool.read(state, id), Ok(Some(_)));
    match error {
        RetryError::NotCompleted(_) if !State::ALL.into_iter().any(is_there) => {
            no_such(spool, id.as_str())
        }
        error => Failure::NotRetried(error),
    }
}

fn is_about_the_task(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::NotRetried(_)
            | Failure::NoSuch { .. }
            | Failure::Doubled { .. }
            | Failure::Daemon(ClientError::Refused { .. })
    )
}
