//! The queue, as `kron queue top` shows it: what runs and how far it is, and what comes next.

use std::collections::{HashMap, HashSet};

use kron_core::UtcSecond;
use kron_queue::{Job, JobId, JobRun};
use kron_queue_api::{PageView, PausesView, Progress, QueueView, RunView};
use serde_json::json;

use super::{Scene, part_words, visible};
use crate::board::Style;
use crate::client::{Client, ClientError};
use crate::clock;
use crate::queue::board::{self, Line};
use crate::queue::words;

/// Jobs that run, and jobs that wait, which are asked for.
const JOBS_MAX: usize = 200;
/// Runs whose progress is asked for.
const PROGRESS_MAX: usize = 20;
/// Why the queue is paused by a key.
const REASON: &str = "somebody pressed p in `kron queue top`";

/// The queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueScene;

/// What a daemon said.
#[derive(Debug)]
pub(crate) struct Snapshot {
    time: UtcSecond,
    queue: QueueView,
    running: Vec<Job>,
    progress: HashMap<JobId, Progress>,
    /// In the order in which they start.
    waiting: Vec<Job>,
}

/// What a key asks of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Pause,
    Resume,
}

impl Scene for QueueScene {
    type Snapshot = Snapshot;
    type Order = Order;

    fn look(client: &Client) -> Result<Snapshot, ClientError> {
        // In the order in which a job moves on, so that one that starts or ends meanwhile is not missing:
        // first the queue, then what runs, and last the counts.
        let waiting: PageView<Job> = client.get(&format!("jobs?order=queue&limit={JOBS_MAX}"))?;
        let running: PageView<Job> = client.get(&format!("jobs?state=running&limit={JOBS_MAX}"))?;
        let runs: PageView<JobRun> =
            client.get(&format!("job-runs?status=RUNNING&limit={JOBS_MAX}"))?;
        let mut progress = HashMap::new();
        for run in runs.items.iter().take(PROGRESS_MAX) {
            let view: RunView = client.get(&format!("job-runs/{}", run.run_id))?;
            if let Some(said) = view.progress {
                progress.insert(run.job_id, said);
            }
        }
        let queue = client.get("queue")?;
        let (running, mut waiting) = (running.items, waiting.items);
        let started: HashSet<JobId> = running.iter().map(|job| job.job_id).collect();
        waiting.retain(|job| !started.contains(&job.job_id));
        Ok(Snapshot { time: clock::now(), queue, running, progress, waiting })
    }

    fn obey(client: &Client, order: Order) -> Result<(), ClientError> {
        let _: PausesView = match order {
            Order::Pause => client.post("queue/pause", &json!({"reason": REASON}))?,
            Order::Resume => client.post("queue/resume", &json!({}))?,
        };
        Ok(())
    }

    fn press(&mut self, letter: char, shown: Option<&Snapshot>) -> Option<Order> {
        let is_paused = shown?.queue.pauses.iter().any(|pause| pause.job_type.is_none());
        match letter {
            'p' if is_paused => Some(Order::Resume),
            'p' => Some(Order::Pause),
            _ => None,
        }
    }

    fn head(&self, shown: &Snapshot) -> Vec<String> {
        board::queue_lines(&shown.queue, shown.time)
    }

    fn table(
        &self,
        shown: &Snapshot,
        room: usize,
        scrolled: &mut usize,
        style: &Style,
    ) -> Vec<String> {
        let jobs = shown.running.iter().chain(&shown.waiting);
        let lines: Vec<Line<'_>> = jobs
            .map(|job| {
                let progress = shown.progress.get(&job.job_id).map(words::progress);
                let note = progress.unwrap_or_else(|| words::note(job, &shown.queue, shown.time));
                Line { job, note }
            })
            .collect();
        let counts = &shown.queue.counts;
        let all = counts.running + counts.queued + counts.delayed + counts.blocked;
        if lines.is_empty() {
            // The counts are newer than the lists, and may have a job that the next look shows.
            let all_done = (all == 0).then(|| "nothing runs, and nothing waits".to_owned());
            return all_done.into_iter().collect();
        }
        let part = visible(lines.len(), room, scrolled);
        let mut table = board::table(&lines[part.clone()], shown.time, style);
        let all = usize::try_from(all).unwrap_or_default().max(lines.len());
        table.extend(part_words(&part, all, style));
        table
    }

    fn keys(&self) -> String {
        "p pause and resume".to_owned()
    }
}
