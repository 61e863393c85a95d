//! A real file system that really loses its power.
//!
//! ext4 on a loop device is shut down, without its journal being written out, while another
//! process commits; then it is mounted again. What was acknowledged must be there. The canary is
//! the same process without directory syncs: it must lose something.

use std::collections::BTreeMap;

use kron_core::UtcSecond;
use kron_state::{RealDirectory, Store};
use kron_testkit::chance::Seeded;
use kron_testkit::loop_mount::{self, LoopMount, Switch};
use kron_testkit::needs::left_out;

use crate::child;
use crate::made::{HISTORY_MAX, left_over, mark, minute};

const ROUNDS: u64 = 20;
const DISK_BYTES: u64 = 16 * 1024 * 1024;
/// Commits that are waited for before the power goes.
const COMMITS_MAX: usize = 40;

/// Lets a child commit, takes the power away, and says what is missing of what it acknowledged.
fn lose_power(role: &str, seed: u64) -> Vec<String> {
    let mut mount = LoopMount::of_bytes(DISK_BYTES);
    let state = mount.path().join("state");
    drop(Store::open(RealDirectory::open(&state).unwrap(), HISTORY_MAX).unwrap());

    let switch = Switch::on(mount.path());
    let mut committing = child::start(role, &state);
    let mut tried: BTreeMap<String, UtcSecond> = BTreeMap::new();
    let mut did: BTreeMap<String, UtcSecond> = BTreeMap::new();
    let mut listen = |said: &str| {
        let words: Vec<&str> = said.split(' ').collect();
        let period = minute(words[2].parse().unwrap());
        let heard = if words[0] == "did" { &mut did } else { &mut tried };
        heard.insert(words[1].to_owned(), period);
    };
    // Between any two lines there is another step of a commit.
    for _ in 0..Seeded(seed).index_below(2 * COMMITS_MAX) {
        listen(&committing.said().expect("it commits until it fails"));
    }
    switch.off();
    while let Some(said) = committing.said() {
        listen(&said);
    }
    committing.dismiss();
    mount.mount_again();

    let directory = RealDirectory::open(&state).unwrap();
    let store = Store::open(directory, HISTORY_MAX).unwrap();
    let scan = store.scan().unwrap();
    assert_eq!(scan.unreadable, [], "round {seed}");
    assert_eq!(left_over(&RealDirectory::open(&state).unwrap()), [""; 0]);
    let mut missing = Vec::new();
    for (job, tried) in &tried {
        let found = mark(&store, job);
        if found < did.get(job).copied() {
            missing.push(format!("{job}: {found:?} instead of {:?}", did.get(job)));
        }
        assert!(found <= Some(*tried), "round {seed}, {job}: what was never written");
    }
    missing
}

#[test]
fn what_was_acknowledged_survives_a_real_power_cut() {
    if left_out("what was acknowledged survives a real power cut", loop_mount::NEEDS) {
        return;
    }
    for round in 0..ROUNDS {
        let missing = lose_power("commit_for_ever", round);
        assert_eq!(missing, [""; 0], "round {round}");
    }
}

#[test]
fn without_directory_syncs_a_real_power_cut_loses_something() {
    if left_out("without directory syncs a real power cut loses something", loop_mount::NEEDS) {
        return;
    }
    let lost = (0..ROUNDS)
        .any(|round| !lose_power("commit_for_ever_without_directory_sync", round).is_empty());
    assert!(lost, "nothing was lost: this test would not see a missing sync");
}
