//! The order in which state goes to disk: a queue of writes, as plain data.
//!
//! Every job has a lane of its own, and so have the record of known jobs, the log of epochs, every
//! run's leftovers and the sign of life. Within a lane writes happen in the order they were asked for, one at a time; changes of
//! one job that wait together become one write. Between lanes the rank decides, then age: a lane
//! is as urgent as the most urgent write in it, because that one cannot overtake the others.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use kron_core::UtcSecond;
use kron_state::{Change, Document, Epoch, Known, PeriodRef, RunId};

use crate::machine::{Entry, Level, Rank, Ticket};

/// A run, and what it is a run of where that is known.
#[derive(Clone, Debug)]
pub(super) struct RunOf {
    pub(super) run: RunId,
    pub(super) of: Option<(Arc<str>, PeriodRef)>,
}

impl RunOf {
    /// An entry about something that failed with it.
    pub(super) fn failure(&self, event: &'static str) -> Entry {
        let mut entry = Entry::new(Level::Error, event);
        if let Some((identity, period)) = &self.of {
            entry = entry.of(identity).period(period);
        }
        entry.shown("run_id", &self.run)
    }
}

/// Something to be written.
#[derive(Debug)]
pub(super) enum Order {
    /// Changes of one job's document.
    Commit { ticket: Ticket, identity: Arc<str>, changes: Vec<Change>, rank: Rank },
    /// A document in the place of an unreadable one.
    Restore { ticket: Ticket, identity: Arc<str>, document: Box<Document> },
    /// What is known about all jobs.
    SaveKnown { ticket: Ticket, known: Box<Known> },
    /// A line of the daemon's own history.
    Epoch(Epoch),
    /// What a supervisor left behind, to be read.
    ReadRun(RunOf),
    /// The same, to be removed.
    RemoveRun(RunOf),
    /// A sign of life.
    Alive(UtcSecond),
}

/// Where writes queue, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Lane {
    Job(Arc<str>),
    Known,
    Epochs,
    Run(RunId),
    Life,
}

/// One write, and who waits for it.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) lane: Lane,
    pub(super) work: Work,
    pub(super) tickets: Vec<Ticket>,
}

/// What one write does.
#[derive(Debug)]
pub(super) enum Work {
    Commit { identity: Arc<str>, changes: Vec<Change> },
    Restore { identity: Arc<str>, document: Box<Document> },
    SaveKnown(Box<Known>),
    Epoch(Epoch),
    ReadRun(RunOf),
    RemoveRun(RunOf),
    Alive(UtcSecond),
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lanes: HashMap<Lane, Waiting>,
    /// Lanes that have something to write and are not at it.
    ready: BTreeSet<(Rank, u64, Lane)>,
    next_age: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    orders: VecDeque<Order>,
    /// Where the lane stands among those that are ready.
    place: Option<(Rank, u64)>,
    busy: bool,
}

impl Order {
    fn lane(&self) -> Lane {
        match self {
            Order::Commit { identity, .. } | Order::Restore { identity, .. } => {
                Lane::Job(identity.clone())
            }
            Order::SaveKnown { .. } => Lane::Known,
            Order::Epoch(_) => Lane::Epochs,
            Order::ReadRun(of) | Order::RemoveRun(of) => Lane::Run(of.run.clone()),
            Order::Alive(_) => Lane::Life,
        }
    }

    fn rank(&self) -> Rank {
        match self {
            Order::Commit { rank, .. } => *rank,
            Order::Restore { .. } | Order::SaveKnown { .. } => Rank::Start,
            // How a run ended is recorded next.
            Order::ReadRun(_) => Rank::Finish,
            Order::Epoch(_) | Order::RemoveRun(_) | Order::Alive(_) => Rank::Background,
        }
    }
}

impl Queue {
    pub(super) fn push(&mut self, order: Order) {
        let (lane, rank) = (order.lane(), order.rank());
        let waiting = self.lanes.entry(lane.clone()).or_default();
        waiting.orders.push_back(order);
        if waiting.busy || waiting.place.is_some_and(|(standing, _)| standing <= rank) {
            return;
        }
        if let Some((standing, age)) = waiting.place.take() {
            self.ready.remove(&(standing, age, lane.clone()));
        }
        let age = self.next_age;
        self.next_age += 1;
        waiting.place = Some((rank, age));
        self.ready.insert((rank, age, lane));
    }

    /// The most urgent write. Its lane rests until [`Queue::done`].
    pub(super) fn take(&mut self) -> Option<Batch> {
        let (_, _, lane) = self.ready.pop_first()?;
        let waiting = self.lanes.get_mut(&lane)?;
        waiting.place = None;
        waiting.busy = true;
        let mut tickets = Vec::new();
        let work = match waiting.orders.pop_front()? {
            Order::Commit { ticket, identity, mut changes, .. } => {
                tickets.push(ticket);
                while let Some(Order::Commit { .. }) = waiting.orders.front() {
                    if let Some(Order::Commit { ticket, changes: more, .. }) =
                        waiting.orders.pop_front()
                    {
                        tickets.push(ticket);
                        changes.extend(more);
                    }
                }
                Work::Commit { identity, changes }
            }
            Order::Restore { ticket, identity, document } => {
                tickets.push(ticket);
                Work::Restore { identity, document }
            }
            Order::SaveKnown { ticket, mut known } => {
                tickets.push(ticket);
                // Each holds everything, so the latest says it all.
                for order in waiting.orders.drain(..) {
                    if let Order::SaveKnown { ticket, known: later } = order {
                        tickets.push(ticket);
                        known = later;
                    }
                }
                Work::SaveKnown(known)
            }
            Order::Epoch(epoch) => Work::Epoch(epoch),
            Order::ReadRun(of) => Work::ReadRun(of),
            Order::RemoveRun(of) => Work::RemoveRun(of),
            Order::Alive(at) => Work::Alive(at),
        };
        Some(Batch { lane, work, tickets })
    }

    /// Whether something could be written now.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// A write of this lane is over; what waits behind it may go.
    pub(super) fn done(&mut self, lane: Lane) {
        let Some(waiting) = self.lanes.get_mut(&lane) else { return };
        waiting.busy = false;
        let Some(rank) = waiting.orders.iter().map(Order::rank).min() else {
            self.lanes.remove(&lane);
            return;
        };
        let age = self.next_age;
        self.next_age += 1;
        waiting.place = Some((rank, age));
        self.ready.insert((rank, age, lane));
    }

    /// Whether nothing waits and nothing is being written.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(ticket: u64, identity: &str, rank: Rank) -> Order {
        let change = Change::Replace(None);
        Order::Commit {
            ticket: Ticket(ticket),
            identity: identity.into(),
            changes: vec![change],
            rank,
        }
    }

    fn restore(ticket: u64, identity: &str) -> Order {
        let document = Box::new(Document::new(identity));
        Order::Restore { ticket: Ticket(ticket), identity: identity.into(), document }
    }

    /// What is written, batch after batch, as tickets, when each write is over before the next.
    fn drained(orders: Vec<Order>) -> Vec<Vec<u64>> {
        let mut queue = Queue::default();
        orders.into_iter().for_each(|order| queue.push(order));
        let mut batches = Vec::new();
        while let Some(batch) = queue.take() {
            batches.push(batch.tickets.iter().map(|ticket| ticket.0).collect());
            queue.done(batch.lane);
        }
        assert!(queue.is_empty());
        batches
    }

    #[test]
    fn ranks_come_first_then_age() {
        let orders = vec![
            commit(1, "a", Rank::Background),
            commit(2, "b", Rank::Finish),
            commit(3, "c", Rank::Start),
            commit(4, "d", Rank::Start),
        ];
        assert_eq!(drained(orders), [[3], [4], [2], [1]]);
    }

    #[test]
    fn changes_of_one_job_become_one_write_in_their_order() {
        let orders = vec![
            commit(1, "a", Rank::Background),
            commit(2, "b", Rank::Finish),
            commit(3, "a", Rank::Start),
            commit(4, "a", Rank::Background),
        ];
        assert_eq!(drained(orders), [vec![1, 3, 4], vec![2]]);
    }

    #[test]
    fn a_restored_document_is_not_merged_with_changes_of_it() {
        let orders = vec![
            commit(1, "a", Rank::Finish),
            restore(2, "a"),
            commit(3, "a", Rank::Finish),
            commit(4, "a", Rank::Finish),
        ];
        assert_eq!(drained(orders), [vec![1], vec![2], vec![3, 4]]);
    }

    #[test]
    fn a_busy_job_rests_and_others_go_on() {
        let mut queue = Queue::default();
        queue.push(commit(1, "a", Rank::Start));
        let first = queue.take().unwrap();
        queue.push(commit(2, "a", Rank::Start));
        queue.push(commit(3, "a", Rank::Finish));
        queue.push(commit(4, "b", Rank::Background));
        let other = queue.take().unwrap();
        assert_eq!(other.tickets, [Ticket(4)]);
        assert!(queue.take().is_none(), "`a` is being written");
        queue.done(other.lane);
        assert!(queue.take().is_none());
        queue.done(first.lane);
        assert_eq!(queue.take().unwrap().tickets, [Ticket(2), Ticket(3)]);
    }

    #[test]
    fn only_the_latest_of_what_is_known_is_written_and_all_are_told() {
        let order =
            |ticket| Order::SaveKnown { ticket: Ticket(ticket), known: Box::new(Known::new("m")) };
        assert_eq!(drained(vec![order(1), order(2), order(3)]), [[1, 2, 3]]);
    }
}
