//! The disk of the simulated world, and what may happen to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kron_core::UtcSecond;
use kron_state::simulated::{Disk, Fault, Faulty};
use kron_state::{Directory as _, Operation, Store, StoreError, document_file};

use crate::ledger::{Active, Record, active_of};
use crate::rng::Rng;
use crate::scenario::{Sabotage, Scenario};

/// The longest document that is looked at.
const BYTES_MAX: u64 = 1 << 20;
/// One in so many writes is undone where that is broken on purpose.
const STALE_ONE_IN: u64 = 10;
/// What is known about all jobs.
const KNOWN_FILE: &str = "known.json";
const ERRORS: [i32; 4] = [5, 28, 122, 30]; // EIO, ENOSPC, EDQUOT, EROFS

/// A disk that stops or fails at a given operation.
pub(crate) struct Storage {
    disk: Disk,
    trip: Arc<Mutex<Trip>>,
    rng: Rng,
    sabotage: Sabotage,
    history_max: usize,
    /// The names of documents, by job.
    files: BTreeMap<String, String>,
    /// What was ever durable, by job.
    pub(crate) records: BTreeMap<String, Record>,
    /// Documents as they were when they were last taken in, where one is to be brought back.
    stale: BTreeMap<String, Vec<u8>>,
}

#[derive(Default)]
struct Trip {
    operations: u64,
    crash_at: Option<u64>,
    crashed: bool,
    failing: Option<(u64, u64)>,
    failed: u64,
}

impl Storage {
    pub(crate) fn new(scenario: &Scenario) -> Storage {
        let file = |name: &String| (name.clone(), document_file(name));
        Storage {
            disk: Disk::new(),
            trip: Arc::default(),
            rng: Rng::new(scenario.seed ^ 0xD15C),
            sabotage: scenario.sabotage,
            history_max: scenario.history_max,
            files: scenario.jobs.iter().map(|job| file(&job.name)).collect(),
            records: BTreeMap::new(),
            stale: BTreeMap::new(),
        }
    }

    /// The store as a new daemon opens it.
    pub(crate) fn open(&self) -> Result<Store<Faulty<Disk>>, StoreError> {
        let trip = self.trip.clone();
        let swallowed = match self.sabotage {
            Sabotage::SkipDirectorySync => Some(Operation::SyncDirectory),
            Sabotage::SkipFileSync => Some(Operation::SyncFile),
            _ => None,
        };
        let disk = Faulty::new(self.disk.clone(), move |operation, _| {
            if swallowed == Some(operation) {
                return Fault::Swallowed;
            }
            let mut trip = lock(&trip);
            let crash_at = trip.crash_at;
            trip.pass(operation, crash_at)
        });
        Store::open(disk, self.history_max)
    }

    /// The store as supervisors see it. A daemon's crash is not theirs.
    pub(crate) fn for_supervisors(&self) -> Result<Store<Faulty<Disk>>, StoreError> {
        let trip = self.trip.clone();
        let pass = move |operation, _: &str| lock(&trip).pass(operation, None);
        Store::view(Faulty::new(self.disk.clone(), pass), self.history_max)
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

    /// Operations that failed or were cut short.
    pub(crate) fn failed(&self) -> u64 {
        lock(&self.trip).failed
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
        self.files.get(identity).is_some_and(|file| self.damage_file(file, bits))
    }

    /// Damages what is known about all jobs; whether there was anything.
    pub(crate) fn damage_known(&self, bits: u64) -> bool {
        self.damage_file(KNOWN_FILE, bits)
    }

    fn damage_file(&self, file: &str, bits: u64) -> bool {
        let Ok(Some(contents)) = self.disk.read(file, BYTES_MAX) else { return false };
        let mut bytes = contents.bytes;
        let at = (bits >> 8) as usize % bytes.len().max(1);
        if bits & 1 == 0 {
            bytes.truncate(at);
        } else if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << (bits >> 1 & 7);
        }
        self.disk.put(file, &bytes);
        true
    }

    /// The job whose document has this name.
    pub(crate) fn identity_of(&self, file: &str) -> Option<String> {
        self.files.iter().find(|(_, name)| *name == file).map(|(identity, _)| identity.clone())
    }

    pub(crate) fn empty(&self, file: &str) {
        self.disk.put(file, b"");
    }

    /// Takes in what is recorded about a job now.
    pub(crate) fn take_note(&mut self, identity: &str) {
        let Some(bytes) = self.bytes(identity) else { return };
        match self.records.get_mut(identity) {
            Some(record) => record.take_in(&bytes),
            None => self.records.entry(identity.to_owned()).or_default().take_in(&bytes),
        }
        if self.sabotage == Sabotage::StaleDocument {
            self.bring_back(identity, bytes);
        }
    }

    /// Puts the document before this one back, now and then.
    fn bring_back(&mut self, identity: &str, bytes: Vec<u8>) {
        let stale = self.stale.insert(identity.to_owned(), bytes);
        if let Some(stale) = stale.filter(|_| self.rng.one_in(STALE_ONE_IN)) {
            self.disk.put(&self.files[identity], &stale);
        }
    }

    /// What is recorded as active, by job.
    pub(crate) fn active(&self) -> BTreeMap<String, Vec<Active>> {
        let active = |name: &String| Some((name.clone(), active_of(&self.bytes(name)?)?));
        self.files.keys().filter_map(active).collect()
    }

    fn bytes(&self, identity: &str) -> Option<Vec<u8>> {
        Some(self.disk.read(self.files.get(identity)?, BYTES_MAX).ok()??.bytes)
    }
}

impl Trip {
    fn pass(&mut self, operation: Operation, crash_at: Option<u64>) -> Fault {
        self.operations += 1;
        match crash_at {
            // The last write is torn: half of it is there.
            Some(at) if self.operations == at + 1 && operation == Operation::Write => {
                return Fault::Short;
            }
            Some(at) if self.operations > at => {
                self.crashed = true;
                return Fault::Errno(5);
            }
            _ => {}
        }
        match self.failing {
            Some((from, to)) if self.operations >= from && self.operations < to => {
                self.failed += 1;
                let error = ERRORS[self.operations as usize % ERRORS.len()];
                // A disk that is almost full takes some of what it is given.
                let short = operation == Operation::Write && self.operations.is_multiple_of(3);
                if short { Fault::Short } else { Fault::Errno(error) }
            }
            _ => Fault::None,
        }
    }
}

fn lock(trip: &Mutex<Trip>) -> MutexGuard<'_, Trip> {
    trip.lock().unwrap_or_else(PoisonError::into_inner)
}
