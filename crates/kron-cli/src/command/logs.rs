//! `kron logs`: the output of a run, as it is.
//!
//! Following asks again until the run has ended and its output is read to the end; the daemon says
//! with each piece whether the run had ended before it was read.

use std::io::Write;
use std::time::Duration;

use krond::api::view::RunStateView;

use crate::args::LogsArgs;
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};

/// The pause before a log that did not grow is asked for again.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);
/// What stands for the latest run.
const LATEST: &str = "latest";

pub(crate) fn run(args: &LogsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    // Looked up once, so that a run that starts meanwhile does not take its place.
    let wanted = args.run.as_deref().unwrap_or(LATEST);
    let path = format!("scheduler/jobs/{}/runs/{}", encode(&args.job), encode(wanted));
    let run = client.get::<RunStateView>(&path)?.run_id;
    let mut offset = 0;
    loop {
        let piece = client.log(&args.job, &run, offset)?;
        if !piece.bytes.is_empty() {
            out.write_all(&piece.bytes)?;
            out.flush()?;
            offset += piece.bytes.len() as u64;
        } else if args.follow && piece.is_active {
            std::thread::sleep(FOLLOW_INTERVAL);
        } else {
            return Ok(Exit::Ok);
        }
    }
}
