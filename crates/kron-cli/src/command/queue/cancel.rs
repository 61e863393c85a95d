//! `kron queue cancel`: the end of jobs, queued or running.

use std::io::{self, Write};

use kron_queue::{Job, JobState};

use crate::args::QueueCancelArgs;
use crate::client::{Client, ClientError};
use crate::failure::{Exit, Failure};
use crate::queue::lookup;

pub(crate) fn run(args: &QueueCancelArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let mut exit = Exit::Ok;
    for text in &args.jobs {
        match cancel(&client, text) {
            Ok(job) => {
                let words = match job.state {
                    JobState::Cancelled => "cancelled",
                    _ => "it runs, and its process is being ended",
                };
                super::say(out, args.format, &job, words)?;
            }
            // One that cannot be cancelled does not save the others.
            Err(failure) if args.jobs.len() > 1 && is_about_the_job(&failure) => {
                out.flush()?;
                let _ = writeln!(io::stderr(), "{failure}");
                exit = Exit::No;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(exit)
}

fn cancel(client: &Client, text: &str) -> Result<Job, Failure> {
    let id = lookup::job(client, text)?;
    Ok(client.delete(&format!("jobs/{id}"))?)
}

fn is_about_the_job(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::NoSuch { .. }
            | Failure::Unclear { .. }
            | Failure::Daemon(ClientError::Refused { .. })
    )
}
