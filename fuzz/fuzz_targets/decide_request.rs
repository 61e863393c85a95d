//! Requests as JSON: decide, record, and decide again from what was recorded.
#![no_main]

use kron_core::{DecisionRecord, Request, TimingParser};
use kron_fuzz::check_message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = serde_json::from_slice::<Request>(bytes) else { return };
    let mut parser = TimingParser::new();
    let (placement, nominal) = match request.resolve(&mut parser) {
        Ok(resolved) => resolved,
        Err(finding) => return check_message(&finding),
    };
    let decision = match placement.decide(nominal) {
        Ok(decision) => decision,
        Err(finding) => return check_message(&finding),
    };
    assert!((decision.window_start..=decision.window_end).contains(&decision.due()));

    let record = DecisionRecord::of(&placement, &decision);
    let json = serde_json::to_string(&record).expect("a record is JSON");
    assert_eq!(serde_json::from_str::<DecisionRecord>(&json).ok().as_ref(), Some(&record));

    let json = serde_json::to_string(&Request::of(&placement, nominal)).expect("JSON");
    let recorded: Request = serde_json::from_str(&json).expect("a recorded request is a request");
    let (placement, nominal) = recorded.resolve(&mut parser).expect("and a valid one");
    assert_eq!(placement.decide(nominal).as_ref(), Ok(&decision), "{json}");
    assert_eq!(DecisionRecord::of(&placement, &decision), record);
});
