//! What is in a spool, for people.

use kron_state::Moves;

use crate::error::SpoolError;
use crate::id::TaskId;
use crate::open::Spool;
use crate::task::State;

/// How many there are of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks that wait, those that are not due among them.
    pub pending: usize,
    /// Tasks that were started.
    pub running: usize,
    /// Tasks that have ended for good.
    pub completed: usize,
    /// What was set aside.
    pub rejected: usize,
}

impl<D: Moves> Spool<D> {
    /// The ids of the tasks of a state, in order. What has no task's name is left out.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn ids(&self, state: State) -> Result<Vec<TaskId>, SpoolError> {
        let names = self.names(state)?;
        Ok(names.iter().filter_map(|name| TaskId::of_file(name).ok().flatten()).collect())
    }

    /// Every name in `pending/`, tasks or not, in no order.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn pending_names(&self) -> Result<Vec<String>, SpoolError> {
        self.names(State::Pending)
    }

    /// How many there are of everything.
    ///
    /// # Errors
    /// When a directory cannot be listed.
    pub fn counts(&self) -> Result<Counts, SpoolError> {
        Ok(Counts {
            pending: self.ids(State::Pending)?.len(),
            running: self.ids(State::Running)?.len(),
            completed: self.ids(State::Completed)?.len(),
            rejected: self.rejected_names()?.len(),
        })
    }
}
