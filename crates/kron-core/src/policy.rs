//! What a job allows at the moment it falls due.

use std::fmt;

use crate::duration::Seconds;

/// What happens when a period falls due while an execution of the same job is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// Both run.
    Allow,
    /// The new period is skipped.
    #[default]
    Forbid,
    /// The active executions are ended and the new period runs.
    Replace,
}

impl Concurrency {
    /// The word used in `@policy(concurrency=…)`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Concurrency::Allow => "allow",
            Concurrency::Forbid => "forbid",
            Concurrency::Replace => "replace",
        }
    }

    pub(crate) const WORDS: [(&'static str, Concurrency); 3] = [
        ("allow", Concurrency::Allow),
        ("forbid", Concurrency::Forbid),
        ("replace", Concurrency::Replace),
    ];
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Concurrency, deadline and suspension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// What an active execution means for the next one.
    pub concurrency: Concurrency,
    /// How late, in whole seconds after the chosen time, a run may still start.
    pub deadline: Seconds,
    /// Whether nothing runs at all.
    pub suspend: bool,
}
