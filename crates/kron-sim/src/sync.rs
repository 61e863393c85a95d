//! The thread of a daemon that writes, and what stops it.
//!
//! Writes to one file are made in the order in which they were asked for, and those of one
//! document that wait together are made together. Between files there is no order at all, which is
//! less than the daemon's own queue keeps. A crash comes between any two operations of a write.

use std::sync::Arc;

use kron_state::{Change, Document, Epoch, EpochEvent, Known};
use krond::machine::{Event, Ticket};

use crate::daemon::Daemon;
use crate::scenario::Sabotage;
use crate::tally::Happening;
use crate::world::{Occurrence, World};

/// Changes that are written together at most: fewer than any history keeps entries.
const MERGED_MAX: usize = 3;

/// Something on its way to the disk.
pub(crate) enum Write {
    Commit { ticket: Ticket, identity: Arc<str>, changes: Vec<Change> },
    Restore { ticket: Ticket, identity: Arc<str>, document: Box<Document> },
    Known { ticket: Ticket, known: Box<Known> },
    Epoch(EpochEvent),
}

/// The file that a write goes to.
#[derive(Clone, PartialEq, Eq)]
enum File {
    Document(Arc<str>),
    Known,
    Epochs,
}

impl Write {
    fn file(&self) -> File {
        match self {
            Write::Commit { identity, .. } | Write::Restore { identity, .. } => {
                File::Document(identity.clone())
            }
            Write::Known { .. } => File::Known,
            Write::Epoch(_) => File::Epochs,
        }
    }
}

impl Daemon {
    /// The first write to the file that one of those which wait goes to.
    fn next_write(&mut self, any: usize) -> Option<Write> {
        let file = self.writes.get(any % self.writes.len().max(1))?.file();
        let first = self.writes.iter().position(|write| write.file() == file)?;
        self.writes.remove(first)
    }
}

impl World {
    pub(crate) fn write(&mut self, write: Write) {
        if let Some(daemon) = &mut self.daemon {
            daemon.writes.push_back(write);
        }
    }

    /// The syncing thread has time for one write.
    pub(crate) fn sync(&mut self, life: u64) {
        if !self.daemon_lives(life) {
            return;
        }
        if let Some((operations, power)) = self.crash_soon.take() {
            self.storage.crash_after(operations);
            self.crash_cuts_power = power;
        }
        let wall = self.wall();
        self.storage.set_now(wall);
        let any = self.rng.bits() as usize;
        let Some(daemon) = &mut self.daemon else { return };
        daemon.syncing = false;
        let Some(write) = daemon.next_write(any) else { return };
        let store = &daemon.store;
        let mut marked = None;
        let mut known_now = false;
        let mut tickets = Vec::new();
        let result = match write {
            Write::Commit { ticket, identity, mut changes } => {
                tickets.push(ticket);
                // Whatever else waits for the same document is written with it, unless the history
                // could not hold all of it and nobody would see what was dropped at once.
                let mut room = MERGED_MAX.saturating_sub(changes.len());
                daemon.writes.retain_mut(|other| match other {
                    Write::Commit { ticket, identity: of, changes: more } if *of == identity => {
                        if more.len() > room {
                            room = 0;
                            return true;
                        }
                        room -= more.len();
                        tickets.push(*ticket);
                        changes.append(more);
                        false
                    }
                    _ => true,
                });
                if self.scenario.sabotage == Sabotage::DropOutcomes {
                    changes.retain(|change| !matches!(change, Change::Handle { .. }));
                }
                marked = Some(identity.clone());
                store.commit(&identity, &changes)
            }
            Write::Restore { ticket, identity, document } => {
                tickets.push(ticket);
                marked = Some(identity.clone());
                store.restore(&identity, &document)
            }
            Write::Known { ticket, known } => {
                known_now = true;
                tickets.push(ticket);
                store.save_known(&known)
            }
            Write::Epoch(event) => store.append_epoch(&Epoch { at: wall, event }),
        };
        if result.is_ok() && !self.storage.has_crashed() {
            if let Some(identity) = &marked {
                self.storage.take_note(identity);
            }
        } else {
            self.in_doubt.extend(marked.map(|identity| identity.to_string()));
        }
        if self.die_if_crashed() {
            return;
        }
        match result {
            Ok(()) => {
                if known_now && self.known_unix.is_none() {
                    self.known_unix = Some(self.born_unix);
                }
                for ticket in tickets {
                    self.feed(Event::Durable(ticket));
                }
            }
            Err(error) => {
                self.note(format_args!("not durable: {error}"));
                let message = error.to_string();
                let ticket = tickets.first().copied().unwrap_or(Ticket(0));
                self.feed(Event::NotDurable {
                    ticket,
                    operation: "write state",
                    identity: None,
                    period: None,
                    message,
                });
            }
        }
        self.plan_sync();
    }

    pub(crate) fn plan_sync(&mut self) {
        let slow = self.rng.one_in(self.scenario.slow_one_in);
        let delay = if slow { self.rng.between(1_000, 80_000) } else { self.rng.between(1, 25) };
        let life = self.life;
        let Some(daemon) = &mut self.daemon else { return };
        if !daemon.syncing && !daemon.writes.is_empty() {
            daemon.syncing = true;
            self.after(delay, Occurrence::Sync(life));
        }
    }

    /// The disk stopped in the middle of an operation because the daemon, or the machine, did.
    pub(crate) fn die_if_crashed(&mut self) -> bool {
        if !self.storage.has_crashed() {
            return false;
        }
        self.note(format_args!("crashed in the middle of a write"));
        if self.crash_cuts_power {
            self.tally.count(Happening::WritePowerCut);
            self.cut_power();
        } else {
            self.tally.count(Happening::WriteKilled);
            let delay = self.rng.between(100, 60_000);
            self.daemon_gone(delay);
        }
        true
    }
}
