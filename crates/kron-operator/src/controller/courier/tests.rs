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

#[tokio::test]
async fn only_the_term_that_claimed_may_send_and_only_while_it_lasts() {
    let patience = Duration::from_secs(30);
    let limit = |claimant: &str, left: Duration| courier("one/7", left).limit(claimant);
    assert_eq!(limit("one/7", patience).unwrap(), PATIENCE);
    let left = limit("one/7", Duration::from_secs(5)).unwrap();
    assert!(left <= Duration::from_secs(5) && left > Duration::from_secs(3), "{left:?}");
    for (claimant, left) in [
        // The same process, in an earlier or a later term of its own.
        ("one/6", patience),
        ("one/8", patience),
        ("two/7", patience),
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
