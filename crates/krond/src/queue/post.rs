//! Jobs that an endpoint handles: one request each, whose answer is the end of the run.
//!
//! An answer of 200 to 299 is a completed run, or a skipped one when its header `Kron-Outcome` says
//! `skipped`; any other is a failed one. The answer's body goes to the run's log. Nothing is
//! followed anywhere else, and addresses of this machine and of private networks are refused unless
//! the handler allows them.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use kron_config::{DaemonSettings, HandlerTarget};
use kron_queue::{ClaimedRun, Outcome, RunEnd};
use serde_json::json;

use super::dispatcher::Start;
use super::{end, log_path, plan};
use crate::web::{self, Reach, Request};

/// The header by which an endpoint says that there was nothing to do.
const OUTCOME_HEADER: &str = "kron-outcome";

/// Posts a job and tells how that ended.
pub(crate) fn post(start: &Start, settings: &DaemonSettings, state_dir: &Path) -> RunEnd {
    let HandlerTarget::Web { url, headers, token_file, allow_private } = &start.handler.target
    else {
        return end::without_status("it is no endpoint's".to_owned(), Outcome::Failed);
    };
    let request = Request {
        url,
        headers,
        token_file: token_file.as_deref(),
        own_headers: &own_headers(&start.claimed),
        timeout: plan::patience(start, settings),
        reach: if *allow_private { Reach::Any } else { Reach::Public },
    };
    let mut answer = match web::post(&request, &body(&start.claimed)) {
        Ok(answer) => answer,
        Err(why) => return end::without_status(why, Outcome::Failed),
    };
    let bytes_max = settings.for_job(&start.handler.execution).log_bytes_max;
    let kept = keep(state_dir, &start.claimed, answer.body_mut().as_reader().take(bytes_max));
    let status = answer.status();
    let skipped = answer
        .headers()
        .get(OUTCOME_HEADER)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"skipped"));
    let mut ended = match (status.is_success(), skipped) {
        (true, false) => RunEnd::new(Outcome::Completed),
        (true, true) => RunEnd::new(Outcome::Skipped),
        (false, _) => end::without_status(format!("the answer was {status}"), Outcome::Failed),
    };
    if let Err(error) = kept
        && ended.error.is_none()
    {
        // The outcome is the endpoint's to say; that its words were lost is worth a note.
        ended.error = Some(format!("its answer could not be kept: {error}"));
    }
    ended
}

fn own_headers(claimed: &ClaimedRun) -> Vec<(&'static str, String)> {
    vec![
        ("X-Kron-Job", claimed.job.job_id.to_string()),
        ("X-Kron-Run", claimed.run.run_id.to_string()),
        ("Idempotency-Key", claimed.job.job_id.to_string()),
    ]
}

/// What the endpoint is sent: the job as the API shows it, and its run's id.
fn body(claimed: &ClaimedRun) -> String {
    json!({ "job": claimed.job, "run_id": claimed.run.run_id }).to_string()
}

fn keep(state_dir: &Path, claimed: &ClaimedRun, mut from: impl io::Read) -> io::Result<()> {
    let path = state_dir.join(log_path(claimed.run.run_id));
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut to = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    io::copy(&mut from, &mut to)?;
    to.flush()
}
