//! The order in which things are sent, and how many at once.

use super::*;
use crate::plan::NoteKind;

fn second(number: i64) -> UtcSecond {
    UtcSecond::from_unix(1_772_323_200 + number).unwrap()
}

fn claim(work: &mut Work, chosen: i64, identity: &str) {
    work.urgent(second(chosen), Urgent::Claim(identity.into()));
}

fn removal(name: &str) -> Removal {
    Removal { identity: "here/kj".into(), name: name.into(), uid: "uid".into() }
}

fn telling(text: &str) -> Telling {
    let note = Note { kind: NoteKind::Created, period: None, text: text.to_owned() };
    Telling { namespace: "here".into(), name: "kj".into(), uid: "uid".into(), note, at_us: 1 }
}

/// What is sent next, in a word.
fn next(work: &mut Work) -> String {
    match work.next() {
        None => String::new(),
        Some(Item::Urgent(Urgent::Claim(identity))) => format!("claim {identity}"),
        Some(Item::Urgent(Urgent::Start(start))) => format!("start {}", start.identity),
        Some(Item::Store(identity)) => format!("store {identity}"),
        Some(Item::Remove(removal)) => format!("remove {}", removal.name),
        Some(Item::Tell(telling)) => format!("tell {}", telling.note.text),
    }
}

fn all(work: &mut Work) -> Vec<String> {
    std::iter::from_fn(|| Some(next(work)).filter(|word| !word.is_empty())).collect()
}

#[test]
fn the_earliest_chosen_goes_first() {
    let mut work = Work::default();
    for (chosen, identity) in [(7, "c"), (5, "a"), (9, "d"), (5, "b")] {
        claim(&mut work, chosen, identity);
    }
    assert_eq!(all(&mut work), ["claim a", "claim b", "claim c", "claim d"]);
}

#[test]
fn events_come_last_and_statuses_first() {
    let mut work = Work::default();
    work.tell(telling("one"));
    work.remove(removal("old"));
    work.store("x".into());
    work.tell(telling("two"));
    work.store("y".into());
    claim(&mut work, 1, "now");
    assert_eq!(work.depths(), [1, 2, 1, 2]);
    assert_eq!(
        all(&mut work),
        ["claim now", "store x", "store y", "remove old", "tell one", "tell two"]
    );
    assert_eq!(work.depths(), [0; 4]);
}

#[test]
fn nothing_else_is_begun_while_a_start_waits() {
    let mut work = Work::default();
    for number in 0..=FOREGROUND_MAX {
        claim(&mut work, 1, &format!("{number}"));
    }
    work.store("x".into());
    assert_eq!(all(&mut work).len(), FOREGROUND_MAX, "each has a namespace of its own");
    assert_eq!(work.depths()[..2], [1, 1], "the last one waits, and the status behind it");
    work.background_done();
    assert_eq!(next(&mut work), "");
    work.foreground_done("0", Answered::Well);
    assert_eq!(next(&mut work), format!("claim {FOREGROUND_MAX}"));
    assert_eq!(next(&mut work), "store x");
}

#[test]
fn so_many_at_once() {
    let mut work = Work::default();
    for number in 0..2 * BACKGROUND_MAX {
        work.store(format!("{number}").into());
    }
    assert_eq!(all(&mut work).len(), BACKGROUND_MAX);
    // A start does not wait for what is told.
    claim(&mut work, 1, "now");
    assert_eq!(next(&mut work), "claim now");
    work.background_done();
    assert_eq!(next(&mut work), format!("store {BACKGROUND_MAX}"));
    assert_eq!(next(&mut work), "");
}

#[test]
fn events_wait_for_everything_else_and_for_each_other() {
    let mut work = Work::default();
    for number in 0..=TELLING_MAX {
        work.tell(telling(&format!("{number}")));
    }
    for number in 0..=BACKGROUND_MAX {
        work.store(format!("{number}").into());
    }
    let sent = all(&mut work);
    assert_eq!(sent.len(), BACKGROUND_MAX);
    assert!(sent.iter().all(|word| word.starts_with("store")), "{sent:?}");
    work.background_done();
    assert_eq!(next(&mut work), format!("store {BACKGROUND_MAX}"));
    assert_eq!(all(&mut work).len(), TELLING_MAX);
    work.telling_done();
    assert_eq!(next(&mut work), format!("tell {TELLING_MAX}"));
}

#[test]
fn too_many_events_push_the_oldest_out() {
    let mut work = Work::default();
    for number in 0..EVENTS_MAX + 2 {
        work.tell(telling(&format!("{number}")));
    }
    assert_eq!((work.depths()[3], work.dropped), (EVENTS_MAX, 2));
    assert_eq!(next(&mut work), "tell 2");
}

#[test]
fn what_waits_is_forgotten_and_what_is_under_way_is_not() {
    let mut work = Work::default();
    assert!(work.is_settled());
    claim(&mut work, 1, "a");
    claim(&mut work, 2, "b");
    work.store("x".into());
    work.remove(removal("old"));
    work.tell(telling("one"));
    assert_eq!(next(&mut work), "claim a");
    work.clear();
    // What happened is told by whoever saw it.
    assert_eq!(work.depths(), [0, 0, 0, 1]);
    assert!(!work.is_settled());
    work.foreground_done("a", Answered::Well);
    assert!(work.is_settled());
    assert_eq!((work.untold().len(), work.depths()), (1, [0; 4]));
    // An answer too many does not make room for more than there is.
    work.foreground_done("a", Answered::Well);
    for number in 0..=FOREGROUND_MAX {
        claim(&mut work, 1, &format!("{number}"));
    }
    assert_eq!(all(&mut work).len(), FOREGROUND_MAX);
}

#[test]
fn one_namespace_leaves_room_for_the_others() {
    let mut work = Work::default();
    for number in 0..100 {
        claim(&mut work, 1, &format!("busy/{number:02}"));
    }
    claim(&mut work, 2, "calm/one");
    work.store("x".into());
    let sent = all(&mut work);
    assert_eq!(sent.len(), NAMESPACE_MAX + 1, "and no status while starts wait");
    assert_eq!(sent.last().unwrap(), "claim calm/one");
    assert_eq!(work.depths()[0], 100 - NAMESPACE_MAX);
    for number in NAMESPACE_MAX..100 {
        work.foreground_done("busy/any", Answered::Well);
        assert_eq!(next(&mut work), format!("claim busy/{number:02}"), "in their order");
        assert_eq!(next(&mut work), if number < 99 { "" } else { "store x" });
    }
}

#[test]
fn a_namespace_in_trouble_keeps_nobody_waiting() {
    let mut work = Work::default();
    for number in 0..100 {
        claim(&mut work, 1, &format!("stuck/{number}"));
    }
    assert_eq!(all(&mut work).len(), NAMESPACE_MAX);
    work.store("x".into());
    work.tell(telling("one"));
    assert_eq!(next(&mut work), "");
    for _ in 0..NAMESPACE_MAX {
        work.foreground_done("stuck/any", Answered::Badly);
    }
    // It goes on with a few, though others came later; and the rest goes on as well.
    claim(&mut work, 9, "sound/one");
    let sent = all(&mut work);
    assert_eq!(
        sent.iter().filter(|word| word.starts_with("claim stuck")).count(),
        TROUBLED_EACH_MAX
    );
    assert_eq!(sent[TROUBLED_EACH_MAX..], ["claim sound/one", "store x", "tell one"]);
    work.foreground_done("stuck/any", Answered::Badly);
    assert_eq!(all(&mut work).len(), 1);
    work.foreground_done("stuck/any", Answered::NotSent);
    assert_eq!(all(&mut work).len(), 1, "what was not sent proves nothing");
    // One that succeeds ends the trouble.
    work.foreground_done("stuck/any", Answered::Well);
    assert_eq!(all(&mut work).len(), NAMESPACE_MAX - (TROUBLED_EACH_MAX - 1));
}

#[test]
fn many_namespaces_in_trouble_share_what_there_is() {
    let mut work = Work::default();
    for number in 0..10 {
        for job in 0..10 {
            claim(&mut work, 1, &format!("stuck-{number}/{job}"));
        }
        // As after an answer that did not come.
        lane_of(&mut work.lanes, &format!("stuck-{number}/any")).in_trouble = true;
    }
    assert_eq!(all(&mut work).len(), TROUBLED_MAX);
    claim(&mut work, 9, "sound/one");
    assert_eq!(next(&mut work), "claim sound/one");
    let mut sent = TROUBLED_MAX;
    let busy = |work: &Work| {
        let mut lanes = work.lanes.iter();
        let busy = lanes.find(|(_, lane)| lane.in_trouble && lane.under_way > 0);
        busy.map(|(namespace, _)| namespace.clone())
    };
    while let Some(namespace) = busy(&work) {
        work.foreground_done(&namespace, Answered::Badly);
        sent += all(&mut work).len();
        let under_way = work.lanes.values().filter(|lane| lane.in_trouble);
        let under_way: Vec<usize> = under_way.map(|lane| lane.under_way).collect();
        assert!(under_way.iter().all(|number| *number <= TROUBLED_EACH_MAX), "{under_way:?}");
        assert!(under_way.iter().sum::<usize>() <= TROUBLED_MAX, "{under_way:?}");
    }
    assert_eq!((sent, work.depths()[0]), (100, 0), "none is forgotten");
    work.clear();
    assert!(work.lanes.values().all(|lane| !lane.in_trouble));
}
