//! What follows from the end of a run.

use kron_core::Timestamp;

use crate::task::{Outcome, State, Task, TaskResult, cut, tail};

/// What happens after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a task is started again after a failure.
    pub retries_max: u32,
    /// How often it is started again after a crash that nobody knows how far it had come at.
    pub lost_retries_max: u32,
    /// The wait before the first new start; it doubles with each.
    pub backoff_first_ms: i64,
    /// The longest wait.
    pub backoff_max_ms: i64,
}

/// What is to become of a task whose run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It has ended for good.
    Completed(TaskResult),
    /// It waits to be started again.
    Again {
        /// What went wrong.
        error: String,
        /// When that may be.
        not_before: Timestamp,
    },
    /// It waits to be started again at once: nobody knows how far it had come.
    Lost {
        /// What is known.
        error: String,
    },
    /// It was never let go, and waits as if nothing had been.
    NotStarted,
}

impl RetryPolicy {
    /// What follows when the run of a task has ended like this.
    #[must_use]
    pub fn after(&self, task: &Task, result: TaskResult, now: Timestamp) -> Next {
        let failures = task.attempts.saturating_sub(task.lost_attempts);
        if result.outcome != Outcome::Failed || failures > self.retries_max {
            return Next::Completed(result);
        }
        let doublings = failures.saturating_sub(1).min(32);
        let wait_ms = self.backoff_first_ms.saturating_mul(1 << doublings).min(self.backoff_max_ms);
        let error = result.error.unwrap_or_else(|| "it failed".to_owned());
        Next::Again { error, not_before: now.saturating_add_ms(wait_ms) }
    }

    /// What follows when the run of a task was lost.
    #[must_use]
    pub fn after_loss(&self, task: &Task, error: &str) -> Next {
        if task.lost_attempts < self.lost_retries_max {
            return Next::Lost { error: error.to_owned() };
        }
        let error = format!("{error}, for the {}. time", task.lost_attempts + 1);
        Next::Completed(TaskResult {
            outcome: Outcome::Failed,
            exit_code: None,
            error: Some(error),
            output: None,
        })
    }
}

impl Next {
    /// The task as it is after that.
    pub(crate) fn applied_to(self, task: Task, now: Timestamp) -> Task {
        let waiting = |task: Task| Task {
            state: State::Pending,
            started_at: None,
            run: None,
            completed_at: None,
            result: None,
            ..task
        };
        match self {
            Next::Completed(result) => {
                let error = result.error.as_deref().map(cut);
                let output = result.output.as_deref().map(tail);
                Task {
                    state: State::Completed,
                    run: None,
                    not_before: None,
                    last_error: error.clone().or(task.last_error),
                    completed_at: Some(now),
                    result: Some(TaskResult { error, output, ..result }),
                    ..task
                }
            }
            Next::Again { error, not_before } => {
                waiting(Task { last_error: Some(error), not_before: Some(not_before), ..task })
            }
            Next::Lost { error } => waiting(Task {
                lost_attempts: task.lost_attempts.saturating_add(1).min(task.attempts),
                last_error: Some(error),
                not_before: None,
                ..task
            }),
            Next::NotStarted => waiting(Task { attempts: task.attempts.saturating_sub(1), ..task }),
        }
    }
}
