//! A real file system that really loses its power.
//!
//! ext4 on a loop device is shut down, without its journal being written out, while another process
//! puts, starts and ends tasks; then it is mounted again. What was promised must be kept. The
//! canary is the same process without directory syncs: it must break a promise.

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

/// Lets a child live on a spool, takes the power away, and says which promise is not kept.
fn lose_power(role: &str, seed: u64) -> Result<(), String> {
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
    for _ in 0..=Seeded(seed).index_below(PROMISES_MAX) {
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
        assert_eq!(lose_power("live_for_ever", round), Ok(()), "round {round}");
    }
}

#[test]
fn without_directory_syncs_a_real_power_cut_breaks_a_promise() {
    if left_out("without directory syncs a real power cut breaks a promise", loop_mount::NEEDS) {
        return;
    }
    let role = "live_for_ever_without_directory_sync";
    let broken = (0..ROUNDS).any(|round| lose_power(role, round).is_err());
    assert!(broken, "no promise was broken: this test would not see a missing sync");
}
