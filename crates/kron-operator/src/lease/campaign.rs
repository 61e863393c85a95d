//! The rules of the election, without a network and without a clock of its own.
//!
//! A [`Campaign`] is told what was seen and what became of its requests, each with the time on this
//! process's monotonic clock, and says what to do next. The rules are client-go's, with three
//! differences that all err on the side of nobody leading:
//!
//! - A tenure is counted from before the request that began or renewed it was sent and lasts for
//!   the renew deadline, two thirds of the lease's duration. Others wait the full duration from when
//!   they saw that request's effect, so a third of it is the margin for clocks that run at
//!   different rates and for requests that are still under way.
//! - A tenure that has ended, even for an instant, is never resumed: leading again takes a new
//!   write with a new number of transitions, and so a new claimant.
//! - A lease in this process's own name is only its own if this process wrote it. One from an
//!   earlier life, or of another process with the same name, is waited for like anybody's.
//!
//! **Invariant:** nothing here compares the times written in a lease with any clock. They are for
//! people, and `acquireTime` tells the tenures of one name apart; a lease is stale when it has not
//! changed for its duration on this process's own clock.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::Tenure;

/// What of a lease matters to the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Who holds it; empty when nobody does.
    pub(super) holder: String,
    /// How long others wait after they saw it change.
    pub(super) duration_s: i32,
    pub(super) transitions: i32,
    pub(super) acquired: Option<Timestamp>,
    pub(super) renewed: Option<Timestamp>,
}

/// A record and the version at which it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) record: Record,
    pub(super) version: String,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the lease.
    Read,
    /// Make the lease; it must not exist.
    Create(Record),
    /// Replace the lease at this version, to begin a tenure.
    Acquire(Seen),
    /// Replace the lease at this version, to go on with the tenure.
    Renew(Seen),
    /// Nothing before that time, unless the lease is seen to change.
    Wait(Instant),
}

/// How long everything takes, from the lease's duration in client-go's proportions (15, 10 and 2 s).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) duration: Duration,
    /// How long a tenure lasts without being renewed.
    pub(super) renew_deadline: Duration,
    /// Between one write and the next.
    pub(super) retry: Duration,
    /// For one request: the deadline leaves room for two that hang.
    pub(super) request: Duration,
    /// A holder that lives renews every `retry`; after so long without news of it, a watch is
    /// not trusted.
    quiet: Duration,
}

impl Pace {
    pub(super) fn of(duration: Duration) -> Pace {
        let retry = duration * 2 / 15;
        Pace {
            duration,
            renew_deadline: duration * 2 / 3,
            retry,
            request: duration / 3,
            quiet: retry * 3,
        }
    }

    /// Whole seconds, rounded up: others must not wait for less.
    fn duration_s(&self) -> i32 {
        let seconds = self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }
}

/// One process's way to the lease and with it.
#[derive(Debug)]
pub(super) struct Campaign {
    identity: String,
    pace: Pace,
    role: Role,
    /// The latest tenure that this process tried to begin: what tells its own writes from others'.
    own: Option<Attempt>,
    /// The highest number of transitions ever seen, so that a lease that was deleted does not
    /// bring an old claimant back.
    transitions_seen: Option<i32>,
    /// No read before.
    read_at: Instant,
    /// No write before.
    write_at: Instant,
    /// What the clocks showed when the latest step was asked for.
    clocks: (Instant, Timestamp),
}

#[derive(Debug)]
enum Role {
    Following(Known),
    Leading {
        claimant: Arc<str>,
        until: Instant,
        /// What the clocks showed when it was begun or last renewed.
        renewed: (Instant, Timestamp),
        /// What was last known to stand in the lease; `None` after a write was refused.
        standing: Option<Seen>,
    },
}

/// What a process that does not lead knows of the lease.
#[derive(Debug)]
enum Known {
    Nothing,
    Absent,
    Present { seen: Seen, since: Instant },
}

/// Trying again at the same version repeats the same write, so that it does not matter which of
/// several attempts arrived.
#[derive(Debug)]
struct Attempt {
    over: Over,
    transitions: i32,
    acquired: Timestamp,
}

/// What an attempt was to replace.
#[derive(Debug, PartialEq, Eq)]
enum Over {
    Absence,
    Version(String),
    /// Something that is no longer there: the attempt has arrived, or never will.
    Past,
}

impl Over {
    fn of(found: Option<&Seen>) -> Over {
        found.map_or(Over::Absence, |seen| Over::Version(seen.version.clone()))
    }
}

impl Campaign {
    pub(super) fn new(identity: String, pace: Pace, now: Instant) -> Campaign {
        Campaign {
            identity,
            pace,
            role: Role::Following(Known::Nothing),
            own: None,
            transitions_seen: None,
            read_at: now,
            write_at: now,
            clocks: (now, Timestamp::UNIX_EPOCH),
        }
    }

    /// The tenure, if there is one now. It may be over by the time that somebody looks at it.
    pub(super) fn tenure(&self) -> Option<Tenure> {
        match &self.role {
            Role::Leading { claimant, until, renewed, .. } => {
                Some(Tenure { claimant: Arc::clone(claimant), until: *until, renewed: *renewed })
            }
            Role::Following(_) => None,
        }
    }

    /// Who holds the lease as far as a process knows that does not lead.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.role {
            Role::Following(Known::Present { seen, .. }) => Some(&seen.record.holder),
            _ => None,
        }
    }

    /// Until when one request may take.
    pub(super) fn request_until(&self, now: Instant) -> Instant {
        let until = now + self.pace.request;
        match &self.role {
            Role::Leading { until: end, .. } => until.min(*end),
            Role::Following(_) => until,
        }
    }

    /// What to do now. `wall` is what a write would carry for people to read.
    pub(super) fn next(&mut self, now: Instant, wall: Timestamp) -> Step {
        self.end_if_over(now);
        self.clocks = (now, wall);
        if self.tenure().is_some_and(|tenure| !tenure.is_awake(now, wall)) {
            self.end(now);
        }
        match &self.role {
            Role::Leading { until, standing, .. } => match standing {
                None if now < self.read_at => Step::Wait(self.read_at.min(*until)),
                None => Step::Read,
                Some(_) if now < self.write_at => Step::Wait(self.write_at.min(*until)),
                Some(Seen { record, version }) => {
                    let record = Record { renewed: Some(wall), ..record.clone() };
                    Step::Renew(Seen { record, version: version.clone() })
                }
            },
            Role::Following(known) => {
                let free_at = match known {
                    Known::Nothing if now < self.read_at => return Step::Wait(self.read_at),
                    Known::Nothing => return Step::Read,
                    Known::Absent => self.write_at,
                    Known::Present { seen, .. } if self.is_free(seen) => self.write_at,
                    Known::Present { seen, since } => {
                        self.stale_at(&seen.record, *since).max(self.write_at)
                    }
                };
                if now < free_at {
                    let held = matches!(known, Known::Present { .. });
                    if held && now >= self.read_at {
                        return Step::Read;
                    }
                    return Step::Wait(if held { free_at.min(self.read_at) } else { free_at });
                }
                let at = match known {
                    Known::Present { seen, .. } => Some(seen.clone()),
                    Known::Nothing | Known::Absent => None,
                };
                self.begin(at, wall)
            }
        }
    }

    /// The lease is like this now, or there is none.
    pub(super) fn observed(&mut self, now: Instant, found: Option<Seen>) {
        self.end_if_over(now);
        self.read_at = now + self.pace.quiet;
        self.note(found.as_ref());
        if matches!(self.role, Role::Leading { .. })
            && found.as_ref().is_some_and(|seen| self.is_own(&seen.record))
        {
            if let Role::Leading { standing, .. } = &mut self.role {
                *standing = found;
            }
            return;
        }
        let known = match (found, &self.role) {
            (None, _) => Known::Absent,
            // Something else of the lease was changed: its holder has given no sign of life.
            (Some(seen), Role::Following(Known::Present { seen: before, since }))
                if seen.record == before.record =>
            {
                Known::Present { seen, since: *since }
            }
            (Some(seen), _) => Known::Present { seen, since: now },
        };
        self.role = Role::Following(known);
    }

    /// The write that was sent at `sent` has succeeded.
    pub(super) fn written(&mut self, sent: Instant, now: Instant, standing: Seen) {
        self.end_if_over(now);
        self.write_at = sent + self.pace.retry;
        self.note(Some(&standing));
        let fresh = sent + self.pace.renew_deadline;
        let own = self.is_own(&standing.record);
        match &mut self.role {
            Role::Leading { until, renewed, standing: before, .. } if own => {
                *until = fresh;
                *renewed = self.clocks;
                *before = Some(standing);
            }
            // A renewal that came back after its tenure ended is no new tenure: what it left in
            // the lease is this process's own, which is free to it.
            Role::Following(Known::Nothing) => {
                self.role = Role::Following(Known::Present { seen: standing, since: now });
                self.write_at = now;
            }
            Role::Following(_) if own && now < fresh => {
                let claimant = format!("{}/{}", self.identity, standing.record.transitions);
                self.role = Role::Leading {
                    claimant: claimant.into(),
                    until: fresh,
                    renewed: self.clocks,
                    standing: Some(standing),
                };
            }
            Role::Following(_) | Role::Leading { .. } => {
                self.role = Role::Following(Known::Present { seen: standing, since: now });
            }
        }
    }

    /// The write that was sent at `sent` came too late: the lease is no longer as it was.
    pub(super) fn refused(&mut self, sent: Instant, now: Instant) {
        self.read_at = now;
        self.write_at = sent + self.pace.retry;
        match &mut self.role {
            Role::Leading { standing, .. } => *standing = None,
            Role::Following(known) => *known = Known::Nothing,
        }
    }

    /// The request that was sent at `sent` has failed, or nobody knows what became of it.
    pub(super) fn failed(&mut self, sent: Instant) {
        self.read_at = sent + self.pace.retry;
        self.write_at = sent + self.pace.retry;
    }

    /// Changes are no longer told: the lease is read again after a while.
    pub(super) fn unwatched(&mut self, now: Instant) {
        self.read_at = self.read_at.min(now + self.pace.retry);
    }

    /// Ends the tenure; what to write so that others need not wait, if the lease is this
    /// process's own.
    pub(super) fn release(&mut self, now: Instant, wall: Timestamp) -> Option<Seen> {
        let role = std::mem::replace(&mut self.role, Role::Following(Known::Nothing));
        self.read_at = now;
        let seen = match role {
            Role::Leading { standing, .. } => standing?,
            Role::Following(Known::Present { seen, .. }) => seen,
            Role::Following(Known::Nothing | Known::Absent) => return None,
        };
        if !self.is_own(&seen.record) {
            return None;
        }
        let (holder, duration_s) = (String::new(), RELEASED_DURATION_S);
        let record = Record { holder, duration_s, renewed: Some(wall), ..seen.record };
        Some(Seen { record, ..seen })
    }

    fn end_if_over(&mut self, now: Instant) {
        if self.tenure().is_some_and(|tenure| tenure.remaining(now).is_zero()) {
            self.end(now);
        }
    }

    /// Ends the tenure; the lease is read before anything else.
    fn end(&mut self, now: Instant) {
        self.role = Role::Following(Known::Nothing);
        self.read_at = now;
    }

    /// The write that begins a tenure.
    fn begin(&mut self, over: Option<Seen>, wall: Timestamp) -> Step {
        let target = Over::of(over.as_ref());
        let (transitions, acquired) = match &self.own {
            Some(attempt) if attempt.over == target => (attempt.transitions, attempt.acquired),
            _ => {
                // A number that somebody has written there by hand may have no next one.
                let next = |seen: i32| seen.checked_add(1).unwrap_or_default();
                let transitions = match &over {
                    Some(seen) => next(seen.record.transitions),
                    None => self.transitions_seen.map_or(0, next),
                };
                (transitions, wall)
            }
        };
        self.own = Some(Attempt { over: target, transitions, acquired });
        let record = Record {
            holder: self.identity.clone(),
            duration_s: self.pace.duration_s(),
            transitions,
            acquired: Some(acquired),
            renewed: Some(wall),
        };
        match over {
            Some(Seen { version, .. }) => Step::Acquire(Seen { record, version }),
            None => Step::Create(record),
        }
    }

    /// Nobody holds it, or this process does, or has already found that it may take it.
    fn is_free(&self, seen: &Seen) -> bool {
        seen.record.holder.is_empty()
            || self.is_own(&seen.record)
            || self.own.as_ref().is_some_and(|own| own.over == Over::of(Some(seen)))
    }

    fn is_own(&self, record: &Record) -> bool {
        record.holder == self.identity
            && self.own.as_ref().is_some_and(|own| {
                own.transitions == record.transitions && Some(own.acquired) == record.acquired
            })
    }

    fn stale_at(&self, record: &Record, since: Instant) -> Instant {
        // What its holder asked for counts, whatever this process would ask for.
        let asked = u64::try_from(record.duration_s).unwrap_or_default();
        let asked = if asked == 0 { self.pace.duration } else { Duration::from_secs(asked) };
        since + asked
    }

    /// Keeps what later tenures depend on.
    fn note(&mut self, found: Option<&Seen>) {
        if let Some(own) = &mut self.own
            && own.over != Over::of(found)
        {
            own.over = Over::Past;
        }
        if let Some(Seen { record, .. }) = found {
            let before = self.transitions_seen.unwrap_or_default();
            self.transitions_seen = Some(before.max(record.transitions));
        }
    }
}

/// What client-go writes when it lets go: nobody waits for a lease without a holder.
const RELEASED_DURATION_S: i32 = 1;

#[cfg(test)]
mod tests;
