//! From a decision to a verdict: the rules that every adapter shares.
//!
//! [`judge`] looks at one period: what was decided for it, what the job's policy allows, what is
//! recorded about the past, what is active, and the time. It answers with one [`Verdict`] and its
//! reason, and leaves the adapter nothing to decide. It keeps these promises:
//!
//! - a period that was handled or started is never started again, whatever the clock does;
//! - nothing runs before its chosen time, after its deadline, or while suspended;
//! - a new job, an edit and a resume never run the past;
//! - a period that is due and does not run has an outcome or a stated reason for having none.

use std::fmt;

use crate::decision::{Decision, UNSCHEDULABLE_REASON};
use crate::duration::Seconds;
use crate::finding::{Finding, excerpt};
use crate::policy::{Concurrency, Policy};
use crate::time::UtcSecond;

/// What is recorded about a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The nominal time of the latest period that reached an outcome. It never moves back.
    pub last_handled: Option<UtcSecond>,
    /// When the job was first seen; a period due at or before it is none of this job's business.
    pub created_at: Option<UtcSecond>,
    /// When the present definition took effect; a period due at or before it is skipped.
    pub effective_from: Option<UtcSecond>,
    /// When a suspension was last lifted; a period due at or before it has no outcome.
    pub resumed_at: Option<UtcSecond>,
    /// The period whose replacement of an active execution has begun. It was judged then, and is
    /// not judged again.
    pub replacing: Option<UtcSecond>,
}

/// An execution that has started and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Active {
    /// The run of a period, by its nominal time.
    Period(UtcSecond),
    /// A run that somebody started by hand.
    Manual,
}

/// How a period ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// An execution was started.
    Executed,
    /// Policy said not to start one.
    Skipped,
    /// The deadline had passed.
    Missed,
    /// No time in the window was allowed.
    Unschedulable,
}

impl Outcome {
    /// The word recorded in state and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Executed => "executed",
            Outcome::Skipped => "skipped",
            Outcome::Missed => "missed",
            Outcome::Unschedulable => "unschedulable",
        }
    }
}

impl std::str::FromStr for Outcome {
    type Err = Finding;

    fn from_str(text: &str) -> Result<Outcome, Finding> {
        let all = [Outcome::Executed, Outcome::Skipped, Outcome::Missed, Outcome::Unschedulable];
        all.into_iter().find(|outcome| outcome.as_str() == text).ok_or_else(|| {
            Finding::configuration(0..text.len(), format!("unknown outcome `{}`", excerpt(text)))
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What to do about a period now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is not due; look again at this second.
    Wait {
        /// When it falls due.
        until: UtcSecond,
    },
    /// Start it.
    Start {
        /// Whether every active execution must be ended first.
        replace: bool,
    },
    /// Record this outcome; do not start it.
    Record {
        /// The outcome.
        outcome: Outcome,
        /// Why.
        reason: Reason,
    },
    /// Neither start it nor record an outcome.
    Leave {
        /// Why.
        reason: Reason,
    },
}

/// Why a period does not run. The last three are an adapter's to give; [`judge`] gives the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It, or a later one, already has an outcome.
    AlreadyHandled,
    /// Its execution is active.
    AlreadyStarted,
    /// The job is suspended.
    Suspended,
    /// It fell due while the job was suspended.
    DueWhileSuspended,
    /// It fell due before the job existed.
    DueBeforeCreation,
    /// It fell due before the present definition took effect.
    DefinitionChanged,
    /// No candidate was allowed.
    NoCandidate,
    /// The deadline had passed.
    DeadlineExceeded {
        /// How long after the chosen time it was judged.
        late: Seconds,
    },
    /// Another execution of the job is active and the policy forbids a second.
    ExecutionActive,
    /// A later period fell due first.
    Superseded,
    /// What was recorded about the job was lost.
    StateLost,
    /// The start took too long after it was judged.
    StartStalled,
}

impl Reason {
    /// The fixed words that are recorded.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::AlreadyHandled => "already handled",
            Reason::AlreadyStarted => "already started",
            Reason::Suspended => "suspended",
            Reason::DueWhileSuspended => "fell due while suspended",
            Reason::DueBeforeCreation => "fell due before the job was created",
            Reason::DefinitionChanged => "definition changed",
            Reason::NoCandidate => UNSCHEDULABLE_REASON,
            Reason::DeadlineExceeded { .. } => "deadline exceeded",
            Reason::ExecutionActive => "an execution is active",
            Reason::Superseded => "superseded",
            Reason::StateLost => "state lost",
            Reason::StartStalled => "start stalled",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::DeadlineExceeded { late } => write!(f, "{}, {late} late", self.as_str()),
            _ => f.write_str(self.as_str()),
        }
    }
}

/// Judges one period at one moment.
///
/// ```
/// use kron_core::{Past, Placement, Policy, Verdict, Zone, judge};
/// let job = Placement::new("nightly", Zone::utc())?;
/// let decision = job.decide("2026-03-01T03:00:00Z".parse()?)?;
/// let verdict = judge(&decision, &Policy::default(), &Past::default(), &[], decision.nominal);
/// assert_eq!(verdict, Verdict::Start { replace: false });
/// # Ok::<(), kron_core::Finding>(())
/// ```
#[must_use]
pub fn judge(
    decision: &Decision,
    policy: &Policy,
    past: &Past,
    active: &[Active],
    now: UtcSecond,
) -> Verdict {
    // What is recorded comes before the clock: a clock that went back must not undo it.
    if past.last_handled.is_some_and(|handled| decision.nominal <= handled) {
        return Verdict::Leave { reason: Reason::AlreadyHandled };
    }
    if active.contains(&Active::Period(decision.nominal)) {
        return Verdict::Leave { reason: Reason::AlreadyStarted };
    }
    // What was signalled to make room is gone: neither an edit nor the time that took stops it now.
    if past.replacing == Some(decision.nominal) {
        return Verdict::Start { replace: !active.is_empty() };
    }
    if policy.suspend {
        return Verdict::Leave { reason: Reason::Suspended };
    }
    let due = decision.due();
    if now < due {
        return Verdict::Wait { until: due };
    }
    let due_by = |moment: Option<UtcSecond>| moment.is_some_and(|moment| due <= moment);
    if due_by(past.created_at) {
        return Verdict::Leave { reason: Reason::DueBeforeCreation };
    }
    if due_by(past.resumed_at) {
        return Verdict::Leave { reason: Reason::DueWhileSuspended };
    }
    if due_by(past.effective_from) {
        return Verdict::Record { outcome: Outcome::Skipped, reason: Reason::DefinitionChanged };
    }
    let Some(chosen) = decision.chosen else {
        return Verdict::Record { outcome: Outcome::Unschedulable, reason: Reason::NoCandidate };
    };
    let late = Seconds::new(now.since(chosen).unsigned_abs());
    if late > policy.deadline {
        return Verdict::Record {
            outcome: Outcome::Missed,
            reason: Reason::DeadlineExceeded { late },
        };
    }
    match policy.concurrency {
        Concurrency::Forbid if !active.is_empty() => {
            Verdict::Record { outcome: Outcome::Skipped, reason: Reason::ExecutionActive }
        }
        Concurrency::Replace => Verdict::Start { replace: !active.is_empty() },
        Concurrency::Allow | Concurrency::Forbid => Verdict::Start { replace: false },
    }
}

#[cfg(test)]
mod tests;
