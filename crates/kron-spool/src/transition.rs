//! Tasks on their way from one directory to another.
//!
//! Write a temporary file where it goes, sync it, rename it, sync both directories, delete the old
//! file. Several that go the same way share the syncs of the directories. A step that fails leaves
//! its task where it was, or in two places; it is never in none. A file that cannot be deleted ends
//! the use of the spool: from then on nobody could tell which of two counts.

use std::sync::atomic::Ordering;

use kron_core::Timestamp;
use kron_state::{FileVersion, Moves, Operation};

use crate::error::{Fault, SpoolError};
use crate::look::{Found, Look};
use crate::open::Spool;
use crate::policy::Next;
use crate::steps::{Draft, Placed, Placing, TEMPORARY, place};
use crate::task::{ATTEMPTS_MAX, Run, State, Task};

/// How often a place in `pending/` is made free for a task that comes back. Whoever puts files of
/// its id there faster than that wants something else.
const CLEARINGS_MAX: usize = 8;

/// A task whose command stands ready.
#[derive(Clone, Debug)]
pub struct Start {
    /// The task as it was found waiting.
    pub found: Found,
    /// Its processes.
    pub run: Run,
}

/// A task whose run has ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// The task as it was started.
    pub task: Task,
    /// What is to become of it.
    pub next: Next,
}

/// A task that goes elsewhere, as it will be there.
pub(crate) struct Move {
    pub(crate) task: Task,
    /// The file that it leaves, where it must be that very one.
    pub(crate) read: Option<FileVersion>,
}

impl<D: Moves> Spool<D> {
    /// `PENDING → RUNNING`. When it returns well, the task is durably running, and its command may
    /// be let go. One whose file was removed or replaced since it was found is not started.
    pub fn start(&self, starts: Vec<Start>, now: Timestamp) -> Vec<Result<Task, SpoolError>> {
        let moves = starts.into_iter().map(|Start { found: Found { task, version }, run }| {
            let name = task.id.file_name();
            let path = self.pending.describe(&name);
            let at = SpoolError::at(Operation::Read, path.clone());
            if self.pending.version(&name).map_err(at)? != Some(version) {
                return Err(SpoolError::Gone { path });
            }
            let task = Task {
                state: State::Running,
                attempts: task.attempts.saturating_add(1).min(ATTEMPTS_MAX),
                not_before: None,
                started_at: Some(now),
                run: Some(run),
                completed_at: None,
                result: None,
                ..task
            };
            Ok(Move { task, read: Some(version) })
        });
        self.carry(State::Pending, State::Running, moves.collect(), now)
    }

    /// `RUNNING → COMPLETED`, or `RUNNING → PENDING`. When it returns well, that is durable.
    pub fn finish(&self, finishes: Vec<Finish>, now: Timestamp) -> Vec<Result<Task, SpoolError>> {
        let mut done: Vec<Option<Result<Task, SpoolError>>> = Vec::new();
        done.resize_with(finishes.len(), || None);
        let unlet: Vec<bool> =
            finishes.iter().map(|finish| finish.next == Next::NotStarted).collect();
        let ends = finishes.into_iter().map(|Finish { task, next }| next.applied_to(task, now));
        let ends: Vec<Task> = ends.collect();
        for to in [State::Completed, State::Pending] {
            let of = |(_, task): &(usize, &Task)| task.state == to;
            let (places, moves): (Vec<usize>, Vec<_>) = ends
                .iter()
                .enumerate()
                .filter(of)
                .map(|(at, task)| (at, Ok(Move { task: task.clone(), read: None })))
                .unzip();
            for (at, result) in places.into_iter().zip(self.carry(State::Running, to, moves, now)) {
                done[at] = Some(result);
            }
        }
        // One that was never let go waits with fewer attempts than its file in `running/` says. If
        // that came back after a power cut, it would count, and its run be taken for lost.
        let returned = done
            .iter_mut()
            .zip(unlet)
            .filter(|(result, unlet)| *unlet && result.as_ref().is_some_and(Result::is_ok));
        let mut returned: Vec<_> = returned.map(|(result, _)| result).collect();
        if !returned.is_empty()
            && let Err(error) = self.directory(State::Running).and_then(|it| self.sync(it))
        {
            for result in &mut returned {
                **result = Some(Err(error.again()));
            }
        }
        let path = || self.pending.describe("..");
        done.into_iter()
            .map(|result| result.unwrap_or_else(|| Err(SpoolError::Broken { path: path() })))
            .collect()
    }

    /// Takes tasks from one directory to another; `now` is for the reports about what is in the way.
    pub(crate) fn carry(
        &self,
        from: State,
        to: State,
        moves: Vec<Result<Move, SpoolError>>,
        now: Timestamp,
    ) -> Vec<Result<Task, SpoolError>> {
        if moves.iter().all(Result::is_err) {
            return moves.into_iter().map(|moved| moved.map(|Move { task, .. }| task)).collect();
        }
        let carried = self.directory(from).and_then(|source| Ok((source, self.directory(to)?)));
        let (source, target) = match carried.and_then(|pair| self.check().map(|()| pair)) {
            Ok(pair) => pair,
            Err(error) => return self.all_failed(moves, &error),
        };
        let drafts: Vec<Draft> =
            moves.iter().flatten().map(|moved| self.draft(&moved.task)).collect();
        #[cfg(kron_canary)]
        if kron_canary::Canary::SpoolDeletedBeforePlaced.is_active() {
            for moved in moves.iter().flatten() {
                let _ = self.leave((from, source), &moved.task, moved.read, now);
            }
        }
        let mut placed = self.place_all((from, to), target, &drafts, now).into_iter();
        let moves: Vec<Result<Move, SpoolError>> = moves
            .into_iter()
            .map(|moved| {
                let moved = moved?;
                placed.next().transpose()?;
                Ok(moved)
            })
            .collect();
        if moves.iter().all(Result::is_err) {
            return self.all_failed(moves, &SpoolError::Gone { path: target.describe("") });
        }
        for directory in [target, source] {
            if let Err(error) = self.sync(directory) {
                return self.all_failed(moves, &error);
            }
        }
        let left = moves.into_iter().map(|moved| {
            let Move { task, read } = moved?;
            self.leave((from, source), &task, read, now)?;
            Ok(task)
        });
        left.collect()
    }

    /// Puts files into the directory of `to`.
    fn place_all(
        &self,
        (from, to): (State, State),
        target: &D,
        drafts: &[Draft],
        now: Timestamp,
    ) -> Vec<Result<(), SpoolError>> {
        let placing = match to {
            // Only the lock's holder writes there, so that a file that is there is a crash's.
            State::Running => Placing::Over,
            State::Pending | State::Completed => Placing::New,
        };
        let placed = place(target, drafts, placing);
        let placed = placed.into_iter().zip(drafts).map(|(placed, draft)| match (placed?, to) {
            (Placed::Placed, _) | (Placed::Taken, State::Running) => Ok(()),
            // Once completed, a task is never anything else.
            (Placed::Taken, State::Completed) => Ok(()),
            (Placed::Taken, State::Pending) => self.place_again(draft, from, now),
        });
        placed.collect()
    }

    /// Puts a task back among those that wait although a producer has put one of its id there.
    fn place_again(&self, draft: &Draft, from: State, now: Timestamp) -> Result<(), SpoolError> {
        for _ in 0..CLEARINGS_MAX {
            self.clear(draft, from, now)?;
            let mut placed = place(&self.pending, std::slice::from_ref(draft), Placing::New);
            if placed.pop().transpose()? == Some(Placed::Placed) {
                return Ok(());
            }
        }
        Err(SpoolError::Gone { path: self.pending.describe(&draft.name) })
    }

    /// Makes a place free: the same task put again is nothing new, another one is set aside.
    fn clear(&self, draft: &Draft, from: State, now: Timestamp) -> Result<(), SpoolError> {
        let fault = match self.look_in(State::Pending, &draft.name, now)? {
            Look::Task(found) => {
                let own = Task::parse(&draft.bytes, &found.task.id, State::Pending);
                if own.is_ok_and(|own| own.payload.is_same(&found.task.payload)) {
                    return self.remove_pending(&draft.name, found.version, now);
                }
                Fault::Taken(from)
            }
            Look::Unfit(fault) => fault,
            Look::NotYet(_) | Look::Repeat(_) => Fault::Taken(from),
            Look::Gone | Look::Ignored => return Ok(()),
        };
        self.set_aside(State::Pending, &draft.name, &fault, now).map(|_| ())
    }

    /// Deletes the file that a task has left.
    fn leave(
        &self,
        (from, source): (State, &D),
        task: &Task,
        read: Option<FileVersion>,
        now: Timestamp,
    ) -> Result<(), SpoolError> {
        let name = task.id.file_name();
        let at = |error| SpoolError::at(Operation::Remove, source.describe(&name))(error);
        let removed = match (read, from) {
            // Another of the same id that came meanwhile stays, and is looked at.
            (Some(version), State::Pending) => self.remove_pending(&name, version, now),
            (Some(version), _) => source.remove_read(&name, version).map(|_| ()).map_err(at),
            (None, _) => match source.remove(&name) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                result => result.map_err(at),
            },
        };
        removed.map_err(|error| {
            self.broken.store(true, Ordering::Release);
            match error {
                SpoolError::Io { source: error, .. } => {
                    SpoolError::Left { path: source.describe(&name), source: error }
                }
                error => error,
            }
        })
    }

    /// Tells everybody who has not failed yet why all have.
    fn all_failed(
        &self,
        moves: Vec<Result<Move, SpoolError>>,
        error: &SpoolError,
    ) -> Vec<Result<Task, SpoolError>> {
        let fail = |moved: Result<Move, SpoolError>| match moved {
            Err(own) => Err(own),
            Ok(_) => Err(error.again()),
        };
        moves.into_iter().map(fail).collect()
    }

    /// The file of a task. The name of its temporary one is the format's where nobody else writes;
    /// where producers do, it is one that none of them has.
    fn draft(&self, task: &Task) -> Draft {
        let name = task.id.file_name();
        let temporary = match task.state {
            State::Pending => self.own_temporary(),
            State::Running | State::Completed => format!("{TEMPORARY}{name}"),
        };
        Draft { temporary, bytes: task.to_json().into_bytes(), name }
    }
}
