//! `kron queue direct`: a job past the queue, and its result.

use std::io::{self, Write};

use kron_queue::{JobState, RunStatus};
use kron_queue_api::DirectAnswer;

use super::logs;
use crate::args::{OutputFormat, QueueDirectArgs};
use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::body::{self, Body};
use crate::queue::words;
use crate::text::write_json;

pub(crate) fn run(args: &QueueDirectArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let params = body::params(&args.params)?;
    let wait_ms = body::duration_ms("--wait", &args.wait)?;
    let timeout_ms =
        args.timeout.as_deref().map(|text| body::duration_ms("--timeout", text)).transpose()?;
    let body = Body::new()
        .field("job_type", Some(&args.job_type))?
        .raw("params", params.as_deref())
        .field("wait_ms", Some(wait_ms))?
        .field("timeout_ms", timeout_ms)?
        .field("reserved_by", Some(format!("kron queue direct, process {}", std::process::id())))?
        .finish();
    let DirectAnswer { job, run } = client.post_patiently("direct", body)?;
    match args.format {
        OutputFormat::Json => {
            write_json(out, &DirectAnswer { job: job.clone(), run: run.clone() })?;
        }
        OutputFormat::Text => {
            logs::copy(&client, run.run_id, logs::Until::End, out)?;
            out.flush()?;
            let words = match job.state {
                JobState::Cancelled => job.state.to_string(),
                _ => words::run(&run, clock::now()),
            };
            let error = words::error(&run).map_or_else(String::new, |error| {
                format!(": {}", words::one_line(error.lines().next().unwrap_or_default()))
            });
            let _ = writeln!(io::stderr(), "{}: {words}{error}", job.job_id);
        }
    }
    let is_done = job.state != JobState::Cancelled && run.status == Some(RunStatus::Completed);
    Ok(if is_done { Exit::Ok } else { Exit::No })
}
