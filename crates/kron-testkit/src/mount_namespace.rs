//! A mount namespace of a test's own.
//!
//! No other process of the machine copies a mount of it into its own namespace and keeps it alive, and
//! the kernel unmounts everything in it when the last process in it has ended, also when that is killed.

use nix::sched::{CloneFlags, unshare};

use crate::needs::Need;
use crate::programs::must_run;

/// Moves the calling thread, and the threads and processes that it starts from then on, into a new
/// mount namespace, from which no mount reaches another one.
pub(crate) fn enter(need: Need) {
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    must_run(need, "mount", &["--make-rprivate", "/"]);
}
