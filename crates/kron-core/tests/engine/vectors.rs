//! Frozen decisions and nominal times.
//!
//! The files under `tests/data` were written by the oracles under `tests/oracle`, which share no
//! code with the engine. What they say is the contract: a difference is a change of behaviour
//! that needs a new major version, and never a reason to write the files again.

use kron_core::{DecisionRecord, Host, Request, TimingParser, UtcSecond, tzdb_version};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const DECISIONS: &str = include_str!("../data/decisions.jsonl");
const NOMINALS: &str = include_str!("../data/nominals.jsonl");

#[test]
fn the_vectors_are_the_ones_that_were_frozen() {
    let check = |name: &str, text: &str, frozen: &str| {
        let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, frozen, "{name} has changed: its contents are a promise to users");
    };
    check(
        "decisions.jsonl",
        DECISIONS,
        "0a417668cbd250ac0d65c50ca69bcd0787d9f136e224a3d0dd78b411717f2d1d",
    );
    check(
        "nominals.jsonl",
        NOMINALS,
        "b9cadbd4480a83bb2ad0b05408edd1256f961b4db173f0f56b6817fcf9e8fd3f",
    );
}

#[derive(Deserialize)]
struct DecisionVector {
    note: String,
    request: Request,
    decision: Value,
}

#[test]
fn every_frozen_decision_is_made_again() {
    let mut parser = TimingParser::new();
    let mut count = 0;
    for line in DECISIONS.lines() {
        let DecisionVector { note, request, mut decision } = serde_json::from_str(line).unwrap();
        // A new zone database is a new input, which is named but does not invalidate the rest.
        decision["tzdb"] = tzdb_version().into();
        let (placement, nominal) = request.resolve(&mut parser).expect(&note);
        let made = placement.decide(nominal).expect(&note);
        let record = serde_json::to_value(DecisionRecord::of(&placement, &made)).unwrap();
        for (field, expected) in decision.as_object().unwrap() {
            assert_eq!(&record[field], expected, "{note}: {field}");
        }
        assert_eq!(record, decision, "{note}: fields that nobody expected");
        let (traced, attempts) = placement.trace(nominal).expect(&note);
        assert_eq!(traced, made, "{note}: an explained decision is the decision");
        assert_eq!(attempts.len(), made.attempts.max(1) as usize, "{note}: attempts explained");
        let (again, _) = Request::of(&placement, nominal).resolve(&mut parser).expect(&note);
        let again = DecisionRecord::of(&again, &again.decide(nominal).expect(&note));
        assert_eq!(
            serde_json::to_value(again).unwrap(),
            record,
            "{note}: replayed from its record"
        );
        count += 1;
    }
    assert_eq!(count, 144);
}

#[derive(Deserialize)]
struct NominalVector {
    note: String,
    expression: String,
    #[serde(default)]
    identity: Option<String>,
    after: String,
    nominals: Vec<String>,
    /// Whether there is none after the last of them.
    #[serde(default)]
    ends: bool,
}

#[test]
fn every_frozen_nominal_time_is_found_from_both_sides() {
    let mut parser = TimingParser::new();
    let mut count = 0;
    for line in NOMINALS.lines() {
        let vector: NominalVector = serde_json::from_str(line).unwrap();
        let note = &vector.note;
        let identity = vector.identity.as_deref().unwrap_or("any");
        let timing = parser.parse(&vector.expression, identity, Host::default()).expect(note);
        let schedule = timing.schedule();
        let after: UtcSecond = vector.after.parse().unwrap();
        let nominals: Vec<UtcSecond> =
            vector.nominals.iter().map(|text| text.parse().unwrap()).collect();

        let walked: Vec<UtcSecond> = schedule.after(after).take(nominals.len()).collect();
        assert_eq!(walked, nominals, "{note}: walking");
        let mut before = after;
        for &nominal in &nominals {
            let second = |t: UtcSecond, by| t.checked_add(by).unwrap();
            assert_eq!(schedule.next_after(before), Some(nominal), "{note}: after {before}");
            assert_eq!(
                schedule.next_after(second(nominal, -1)),
                Some(nominal),
                "{note}: a second before {nominal}"
            );
            assert_eq!(schedule.prev_at_or_before(nominal), Some(nominal), "{note}: at {nominal}");
            let previous = schedule.prev_at_or_before(second(nominal, -1));
            if before == after {
                assert!(previous.is_none_or(|previous| previous <= after), "{note}: {previous:?}");
            } else {
                assert_eq!(previous, Some(before), "{note}: a second before {nominal}");
            }
            before = nominal;
        }
        if vector.ends {
            assert_eq!(schedule.next_after(before), None, "{note}: the end");
        }
        count += 1;
    }
    assert_eq!(count, 108);
}

/// The hash is recorded with every job, and a change of it means that every job was edited. The
/// expected values are SHA-256 of the parts that decide, one a line, worked out apart from the
/// engine.
#[test]
fn decision_hashes_are_the_ones_that_were_frozen() {
    let check = |identity: &str, expression: &str, frozen: &str| {
        let timing = TimingParser::new().parse(expression, identity, Host::default()).unwrap();
        assert_eq!(timing.decision_hash().to_string(), frozen, "{expression}");
    };
    check("job", "0 3 * * *", "62855226e1906ae8dd4660af6cf82c4c6d4bcf55a0a7005987e9570a4bd0d5c5");
    check(
        "job",
        "0 3 * * * @dst(overlap=first)",
        "62855226e1906ae8dd4660af6cf82c4c6d4bcf55a0a7005987e9570a4bd0d5c5",
    );
    check(
        "job",
        "0 3 * * * @win(before,0s) @dist(skewEarly) @seed(fixed,salt=x)",
        "62855226e1906ae8dd4660af6cf82c4c6d4bcf55a0a7005987e9570a4bd0d5c5",
    );
    check(
        "job",
        "*/5 * * * * @policy(deadline=5m)",
        "0eaccf2e74166673d67c47b28f08e7f16d90720b5f6544c8ecdb41ee64255860",
    );
    check(
        "prod/db",
        "0 3 * * 1-5 @tz(Europe/Paris) @win(around,90m) @dist(normal) @seed(weekly,salt=\"a b\")",
        "d694dcf4711a1a18cb1a5e5d189f183e097e968514af617a4b20c3a5a95f93d6",
    );
    check(
        "prod/db",
        "0 3 * * 1-5 @tz(Europe/Paris) @win(around,90m) @dist(normal,mu=nominal,sigma=15m) @seed(weekly,salt=\"a b\")",
        "d694dcf4711a1a18cb1a5e5d189f183e097e968514af617a4b20c3a5a95f93d6",
    );
    check(
        "job",
        "0 3 * * * @win(after,1h) @dist(exponential,dir=late) @only(hours=3;dow=MON) @avoid(date=2026-12-25) @dst(gap=skip,overlap=last)",
        "dea9369e870690af4a282e3f6133c0ebb75b2822adcfc8af01e56175f493c483",
    );
}
