//! What is remembered over loads, clocks and starts that come to nothing.

use super::*;

impl Rig {
    /// What was last written about all jobs.
    fn known(&self) -> Known {
        let saved = self.actions.iter().rev().find_map(|action| match action {
            Action::SaveKnown { known, .. } => Some((**known).clone()),
            _ => None,
        });
        saved.expect("something known")
    }

    fn load(&mut self, lines: &str) {
        self.feed(Event::Load { jobs: jobs(lines), request: None });
        self.make_durable();
    }

    /// Another daemon, which finds what this one knew and these documents.
    fn restarted(&self, recorded: Vec<Recorded>) -> Rig {
        let known = Some(self.known());
        let boot = Boot { jobs: jobs(EVERY_MINUTE), known, recorded, ..Boot::default() };
        Rig::booted(boot)
    }
}

#[test]
fn which_jobs_have_documents_is_written_soon_and_before_leaving() {
    for leaves in [false, true] {
        let mut rig = Rig::new(EVERY_MINUTE);
        assert!(!rig.known().jobs["a"].has_state);
        rig.pass(60);
        let run = rig.execute();
        rig.end(&run, Cause::Own, ExitStatus::ExitCode(0));
        rig.make_durable();
        assert!(!rig.known().jobs["a"].has_state, "it would be a write for every job");
        if leaves {
            rig.feed(Event::Stop(StopMode::Leave));
            assert!(!rig.did("Exit"));
            rig.make_durable();
            assert!(rig.did("Exit"));
        } else {
            rig.pass(30);
        }
        assert!(rig.known().jobs["a"].has_state);
        // The document vanishes: its period does not run again.
        let rig = rig.restarted(Vec::new());
        assert!(rig.launched().is_empty() && rig.logged("state_lost"));
    }
}

#[test]
fn a_suspension_by_hand_holds_for_a_job_that_was_away() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.request(Request::Suspend("a".to_owned()));
    rig.load("");
    assert!(rig.known().jobs["a"].removed);
    // Neither this daemon forgets it, nor the next, nor one after that.
    let mut next = rig.restarted(Vec::new());
    assert_eq!(next.known().jobs["a"].created_at, at(NOON), "it is new");
    for rig in [&mut rig, &mut next] {
        rig.load(EVERY_MINUTE);
        rig.pass(120);
        assert!(rig.launched().is_empty());
        rig.request(Request::Resume("a".to_owned()));
        rig.make_durable();
        rig.pass(60);
        assert_eq!(rig.launched().len(), 1);
    }
}

#[test]
fn a_job_that_was_away_and_never_had_a_document_has_lost_none() {
    let mut rig = Rig::new("0 * * * * name=a command=/bin/true\n");
    rig.load("");
    rig.load("0 * * * * name=a command=/bin/true\n");
    assert!(!rig.known().jobs["a"].has_state);
}

#[test]
fn what_was_known_in_the_future_is_known_since_now() {
    let mut known = known_since("2027-07-01T00:00:00Z");
    for job in known.jobs.values_mut() {
        job.resumed_at = Some(at("2027-07-02T00:00:00Z"));
    }
    let boot = Boot { jobs: jobs(EVERY_MINUTE), known: Some(known), ..Boot::default() };
    let mut rig = Rig::booted(boot);
    assert!(rig.logged("created_in_future") && rig.launched().is_empty());
    let job = &rig.known().jobs["a"];
    assert_eq!((job.created_at, job.resumed_at), (at(NOON), Some(at(NOON))));
    rig.pass(60);
    assert_eq!(rig.launched().len(), 1);
}

#[test]
fn what_happens_while_the_clock_is_not_believed_does_not_stop_jobs_afterwards() {
    const DAYS_S: i64 = 400 * 86_400;
    let edited = "*/2 * * * * @policy(deadline=30s) name=a command=/bin/true\n";
    for edit in [false, true] {
        let mut rig = Rig::new(EVERY_MINUTE);
        rig.request(Request::Suspend("a".to_owned()));
        rig.set_clock(DAYS_S);
        assert!(rig.logged("clock_held"));
        rig.request(Request::Resume("a".to_owned()));
        if edit {
            rig.load(edited);
        }
        assert!(rig.known().jobs["a"].resumed_at > Some(at("2027-01-01T00:00:00Z")));
        rig.set_clock(-DAYS_S);
        rig.make_durable();
        assert_eq!(rig.known().jobs["a"].resumed_at, Some(at(NOON)));
        rig.pass(120);
        assert_eq!(rig.launched().len(), 1, "edited: {edit}");
        assert!(rig.machine.latest_seen < at("2026-06-02T00:00:00Z"));
    }
}

#[test]
fn marks_that_a_step_back_leaves_in_the_future_are_told() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.set_clock(20 * 3_600);
    let run = rig.execute();
    rig.end(&run, Cause::Own, ExitStatus::ExitCode(0));
    rig.make_durable();
    rig.set_clock(-20 * 3_600);
    assert!(rig.logged("mark_in_future"));
}

#[test]
fn a_replacement_goes_on_when_what_was_in_its_way_could_not_be_executed() {
    let mut rig = Rig::new("* * * * * @policy(concurrency=replace) name=a command=/bin/true\n");
    rig.pass(30);
    let overlap = ManualOverlap::Respect;
    rig.request(Request::Run { identity: "a".to_owned(), overlap });
    let run = rig.arm();
    rig.make_durable();
    rig.pass(30);
    rig.make_durable();
    rig.actions.clear();
    rig.feed(Event::ExecFailed { run, failure: failure() });
    assert_eq!(rig.launched().len(), 1);
}

#[test]
fn what_dies_at_its_gate_is_not_started_again_at_once() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    for launched in 1..4 {
        assert_eq!(rig.launched().len(), launched);
        let run = rig.arm();
        rig.make_durable();
        let report = Report { record: Some(RunRecord::NotReleased), reaped: None };
        rig.feed(Event::Ended { run, report });
        rig.make_durable();
        assert_eq!(rig.launched().len(), launched);
        assert!(rig.logged("start_failed"));
        rig.pass(1 << (launched - 1));
    }
}

#[test]
fn a_run_by_hand_is_answered_when_only_its_end_is_known() {
    let mut rig = Rig::new(EVERY_MINUTE);
    let overlap = ManualOverlap::Respect;
    assert!(rig.request(Request::Run { identity: "a".to_owned(), overlap }).is_none());
    let run = rig.arm();
    rig.make_durable();
    let report = Report { record: None, reaped: None };
    rig.feed(Event::Ended { run, report });
    assert!(matches!(rig.reply(), Some(Reply::Started { .. })));
}

#[test]
fn a_stretch_of_missed_periods_says_when_its_last_would_have_run() {
    let mut rig = Rig::booted(Boot {
        jobs: jobs("* * * * * @win(after,10s) name=a command=/bin/true\n"),
        known: Some(known_since("2026-06-01T10:00:00Z")),
        recorded: vec![recorded("2026-06-01T11:50:00Z")],
        ..Boot::default()
    });
    rig.make_durable();
    let stretch = rig.changes().into_iter().find_map(|change| match change {
        Change::Handle { chosen, stretch: Some((last, _)), .. } => Some((chosen, last)),
        _ => None,
    });
    let (chosen, last) = stretch.expect("a stretch");
    let chosen = chosen.expect("it could have run");
    assert!((0..=10).contains(&chosen.since(last)), "{chosen} for {last}");
}
