//! What people ask of a daemon.

use kron_core::{Concurrency, finding};
use kron_state::{EpochEvent, PeriodRef};

use super::event::{
    Entry, Launch, Level, ManualOverlap, Now, Refusal, Reply, Request, RequestId, StatusView,
};
use super::job::JobIndex;
use super::run::{Run, grace_of};
use super::{Action, Machine};

impl Machine {
    pub(super) fn answer(&mut self, now: Now, id: RequestId, request: Request) {
        let reply = match request {
            Request::Status => Reply::Status(self.status_view()),
            Request::Jobs => {
                let indexes = (0..self.jobs.len()).map(|at| JobIndex(at as u32));
                let live = indexes.filter(|index| {
                    let job = &self.jobs[index.at()];
                    job.definition.is_some() || !job.runs.is_empty()
                });
                Reply::Jobs(live.map(|index| self.job_view(index, now.wall)).collect())
            }
            Request::Job(identity) => match self.find(&identity) {
                Ok(index) => Reply::Jobs(vec![self.job_view(index, now.wall)]),
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::Run { identity, overlap } => {
                match self.run_by_hand(now, id, &identity, overlap) {
                    // Answered when the command is executed, or cannot be.
                    Ok(()) => return,
                    Err(refusal) => Reply::Refused(refusal),
                }
            }
            Request::Suspend(identity) => match self.set_suspended(now, id, &identity, true) {
                Ok(()) => return,
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::Resume(identity) => match self.set_suspended(now, id, &identity, false) {
                Ok(()) => return,
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::Stop(mode) => {
                self.stop(now, mode);
                Reply::Done
            }
            Request::AcceptClock => return self.accept_clock(now, id),
        };
        self.push(Action::Reply { to: id, reply });
    }

    fn find(&self, identity: &str) -> Result<JobIndex, Refusal> {
        if let Some(index) = self.names.get(identity) {
            return Ok(*index);
        }
        let names = self.jobs.iter().filter(|job| job.definition.is_some());
        let nearest = finding::nearest(identity, names.map(|job| &*job.identity));
        Err(Refusal::NoSuchJob {
            identity: identity.to_owned(),
            nearest: nearest.map(str::to_owned),
        })
    }

    /// A run by hand: it counts as active and touches nothing that is recorded about periods.
    fn run_by_hand(
        &mut self,
        now: Now,
        id: RequestId,
        identity: &str,
        overlap: ManualOverlap,
    ) -> Result<(), Refusal> {
        if self.stopping.is_some() {
            return Err(Refusal::Stopping);
        }
        let index = self.find(identity)?;
        let job = &self.jobs[index.at()];
        let Some(definition) = job.definition.clone() else {
            return Err(Refusal::NoSuchJob { identity: identity.to_owned(), nearest: None });
        };
        let forbids = definition.job.timing.policy.concurrency == Concurrency::Forbid;
        if let Some(active) = job.runs.last()
            && forbids
            && overlap == ManualOverlap::Respect
        {
            return Err(Refusal::Active { run: active.clone() });
        }
        let run = self.new_run_id();
        let name = format!("manual/{}-{}", now.wall, &run.as_str()[..8]);
        let period = PeriodRef::Manual(name.into());
        let mut state = Run::new(index, period.clone(), now.wall, now.boot);
        state.request = Some(id);
        state.grace = grace_of(&definition);
        self.runs.insert(run.clone(), state);
        self.jobs[index.at()].runs.push(run.clone());
        let launch = Launch { run, definition, period, decision: None, chosen: now.wall };
        self.launches.push(launch);
        Ok(())
    }

    fn set_suspended(
        &mut self,
        now: Now,
        id: RequestId,
        identity: &str,
        suspended: bool,
    ) -> Result<(), Refusal> {
        let index = self.find(identity)?;
        let job = &mut self.jobs[index.at()];
        if job.is_suspended() == suspended {
            let message = if suspended { "it is suspended already" } else { "it is not suspended" };
            return Err(Refusal::Unchanged { message: message.to_owned() });
        }
        let by_definition = job.definition.as_ref().is_some_and(|d| d.job.timing.policy.suspend);
        // What the definition says anyway needs no override.
        job.suspend_override = (by_definition != suspended).then_some(suspended);
        if !suspended {
            job.past.resumed_at = Some(now.wall);
        }
        let name = job.identity.clone();
        let (event, epoch): (_, fn(String) -> EpochEvent) = if suspended {
            ("suspended", |identity| EpochEvent::Suspend { identity })
        } else {
            ("resumed", |identity| EpochEvent::Resume { identity })
        };
        self.push(Action::Epoch(epoch(String::from(&*name))));
        self.log(Entry::new(Level::Info, event).of(&name));
        self.save_known(Some(id));
        Ok(())
    }

    fn status_view(&self) -> StatusView {
        let defined = self.jobs.iter().filter(|job| job.definition.is_some());
        StatusView {
            job_count: defined.clone().count(),
            suspended_count: defined.filter(|job| job.is_suspended()).count(),
            active_count: self.runs.len(),
            generation: self.generation,
            loaded_at: self.loaded_at,
            started_at: self.started_at,
            clock_held_since: self.clock.held_since(),
            stopping: self.stopping,
            next_due: self.due.first().map(|(at, _)| *at),
        }
    }
}
