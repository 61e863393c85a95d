//! What the configuration says about dispatch and retries.
//!
//! Rules are given, not stored: a decision that was made under other rules stays as it was made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::StoreError;
use crate::writer::{Context, Operation};

/// How many at once, and what happens after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Runs at once, of all types.
    pub workers_max: u32,
    /// Runs at once of a type; a type that is not named has no limit of its own.
    pub type_limits: BTreeMap<String, u32>,
    /// Types that somebody handles; jobs of others wait. All, if absent.
    pub types_handled: Option<BTreeSet<String>>,
    /// Retries of types that are not named in `retry_of_type`.
    pub retry: RetryPolicy,
    /// Retries by type.
    pub retry_of_type: BTreeMap<String, RetryPolicy>,
    /// Who is told what.
    pub webhooks: Vec<Webhook>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            workers_max: 1,
            type_limits: BTreeMap::new(),
            types_handled: None,
            retry: RetryPolicy::default(),
            retry_of_type: BTreeMap::new(),
            webhooks: Vec::new(),
        }
    }
}

impl Rules {
    pub(crate) fn retry_for(&self, job_type: &str) -> RetryPolicy {
        self.retry_of_type.get(job_type).copied().unwrap_or(self.retry)
    }
}

/// When a failed job gets a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Retries after the original.
    pub retries_max: u32,
    /// How many runs of a chain may have been lost to a crash and still be retried.
    pub lost_retries_max: u32,
    /// The wait before the first retry; it doubles with each.
    pub backoff_first_ms: i64,
    /// The longest wait.
    pub backoff_max_ms: i64,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            retries_max: 3,
            lost_retries_max: 1,
            backoff_first_ms: 10_000,
            backoff_max_ms: 3_600_000,
        }
    }
}

impl RetryPolicy {
    /// The wait before the retry with this number, counted from 1.
    #[must_use]
    pub fn backoff_ms(&self, retry: u32) -> i64 {
        let doublings = retry.saturating_sub(1).min(62);
        self.backoff_first_ms.saturating_mul(1_i64 << doublings).min(self.backoff_max_ms).max(0)
    }
}

/// One receiver of webhooks, by the name under which the configuration knows its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its name.
    pub target: String,
    /// The events it wants, such as `job.failed`; none means all.
    pub events: Vec<String>,
}

/// Puts other rules in force.
#[derive(Clone, Debug)]
pub struct SetRules {
    /// The rules.
    pub rules: Rules,
}

impl Operation for SetRules {
    type Output = ();
    type Error = StoreError;

    fn execute(self, context: &mut Context<'_>) -> Result<(), StoreError> {
        *context.rules = Arc::new(self.rules);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let policy = RetryPolicy::default();
        let waits: Vec<i64> = [1, 2, 3, 20, u32::MAX].map(|retry| policy.backoff_ms(retry)).into();
        assert_eq!(waits, [10_000, 20_000, 40_000, 3_600_000, 3_600_000]);
    }
}
