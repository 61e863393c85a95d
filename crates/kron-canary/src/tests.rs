//! Names of canaries, and what a wrong one does.

use std::process::Command;

use super::*;

#[test]
fn every_canary_is_chosen_by_its_name() {
    for canary in Canary::ALL {
        assert_eq!(canary.name().parse(), Ok(*canary));
    }
    let unknown = "mark-moves".parse::<Canary>().unwrap_err().to_string();
    assert!(unknown.starts_with("there is no canary `mark-moves`; there are "), "{unknown}");
    assert!(unknown.contains(", mark-moves-back, "), "{unknown}");
}

/// The next test runs this one, too, with each of its names.
#[test]
fn only_the_chosen_canary_is_active() {
    let name = std::env::var_os(VARIABLE).unwrap_or_default();
    for canary in Canary::ALL {
        assert_eq!(canary.is_active(), name == canary.name());
    }
}

#[test]
fn a_wrong_name_ends_the_process() {
    for (name, expected) in [("", ""), ("mark-moves-back", ""), ("mark", "no canary `mark`")] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::only_the_chosen_canary_is_active", "--nocapture"])
            .env(VARIABLE, name)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.success(), expected.is_empty(), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
    }
}
