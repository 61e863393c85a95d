//! What waits to be sent, in its order.
//!
//! Starts, and the claims that starts wait for, go first, by the second they were chosen for; while
//! any of them waits nothing else is begun. Then come statuses, removals and at last Events, so
//! that a burst of starts is not slowed down by the telling of it.
//!
//! **Invariant:** no namespace can take all the room. Each has a share, and one whose starts come to
//! nothing (a webhook that hangs) has a small one until a start succeeds; what waits for that keeps
//! nothing else waiting.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use kron_core::{Decision, UtcSecond};

use crate::plan::Note;

/// Requests of the foreground that are under way at once.
const FOREGROUND_MAX: usize = 32;
/// Of those, the ones of one namespace.
const NAMESPACE_MAX: usize = 24;
/// Of one namespace that is in trouble.
const TROUBLED_EACH_MAX: usize = 4;
/// Of all namespaces that are in trouble.
const TROUBLED_MAX: usize = 16;
/// Requests of the background that are under way at once.
const BACKGROUND_MAX: usize = 12;
/// Events that are told at once; slow ones keep nothing else waiting.
const TELLING_MAX: usize = 4;
/// Events that wait; beyond it the oldest are dropped, and counted.
const EVENTS_MAX: usize = 50_000;

/// Something urgent.
#[derive(Debug)]
pub(crate) enum Urgent {
    /// Make a Job.
    Start(Box<Start>),
    /// Store the claim under which one will be made.
    Claim(Arc<str>),
}

impl Urgent {
    fn identity(&self) -> &Arc<str> {
        match self {
            Urgent::Start(start) => &start.identity,
            Urgent::Claim(identity) => identity,
        }
    }
}

/// What became of something urgent, as far as others in its namespace are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The server said something about it.
    Well,
    /// The server did not answer, or has trouble of its own.
    Badly,
    /// It was not sent.
    NotSent,
}

/// A Job to make.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) identity: Arc<str>,
    pub(crate) decision: Box<Decision>,
    /// Active Jobs to remove before: name and UID.
    pub(crate) replace: Vec<(Box<str>, Box<str>)>,
    /// The spec it was planned with.
    pub(crate) generation: i64,
    /// The term of leadership it was planned in.
    pub(crate) claimant: Arc<str>,
    /// The KronJob it was planned for, whatever has its name by now.
    pub(crate) uid: Box<str>,
    /// When it was judged.
    pub(crate) judged_at: UtcSecond,
}

/// A Job to remove.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) identity: Arc<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
}

/// An Event to tell.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) note: Note,
    /// When it happened, in microseconds since 1970.
    pub(crate) at_us: u64,
}

/// The next thing to send.
#[derive(Debug)]
pub(crate) enum Item {
    /// It goes first.
    Urgent(Urgent),
    /// Store a status.
    Store(Arc<str>),
    /// Remove a Job.
    Remove(Removal),
    /// Tell an Event.
    Tell(Telling),
}

/// What is urgent in one namespace.
#[derive(Debug, Default)]
struct Lane {
    under_way: usize,
    in_trouble: bool,
    /// What waits for room in the namespace.
    held: BTreeMap<(UtcSecond, u64), Urgent>,
}

/// Everything that waits, and how much is under way.
#[derive(Debug, Default)]
pub(crate) struct Work {
    urgent: BTreeMap<(UtcSecond, u64), Urgent>,
    count: u64,
    lanes: HashMap<Box<str>, Lane>,
    /// How many are held, of namespaces that are in trouble and of others.
    held_in_trouble: usize,
    held: usize,
    /// How many are under way in namespaces that are in trouble.
    troubled: usize,
    statuses: VecDeque<Arc<str>>,
    removals: VecDeque<Removal>,
    tellings: VecDeque<Telling>,
    foreground: usize,
    background: usize,
    telling: usize,
    /// Events that were dropped because too many waited.
    pub(crate) dropped: u64,
}

impl Work {
    /// Something urgent that was chosen for this second.
    pub(crate) fn urgent(&mut self, chosen: UtcSecond, urgent: Urgent) {
        self.count += 1;
        self.urgent.insert((chosen, self.count), urgent);
    }

    /// A status to store.
    pub(crate) fn store(&mut self, identity: Arc<str>) {
        self.statuses.push_back(identity);
    }

    /// A Job to remove.
    pub(crate) fn remove(&mut self, removal: Removal) {
        self.removals.push_back(removal);
    }

    /// An Event to tell.
    pub(crate) fn tell(&mut self, telling: Telling) {
        if self.tellings.len() == EVENTS_MAX {
            self.tellings.pop_front();
            self.dropped += 1;
        }
        self.tellings.push_back(telling);
    }

    /// The next thing to send, if there is one and enough others have been answered.
    pub(crate) fn next(&mut self) -> Option<Item> {
        while self.foreground < FOREGROUND_MAX
            && let Some((place, urgent)) = self.urgent.pop_first()
        {
            let lane = lane_of(&mut self.lanes, urgent.identity());
            if lane.has_room(self.troubled) {
                lane.under_way += 1;
                self.troubled += usize::from(lane.in_trouble);
                self.foreground += 1;
                return Some(Item::Urgent(urgent));
            }
            *(if lane.in_trouble { &mut self.held_in_trouble } else { &mut self.held }) += 1;
            lane.held.insert(place, urgent);
        }
        if !self.urgent.is_empty() || self.held > 0 {
            return None;
        }
        if self.background < BACKGROUND_MAX {
            let store = self.statuses.pop_front().map(Item::Store);
            let item = store.or_else(|| self.removals.pop_front().map(Item::Remove));
            if item.is_some() {
                self.background += 1;
                return item;
            }
        }
        // Events wait for everything else.
        if !self.statuses.is_empty() || !self.removals.is_empty() || self.telling >= TELLING_MAX {
            return None;
        }
        let telling = self.tellings.pop_front()?;
        self.telling += 1;
        Some(Item::Tell(telling))
    }

    /// Something urgent of this KronJob was answered, or came to nothing.
    pub(crate) fn foreground_done(&mut self, identity: &str, answered: Answered) {
        self.foreground = self.foreground.saturating_sub(1);
        let lane = lane_of(&mut self.lanes, identity);
        lane.under_way = lane.under_way.saturating_sub(1);
        let before = lane.in_trouble;
        self.troubled = self.troubled.saturating_sub(usize::from(before));
        lane.in_trouble = match answered {
            Answered::Well => false,
            Answered::Badly => true,
            Answered::NotSent => before,
        };
        match (before, lane.in_trouble) {
            (false, true) => {
                self.troubled += lane.under_way;
                self.held -= lane.held.len();
                self.held_in_trouble += lane.held.len();
            }
            (true, false) => {
                self.troubled = self.troubled.saturating_sub(lane.under_way);
                self.held_in_trouble -= lane.held.len();
                self.urgent.append(&mut lane.held);
            }
            (false, false) | (true, true) => {}
        }
        if let Some((place, urgent)) = lane.held.pop_first() {
            *(if lane.in_trouble { &mut self.held_in_trouble } else { &mut self.held }) -= 1;
            self.urgent.insert(place, urgent);
        }
        if lane.is_idle() {
            let namespace = namespace_of(identity);
            self.lanes.remove(namespace);
        }
        self.release_troubled();
    }

    /// There may be room again for what waits in some other namespace that is in trouble.
    fn release_troubled(&mut self) {
        if self.held_in_trouble == 0 || self.troubled >= TROUBLED_MAX {
            return;
        }
        let waiting = |lane: &&mut Lane| {
            lane.in_trouble && !lane.held.is_empty() && lane.has_room(self.troubled)
        };
        let Some(lane) = self.lanes.values_mut().find(waiting) else { return };
        if let Some((place, urgent)) = lane.held.pop_first() {
            self.held_in_trouble -= 1;
            self.urgent.insert(place, urgent);
        }
    }

    /// Something else was answered, or came to nothing.
    pub(crate) fn background_done(&mut self) {
        self.background = self.background.saturating_sub(1);
    }

    /// An Event was told, or given up.
    pub(crate) fn telling_done(&mut self) {
        self.telling = self.telling.saturating_sub(1);
    }

    /// Forgets what only a leader may do: another leads now. What happened is told all the same.
    pub(crate) fn clear(&mut self) {
        self.urgent.clear();
        self.statuses.clear();
        self.removals.clear();
        (self.held, self.held_in_trouble, self.troubled) = (0, 0, 0);
        self.lanes.retain(|_, lane| {
            // Trouble is forgotten with the term; what is under way is not.
            lane.held.clear();
            lane.in_trouble = false;
            !lane.is_idle()
        });
    }

    /// The Events that nobody was told yet.
    pub(crate) fn untold(&mut self) -> Vec<Telling> {
        self.tellings.drain(..).collect()
    }

    /// How many starts, statuses, removals and Events wait.
    pub(crate) fn depths(&self) -> [usize; 4] {
        let urgent = self.urgent.len() + self.held + self.held_in_trouble;
        [urgent, self.statuses.len(), self.removals.len(), self.tellings.len()]
    }

    /// Whether everything that only a leader may send is answered.
    pub(crate) fn is_settled(&self) -> bool {
        self.foreground == 0 && self.background == 0
    }
}

impl Lane {
    /// Whether one more may be under way, when so many are in all namespaces in trouble.
    fn has_room(&self, troubled: usize) -> bool {
        if self.in_trouble {
            self.under_way < TROUBLED_EACH_MAX && troubled < TROUBLED_MAX
        } else {
            self.under_way < NAMESPACE_MAX
        }
    }

    fn is_idle(&self) -> bool {
        self.under_way == 0 && self.held.is_empty() && !self.in_trouble
    }
}

/// The namespace of an identity.
pub(crate) fn namespace_of(identity: &str) -> &str {
    identity.split('/').next().unwrap_or_default()
}

fn lane_of<'a>(lanes: &'a mut HashMap<Box<str>, Lane>, identity: &str) -> &'a mut Lane {
    lanes.entry(namespace_of(identity).into()).or_default()
}

#[cfg(test)]
mod tests;
