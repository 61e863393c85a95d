//! `kron queue move`: another place for a queued job.

use std::io::Write;

use kron_queue::Job;
use serde_json::json;

use crate::args::{OutputFormat, QueueMoveArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::queue::lookup;

pub(crate) fn run(args: &QueueMoveArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let id = lookup::job(&client, &args.job)?;
    let (order, words) = match (&args.before, &args.after) {
        (Some(other), _) => {
            let other = lookup::job(&client, other)?;
            (json!({"before": other}), format!("moved before {other}"))
        }
        (None, Some(other)) => {
            let other = lookup::job(&client, other)?;
            (json!({"after": other}), format!("moved after {other}"))
        }
        (None, None) if args.top => (json!({"to": "top"}), "moved to the top".to_owned()),
        (None, None) => (json!({"to": "bottom"}), "moved to the bottom".to_owned()),
    };
    let job: Job = client.post(&format!("jobs/{id}/move"), &order)?;
    let priority = match (args.format, job.priority) {
        (OutputFormat::Text, priority) if priority != 0 => format!(" of priority {priority}"),
        _ => String::new(),
    };
    super::say(out, args.format, &job, &format!("{words}{priority}"))
}
