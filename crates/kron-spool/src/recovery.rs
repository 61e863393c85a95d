//! What a crash has left: every task in exactly one place again.
//!
//! A task may be in two directories when a crash came between the rename and the deletion. What is
//! completed counts before everything; of the others the one with more attempts; on a tie the one
//! that waits. What loses is deleted if it was to do the same. If not, it is no leftover, but
//! somebody's task with a used id: that loses in any case, and is set aside.

use kron_core::Timestamp;
use kron_state::{Moves, Operation};

use crate::error::{Fault, SpoolError};
use crate::id::TaskId;
use crate::look::{Found, Look};
use crate::open::{Spool, file_error};
use crate::policy::RetryPolicy;
use crate::reject::SetAside;
use crate::steps::TEMPORARY;
use crate::task::{State, Task};
use crate::transition::Finish;

/// What the error of a lost run says.
const LOST: &str = "it was lost to a crash";

/// What has become of the run of a task that is found running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on, or has ended and says how: it is adopted.
    Alive,
    /// It was never let go.
    NotStarted,
    /// It is gone, and nobody knows how far it had come.
    Lost,
    /// That cannot be told: its task stays as it is.
    Unknown,
}

/// What was found and put in order.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Tasks whose runs go on.
    pub adopted: Vec<Task>,
    /// Tasks that wait again, or have been lost too often; as they are now.
    pub returned: Vec<Task>,
    /// Leftovers that were deleted: where they were.
    pub removed: Vec<(TaskId, State)>,
    /// What was set aside.
    pub set_aside: Vec<SetAside>,
    /// Tasks of whose runs nothing is known.
    pub undecided: Vec<TaskId>,
    /// What could not be put in order, and stays as it is.
    pub failed: Vec<(String, SpoolError)>,
}

impl<D: Moves> Spool<D> {
    /// Puts in order what was left. The caller holds the spool's lock; `judge` says what became of a
    /// run, `policy` what follows for a type.
    ///
    /// # Errors
    /// When a directory cannot be listed, or a sync fails.
    pub fn recover(
        &self,
        now: Timestamp,
        judge: &mut dyn FnMut(&Task) -> Fate,
        policy: &dyn Fn(&str) -> RetryPolicy,
    ) -> Result<Recovered, SpoolError> {
        let mut recovered = Recovered::default();
        for state in [State::Running, State::Completed] {
            let directory = self.directory(state)?;
            // Only the lock's holder writes there, so nobody is writing now.
            for name in self.names(state)?.iter().filter(|name| name.starts_with(TEMPORARY)) {
                // One that cannot be removed is ignored as it was.
                if let Err(error) = directory.remove(name) {
                    let at = SpoolError::at(Operation::Remove, directory.describe(name));
                    recovered.failed.push((name.clone(), at(error)));
                }
            }
        }
        for name in self.names(State::Pending)? {
            match self.restore(&name, now) {
                Ok(aside) => recovered.set_aside.extend(aside),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => recovered.failed.push((name, error)),
            }
        }
        let mut finishes = Vec::new();
        for name in self.names(State::Running)? {
            match self.recover_running(&name, now, judge, policy, &mut recovered) {
                Ok(finish) => finishes.extend(finish),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => recovered.failed.push((name, error)),
            }
        }
        let ids: Vec<TaskId> = finishes.iter().map(|finish| finish.task.id.clone()).collect();
        for (id, result) in ids.into_iter().zip(self.finish(finishes, now)) {
            match result {
                Ok(task) => recovered.returned.push(task),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => recovered.failed.push((id.file_name(), error)),
            }
        }
        for name in self.names(State::Pending)? {
            match self.recover_pending(&name, now, &mut recovered) {
                Ok(()) => {}
                Err(error) if error.is_final() => return Err(error),
                Err(error) => recovered.failed.push((name, error)),
            }
        }
        for state in State::ALL {
            self.sync(self.directory(state)?)?;
        }
        Ok(recovered)
    }

    fn recover_running(
        &self,
        name: &str,
        now: Timestamp,
        judge: &mut dyn FnMut(&Task) -> Fate,
        policy: &dyn Fn(&str) -> RetryPolicy,
        recovered: &mut Recovered,
    ) -> Result<Option<Finish>, SpoolError> {
        let found = match self.look_in(State::Running, name, now)? {
            Look::Task(found) => *found,
            Look::Unfit(fault) => {
                recovered.set_aside.push(self.set_aside(State::Running, name, &fault, now)?);
                return Ok(None);
            }
            Look::Gone | Look::Ignored | Look::Repeat(_) | Look::NotYet(_) => return Ok(None),
        };
        let fate = judge(&found.task);
        match fate {
            Fate::Alive | Fate::Unknown => {
                // What may live keeps its file, also where it is completed: that goes when its run
                // has ended. It is told first, whatever fails after that.
                match fate {
                    Fate::Alive => recovered.adopted.push(found.task.clone()),
                    _ => recovered.undecided.push(found.task.id.clone()),
                }
                // Whatever waits of its id must not be started beside it.
                if let Look::Task(pending) = self.look_in(State::Pending, name, now)? {
                    self.drop_loser(State::Pending, &pending, &found.task, now, recovered)?;
                }
                return Ok(None);
            }
            Fate::NotStarted | Fate::Lost => {}
        }
        if self.drop_completed(State::Running, &found, now, recovered)? {
            return Ok(None);
        }
        if let Look::Task(pending) = self.look_in(State::Pending, name, now)? {
            // What is to do something else is no leftover, however often it claims to have been
            // started.
            let is_leftover = pending.task.payload.is_same(&found.task.payload);
            if !is_leftover || found.task.attempts > pending.task.attempts {
                self.drop_loser(State::Pending, &pending, &found.task, now, recovered)?;
            } else {
                self.drop_loser(State::Running, &found, &pending.task, now, recovered)?;
                return Ok(None);
            }
        }
        let next = match fate {
            Fate::NotStarted => crate::policy::Next::NotStarted,
            _ => policy(&found.task.payload.task_type).after_loss(&found.task, LOST),
        };
        Ok(Some(Finish { task: found.task, next }))
    }

    /// A task that waits although it is completed.
    fn recover_pending(
        &self,
        name: &str,
        now: Timestamp,
        recovered: &mut Recovered,
    ) -> Result<(), SpoolError> {
        let completed = self.directory(State::Completed)?;
        let at = SpoolError::at(Operation::Read, completed.describe(name));
        if name.starts_with('.') || completed.version(name).map_err(at)?.is_none() {
            return Ok(());
        }
        // What is no task is set aside when it is looked at as any other.
        if let Look::Task(pending) = self.look_in(State::Pending, name, now)? {
            self.drop_completed(State::Pending, &pending, now, recovered)?;
        }
        Ok(())
    }

    /// Drops a task that is completed, and says whether it is.
    fn drop_completed(
        &self,
        of: State,
        loser: &Found,
        now: Timestamp,
        recovered: &mut Recovered,
    ) -> Result<bool, SpoolError> {
        let name = loser.task.id.file_name();
        match self.look_in(State::Completed, &name, now)? {
            Look::Task(winner) => self.drop_loser(of, loser, &winner.task, now, recovered)?,
            // Whatever has become of it, it is proof that the task has ended.
            Look::Unfit(_) => {
                let fault = Fault::Taken(State::Completed);
                recovered.set_aside.push(self.set_aside(of, &name, &fault, now)?);
            }
            Look::Gone | Look::Ignored | Look::Repeat(_) | Look::NotYet(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Deletes a leftover, or sets aside what is none.
    fn drop_loser(
        &self,
        of: State,
        loser: &Found,
        winner: &Task,
        now: Timestamp,
        recovered: &mut Recovered,
    ) -> Result<(), SpoolError> {
        let name = loser.task.id.file_name();
        if !loser.task.payload.is_same(&winner.payload) {
            let fault = Fault::Taken(winner.state);
            recovered.set_aside.push(self.set_aside(of, &name, &fault, now)?);
            return Ok(());
        }
        let directory = self.directory(of)?;
        // The winner stays; before the other goes, its name must be on the disk, and what it holds
        // where a producer may have written it.
        let kept = self.directory(winner.state)?;
        if winner.state == State::Pending {
            let at = |error| file_error(Operation::SyncFile, kept.describe(&name), error);
            kept.sync_named(&name).map_err(at)?;
        }
        self.sync(kept)?;
        if of == State::Pending {
            self.remove_pending(&name, loser.version, now)?;
        } else {
            let at = SpoolError::at(Operation::Remove, directory.describe(&name));
            directory.remove_read(&name, loser.version).map_err(at)?;
        }
        recovered.removed.push((loser.task.id.clone(), of));
        Ok(())
    }

    /// The names in the directory of a state, in order.
    pub(crate) fn names(&self, state: State) -> Result<Vec<String>, SpoolError> {
        let directory = self.directory(state)?;
        let at = SpoolError::at(Operation::List, directory.describe(""));
        let mut names = directory.names().map_err(at)?;
        names.sort_unstable();
        Ok(names)
    }
}
