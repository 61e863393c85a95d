//! The tasks of a spool that wait, in memory: who is next is known without asking the disk.
//!
//! It holds no payloads. What it says may be outdated, because anybody may remove or replace a file;
//! so a task is read again before it is started.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kron_core::Timestamp;
use kron_spool::TaskId;

/// Tasks that are kept in memory. Those beyond it are looked for when there is room.
const WAITING_MAX: usize = 1_000_000;

/// The tasks that wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// How many there may be.
    len_max: usize,
    tasks: HashMap<TaskId, Place>,
    /// Those that are due, by type and then in the order in which they were made.
    ready: BTreeMap<Arc<str>, BTreeSet<(Timestamp, TaskId)>>,
    /// Those that are not.
    delayed: BTreeSet<(Timestamp, TaskId)>,
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) id: TaskId,
    pub(crate) task_type: Arc<str>,
    pub(crate) created_at: Timestamp,
    pub(crate) not_before: Option<Timestamp>,
}

#[derive(Debug)]
struct Place {
    task_type: Arc<str>,
    created_at: Timestamp,
    /// Until when it is delayed, if it is.
    delayed_until: Option<Timestamp>,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting::of_at_most(WAITING_MAX)
    }
}

impl Waiting {
    /// Nobody waits, and no more than this many ever do.
    pub(crate) fn of_at_most(len_max: usize) -> Waiting {
        let (tasks, ready, delayed) = (HashMap::new(), BTreeMap::new(), BTreeSet::new());
        Waiting { len_max, tasks, ready, delayed }
    }

    /// Whether there is so much room that it is worth looking for more.
    pub(crate) fn has_much_room(&self) -> bool {
        self.tasks.len() < self.len_max.div_ceil(2)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// How many wait for their time.
    pub(crate) fn delayed_len(&self) -> usize {
        self.delayed.len()
    }

    /// How many are due whose type is none of these. Whoever puts tasks can make up any number of
    /// types, so that only these are looked at.
    pub(crate) fn unhandled_len<'t>(&self, handled: impl Iterator<Item = &'t str>) -> usize {
        let handled = handled.filter_map(|task_type| self.ready.get(task_type));
        let handled: usize = handled.map(BTreeSet::len).sum();
        self.tasks.len().saturating_sub(self.delayed.len() + handled)
    }

    /// A task waits; one that is known already waits as it is said now. `false` when there is no room.
    pub(crate) fn insert(&mut self, waiter: Waiter, now: Timestamp) -> bool {
        self.remove(&waiter.id);
        if self.tasks.len() >= self.len_max {
            return false;
        }
        let Waiter { id, task_type, created_at, not_before } = waiter;
        let delayed_until = not_before.filter(|moment| *moment > now);
        // One text for all tasks of a type.
        let task_type = match self.ready.get_key_value(&task_type) {
            Some((shared, _)) => shared.clone(),
            None => {
                self.ready.insert(task_type.clone(), BTreeSet::new());
                task_type
            }
        };
        match delayed_until {
            Some(until) => {
                self.delayed.insert((until, id.clone()));
            }
            None => {
                self.ready.entry(task_type.clone()).or_default().insert((created_at, id.clone()));
            }
        }
        self.tasks.insert(id, Place { task_type, created_at, delayed_until });
        true
    }

    /// A task waits no longer.
    pub(crate) fn remove(&mut self, id: &TaskId) -> bool {
        let Some(place) = self.tasks.remove(id) else { return false };
        if let Some(until) = place.delayed_until {
            self.delayed.remove(&(until, id.clone()));
        }
        // A type is known as long as one of its tasks is ready, or was just made known.
        if let Some(ready) = self.ready.get_mut(&place.task_type) {
            ready.remove(&(place.created_at, id.clone()));
            if ready.is_empty() {
                self.ready.remove(&place.task_type);
            }
        }
        true
    }

    /// Makes ready what is due by now.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        while let Some((until, _)) = self.delayed.first()
            && *until <= now
        {
            let Some((_, id)) = self.delayed.pop_first() else { return };
            if let Some(place) = self.tasks.get_mut(&id) {
                place.delayed_until = None;
                let ready = self.ready.entry(place.task_type.clone()).or_default();
                ready.insert((place.created_at, id));
            }
        }
    }

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.delayed.first().map(|(until, _)| *until)
    }

    /// Takes the oldest task that is due, among these types. It looks at the first of each and at
    /// no other.
    pub(crate) fn take<'t>(&mut self, open: impl Iterator<Item = &'t str>) -> Option<Waiter> {
        let open = open.filter_map(|task_type| self.ready.get_key_value(task_type));
        let firsts = open.filter_map(|(task_type, tasks)| Some((tasks.first()?, task_type)));
        let ((created_at, id), task_type) = firsts.min()?;
        let (created_at, id, task_type) = (*created_at, id.clone(), task_type.clone());
        self.remove(&id);
        Some(Waiter { id, task_type, created_at, not_before: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_unix_ms(1_800_000_000_000 + second * 1_000).unwrap()
    }

    fn waiter(id: &str, task_type: &str, created: i64, not_before: Option<i64>) -> Waiter {
        Waiter {
            id: TaskId::new(id).unwrap(),
            task_type: task_type.into(),
            created_at: at(created),
            not_before: not_before.map(at),
        }
    }

    fn taken(waiting: &mut Waiting, open: &[&str]) -> Option<String> {
        waiting.take(open.iter().copied()).map(|waiter| waiter.id.to_string())
    }

    #[test]
    fn the_oldest_of_the_open_types_comes_first_and_delays_count() {
        let mut waiting = Waiting::default();
        for task in [
            waiter("c", "x", 3, None),
            waiter("a", "y", 1, None),
            waiter("b", "x", 2, None),
            waiter("d", "x", 0, Some(10)),
        ] {
            assert!(waiting.insert(task, at(5)));
        }
        assert_eq!(
            (waiting.len(), waiting.delayed_len(), waiting.next_due()),
            (4, 1, Some(at(10)))
        );
        assert_eq!(waiting.unhandled_len(["y"].into_iter()), 2);
        assert_eq!(taken(&mut waiting, &["x"]).as_deref(), Some("b"));
        assert_eq!(taken(&mut waiting, &["x", "y"]).as_deref(), Some("a"));
        waiting.pass(at(9));
        assert_eq!(taken(&mut waiting, &["y"]), None);
        waiting.pass(at(10));
        assert_eq!(taken(&mut waiting, &["x"]).as_deref(), Some("d"), "the oldest, now due");
        assert_eq!(taken(&mut waiting, &["x"]).as_deref(), Some("c"));
        assert_eq!((waiting.len(), taken(&mut waiting, &["x", "y"])), (0, None));
    }

    #[test]
    fn a_task_waits_once_as_it_was_last_seen() {
        let mut waiting = Waiting::default();
        waiting.insert(waiter("a", "x", 1, Some(10)), at(0));
        waiting.insert(waiter("a", "y", 1, None), at(0));
        assert_eq!((waiting.len(), waiting.delayed_len()), (1, 0));
        assert_eq!(taken(&mut waiting, &["x"]), None);
        assert!(waiting.remove(&TaskId::new("a").unwrap()));
        assert!(!waiting.remove(&TaskId::new("a").unwrap()));
        assert_eq!(taken(&mut waiting, &["y"]), None);
        assert!(waiting.ready.is_empty() && waiting.delayed.is_empty());
    }
}
