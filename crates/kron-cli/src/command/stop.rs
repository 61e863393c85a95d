//! `kron stop`: the daemon leaves, and this command returns when it is gone.

use std::io::Write;
use std::time::Duration;

use krond::api::view::{DoneView, StatusView, StopOrder, StopOrderMode};
use serde_json::json;

use crate::args::{OutputFormat, StopArgs};
use crate::client::{Client, ClientError};
use crate::failure::{Exit, Failure};
use crate::text::{count, write_json};

/// The pause before the daemon is looked for again.
const WAIT_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &StopArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let before: StatusView = client.get("status")?;
    let mode = match (args.now, args.kill) {
        (true, _) => StopOrderMode::Leave,
        (false, true) => StopOrderMode::Kill,
        (false, false) => StopOrderMode::Wait,
    };
    match client.post::<DoneView>("stop", &StopOrder { mode }) {
        Ok(_) => {}
        // It may be gone before its answer is read.
        Err(ClientError::Broken { .. } | ClientError::NotRunning { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    if before.active_count > 0 && mode != StopOrderMode::Leave {
        let runs = count(before.active_count, "run");
        let _ = writeln!(std::io::stderr(), "waiting for {runs} to end");
    }
    wait_until_gone(&client, before.pid)?;
    match args.format {
        OutputFormat::Json => write_json(out, &json!({ "done": "stopped", "pid": before.pid }))?,
        OutputFormat::Text => writeln!(out, "stopped: process {}", before.pid)?,
    }
    Ok(Exit::Ok)
}

/// Waits until nobody answers, or another daemon does.
fn wait_until_gone(client: &Client, pid: u32) -> Result<(), Failure> {
    loop {
        match client.get::<StatusView>("status") {
            Ok(status) if status.pid != pid => return Ok(()),
            Err(error) if error.is_not_running() => return Ok(()),
            // It is on its way out, and the next question finds nobody.
            Ok(_) | Err(ClientError::Broken { .. } | ClientError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(WAIT_INTERVAL);
    }
}
