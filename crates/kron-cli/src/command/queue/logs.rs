//! `kron queue logs`: the output of a job's run, as it is.
//!
//! Following waits for a job that has not started, and then asks again until the run has ended and
//! its output is read to the end; the daemon says with each piece whether the run had ended before
//! it was read.

use std::io::Write;

use kron_queue::{Job, JobId, RunId};
use kron_queue_api::LOG_ACTIVE_HEADER;

use crate::args::QueueLogsArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::queue::lookup::{self, JobOrRun};
use crate::queue::waiting::{INTERVAL, Listener};
use crate::queue::words::has_ended;

/// How much of the output is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// What there is.
    Now,
    /// Everything, whenever it comes.
    End,
}

pub(crate) fn run(args: &QueueLogsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let run_id = match lookup::job_or_run(&client, &args.job)? {
        JobOrRun::Run(id) => id,
        JobOrRun::Job(id) => run_of(&client, id, args.follow)?,
    };
    let until = if args.follow { Until::End } else { Until::Now };
    copy(&client, run_id, until, out)?;
    Ok(Exit::Ok)
}

/// The run of a job; when following, one that has not started is waited for.
fn run_of(client: &Client, id: JobId, follow: bool) -> Result<RunId, Failure> {
    let mut listener = None;
    loop {
        let job: Job = client.get(&format!("jobs/{id}"))?;
        if let Some(run) = lookup::run_of(client, id)? {
            return Ok(run.run_id);
        }
        if !follow || has_ended(job.state) {
            return Err(Failure::NoSuch {
                noun: "output of job",
                wanted: id.to_string(),
                hint: format!("it has not run: it is {}", job.state),
            });
        }
        // What happens between listening and asking again is seen then.
        match &mut listener {
            None => listener = Some(Listener::new(client)),
            Some(listener) => listener.wait(id),
        }
    }
}

/// Copies the output of a run.
pub(super) fn copy(
    client: &Client,
    run_id: RunId,
    until: Until,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let path = format!("job-runs/{run_id}/log");
    let mut offset = 0;
    loop {
        let is_active = match client.piece(&path, offset) {
            Ok(piece) if !piece.bytes.is_empty() => {
                out.write_all(&piece.bytes)?;
                out.flush()?;
                offset += piece.bytes.len() as u64;
                continue;
            }
            Ok(piece) => piece.header(LOG_ACTIVE_HEADER) == Some("true"),
            // A run has no output before its process has been made, and an endpoint may have none.
            Err(error) if error.is_refusal("no-log") && until == Until::End => {
                let view: kron_queue_api::RunView = client.get(&format!("job-runs/{run_id}"))?;
                view.run.status.is_none()
            }
            Err(error) => return Err(error.into()),
        };
        if until == Until::Now || !is_active {
            return Ok(());
        }
        std::thread::sleep(INTERVAL);
    }
}
