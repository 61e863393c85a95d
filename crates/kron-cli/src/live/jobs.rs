//! The jobs of a daemon, as `kron top` and `kron up` show them.

use std::convert::Infallible;

use kron_core::UtcSecond;
use krond::api::view::{JobView, JobsView, StatusView};

use super::{Scene, part_words, visible};
use crate::board::{self, Style};
use crate::client::{Client, ClientError};

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// What is due soonest
    #[default]
    Next,
    /// What ended latest
    Last,
    /// Names, from A to Z
    Name,
}

/// The daemon and its jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jobs {
    /// What comes first.
    pub(crate) sort: Sort,
}

/// What a daemon said.
#[derive(Debug)]
pub(crate) struct Snapshot {
    daemon: StatusView,
    jobs: Vec<JobView>,
}

impl Scene for Jobs {
    type Snapshot = Snapshot;
    type Order = Infallible;

    fn look(client: &Client) -> Result<Snapshot, ClientError> {
        let daemon = client.get("status")?;
        let JobsView { jobs } = client.get("scheduler/jobs")?;
        Ok(Snapshot { daemon, jobs })
    }

    fn obey(_: &Client, order: Infallible) -> Result<(), ClientError> {
        match order {}
    }

    fn press(&mut self, letter: char, _: Option<&Snapshot>) -> Option<Infallible> {
        match letter {
            'n' => self.sort = Sort::Next,
            'l' => self.sort = Sort::Last,
            'a' => self.sort = Sort::Name,
            _ => {}
        }
        None
    }

    fn head(&self, shown: &Snapshot) -> Vec<String> {
        board::daemon_lines(&shown.daemon)
    }

    fn table(
        &self,
        shown: &Snapshot,
        room: usize,
        scrolled: &mut usize,
        style: &Style,
    ) -> Vec<String> {
        let mut jobs: Vec<&JobView> = shown.jobs.iter().collect();
        sort(&mut jobs, self.sort);
        let part = visible(jobs.len(), room, scrolled);
        let mut lines = board::table(&jobs[part.clone()], shown.daemon.time, style);
        lines.extend(part_words(&part, jobs.len(), style));
        lines
    }

    fn keys(&self) -> String {
        let by = match self.sort {
            Sort::Next => "next",
            Sort::Last => "last",
            Sort::Name => "name",
        };
        format!("sort by: n next, l last, a name ({by})")
    }
}

fn sort(jobs: &mut [&JobView], by: Sort) {
    match by {
        // They come in the order of their names, and that stays where nothing else decides.
        Sort::Name => {}
        Sort::Next => jobs.sort_by_key(|job| {
            let due = job.next.as_ref().filter(|_| job.suspended_by.is_none());
            let due = due.and_then(|next| next.chosen_time.as_deref()?.parse::<UtcSecond>().ok());
            (due.is_none(), due)
        }),
        Sort::Last => jobs.sort_by_key(|job| {
            let last = job.last.as_ref();
            std::cmp::Reverse(last.and_then(|last| last.completed_at.or(last.started_at)))
        }),
    }
}
