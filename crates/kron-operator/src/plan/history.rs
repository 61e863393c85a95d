//! Which finished Jobs are kept.

use std::cmp::Reverse;

use kron_core::UtcSecond;

use super::{Draft, JobState, OwnedJob};

impl Draft<'_> {
    /// The places of finished Jobs that are no longer kept. What is only too young is looked at
    /// again when it is old enough.
    pub(super) fn removable(&mut self) -> Vec<usize> {
        let Ok(definition) = self.subject.definition else { return Vec::new() };
        let keep = definition.keep;
        // Only what is recorded in the stored status: a Job is the proof of its period until then.
        let handled = self.subject.status.last_handled_period;
        let recorded = |job: &OwnedJob| {
            job.period.is_none_or(|period| handled.is_some_and(|handled| period <= handled))
        };
        let mut finished: Vec<(usize, &OwnedJob, bool, UtcSecond)> = Vec::new();
        for (place, job) in self.subject.jobs.iter().enumerate() {
            if job.deleting || !recorded(job) {
                continue;
            }
            match job.state {
                JobState::Active => {}
                JobState::Succeeded { at } => finished.push((place, job, true, at)),
                JobState::Failed { at } => finished.push((place, job, false, at)),
            }
        }
        finished.sort_by_key(|(_, job, _, at)| Reverse((job.period, *at)));
        let mut kept = [0, 0];
        let mut removable = Vec::new();
        for (place, job, succeeded, at) in finished {
            let limit = if succeeded { keep.succeeded } else { keep.failed };
            let kept = &mut kept[usize::from(succeeded)];
            let expires = keep.ttl_s.map(|ttl| at.saturating_add(ttl));
            let expired = expires.is_some_and(|expires| expires <= self.now);
            if *kept < limit && !expired {
                *kept += 1;
                if let Some(expires) = expires {
                    self.wake_at(expires);
                }
                continue;
            }
            let old_enough = job.created_at.saturating_add(self.job_age_s_min);
            if old_enough <= self.now {
                removable.push(place);
            } else {
                self.wake_at(old_enough);
            }
        }
        removable
    }
}
