//! The daemon's own state machine in seeded worlds, judged by a checker that shares no code with
//! it. The long version is `cargo run --release -p kron-sim -- --job-years 1000000`.

use kron_sim::{Sabotage, Scenario, Tell, run};

/// Histories that the suite plays.
const SEEDS: u64 = 250;

#[test]
fn no_history_has_a_fault() {
    let (mut executed, mut lives, mut years) = (0, 0, 0.0);
    for seed in 0..SEEDS {
        let scenario = Scenario::new(seed);
        years += scenario.job_years();
        let outcome = run(scenario, Tell::Nothing);
        let faults: Vec<String> = outcome.faults.iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "seed {seed}: {faults:#?}");
        executed += outcome.executed;
        lives += outcome.lives;
    }
    println!("{SEEDS} histories, {years:.0} job-years, {executed} executions, {lives} daemons");
    // A world in which nothing happens proves nothing.
    assert!(executed > 20_000 && lives > 1_000, "{executed} executions, {lives} daemons");
}

#[test]
fn a_seed_repeats_its_history_exactly() {
    for seed in [3, 17, 42, 99, 1_000_003] {
        let first = run(Scenario::new(seed), Tell::Everything);
        let second = run(Scenario::new(seed), Tell::Everything);
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.story, second.story, "seed {seed}");
    }
    assert_ne!(
        run(Scenario::new(1), Tell::Nothing).trace,
        run(Scenario::new(2), Tell::Nothing).trace
    );
}

/// Seeds after which a broken guarantee must have been noticed.
const CANARY_SEEDS: u64 = 200;

#[test]
fn a_broken_guarantee_is_noticed() {
    let canaries = [
        (Sabotage::SkipDirectorySync, "twice"),
        (Sabotage::SkipFileSync, ""),
        (Sabotage::ReleaseBeforeRecord, ""),
        (Sabotage::ForgetMarks, ""),
        (Sabotage::OpenGate, ""),
        (Sabotage::IgnoreRunRecords, "is recorded"),
    ];
    for (sabotage, word) in canaries {
        let noticed = (0..CANARY_SEEDS).find_map(|seed| {
            let mut scenario = Scenario::new(seed);
            scenario.sabotage = sabotage;
            let outcome = run(scenario, Tell::Nothing);
            let fault = outcome.faults.iter().map(ToString::to_string).find(|f| f.contains(word));
            fault.map(|fault| (seed, fault))
        });
        let (seed, fault) = noticed.unwrap_or_else(|| panic!("nobody noticed {sabotage:?}"));
        println!("{sabotage:?} is noticed by seed {seed}: {fault}");
    }
}
