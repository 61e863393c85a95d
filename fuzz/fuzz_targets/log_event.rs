//! Lines of a log: an event that is read prints as one that reads the same, and replays alike.
#![no_main]

use kron_core::{DecisionEvent, TimingParser};
use kron_fuzz::check_message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    let mut parser = TimingParser::new();
    match DecisionEvent::parse(line) {
        Err(finding) => check_message(&finding),
        Ok(None) => {}
        Ok(Some(event)) => {
            let again =
                DecisionEvent::parse(&event.to_json()).expect("readable").expect("an event");
            assert_eq!(again, event);
            match (event.replay(&mut parser), again.replay(&mut parser)) {
                (Ok(first), Ok(second)) => assert_eq!(first, second),
                (Err(finding), Err(_)) => check_message(&finding),
                _ => panic!("one replays and the other does not"),
            }
        }
    }
});
