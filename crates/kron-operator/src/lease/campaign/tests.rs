//! The rules as stories: what happens at which millisecond, and what is to be done then.

use super::*;

/// A lease of 15 s: the deadline is 10 s, a write every 2 s, 6 s of quiet.
const DURATION: Duration = Duration::from_secs(15);

struct Story {
    campaign: Campaign,
    base: Instant,
    wall_us: i64,
}

impl Story {
    fn new() -> Story {
        let base = Instant::now();
        let campaign = Campaign::new("me".to_owned(), Pace::of(DURATION), base);
        Story { campaign, base, wall_us: 1_700_000_000_000_000 }
    }

    fn at(&self, ms: u64) -> Instant {
        self.base + Duration::from_millis(ms)
    }

    /// What is to be done at that millisecond, in words.
    fn next(&mut self, ms: u64) -> String {
        self.wall_us += 1;
        let wall = Timestamp::from_microsecond(self.wall_us).unwrap();
        let before = self.campaign.tenure();
        match self.campaign.next(self.at(ms), wall) {
            Step::Read => "read".to_owned(),
            Step::Create(record) => {
                assert_eq!((&*record.holder, record.duration_s), ("me", 15));
                format!("create {}", record.transitions)
            }
            Step::Acquire(Seen { record, version }) => {
                assert_eq!((&*record.holder, record.duration_s), ("me", 15));
                assert!(before.is_none() || self.campaign.tenure().is_none());
                format!("acquire {} over {version}", record.transitions)
            }
            Step::Renew(Seen { record, version }) => {
                assert_eq!((&*record.holder, record.duration_s), ("me", 15));
                assert!(before.is_some());
                format!("renew {} over {version}", record.transitions)
            }
            Step::Wait(until) => format!("wait {}", (until - self.base).as_millis()),
        }
    }

    /// The lease is seen like this.
    fn see(&mut self, ms: u64, seen: &Seen) {
        self.campaign.observed(self.at(ms), Some(seen.clone()));
    }

    /// Asks for the next step, which must be a write, and lets it succeed.
    fn write(&mut self, sent_ms: u64, answered_ms: u64, version: &str) -> Seen {
        self.wall_us += 1;
        let wall = Timestamp::from_microsecond(self.wall_us).unwrap();
        let record = match self.campaign.next(self.at(sent_ms), wall) {
            Step::Create(record) => record,
            Step::Acquire(seen) | Step::Renew(seen) => seen.record,
            other => panic!("no write: {other:?}"),
        };
        let standing = Seen { record, version: version.to_owned() };
        self.campaign.written(self.at(sent_ms), self.at(answered_ms), standing.clone());
        standing
    }

    /// Leads since 0 as the creator of the lease, at version 1.
    fn leading() -> (Story, Seen) {
        let mut story = Story::new();
        story.campaign.observed(story.base, None);
        let standing = story.write(0, 5, "1");
        assert_eq!(story.claimant(5), Some("me/0".to_owned()));
        (story, standing)
    }

    fn claimant(&self, ms: u64) -> Option<String> {
        let tenure = self.campaign.tenure()?;
        (!tenure.remaining(self.at(ms)).is_zero()).then(|| tenure.claimant.to_string())
    }

    fn remaining_ms(&self, ms: u64) -> u128 {
        let now = self.at(ms);
        self.campaign.tenure().map_or(0, |tenure| tenure.remaining(now).as_millis())
    }
}

fn time(text: &str) -> Option<Timestamp> {
    Some(text.parse().unwrap())
}

fn held_by(holder: &str, version: &str) -> Seen {
    let record = Record {
        holder: holder.to_owned(),
        duration_s: 15,
        transitions: 4,
        acquired: time("2026-03-01T00:00:00Z"),
        renewed: time("2026-03-01T00:00:00Z"),
    };
    Seen { record, version: version.to_owned() }
}

#[test]
fn a_lease_that_is_not_there_is_made_and_then_renewed_at_its_pace() {
    let mut story = Story::new();
    assert_eq!(story.next(0), "read");
    story.campaign.observed(story.at(3), None);
    assert_eq!(story.next(3), "create 0");
    let standing = story.write(3, 10, "1");
    assert_eq!(story.claimant(10), Some("me/0".to_owned()));
    // Counted from before the request, not from its answer.
    assert_eq!(story.remaining_ms(10), 9_993);
    assert_eq!(story.next(10), "wait 2003");
    assert_eq!(story.next(2_003), "renew 0 over 1");
    let renewed = story.write(2_003, 2_500, "2");
    assert_eq!(renewed.record.acquired, standing.record.acquired);
    assert_ne!(renewed.record.renewed, standing.record.renewed);
    assert_eq!(story.remaining_ms(2_500), 9_503);
    assert_eq!(story.claimant(2_500), Some("me/0".to_owned()));
}

#[test]
fn a_holder_that_lives_is_waited_for_as_long_as_it_gives_signs() {
    let mut story = Story::new();
    let mut seen = held_by("other", "10");
    for beat in 0..20_u64 {
        let ms = beat * 2_000;
        seen.version = format!("{}", 10 + beat);
        seen.record.renewed = Timestamp::from_second(1_800_000_000 + beat as i64).ok();
        story.see(ms, &seen);
        assert_eq!(story.next(ms), format!("wait {}", ms + 6_000));
        assert_eq!(story.campaign.holder(), Some("other"));
    }
    // Quiet for three beats: perhaps it is the watch that is dead. The same is read again.
    assert_eq!(story.next(44_000), "read");
    story.see(44_001, &seen);
    assert_eq!(story.next(44_001), "wait 50001");
    assert_eq!(story.next(50_001), "read");
    story.see(50_001, &seen);
    assert_eq!(story.next(50_001), "wait 53000");
    assert_eq!(story.next(52_999), "wait 53000");
    assert_eq!(story.next(53_000), "acquire 5 over 29");
    story.write(53_000, 53_004, "30");
    assert_eq!(story.claimant(53_004), Some("me/5".to_owned()));
}

#[test]
fn only_the_own_clock_says_what_is_stale() {
    // Far in the past, far in the future, missing: the other's clock does not matter.
    for renewed in [time("1999-01-01T00:00:00Z"), time("2199-01-01T00:00:00Z"), None] {
        let mut story = Story::new();
        let mut seen = held_by("other", "10");
        seen.record.renewed = renewed;
        story.see(0, &seen);
        story.see(14_990, &seen);
        assert_eq!(story.next(14_999), "wait 15000", "{renewed:?}");
        assert_eq!(story.next(15_000), "acquire 5 over 10", "{renewed:?}");
    }
}

#[test]
fn the_holder_s_own_duration_counts() {
    for (duration_s, stale_ms) in [(60, 60_000), (3, 3_000), (0, 15_000), (-7, 15_000)] {
        let mut story = Story::new();
        let mut seen = held_by("other", "10");
        seen.record.duration_s = duration_s;
        story.see(0, &seen);
        story.see(stale_ms - 1, &seen);
        assert_eq!(story.next(stale_ms - 1), format!("wait {stale_ms}"));
        assert_eq!(story.next(stale_ms), "acquire 5 over 10");
    }
}

#[test]
fn a_change_of_anything_but_the_record_is_no_sign_of_life() {
    let mut story = Story::new();
    story.see(0, &held_by("other", "10"));
    story.see(14_000, &held_by("other", "11"));
    assert_eq!(story.next(15_000), "acquire 5 over 11");
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut story = Story::new();
    story.see(0, &held_by("other", "10"));
    let mut released = held_by("", "11");
    released.record.duration_s = 1;
    story.see(700, &released);
    assert_eq!(story.next(700), "acquire 5 over 11");
    story.write(700, 704, "12");
    assert_eq!(story.claimant(704), Some("me/5".to_owned()));
}

#[test]
fn who_is_beaten_to_it_looks_and_waits() {
    let mut story = Story::new();
    story.see(0, &held_by("", "10"));
    assert_eq!(story.next(0), "acquire 5 over 10");
    story.campaign.refused(story.at(0), story.at(4));
    assert_eq!(story.claimant(4), None);
    assert_eq!(story.next(4), "read");
    story.see(6, &held_by("other", "11"));
    assert_eq!(story.next(6), "wait 6006");
    // A lease that is free again is not raced for in a loop.
    story.see(8, &held_by("", "12"));
    assert_eq!(story.next(8), "wait 2000");
    assert_eq!(story.next(2_000), "acquire 5 over 12");
}

#[test]
fn a_refused_renewal_is_looked_into() {
    // Somebody else has it: the tenure is over at once.
    let (mut story, _) = Story::leading();
    assert_eq!(story.next(2_000), "renew 0 over 1");
    story.campaign.refused(story.at(2_000), story.at(2_010));
    assert_eq!(story.claimant(2_010), Some("me/0".to_owned()));
    assert_eq!(story.next(2_010), "read");
    story.see(2_020, &held_by("other", "2"));
    assert_eq!(story.claimant(2_020), None);
    assert_eq!(story.next(2_020), "wait 8020");

    // It was an own renewal whose answer was lost: the same tenure goes on, in time.
    let (mut story, mut standing) = Story::leading();
    assert_eq!(story.next(2_000), "renew 0 over 1");
    story.campaign.failed(story.at(2_000));
    assert_eq!(story.next(4_000), "renew 0 over 1");
    story.campaign.refused(story.at(4_000), story.at(4_005));
    assert_eq!(story.next(4_005), "read");
    standing.version = "2".to_owned();
    standing.record.renewed = time("2026-03-01T00:00:07Z");
    story.see(4_010, &standing);
    // What was read is no renewal: only a write that was confirmed is.
    assert_eq!(story.remaining_ms(4_010), 5_990);
    assert_eq!(story.next(4_010), "wait 6000");
    assert_eq!(story.next(6_000), "renew 0 over 2");
    story.write(6_000, 6_001, "3");
    assert_eq!(story.remaining_ms(6_001), 9_999);

    // The lease was deleted: over, and the next tenure does not bear the same name.
    let (mut story, _) = Story::leading();
    story.campaign.refused(story.at(2_000), story.at(2_010));
    story.campaign.observed(story.at(2_020), None);
    assert_eq!(story.claimant(2_020), None);
    assert_eq!(story.next(4_000), "create 1");
}

#[test]
fn a_renewal_that_fails_until_the_deadline_ends_the_tenure() {
    let (mut story, standing) = Story::leading();
    for ms in [2_000, 4_000, 6_000, 8_000] {
        assert_eq!(story.next(ms), "renew 0 over 1");
        story.campaign.failed(story.at(ms));
        assert_eq!(story.next(ms), format!("wait {}", ms + 2_000));
    }
    assert_eq!(story.claimant(9_999), Some("me/0".to_owned()));
    assert_eq!(story.campaign.request_until(story.at(9_000)), story.at(10_000));
    assert_eq!(story.next(9_999), "wait 10000");
    // Given up; the tenure is not there any more for anybody.
    assert_eq!(story.next(10_000), "read");
    assert_eq!(story.campaign.tenure(), None);
    // Nobody has taken it meanwhile, so it is taken back at once, as a tenure of its own.
    story.see(10_100, &standing);
    assert_eq!(story.next(10_100), "acquire 1 over 1");
    story.write(10_100, 10_101, "2");
    assert_eq!(story.claimant(10_101), Some("me/1".to_owned()));
}

#[test]
fn a_process_that_was_paused_does_not_lead_when_it_goes_on() {
    // Between two renewals.
    let (mut story, _) = Story::leading();
    assert_eq!(story.claimant(60_000), None);
    assert_eq!(story.next(60_000), "read");
    assert_eq!(story.campaign.tenure(), None);
    story.see(60_001, &held_by("other", "9"));
    assert_eq!(story.next(60_001), "wait 66001");

    // Between the request and its answer, past what the renewal was good for.
    let (mut story, _) = Story::leading();
    let standing = story.write(2_000, 60_000, "2");
    assert_eq!(story.campaign.tenure(), None);
    // It may have been taken since: compare-and-swap says.
    assert_eq!(story.next(60_000), "acquire 1 over 2");
    assert_eq!(standing.record.transitions, 0);

    // The answer is good for a while yet, but the tenure was over before it came.
    let (mut story, _) = Story::leading();
    story.write(8_000, 11_000, "2");
    assert_eq!(story.campaign.tenure(), None);
    assert_eq!(story.next(11_000), "acquire 1 over 2");

    // Between taking the lease and hearing of it.
    let mut story = Story::new();
    story.campaign.observed(story.base, None);
    story.write(0, 10_000, "1");
    assert_eq!(story.campaign.tenure(), None);
    assert_eq!(story.next(10_000), "acquire 1 over 1");

    // Reading does not revive it either.
    let (mut story, standing) = Story::leading();
    story.campaign.refused(story.at(2_000), story.at(2_001));
    story.see(10_000, &standing);
    assert_eq!(story.campaign.tenure(), None);
}

#[test]
fn a_lease_of_the_same_name_from_an_earlier_life_is_waited_for() {
    let mut story = Story::new();
    story.see(0, &held_by("me", "10"));
    assert_eq!(story.next(0), "wait 6000");
    story.see(14_000, &held_by("me", "10"));
    assert_eq!(story.next(14_999), "wait 15000");
    assert_eq!(story.next(15_000), "acquire 5 over 10");
    story.write(15_000, 15_001, "11");
    assert_eq!(story.claimant(15_001), Some("me/5".to_owned()));
    // And one that another process of the same name has taken is lost.
    story.campaign.refused(story.at(17_000), story.at(17_001));
    let mut twin = held_by("me", "12");
    twin.record.transitions = 5;
    story.see(17_002, &twin);
    assert_eq!(story.claimant(17_002), None);
}

#[test]
fn an_attempt_of_unknown_fate_is_repeated_word_for_word_and_known_again() {
    let mut story = Story::new();
    story.see(0, &held_by("", "10"));
    let wall = |us| Timestamp::from_microsecond(us).unwrap();
    let Step::Acquire(first) = story.campaign.next(story.at(0), wall(1)) else { panic!() };
    story.campaign.failed(story.at(0));
    assert_eq!(story.next(0), "wait 2000");
    let Step::Acquire(second) = story.campaign.next(story.at(2_000), wall(2)) else { panic!() };
    assert_eq!(first.record.acquired, second.record.acquired);
    assert_eq!(first.record.transitions, second.record.transitions);
    // The first had arrived after all.
    story.campaign.refused(story.at(2_000), story.at(2_001));
    story.see(2_002, &Seen { version: "11".to_owned(), ..first });
    assert_eq!(story.claimant(2_002), None);
    assert_eq!(story.next(4_000), "acquire 6 over 11");
}

#[test]
fn a_stale_lease_stays_stale_while_taking_it_fails() {
    let mut story = Story::new();
    story.see(0, &held_by("other", "10"));
    story.see(14_000, &held_by("other", "10"));
    assert_eq!(story.next(15_000), "acquire 5 over 10");
    story.campaign.failed(story.at(15_000));
    assert_eq!(story.next(15_001), "wait 17000");
    assert_eq!(story.next(17_000), "acquire 5 over 10");
}

#[test]
fn numbers_of_transitions_go_on_from_what_stands_there() {
    for (found, expected) in [(0, 1), (41, 42), (i32::MAX, 0)] {
        let mut story = Story::new();
        let mut seen = held_by("", "10");
        seen.record.transitions = found;
        story.see(0, &seen);
        assert_eq!(story.next(0), format!("acquire {expected} over 10"));
    }
}

#[test]
fn a_watch_that_breaks_is_made_up_for_by_reading() {
    let mut story = Story::new();
    story.see(0, &held_by("other", "10"));
    story.campaign.unwatched(story.at(500));
    assert_eq!(story.next(500), "wait 2500");
    assert_eq!(story.next(2_500), "read");
    story.campaign.failed(story.at(2_500));
    assert_eq!(story.next(2_501), "wait 4500");
    // An API server that is away does not make a lease any younger.
    for ms in [4_500, 6_500, 8_500, 10_500, 12_500] {
        assert_eq!(story.next(ms), "read");
        story.campaign.failed(story.at(ms));
    }
    assert_eq!(story.next(14_500), "read");
    assert_eq!(story.next(15_000), "acquire 5 over 10");
}

#[test]
fn only_what_is_the_own_is_released() {
    let wall = Timestamp::from_second(1_800_000_000).unwrap();
    let (mut story, standing) = Story::leading();
    let released = story.campaign.release(story.at(100), wall).expect("a release");
    assert_eq!(released.version, "1");
    assert_eq!((&*released.record.holder, released.record.duration_s), ("", 1));
    assert_eq!(released.record.transitions, standing.record.transitions);
    assert_eq!(story.campaign.tenure(), None);
    // Refused, since an own renewal had arrived: what is read then is still the own.
    story.see(110, &Seen { version: "2".to_owned(), ..standing });
    let released = story.campaign.release(story.at(110), wall).expect("a release");
    assert_eq!(released.version, "2");

    let (mut story, _) = Story::leading();
    story.campaign.refused(story.at(2_000), story.at(2_001));
    assert_eq!(story.campaign.release(story.at(2_001), wall), None, "nobody knows whose it is");
    for seen in [held_by("other", "3"), held_by("me", "3"), held_by("", "3")] {
        let mut story = Story::new();
        story.see(0, &seen);
        assert_eq!(story.campaign.release(story.at(1), wall), None, "{seen:?}");
    }
}

#[test]
fn others_never_wait_for_less_than_the_duration() {
    for (duration_ms, duration_s) in [(1_000, 1), (1_001, 2), (15_000, 15), (15_500, 16)] {
        let pace = Pace::of(Duration::from_millis(duration_ms));
        assert_eq!(pace.duration_s(), duration_s);
        assert!(pace.request * 2 <= pace.renew_deadline && pace.renew_deadline < pace.duration);
        assert!(pace.retry * 5 <= pace.renew_deadline);
    }
}

#[test]
fn who_slept_begins_a_new_term() {
    let (mut story, standing) = Story::leading();
    // A renewal, and then an hour of sleep that the monotonic clock does not count.
    assert_eq!(story.next(2_000), "renew 0 over 1");
    story.wall_us += 900_000;
    assert_eq!(story.next(2_001), "renew 0 over 1", "less than a second is no sleep");
    story.wall_us += 3_600_000_000;
    assert_eq!(story.next(2_002), "read");
    assert_eq!(story.claimant(2_002), None);
    story.see(2_003, &standing);
    assert_eq!(story.next(2_003), "acquire 1 over 1");
    let tenure = Story::leading().0.campaign.tenure().unwrap();
    let (then, wall) = tenure.renewed;
    let later = |us: i64| Timestamp::from_microsecond(wall.as_microsecond() + us).unwrap();
    assert!(tenure.is_awake(then, later(1_000_000)));
    assert!(!tenure.is_awake(then, later(1_000_001)));
    assert!(tenure.is_awake(then + Duration::from_secs(5), later(6_000_000)));
    assert!(
        tenure.is_awake(then, later(-3_600_000_000)),
        "a clock that is set back proves nothing"
    );
}
