//! How many connections are served at once, and whose.
//!
//! The kernel hands connections over one after the other, so whoever comes first must be taken to
//! get at those behind. Hence everybody is accepted, looked at, and then given one of a bounded
//! number of slots. Some of them only go to those who may change things, so that nobody who may
//! merely look keeps them from asking, whatever he does with his own connections. Whoever finds no
//! slot waits for one, in a line that is bounded too; who finds no place in it is sent away.
//!
//! Those who may change things are not protected from themselves: when they have taken every slot,
//! nobody is accepted until one is free.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::Rank;

/// Connections that are served at once.
pub(super) const CONNECTIONS_MAX: usize = 128;
/// Those of them that are kept for those who may change things.
const CONNECTIONS_KEPT: usize = 32;
/// Connections of others that may wait for a slot.
const WAITING_MAX: usize = 128;
/// How long they may.
const WAITING_PATIENCE: Duration = Duration::from_secs(10);

/// All slots.
#[derive(Debug)]
pub(super) struct Slots {
    /// For everybody.
    open: Arc<Semaphore>,
    /// For those who may change things, when the others are taken.
    kept: Arc<Semaphore>,
    /// Places to wait in.
    line: Arc<Semaphore>,
}

/// A slot that is certainly there for the next connection, whoever that is.
#[derive(Debug)]
pub(super) struct Spare(OwnedSemaphorePermit);

/// What a connection gets.
#[derive(Debug)]
pub(super) enum Turn {
    /// It is served, as long as this lives.
    Now(OwnedSemaphorePermit),
    /// It waits for a slot for everybody.
    Wait {
        /// Where the slot comes from.
        open: Arc<Semaphore>,
        /// Its place in the line.
        place: OwnedSemaphorePermit,
    },
    /// It is sent away.
    Never,
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots {
            open: Arc::new(Semaphore::new(CONNECTIONS_MAX - CONNECTIONS_KEPT)),
            kept: Arc::new(Semaphore::new(CONNECTIONS_KEPT)),
            line: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    /// Waits until a connection can be accepted. Only those who may change things can make it
    /// wait. `None` never comes: nobody closes the slots.
    pub(super) async fn spare(&self) -> Option<Spare> {
        self.kept.clone().acquire_owned().await.ok().map(Spare)
    }

    /// What a peer of this rank gets.
    pub(super) fn turn(&self, spare: Spare, rank: Rank) -> Turn {
        match (self.open.clone().try_acquire_owned(), rank) {
            (Ok(slot), _) => Turn::Now(slot),
            #[cfg(kron_canary)]
            (Err(_), Rank::Owner) if kron_canary::Canary::ReadersTakeEverySlot.is_active() => {
                Turn::Wait { open: Arc::new(Semaphore::new(0)), place: spare.0 }
            }
            (Err(_), Rank::Owner) => Turn::Now(spare.0),
            (Err(_), Rank::Other) => match self.line.clone().try_acquire_owned() {
                Ok(place) => Turn::Wait { open: self.open.clone(), place },
                Err(_) => Turn::Never,
            },
        }
    }
}

impl Turn {
    /// The slot, once there is one; `None` when there is none in time.
    pub(super) async fn slot(self) -> Option<OwnedSemaphorePermit> {
        match self {
            Turn::Now(slot) => Some(slot),
            Turn::Wait { open, place } => {
                let slot = tokio::time::timeout(WAITING_PATIENCE, open.acquire_owned()).await;
                drop(place);
                slot.ok()?.ok()
            }
            Turn::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap().block_on(future)
    }

    async fn turn(slots: &Slots, rank: Rank) -> Turn {
        let spare = tokio::time::timeout(Duration::from_millis(20), slots.spare()).await;
        slots.turn(spare.expect("somebody can be accepted").unwrap(), rank)
    }

    #[test]
    fn others_leave_some_for_the_owner() {
        block_on(async {
            let slots = Slots::new();
            let mut taken = Vec::new();
            for _ in 0..CONNECTIONS_MAX - CONNECTIONS_KEPT {
                taken.push(turn(&slots, Rank::Other).await);
            }
            assert!(taken.iter().all(|turn| matches!(turn, Turn::Now(_))));
            let mut waiting = Vec::new();
            for _ in 0..WAITING_MAX {
                waiting.push(turn(&slots, Rank::Other).await);
            }
            assert!(waiting.iter().all(|turn| matches!(turn, Turn::Wait { .. })));
            assert!(matches!(turn(&slots, Rank::Other).await, Turn::Never));
            let mut owners = Vec::new();
            for _ in 0..CONNECTIONS_KEPT {
                owners.push(turn(&slots, Rank::Owner).await);
            }
            assert!(owners.iter().all(|turn| matches!(turn, Turn::Now(_))));
            let more = tokio::time::timeout(Duration::from_millis(20), slots.spare()).await;
            assert!(more.is_err(), "and no more at all");

            // Whoever leaves makes room for the one who waits.
            let waiter = waiting.pop().unwrap().slot();
            taken.pop();
            assert!(waiter.await.is_some());
            owners.pop();
            assert!(matches!(turn(&slots, Rank::Owner).await, Turn::Now(_)));
        });
    }

    #[test]
    fn the_owner_may_have_them_all() {
        block_on(async {
            let slots = Slots::new();
            let mut taken = Vec::new();
            for _ in 0..CONNECTIONS_MAX {
                taken.push(turn(&slots, Rank::Owner).await);
            }
            assert!(taken.iter().all(|turn| matches!(turn, Turn::Now(_))));
        });
    }
}
