//! The disk of the simulated world, and what may happen to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kron_core::UtcSecond;
use kron_state::simulated::{Disk, Fault, Faulty};
use kron_state::{Directory as _, Operation, Store, StoreError, document_file};
use serde_json::Value;

use crate::rng::Rng;
use crate::scenario::Sabotage;

/// Few enough that histories are cut short all the time.
const HISTORY_MAX: usize = 16;
/// The longest document that is looked at.
const BYTES_MAX: u64 = 1 << 20;
const ERRORS: [i32; 4] = [5, 28, 122, 30]; // EIO, ENOSPC, EDQUOT, EROFS

/// A disk that stops or fails at a given operation.
pub(crate) struct Storage {
    disk: Disk,
    trip: Arc<Mutex<Trip>>,
    rng: Rng,
    sabotage: Sabotage,
    /// Every entry of a history that was ever durable, by job and by run or period.
    pub(crate) ledger: BTreeMap<String, BTreeMap<String, Value>>,
    /// Marks as they became durable.
    pub(crate) marks: Vec<(String, String)>,
}

#[derive(Default)]
struct Trip {
    operations: u64,
    crash_at: Option<u64>,
    crashed: bool,
    failing: Option<(u64, u64)>,
}

impl Storage {
    pub(crate) fn new(seed: u64, sabotage: Sabotage) -> Storage {
        Storage {
            disk: Disk::new(),
            trip: Arc::default(),
            rng: Rng::new(seed ^ 0xD15C),
            sabotage,
            ledger: BTreeMap::new(),
            marks: Vec::new(),
        }
    }

    /// The store as a new daemon opens it.
    pub(crate) fn open(&self) -> Result<Store<Faulty<Disk>>, StoreError> {
        Store::open(self.faulty(), HISTORY_MAX)
    }

    /// The store as supervisors see it. A daemon's crash is not theirs.
    pub(crate) fn for_supervisors(&self) -> Result<Store<Faulty<Disk>>, StoreError> {
        let trip = self.trip.clone();
        let disk = Faulty::new(self.disk.clone(), move |_, _| lock(&trip).pass(None));
        Store::open(disk, HISTORY_MAX)
    }

    fn faulty(&self) -> Faulty<Disk> {
        let trip = self.trip.clone();
        let swallowed = match self.sabotage {
            Sabotage::SkipDirectorySync => Some(Operation::SyncDirectory),
            Sabotage::SkipFileSync => Some(Operation::SyncFile),
            _ => None,
        };
        Faulty::new(self.disk.clone(), move |operation, _| {
            if swallowed == Some(operation) {
                return Fault::Swallowed;
            }
            let mut trip = lock(&trip);
            let crash_at = trip.crash_at;
            trip.pass(crash_at)
        })
    }

    pub(crate) fn set_now(&self, now: UtcSecond) {
        self.disk.set_now(now);
    }

    /// From `from` operations on, `length` of them fail.
    pub(crate) fn fail(&self, from: u64, length: u64) {
        let mut trip = lock(&self.trip);
        let begin = trip.operations + from;
        trip.failing = Some((begin, begin + length));
    }

    /// After so many operations the daemon stops in the middle of what it does.
    pub(crate) fn crash_after(&self, operations: u64) {
        let mut trip = lock(&self.trip);
        trip.crash_at = Some(trip.operations + operations);
    }

    pub(crate) fn has_crashed(&self) -> bool {
        lock(&self.trip).crashed
    }

    /// A new daemon has nothing to do with the crash of the old one.
    pub(crate) fn reboot(&self) {
        let mut trip = lock(&self.trip);
        trip.crashed = false;
        trip.crash_at = None;
    }

    pub(crate) fn mend(&self) {
        self.reboot();
        lock(&self.trip).failing = None;
    }

    pub(crate) fn lose_power(&mut self) {
        self.reboot();
        let rng = &mut self.rng;
        // Most of the time all that was not synced is lost, sometimes all of it is kept.
        let habit = rng.below(3) as usize;
        self.disk = self.disk.after_power_cut(&mut |n| {
            if habit < 2 { habit } else { rng.below(n as u64) as usize }
        });
    }

    /// Damages the document of a job; whether there was one.
    pub(crate) fn damage(&self, identity: &str, bits: u64) -> bool {
        let file = document_file(identity);
        let Ok(Some(contents)) = self.disk.read(&file, BYTES_MAX) else { return false };
        let mut bytes = contents.bytes;
        let at = (bits >> 8) as usize % bytes.len().max(1);
        if bits & 1 == 0 {
            bytes.truncate(at);
        } else if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << (bits >> 1 & 7);
        }
        self.disk.put(&file, &bytes);
        true
    }

    /// Takes in what is recorded about a job now.
    pub(crate) fn take_note(&mut self, identity: &str) {
        let Some(document) = self.document(identity) else { return };
        if let Some(mark) = document["LastHandledPeriodID"].as_str() {
            self.marks.push((identity.to_owned(), mark.to_owned()));
        }
        let entries = self.ledger.entry(identity.to_owned()).or_default();
        for entry in document["History"].as_array().into_iter().flatten() {
            let key = entry["RunID"].as_str().or(entry["PeriodID"].as_str()).unwrap_or_default();
            entries.insert(key.to_owned(), entry.clone());
        }
    }

    pub(crate) fn document(&self, identity: &str) -> Option<Value> {
        let contents = self.disk.read(&document_file(identity), BYTES_MAX).ok()??;
        serde_json::from_slice(&contents.bytes).ok()
    }
}

impl Trip {
    fn pass(&mut self, crash_at: Option<u64>) -> Fault {
        self.operations += 1;
        if crash_at.is_some_and(|at| self.operations > at) {
            self.crashed = true;
            return Fault::Errno(5);
        }
        match self.failing {
            Some((from, to)) if self.operations >= from && self.operations < to => {
                Fault::Errno(ERRORS[self.operations as usize % ERRORS.len()])
            }
            _ => Fault::None,
        }
    }
}

fn lock(trip: &Mutex<Trip>) -> MutexGuard<'_, Trip> {
    trip.lock().unwrap_or_else(PoisonError::into_inner)
}
