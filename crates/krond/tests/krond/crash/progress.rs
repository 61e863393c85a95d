//! A bound for loops that go on until enough has happened, on a machine of any speed.

use std::fmt;
use std::time::Instant;

use kron_testkit::waiting::{PATIENCE, now};

/// What has happened so far, and since when it has been the same.
pub(crate) struct Progress<T> {
    counts: T,
    since: Instant,
}

impl<T: PartialEq + fmt::Debug> Progress<T> {
    pub(crate) fn new(counts: T) -> Progress<T> {
        Progress { counts, since: now() }
    }

    /// Takes note of what has happened by now.
    ///
    /// # Panics
    ///
    /// If nothing more has happened for [`PATIENCE`].
    #[track_caller]
    pub(crate) fn note(&mut self, counts: T) {
        if counts != self.counts {
            *self = Progress::new(counts);
        }
        let Progress { counts, since } = self;
        assert!(now() < *since + PATIENCE, "nothing more within {PATIENCE:?}: {counts:?}");
    }
}
