//! A real file system that really loses its power.
//!
//! ext4 on a loop device is shut down, without its journal being written out, while another process
//! puts, starts and ends tasks; then it is mounted again. What was promised must be kept. The
//! canary is a process that puts a task without a directory sync and ends: its promise must be broken.

use std::path::Path;

use crate::child;
use crate::made::{open, recover};
use crate::promises::{Listing, Promises};
use kron_spool::Fate;
use kron_testkit::chance::Seeded;
use kron_testkit::loop_mount::{self, LoopMount, Switch};
use kron_testkit::needs::left_out;

const ROUNDS: u64 = 8;
const DISK_BYTES: u64 = 16 * 1024 * 1024;
/// Promises that are waited for before the power goes.
const PROMISES_MAX: usize = 120;

/// Lets a child live on a spool, takes the power away after so many promises, and says which one is
/// not kept.
fn lose_power(role: &str, promises_heard: usize) -> Result<(), String> {
    let mut mount = LoopMount::of_bytes(DISK_BYTES);
    let path = mount.path().join("spool");
    drop(open(&path));
    let switch = Switch::on(mount.path());
    let mut living = child::start(role, &path);
    let mut promises = Promises::default();
    let mut listen = |said: &str| {
        let (name, promise) = said.split_once(' ').expect("a promise");
        promises.tell(name, promise.parse().unwrap());
    };
    for _ in 0..promises_heard {
        listen(&living.said().expect("it lives until it fails"));
    }
    switch.off();
    while let Some(said) = living.said() {
        listen(&said);
    }
    drop(living);
    mount.mount_again();
    check(&path, &promises)
}

fn check(path: &Path, promises: &Promises) -> Result<(), String> {
    let spool = open(path);
    recover(&spool, Fate::Lost).map_err(|error| error.to_string())?;
    promises.check(&Listing::of(path))
}

#[test]
fn what_was_promised_survives_a_real_power_cut() {
    if left_out("what was promised survives a real power cut", loop_mount::NEEDS) {
        return;
    }
    for round in 0..ROUNDS {
        let promises_heard = 1 + Seeded(round).index_below(PROMISES_MAX);
        let kept = lose_power("live_for_ever", promises_heard);
        assert_eq!(kept, Ok(()), "round {round}");
    }
}

#[test]
fn without_directory_syncs_a_real_power_cut_breaks_a_promise() {
    if left_out("without directory syncs a real power cut breaks a promise", loop_mount::NEEDS) {
        return;
    }
    // Any later sync would make the name durable, too, so that the power must go before there is one.
    // Only a sync of the whole machine by somebody else can come between.
    let role = "put_one_without_directory_sync";
    let broken = (0..ROUNDS).any(|_| lose_power(role, 1).is_err());
    assert!(broken, "no promise was broken: this test would not see a missing sync");
}
