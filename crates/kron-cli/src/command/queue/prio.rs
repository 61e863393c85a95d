//! `kron queue prio`: another priority for a queued job.

use std::io::Write;

use kron_queue::Job;

use crate::args::QueuePrioArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::queue::body::Body;
use crate::queue::lookup;

pub(crate) fn run(args: &QueuePrioArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let id = lookup::job(&client, &args.job)?;
    let body = Body::new().field("priority", Some(args.priority))?.finish();
    let job: Job = client.patch(&format!("jobs/{id}"), body)?;
    super::say(out, args.format, &job, &format!("priority {}", job.priority))
}
