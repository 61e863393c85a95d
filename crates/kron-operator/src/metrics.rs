//! What an operator counts, for whoever watches it.
//!
//! Counts begin with the process and are kept in memory only; what must outlive it is in the
//! status of the KronJobs. Every task may count and nobody waits: all of it is atomics, and the
//! series of each metric are known beforehand, so nothing here grows. Writing the text reads one
//! number after the other, so a scrape in the middle of a burst may see a start in one metric and
//! not yet in the next.

mod histogram;

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use kron_core::Outcome;

use self::histogram::Histogram;

/// What an operator has counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// From the chosen time to the Job.
    lateness: Histogram<LATENESS>,
    outcomes: [AtomicU64; OUTCOMES.len()],
    requests: [[Requests; Resource::ALL.len()]; Verb::ALL.len()],
    queues: [AtomicI64; Queue::ALL.len()],
    kronjobs: [AtomicI64; State::ALL.len()],
    leading: AtomicBool,
    watch_restarts: [AtomicU64; Resource::ALL.len()],
}

/// One verb on one resource.
#[derive(Debug, Default)]
struct Requests {
    /// As in [`CODES`]; then other codes, then no answer at all.
    by_code: [AtomicU64; CODES.len() + 2],
    took: Histogram<REQUESTS>,
}

const LATENESS: usize = 13;
const LATENESS_BOUNDS_S: [f64; LATENESS] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
const REQUESTS: usize = 12;
const REQUESTS_BOUNDS_S: [f64; REQUESTS] =
    [0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const OUTCOMES: [Outcome; 4] =
    [Outcome::Executed, Outcome::Skipped, Outcome::Missed, Outcome::Unschedulable];
/// The answers of an API server that are told apart; any other is `other`, and none is `none`.
const CODES: [u16; 17] =
    [200, 201, 202, 400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504];

/// A closed set of label values, in the order of its declaration.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
            /// All of them.
            pub(crate) const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            /// The label's value.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }
    };
}

labels! {
    /// What is asked of an API server, in the words of its authorisation.
    Verb {
        /// Read one.
        Get = "get",
        /// Read many.
        List = "list",
        /// Be told of changes.
        Watch = "watch",
        /// Make one.
        Create = "create",
        /// Replace one.
        Update = "update",
        /// Change a part of one.
        Patch = "patch",
        /// Remove one.
        Delete = "delete",
    }
}

labels! {
    /// What it is asked about.
    Resource {
        /// KronJobs.
        KronJobs = "kronjobs",
        /// Their status.
        Statuses = "kronjobs/status",
        /// Jobs.
        Jobs = "jobs",
        /// Events.
        Events = "events",
        /// The lease of the leader.
        Leases = "leases",
    }
}

labels! {
    /// What waits to be done.
    Queue {
        /// Periods whose chosen time is to come.
        Due = "due",
        /// Jobs to create.
        Starts = "starts",
        /// Statuses to write.
        Statuses = "statuses",
        /// Events to tell.
        Events = "events",
        /// Jobs to remove.
        Cleanup = "cleanup",
    }
}

labels! {
    /// How a KronJob stands.
    State {
        /// It is scheduled.
        Valid = "valid",
        /// Its spec cannot be read.
        Invalid = "invalid",
        /// It is suspended.
        Suspended = "suspended",
    }
}

impl Metrics {
    /// A Job was created so long after its period's chosen time.
    pub(crate) fn started(&self, late: Duration) {
        self.lateness.observe(&LATENESS_BOUNDS_S, late);
    }

    /// So many periods ended in this way.
    pub(crate) fn outcome(&self, outcome: Outcome, count: u64) {
        if let Some(at) = OUTCOMES.iter().position(|known| *known == outcome) {
            self.outcomes[at].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// A request was answered with this code, or not at all.
    pub(crate) fn request(&self, verb: Verb, of: Resource, code: Option<u16>, took: Duration) {
        let requests = &self.requests[verb as usize][of as usize];
        let at = match code {
            Some(code) => CODES.iter().position(|known| *known == code).unwrap_or(CODES.len()),
            None => CODES.len() + 1,
        };
        requests.by_code[at].fetch_add(1, Ordering::Relaxed);
        requests.took.observe(&REQUESTS_BOUNDS_S, took);
    }

    /// So much waits there now.
    pub(crate) fn set_queue_depth(&self, queue: Queue, depth: usize) {
        self.queues[queue as usize].store(gauge(depth), Ordering::Relaxed);
    }

    /// So many KronJobs stand so.
    pub(crate) fn set_kronjobs(&self, state: State, count: usize) {
        self.kronjobs[state as usize].store(gauge(count), Ordering::Relaxed);
    }

    /// This process leads.
    pub(crate) fn set_leading(&self) {
        self.leading.store(true, Ordering::Relaxed);
    }

    /// Another one leads, or none.
    pub(crate) fn set_following(&self) {
        self.leading.store(false, Ordering::Relaxed);
    }

    /// A watch broke or ended and was begun again.
    pub(crate) fn watch_restarted(&self, resource: Resource) {
        self.watch_restarts[resource as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All of it in the text format of Prometheus.
    pub(crate) fn write(&self, out: &mut String) -> fmt::Result {
        let name = "kron_start_lateness_seconds";
        describe(out, name, "From a period's chosen time to its Job.", "histogram")?;
        self.lateness.write(out, name, "", &LATENESS_BOUNDS_S)?;

        let name = "kron_outcomes_total";
        describe(out, name, "Periods by what became of them.", "counter")?;
        for (outcome, count) in OUTCOMES.iter().zip(&self.outcomes) {
            series(out, name, "outcome", outcome.as_str(), count.load(Ordering::Relaxed))?;
        }
        self.write_requests(out)?;

        let name = "kron_queue_depth";
        describe(out, name, "What waits to be done.", "gauge")?;
        for (queue, depth) in Queue::ALL.iter().zip(&self.queues) {
            series(out, name, "queue", queue.as_str(), depth.load(Ordering::Relaxed))?;
        }
        let name = "kron_kronjobs";
        describe(out, name, "KronJobs that are seen, by how they stand.", "gauge")?;
        for (state, count) in State::ALL.iter().zip(&self.kronjobs) {
            series(out, name, "state", state.as_str(), count.load(Ordering::Relaxed))?;
        }
        let name = "kron_leader";
        describe(out, name, "Whether this process leads.", "gauge")?;
        writeln!(out, "{name} {}", u8::from(self.leading.load(Ordering::Relaxed)))?;

        let name = "kron_watch_restarts_total";
        describe(out, name, "Watches that broke or ended and were begun again.", "counter")?;
        for (resource, count) in Resource::ALL.iter().zip(&self.watch_restarts) {
            series(out, name, "resource", resource.as_str(), count.load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    /// Only what was asked at least once: most verbs are never used on most resources.
    fn write_requests(&self, out: &mut String) -> fmt::Result {
        let name = "kron_api_requests_total";
        describe(out, name, "Requests to the API server by their answers.", "counter")?;
        for (labels, requests) in self.asked() {
            let known = CODES.iter().map(u16::to_string);
            let codes = known.chain(["other".to_owned(), "none".to_owned()]);
            for (code, count) in codes.zip(&requests.by_code) {
                match count.load(Ordering::Relaxed) {
                    0 => {}
                    count => writeln!(out, "{name}{{{labels},code=\"{code}\"}} {count}")?,
                }
            }
        }
        let name = "kron_api_request_seconds";
        describe(out, name, "How long requests to the API server took.", "histogram")?;
        for (labels, requests) in self.asked() {
            requests.took.write(out, name, &labels, &REQUESTS_BOUNDS_S)?;
        }
        Ok(())
    }

    fn asked(&self) -> impl Iterator<Item = (String, &Requests)> {
        let of_verb = |(verb, row): (&'static Verb, _)| {
            Resource::ALL.iter().zip(row).map(move |(resource, requests): (_, &Requests)| {
                let (verb, resource) = (verb.as_str(), resource.as_str());
                (format!("verb=\"{verb}\",resource=\"{resource}\""), requests)
            })
        };
        let all = Verb::ALL.iter().zip(&self.requests).flat_map(of_verb);
        all.filter(|(_, requests)| !requests.took.is_empty())
    }
}

fn gauge(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The two lines that stand before a metric.
fn describe(out: &mut String, name: &str, help: &str, kind: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn series(
    out: &mut String,
    name: &str,
    label: &str,
    value: &str,
    number: impl fmt::Display,
) -> fmt::Result {
    writeln!(out, "{name}{{{label}=\"{value}\"}} {number}")
}

#[cfg(test)]
mod tests;
