//! Whole expressions: findings in place, print and parse again, decisions inside their windows.
#![no_main]

use kron_core::{Host, TimingParser, UtcSecond};
use kron_fuzz::{IDENTITY, check_finding};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut parser = TimingParser::new();
    let host = Host { name: Some("web-1"), machine_id: Some("0123456789abcdef") };
    let timing = match parser.parse(text, IDENTITY, host) {
        Ok(timing) => timing,
        Err(findings) => {
            assert!(!findings.is_empty());
            return findings.iter().for_each(|finding| check_finding(text, finding));
        }
    };
    let printed = timing.to_string();
    // The host's names were put into the salt, so the printed text needs none.
    let again = parser.parse(&printed, IDENTITY, Host::default()).expect("printed text is valid");
    assert_eq!(again, timing, "{printed}");
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.decision_hash(), timing.decision_hash());

    let start = UtcSecond::from_unix(1_774_742_400).unwrap();
    let mut due = None;
    for decision in timing.due_after(start).take(4) {
        assert!(decision.window_start <= decision.nominal);
        assert!(decision.nominal <= decision.window_end);
        assert!((decision.window_start..=decision.window_end).contains(&decision.due()));
        assert!(decision.due() > start && Some(decision.due()) >= due, "{printed}");
        due = Some(decision.due());
    }
});
