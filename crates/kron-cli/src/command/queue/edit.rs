//! `kron queue edit`: other parameters or another time for a queued job.

use std::io::Write;

use kron_queue::Job;

use crate::args::QueueEditArgs;
use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::body::{self, Body};
use crate::queue::{lookup, words};

pub(crate) fn run(args: &QueueEditArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let params = body::params(&args.params)?;
    let not_before = body::not_before(&args.start)?;
    let id = lookup::job(&client, &args.job)?;
    let mut body = Body::new().raw("params", params.as_deref()).field("not_before", not_before)?;
    if args.now {
        body = body.raw("not_before", Some("null"));
    }
    let job: Job = client.patch(&format!("jobs/{id}"), body.finish())?;
    let words = match job.not_before {
        Some(at) => format!("changed, not before {}", words::moment(at, clock::now())),
        None => "changed".to_owned(),
    };
    super::say(out, args.format, &job, &words)
}
