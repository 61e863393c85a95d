//! Who may send, for how long, and what becomes of a refusal.

use super::super::tests::nowhere;
use super::*;

fn courier(claimant: &str, left: Duration) -> Courier {
    Courier {
        client: nowhere(),
        leadership: Leadership::lasting(claimant, left),
        metrics: Arc::default(),
        instance: "one".into(),
    }
}

#[test]
fn a_request_may_take_as_long_as_the_tenure_lasts_and_no_longer_than_any() {
    let now = Instant::now();
    for (left, expected) in [
        (Duration::from_secs(3600), Some(PATIENCE)),
        (PATIENCE, Some(PATIENCE)),
        (Duration::from_secs(5), Some(Duration::from_secs(5))),
        (LEASE_LEFT_MIN, Some(LEASE_LEFT_MIN)),
        (LEASE_LEFT_MIN - Duration::from_millis(1), None),
        (Duration::ZERO, None),
    ] {
        let limit = limit_within(&Tenure::lasting("one/7", left, now), "one/7", now);
        assert_eq!(limit.ok(), expected, "{left:?}");
    }
}

#[tokio::test]
async fn only_the_term_that_claimed_may_send_and_only_while_it_lasts() {
    // Longer than any stall of a busy machine.
    let long = Duration::from_secs(3600);
    let limit = |claimant: &str, left: Duration| courier("one/7", left).limit(claimant);
    assert_eq!(limit("one/7", long).unwrap(), PATIENCE);
    for (claimant, left) in [
        // The same process, in an earlier or a later term of its own.
        ("one/6", long),
        ("one/8", long),
        ("two/7", long),
        ("one/7", Duration::from_millis(100)),
        ("one/7", Duration::ZERO),
    ] {
        assert!(matches!(limit(claimant, left), Err(Refusal::NotLeading)), "{claimant} {left:?}");
    }
}

#[test]
fn what_a_refusal_means() {
    let answer = |code: u16| Refusal::Answer {
        code,
        exists: false,
        message: String::new(),
        retry_after: None,
    };
    for (refusal, definite, put_off, answered) in [
        (answer(400), true, false, Answered::Well),
        (answer(403), true, false, Answered::Well),
        (answer(409), false, true, Answered::Well),
        (answer(422), true, false, Answered::Well),
        (answer(429), false, true, Answered::Badly),
        (answer(500), false, false, Answered::Badly),
        (answer(504), false, false, Answered::Badly),
        (Refusal::Silence(String::new()), false, false, Answered::Badly),
        (Refusal::NotLeading, false, false, Answered::NotSent),
        (Refusal::Foreign(String::new()), true, false, Answered::Well),
    ] {
        let told = (refusal.is_definite(), refusal.is_put_off(), refusal.answered());
        assert_eq!(told, (definite, put_off, answered), "{refusal:?}");
    }
}
