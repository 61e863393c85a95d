//! What a daemon and its producers do with a spool, and what they were promised for it.

use kron_spool::{Finish, Look, Next, PutError, RetryError, Spool, SpoolError, Start, State};
use kron_state::Moves;

use crate::made::{a_run, at, far_future, id, new_task};
use crate::promises::Promise;

/// Acts, and tells what was promised: what is weaker before it acts, what is stronger after.
pub(crate) struct Acting<'a, D> {
    pub(crate) spool: &'a Spool<D>,
    pub(crate) tell: &'a mut dyn FnMut(&str, Promise),
}

impl<D: Moves> Acting<'_, D> {
    /// Puts tasks that were never completed.
    pub(crate) fn put(&mut self, ids: &[&str]) -> Result<(), SpoolError> {
        let tasks: Vec<_> = ids.iter().map(|id| new_task(id)).collect();
        let mut first_error = Ok(());
        for (name, result) in ids.iter().zip(self.spool.put(&tasks, at(0))) {
            match result {
                Ok(_) => (self.tell)(&file(name), Promise::There),
                Err(PutError::Spool(error)) => first_error = first_error.and(Err(error)),
                Err(error) => panic!("{name}: {error}"),
            }
        }
        first_error
    }

    /// Tries to put tasks that nobody has put before.
    pub(crate) fn put_new(&mut self, ids: &[&str]) -> Result<(), SpoolError> {
        ids.iter().for_each(|id| (self.tell)(&file(id), Promise::Tried));
        self.put(ids)
    }

    pub(crate) fn start(&mut self, ids: &[&str]) -> Result<(), SpoolError> {
        let mut starts = Vec::new();
        for name in ids {
            match self.spool.look(&file(name), far_future())? {
                Look::Task(found) => starts.push(Start { found: *found, run: a_run(1) }),
                // It was started by an attempt before this.
                Look::Gone => {}
                other => panic!("{name}: {other:?}"),
            }
        }
        all(self.spool.start(starts, at(10)).into_iter().map(|started| started.map(|_| ())))
    }

    pub(crate) fn finish(&mut self, ends: &[(&str, Next)]) -> Result<(), SpoolError> {
        let mut finishes = Vec::new();
        for (name, next) in ends {
            match self.spool.read(State::Running, &id(name))? {
                Some(Ok(found)) => finishes.push(Finish { task: found.task, next: next.clone() }),
                None => {}
                other => panic!("{name}: {other:?}"),
            }
        }
        let codes: Vec<(String, Option<i32>)> = finishes
            .iter()
            .map(|Finish { task, next }| match next {
                Next::Completed(result) => (task.id.file_name(), result.exit_code),
                _ => (task.id.file_name(), None),
            })
            .collect();
        // One that was tried again is completed from now on, or not yet.
        codes.iter().for_each(|(name, _)| (self.tell)(name, Promise::There));
        let results = self.spool.finish(finishes, at(20));
        let told = results.into_iter().zip(codes).map(|(result, (name, code))| {
            result?;
            (self.tell)(&name, code.map_or(Promise::There, Promise::Completed));
            Ok(())
        });
        all(told)
    }

    /// Tries a task again that has failed for good.
    pub(crate) fn retry(&mut self, name: &str) -> Result<(), SpoolError> {
        (self.tell)(&file(name), Promise::There);
        match self.spool.retry(&id(name), at(25)) {
            // It waits since an attempt before this.
            Ok(_) | Err(RetryError::NotCompleted(_)) => {
                (self.tell)(&file(name), Promise::Open);
                Ok(())
            }
            Err(RetryError::Spool(error)) => Err(error),
            Err(error) => panic!("{name}: {error}"),
        }
    }

    /// Removes everything that is completed: these.
    pub(crate) fn purge(&mut self, ids: &[&str]) -> Result<(), SpoolError> {
        ids.iter().for_each(|id| (self.tell)(&file(id), Promise::Purging));
        self.spool.purge(far_future(), at(0)).map(|_| ())
    }

    /// Looks at what is no task, and sets it aside.
    pub(crate) fn set_aside(&mut self, name: &str) -> Result<(), SpoolError> {
        match self.spool.look(name, far_future())? {
            Look::Unfit(fault) => {
                self.spool.set_aside(State::Pending, name, &fault, at(30))?;
            }
            Look::Gone => {}
            other => panic!("{name}: {other:?}"),
        }
        (self.tell)(name, Promise::Aside);
        Ok(())
    }

    /// Drops what waits although it is further on.
    pub(crate) fn drop_repeat(&mut self, name: &str) -> Result<(), SpoolError> {
        match self.spool.look(&file(name), far_future())? {
            Look::Repeat(repeat) if repeat.same => {
                self.spool.drop_repeat(&repeat, at(30)).map(|_| ())
            }
            Look::Gone => Ok(()),
            other => panic!("{name}: {other:?}"),
        }
    }
}

pub(crate) fn file(id: &str) -> String {
    format!("{id}.json")
}

/// The first error, after all are done.
fn all(results: impl Iterator<Item = Result<(), SpoolError>>) -> Result<(), SpoolError> {
    results.fold(Ok(()), Result::and)
}
