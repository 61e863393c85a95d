//! `kron queue ls`: jobs, as a table.

use std::io::Write;

use kron_queue::Job;
use kron_queue_api::QueueView;

use crate::args::{OutputFormat, QueueLsArgs, StateWord};
use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::board::{self, Line};
use crate::queue::pages::Pages;
use crate::queue::words;
use crate::screen;
use crate::text::{count, write_json};

pub(crate) fn run(args: &QueueLsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let mut pages = Pages::new(&client, "jobs")
        .filter("state", args.state.map(|state| state_word(state).to_owned()))
        .filter("job_type", args.job_type.clone())
        .filter("order", args.order.then(|| "queue".to_owned()));
    let rows_max = if args.all { usize::MAX } else { args.limit as usize };
    if args.format == OutputFormat::Json {
        let mut shown = 0;
        while let Some(page) = pages.next::<Job>(rows_max - shown)? {
            shown += page.len();
            for job in &page {
                write_json(out, job)?;
            }
        }
        return Ok(Exit::Ok);
    }
    let queue: QueueView = client.get("queue")?;
    let now = clock::now();
    for line in words::pauses(&queue.pauses, now) {
        writeln!(out, "{line}")?;
    }
    let mut shown = 0;
    let style = screen::style_of_output(false);
    while let Some(page) = pages.next::<Job>(rows_max - shown)? {
        let lines: Vec<Line<'_>> =
            page.iter().map(|job| Line { job, note: words::note(job, &queue, now) }).collect();
        // One table a page, so that any number can be shown without being kept.
        let headers = usize::from(shown > 0 || lines.is_empty());
        for line in board::table(&lines, now, &style).into_iter().skip(headers) {
            writeln!(out, "{line}")?;
        }
        shown += page.len();
    }
    if shown == 0 {
        let is_any = args.state.is_none() && args.job_type.is_none() && !args.order;
        writeln!(out, "there is no {}job", if is_any { "" } else { "such " })?;
    } else if !pages.is_over() {
        let jobs = count(shown as u64, "job");
        writeln!(out, "\n{jobs}; there are more, which `--all` or `--limit N` shows")?;
    }
    Ok(Exit::Ok)
}

fn state_word(state: StateWord) -> &'static str {
    match state {
        StateWord::Queued => "queued",
        StateWord::Delayed => "delayed",
        StateWord::Blocked => "blocked",
        StateWord::Running => "running",
        StateWord::Completed => "completed",
        StateWord::Failed => "failed",
        StateWord::Skipped => "skipped",
        StateWord::Cancelled => "cancelled",
    }
}
