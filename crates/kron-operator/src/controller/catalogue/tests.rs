//! What the picture keeps, and what it lets go.

use serde_json::{Value, json};

use super::super::watched::{WatchedJob, WatchedKronJob};
use super::*;

const NOW: &str = "2026-03-01T00:00:10Z";

fn second(text: &str) -> UtcSecond {
    text.parse().unwrap()
}

fn kronjob(name: &str, change: impl FnOnce(&mut Value)) -> Change {
    let mut object = json!({
        "metadata": {
            "namespace": "here", "name": name, "uid": "k1", "generation": 1,
            "resourceVersion": "100", "creationTimestamp": "2026-03-01T00:00:00Z",
        },
        "spec": { "schedule": "*/10 * * * *", "jobTemplate": { "spec": {} } },
    });
    change(&mut object);
    let watched: WatchedKronJob = serde_json::from_value(object).unwrap();
    Change::KronJob(Box::new(watched))
}

fn version(version: &str) -> impl FnOnce(&mut Value) {
    let version = version.to_owned();
    move |object| object["metadata"]["resourceVersion"] = version.into()
}

fn job(uid: &str, change: impl FnOnce(&mut Value)) -> Change {
    let mut object = json!({
        "metadata": {
            "namespace": "here", "name": format!("kj-{uid}"), "uid": uid,
            "resourceVersion": "200", "creationTimestamp": "2026-03-01T00:10:00Z",
            "labels": { "kron.dev/kronjob": "kj", "kron.dev/period": "20260301T001000Z" },
            "annotations": { "kron.dev/chosen-time": "2026-03-01T00:10:00Z" },
            "ownerReferences": [{
                "apiVersion": "kron.dev/v1alpha1", "kind": "KronJob", "name": "kj", "uid": "k1",
                "controller": true,
            }],
        },
        "status": {},
    });
    change(&mut object);
    let watched: WatchedJob = serde_json::from_value(object).unwrap();
    Change::Job(Box::new(watched))
}

struct Picture {
    catalogue: Catalogue,
    parser: TimingParser,
}

impl Picture {
    fn new(namespaces: &[&str]) -> Picture {
        let namespaces = namespaces.iter().map(|&name| name.to_owned()).collect();
        Picture { catalogue: Catalogue::new(namespaces), parser: TimingParser::new() }
    }

    /// The KronJobs to be looked at.
    fn take(&mut self, change: Change) -> Vec<String> {
        let looked = self.catalogue.take_in(change, &mut self.parser, second(NOW));
        looked.iter().map(ToString::to_string).collect()
    }

    fn list(&mut self, kind: Listed, scope: usize, changes: Vec<Change>) {
        let list = List { kind, scope };
        self.take(Change::ListBegun(list));
        for change in changes {
            self.take(change);
        }
        self.take(Change::ListRead(list));
    }

    fn kept(&self, identity: &str) -> Option<&str> {
        self.catalogue.get(identity).map(|entry| &*entry.kept.version)
    }

    fn jobs(&self) -> Vec<String> {
        self.catalogue.jobs_of("here/kj").iter().map(|job| job.uid.to_string()).collect()
    }
}

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let mut picture = Picture::new(&[]);
    assert_eq!(picture.take(kronjob("kj", version("100"))), ["here/kj"]);
    assert_eq!(picture.take(kronjob("kj", version("102"))), ["here/kj"]);
    for old in ["100", "99", "102", "9"] {
        assert_eq!(picture.take(kronjob("kj", version(old))), [""; 0], "{old}");
        assert_eq!(picture.kept("here/kj"), Some("102"));
    }
    assert_eq!(picture.take(kronjob("kj", version("1000"))), ["here/kj"], "they are numbers");
}

#[test]
fn the_echo_of_what_was_stored_is_not_looked_at() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", version("100")));
    // As the controller notes it when its own status is stored.
    picture.catalogue.get_mut("here/kj").unwrap().kept.version = "105".into();
    picture.catalogue.get_mut("here/kj").unwrap().attempts = 3;
    assert_eq!(picture.take(kronjob("kj", version("105"))), [""; 0]);
    assert_eq!(picture.take(kronjob("kj", version("104"))), [""; 0]);
    assert_eq!(picture.take(kronjob("kj", version("106"))), ["here/kj"]);
    assert_eq!(picture.catalogue.get("here/kj").unwrap().attempts, 3, "the spec is the same");
}

#[test]
fn an_edit_ends_a_pause_and_what_was_judged() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", version("100")));
    let entry = picture.catalogue.get_mut("here/kj").unwrap();
    entry.doing = Doing::Paused { number: 1 };
    entry.trouble = Some("no room".into());
    entry.judged = Some(second(NOW));
    picture.take(kronjob("kj", version("101")));
    let entry = picture.catalogue.get("here/kj").unwrap();
    assert_eq!((entry.doing, entry.judged.is_some()), (Doing::Paused { number: 1 }, true));
    picture.take(kronjob("kj", |object| {
        version("102")(object);
        object["metadata"]["generation"] = 2.into();
        object["spec"]["schedule"] = "0 3 * * *".into();
    }));
    let entry = picture.catalogue.get("here/kj").unwrap();
    assert_eq!((entry.doing, entry.judged, &entry.trouble), (Doing::Nothing, None, &None));
    let definition = entry.kept.definition.as_ref().unwrap();
    assert_eq!(definition.timing.schedule().pattern().to_string(), "0 3 * * *");
}

#[test]
fn another_uid_is_another_kronjob() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |object| {
        version("500")(object);
        object["status"] = json!({ "lastHandledPeriod": "2026-03-01T00:00:00Z" });
    }));
    picture.take(job("j1", |_| {}));
    assert_eq!(picture.jobs(), ["j1"]);
    picture.catalogue.get_mut("here/kj").unwrap().doing = Doing::Paused { number: 1 };
    // It was deleted and made anew; what the watch shows of the old one comes late.
    let looked = picture.take(kronjob("kj", |object| {
        version("90")(object);
        object["metadata"]["uid"] = "k2".into();
    }));
    assert_eq!(looked, ["here/kj"]);
    let entry = picture.catalogue.get("here/kj").unwrap();
    assert_eq!((&*entry.kept.uid, entry.doing), ("k2", Doing::Nothing));
    assert_eq!(entry.kept.status.last_handled_period, None);
    assert_eq!(picture.jobs(), [""; 0], "Jobs of the earlier one do not count");
    let gone = |uid: &str| Change::KronJobGone { identity: "here/kj".into(), uid: uid.into() };
    picture.take(gone("k1"));
    assert!(picture.kept("here/kj").is_some(), "the earlier one is gone, not this");
    picture.take(gone("k2"));
    assert_eq!(picture.kept("here/kj"), None);
}

#[test]
fn a_list_sweeps_what_is_gone() {
    let mut picture = Picture::new(&[]);
    for name in ["kj", "other", "gone"] {
        picture.take(kronjob(name, |_| {}));
    }
    for uid in ["j1", "j2"] {
        picture.take(job(uid, |_| {}));
    }
    let there = vec![kronjob("kj", |_| {}), kronjob("other", |_| {})];
    picture.list(Listed::KronJobs, 0, there);
    assert_eq!((picture.catalogue.len(), picture.kept("here/gone")), (2, None));
    assert_eq!(picture.jobs().len(), 2, "Jobs have a list of their own");
    picture.list(Listed::Jobs, 0, vec![job("j2", |_| {})]);
    assert_eq!(picture.jobs(), ["j2"]);
}

#[test]
fn a_list_spares_what_was_made_meanwhile() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |_| {}));
    picture.take(job("old", |_| {}));
    let list = List { kind: Listed::Jobs, scope: 0 };
    picture.take(Change::ListBegun(list));
    // The answer to a start arrives while the list, which is older, is read.
    assert_eq!(picture.take(job("new", |_| {})), ["here/kj"]);
    assert_eq!(picture.take(Change::ListRead(list)), ["here/kj"]);
    assert_eq!(picture.jobs(), ["new"]);
}

/// A Job may be gone before its period is recorded; that it was made must not be forgotten.
#[test]
fn what_was_made_here_counts_until_it_is_recorded() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |_| {}));
    picture.take(job("j1", |_| {}));
    let made = picture.catalogue.jobs_of("here/kj").remove(0);
    picture.catalogue.get_mut("here/kj").unwrap().made = Some(made);
    assert_eq!(picture.jobs(), ["j1"], "once");
    picture.take(Change::JobGone { owner: "here/kj".into(), uid: "j1".into() });
    let jobs = picture.catalogue.jobs_of("here/kj");
    assert_eq!((jobs.len(), jobs[0].deleting), (1, true), "it is no longer active");
    picture.take(kronjob("kj", |object| {
        version("101")(object);
        object["status"] = json!({ "lastHandledPeriod": "2026-03-01T00:10:00Z" });
    }));
    assert_eq!(picture.jobs(), [""; 0], "recorded");
}

#[test]
fn a_list_sweeps_its_own_namespace() {
    let mut picture = Picture::new(&["here", "there"]);
    picture.take(kronjob("kj", |_| {}));
    picture.take(kronjob("kj", |object| object["metadata"]["namespace"] = "there".into()));
    picture.take(job("j1", |_| {}));
    picture.list(Listed::KronJobs, 1, Vec::new());
    picture.list(Listed::Jobs, 1, Vec::new());
    assert!(picture.kept("here/kj").is_some() && picture.kept("there/kj").is_none());
    assert_eq!(picture.jobs(), ["j1"]);
}

#[test]
fn it_is_filled_when_every_list_was_read_once() {
    let mut picture = Picture::new(&["here", "there"]);
    let lists =
        [(Listed::KronJobs, 0), (Listed::Jobs, 0), (Listed::KronJobs, 1), (Listed::Jobs, 1)];
    for (kind, scope) in lists {
        assert!(!picture.catalogue.is_filled());
        let list = List { kind, scope };
        picture.take(Change::ListBegun(list));
        picture.take(Change::ListRead(list));
    }
    assert!(picture.catalogue.is_filled());
    picture.list(Listed::Jobs, 0, Vec::new());
    assert!(picture.catalogue.is_filled());
    // A namespace whose lists are read does not wait for one whose lists are not.
    let mut picture = Picture::new(&["here", "there"]);
    picture.list(Listed::KronJobs, 1, Vec::new());
    picture.list(Listed::KronJobs, 1, Vec::new());
    assert!(!picture.catalogue.is_read("there/kj") && !picture.catalogue.is_partly_filled());
    picture.list(Listed::Jobs, 1, Vec::new());
    assert!(picture.catalogue.is_read("there/kj") && picture.catalogue.is_partly_filled());
    assert!(!picture.catalogue.is_read("here/kj") && !picture.catalogue.is_filled());
}

#[test]
fn jobs_are_looked_at_when_they_tell_something_new() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |_| {}));
    assert_eq!(picture.take(job("j1", |_| {})), ["here/kj"]);
    assert_eq!(picture.take(job("j1", |_| {})), [""; 0], "the echo of its making");
    assert_eq!(picture.take(job("j1", version("201"))), [""; 0], "a change that says nothing");
    let complete = |object: &mut Value| {
        version("202")(object);
        object["status"]["conditions"] = json!([{
            "type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T00:11:00Z",
        }]);
    };
    assert_eq!(picture.take(job("j1", complete)), ["here/kj"]);
    let done = crate::plan::JobState::Succeeded { at: second("2026-03-01T00:11:00Z") };
    assert_eq!(picture.catalogue.jobs_of("here/kj")[0].state, done);
    assert_eq!(picture.take(job("j1", version("201"))), [""; 0], "older");
    assert_eq!(picture.catalogue.jobs_of("here/kj")[0].state, done);
    let gone = || Change::JobGone { owner: "here/kj".into(), uid: "j1".into() };
    assert_eq!(picture.take(gone()), ["here/kj"]);
    assert_eq!(picture.take(gone()), [""; 0]);
    let foreign = |object: &mut Value| object["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(picture.take(job("j2", foreign)), [""; 0]);
    assert_eq!(picture.jobs(), [""; 0]);
}

#[test]
fn what_is_being_removed_counts_as_deleted_until_it_fails() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |_| {}));
    picture.take(job("j1", |_| {}));
    picture.take(job("j2", |_| {}));
    let named = picture.catalogue.mark_removed("here/kj", &[1]);
    let [(name, uid)] = named.as_slice() else { panic!("{named:?}") };
    assert_eq!((&**name, &**uid), ("kj-j2", "j2"));
    let deleting = |picture: &Picture| {
        let jobs = picture.catalogue.jobs_of("here/kj");
        jobs.iter().map(|job| job.deleting).collect::<Vec<_>>()
    };
    assert_eq!(deleting(&picture), [false, true]);
    picture.take(job("j2", version("201")));
    assert_eq!(deleting(&picture), [false, true], "a change does not undo it");
    picture.catalogue.unmark_removed("here/kj", "j2");
    assert_eq!(deleting(&picture), [false, false]);
    let removed = |object: &mut Value| {
        version("203")(object);
        object["metadata"]["deletionTimestamp"] = "2026-03-01T00:20:00Z".into();
    };
    assert_eq!(picture.take(job("j1", removed)), ["here/kj"]);
    assert_eq!(deleting(&picture), [true, false]);
    picture.catalogue.let_go();
    assert_eq!(deleting(&picture), [true, false], "what the server is deleting is not let go");
    picture.catalogue.mark_replaced("here/kj", "kj-j2");
    assert_eq!(deleting(&picture), [true, true]);
    picture.catalogue.let_go();
    assert_eq!(deleting(&picture), [true, false]);
}

#[test]
fn a_new_term_begins_with_nothing_under_way() {
    let mut picture = Picture::new(&[]);
    let troubled = |picture: &Picture| {
        let entry = picture.catalogue.get("here/kj").unwrap();
        (entry.trouble.is_some(), entry.attempts)
    };
    let cases = [
        (Doing::Waiting(Class::Foreground), Doing::Nothing),
        (Doing::Paused { number: 1 }, Doing::Nothing),
        (Doing::Sent, Doing::Sent),
    ];
    for (before, after) in cases {
        picture.take(kronjob("kj", |_| {}));
        let entry = picture.catalogue.get_mut("here/kj").unwrap();
        entry.doing = before;
        entry.wake = Some(second(NOW));
        entry.judged = Some(second(NOW));
        entry.trouble = Some("no room".into());
        entry.attempts = 9;
        picture.catalogue.let_go();
        assert_eq!(troubled(&picture), (false, 0), "another may have met something else");
        let entry = picture.catalogue.get("here/kj").unwrap();
        assert_eq!((entry.doing, entry.wake, entry.judged), (after, None, None));
    }
}

#[test]
fn a_start_that_may_have_been_is_looked_for_before_it_is_called_missed() {
    const CLAIMED: &str = "2026-03-01T00:10:00Z";
    let note = |kind: NoteKind, period: &str| Note {
        kind,
        period: Some(second(period)),
        text: String::new(),
    };
    let missed = || note(NoteKind::Missed, CLAIMED);
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |object| {
        object["status"] = json!({ "next": {
            "periodId": CLAIMED, "nominalTime": CLAIMED, "chosenTime": CLAIMED,
            "claimedBy": "one/1",
        } });
    }));
    let mut doubtful = |unanswered: Option<&str>, notes: &[Note], claimant: &str| {
        let entry = picture.catalogue.get_mut("here/kj").unwrap();
        entry.unanswered = unanswered.map(second);
        let handled = notes.iter().filter_map(|note| note.period).max();
        let status = KronJobStatus { last_handled_period: handled, ..KronJobStatus::default() };
        entry.doubtful(&status, notes, claimant)
    };
    // Its creation here was answered, or never sent.
    assert_eq!(doubtful(None, &[missed()], "one/1"), None);
    assert_eq!(doubtful(Some("2026-03-01T00:00:00Z"), &[missed()], "one/1"), None, "another's");
    assert_eq!(doubtful(Some(CLAIMED), &[missed()], "one/1"), Some(second(CLAIMED)));
    // It was for another to make.
    assert_eq!(doubtful(None, &[missed()], "two/2"), Some(second(CLAIMED)));
    // Whatever it is called, by itself or as a part of a stretch.
    for (kind, period) in [
        (NoteKind::Skipped, CLAIMED),
        (NoteKind::Skipped, "2026-03-01T00:20:00Z"),
        (NoteKind::Missed, "2026-03-01T00:20:00Z"),
    ] {
        let said = [note(kind, period)];
        assert_eq!(doubtful(None, &said, "two/2"), Some(second(CLAIMED)), "{kind:?}");
        assert_eq!(doubtful(None, &said, "one/1"), None, "{kind:?}");
    }
    // Nothing is said of it, or that it was made.
    assert_eq!(doubtful(Some(CLAIMED), &[], "two/2"), None);
    let earlier = [note(NoteKind::Missed, "2026-03-01T00:00:00Z")];
    assert_eq!(doubtful(Some(CLAIMED), &earlier, "two/2"), None);
    let made = [note(NoteKind::Created, CLAIMED)];
    assert_eq!(doubtful(Some(CLAIMED), &made, "two/2"), None);
}

#[test]
fn a_job_that_is_taken_from_its_kronjob_is_let_go() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |_| {}));
    let freed = |version: &str| {
        let version = version.to_owned();
        move |object: &mut Value| {
            object["metadata"]["resourceVersion"] = version.into();
            object["metadata"]["ownerReferences"] = json!([]);
        }
    };
    picture.take(job("j1", |_| {}));
    assert_eq!(picture.jobs(), ["j1"]);
    assert_eq!(picture.take(job("j1", freed("201"))), ["here/kj"]);
    assert_eq!(picture.jobs(), [""; 0]);
    // Somebody else's counts for them, and no longer for us.
    picture.take(job("j2", |_| {}));
    picture.take(job("j2", |object| {
        object["metadata"]["resourceVersion"] = "201".into();
        object["metadata"]["ownerReferences"][0]["name"] = "other".into();
    }));
    assert_eq!(picture.jobs(), [""; 0]);
}

#[test]
fn the_answer_about_a_job_that_is_gone_brings_nothing_back() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |_| {}));
    let answer = |uid: &str| match job(uid, |_| {}) {
        Change::Job(job) => job,
        other => panic!("{other:?}"),
    };
    picture.catalogue.take_answer(&answer("j1"));
    assert_eq!(picture.jobs(), ["j1"]);
    for uid in ["j1", "j2"] {
        picture.take(Change::JobGone { owner: "here/kj".into(), uid: uid.into() });
        picture.catalogue.take_answer(&answer(uid));
        assert_eq!(picture.jobs(), [""; 0], "{uid}");
    }
    for number in 0..2 * GONE_MAX {
        let uid = format!("old-{number}").into();
        picture.take(Change::JobGone { owner: "here/kj".into(), uid });
    }
    assert_eq!(picture.catalogue.gone.len(), GONE_MAX);
}

#[test]
fn after_a_restored_store_what_is_told_counts_again() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", version("500")));
    picture.take(job("j1", |_| {}));
    assert_eq!(picture.take(kronjob("kj", version("90"))), [""; 0]);
    picture.catalogue.believe_anything("here/kj");
    assert_eq!(picture.take(kronjob("kj", version("90"))), ["here/kj"]);
    assert_eq!(picture.kept("here/kj"), Some("90"));
    let ended = picture.take(job("j1", |object| {
        object["metadata"]["resourceVersion"] = "91".into();
        object["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    }));
    assert_eq!(ended, ["here/kj"]);
}

#[test]
fn a_mark_that_somebody_moved_back_is_stored_again() {
    let mut picture = Picture::new(&[]);
    let marked = |version: &str, mark: &str| {
        let (version, mark) = (version.to_owned(), mark.to_owned());
        move |object: &mut Value| {
            object["metadata"]["resourceVersion"] = version.into();
            object["status"] = json!({ "lastHandledPeriod": mark });
        }
    };
    let mended = |picture: &Picture| picture.catalogue.get("here/kj").unwrap().kept.mended;
    picture.take(kronjob("kj", marked("100", "2026-03-01T00:10:00Z")));
    assert!(!mended(&picture));
    picture.take(kronjob("kj", marked("101", "2026-03-01T00:00:00Z")));
    assert!(mended(&picture));
    let entry = picture.catalogue.get("here/kj").unwrap();
    assert_eq!(entry.kept.status.last_handled_period, Some(second("2026-03-01T00:10:00Z")));
    let plan =
        crate::plan::plan(&entry.subject(&[]), "one/1", crate::plan::JOB_AGE_S_MIN, second(NOW));
    assert!(matches!(plan.step, crate::plan::Step::Store { .. }));
    picture.take(kronjob("kj", marked("102", "2026-03-01T00:10:00Z")));
    assert!(!mended(&picture));
}

#[test]
fn what_is_said_of_one_kronjob_does_not_touch_another_of_its_name() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("kj", |_| {}));
    assert!(picture.catalogue.same_mut("here/kj", "k0").is_none());
    assert!(picture.catalogue.same_mut("here/kj", "k1").is_some());
    picture.catalogue.forget("here/kj", "k0");
    picture.take(Change::KronJobGone { identity: "here/kj".into(), uid: "k0".into() });
    assert_eq!(picture.kept("here/kj"), Some("100"));
    picture.catalogue.forget("here/kj", "k1");
    assert_eq!(picture.kept("here/kj"), None);
}

#[test]
fn counts() {
    let mut picture = Picture::new(&[]);
    picture.take(kronjob("valid", |_| {}));
    picture.take(kronjob("invalid", |object| object["spec"]["schedule"] = "nonsense".into()));
    picture.take(kronjob("also-invalid", |object| object["spec"]["policy"] = 3.into()));
    picture
        .take(kronjob("suspended", |object| object["spec"]["policy"] = json!({ "suspend": true })));
    assert_eq!(picture.catalogue.counts(), [1, 2, 1]);
}
