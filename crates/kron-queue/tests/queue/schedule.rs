//! Templates and schedules: each period once, the past never, and nothing silent.

use kron_queue::{
    Change, Claimed, CreateSchedule, CreateTemplate, DefinitionError, DeleteSchedule,
    DeleteTemplate, NewJob, Outcome, PeriodOutcome, PeriodRecord, Rules, Schedule,
    ScheduleSettings, Template, TemplateSettings, Timestamp, TriggerSchedules, Triggered,
    UpdateSchedule, UpdateTemplate,
};
use serde_json::json;

use crate::support::{World, many_workers};

/// A moment of 2027-03-01, UTC.
fn clock(time: &str) -> Timestamp {
    format!("2027-03-01T{time}Z").parse().unwrap()
}

fn template(world: &World) -> Template {
    let settings = TemplateSettings {
        name: "nightly".into(),
        job_type: "story".into(),
        params: json!({"a": 1, "b": {"c": 2}}),
        priority: 7,
    };
    world.queue.call(CreateTemplate { settings, now: clock("00:00:00") }).unwrap()
}

fn settings(template: &Template, expression: &str) -> ScheduleSettings {
    ScheduleSettings {
        template_id: template.template_id,
        name: "hourly".into(),
        cron_expression: expression.into(),
        timezone: None,
        enabled: true,
        param_overrides: Some(json!({"b": {"c": 3}})),
    }
}

fn hourly(world: &World, expression: &str) -> Schedule {
    let settings = settings(&template(world), expression);
    world.queue.call(CreateSchedule { settings, now: clock("00:30:00.5") }).unwrap()
}

fn trigger(world: &World, time: &str) -> Triggered {
    world.queue.call(TriggerSchedules { now: clock(time) }).unwrap()
}

fn told(records: &[PeriodRecord]) -> Vec<String> {
    let one = |record: &PeriodRecord| {
        let hour = |second: kron_core::UtcSecond| second.to_string()[11..16].to_owned();
        let reason = record.reason.clone().unwrap_or_default();
        let (first, last) = (hour(record.first_period), hour(record.last_period));
        format!("{first}-{last} {} {} {reason}", record.periods, record.outcome).trim().to_owned()
    };
    records.iter().map(one).collect()
}

#[test]
fn a_period_makes_one_job_also_across_reopening() {
    let world = World::new(many_workers());
    let changes = world.queue.subscribe(100);
    let schedule = hourly(&world, "0 * * * * @policy(concurrency=allow,deadline=10s)");
    assert_eq!(schedule.next_trigger_at, Some(clock("01:00:00")));
    assert!(trigger(&world, "00:59:59.999").jobs.is_empty());
    let first = trigger(&world, "01:00:00.2");
    assert_eq!(told(&first.records), ["01:00-01:00 1 executed"]);
    assert_eq!(first.next_at, Some(clock("02:00:00")));
    let job = &first.jobs[0];
    assert_eq!(job.params, json!({"a": 1, "b": {"c": 3}}));
    assert_eq!((job.priority, job.job_type.as_str()), (7, "story"));
    assert_eq!(job.schedule_id, Some(schedule.schedule_id));
    assert_eq!(job.period_id.as_deref(), Some("2027-03-01T01:00:00Z"));
    let world = world.reopen(many_workers());
    // The clock goes back, and the row is told to be due: the mark and the index stand.
    assert!(trigger(&world, "01:00:01").jobs.is_empty());
    world.shell().execute_batch("UPDATE schedules SET next_trigger_at = created_at").unwrap();
    assert!(trigger(&world, "01:00:02").jobs.is_empty());
    let twice = world
        .shell()
        .execute_batch(
            "INSERT INTO jobs (job_id, job_type, params, status, priority, position, attempt, \
             created_at, queued_at, schedule_id, period_id) SELECT \
             '01900000-0000-7000-8000-000000000000', job_type, params, 'QUEUED', 0, 0, 0, \
             created_at, created_at, schedule_id, period_id FROM jobs",
        )
        .unwrap_err();
    assert!(twice.to_string().contains("jobs.schedule_id, jobs.period_id"), "{twice}");
    let after = world.queue.schedule(schedule.schedule_id).unwrap().unwrap();
    assert_eq!(after.last_triggered_at, Some(clock("01:00:00.2")));
    assert_eq!(after.next_trigger_at, Some(clock("02:00:00")));
    assert!(changes.try_iter().any(|change| matches!(change, Change::Schedule { .. })));
    let back = world.shell().execute_batch("UPDATE schedules SET last_handled_period = NULL");
    assert!(back.unwrap_err().to_string().contains("never moves back"));
}

#[test]
fn what_was_passed_over_is_recorded_and_not_replayed() {
    let world = World::new(many_workers());
    let schedule = hourly(&world, "0 * * * *");
    let late = trigger(&world, "05:00:03");
    assert_eq!(
        told(&late.records),
        ["01:00-04:00 4 missed superseded", "05:00-05:00 1 missed deadline exceeded, 3s late"]
    );
    assert!(late.jobs.is_empty());
    assert_eq!(told(&trigger(&world, "06:00:00").records), ["06:00-06:00 1 executed"]);
    let all = world.queue.outcomes(schedule.schedule_id, None, 10).unwrap();
    let outcomes: Vec<PeriodOutcome> = all.iter().map(|record| record.outcome).collect();
    use PeriodOutcome::{Executed, Missed};
    assert_eq!(outcomes, [Executed, Missed, Missed]);
}

#[test]
fn concurrency_looks_at_jobs_that_have_not_ended() {
    let world = World::new(many_workers());
    hourly(&world, "0 * * * *");
    let first = trigger(&world, "01:00:00").jobs.remove(0);
    assert_eq!(
        told(&trigger(&world, "02:00:00").records),
        ["02:00-02:00 1 skipped an execution is active"]
    );
    let claim = kron_queue::Claim { worker_id: "w".into(), now: clock("02:00:01") };
    let Claimed::Run(run) = world.queue.call(claim).unwrap() else { panic!("nothing") };
    assert_eq!(run.job.job_id, first.job_id);
    assert_eq!(
        told(&trigger(&world, "03:00:00").records),
        ["03:00-03:00 1 skipped an execution is active"]
    );
    world.finish(&run, Outcome::Completed, 0).unwrap();
    assert_eq!(told(&trigger(&world, "04:00:00").records), ["04:00-04:00 1 executed"]);
}

#[test]
fn replace_ends_what_is_open() {
    let world = World::new(many_workers());
    hourly(&world, "0 * * * * @policy(concurrency=replace)");
    let first = trigger(&world, "01:00:00").jobs.remove(0);
    let second = trigger(&world, "02:00:00").jobs.remove(0);
    assert_eq!(world.job(first.job_id).state, kron_queue::JobState::Cancelled);
    let claim = kron_queue::Claim { worker_id: "w".into(), now: clock("02:00:01") };
    assert!(matches!(world.queue.call(claim).unwrap(), Claimed::Run(_)));
    assert_eq!(trigger(&world, "03:00:00").jobs.len(), 1);
    assert!(world.job(second.job_id).cancel_requested_at.is_some());
}

#[test]
fn edits_and_pauses_never_run_the_past() {
    let world = World::new(many_workers());
    let schedule = hourly(&world, "0 * * * * @policy(concurrency=allow,deadline=1h)");
    let template = world.queue.templates(None, 10).unwrap().remove(0);
    let update = |settings: ScheduleSettings, time: &str| {
        let schedule_id = schedule.schedule_id;
        world.queue.call(UpdateSchedule { schedule_id, settings, now: clock(time) }).unwrap()
    };
    // Disabled over 01:00 and 02:00, and enabled again: neither has an outcome.
    let expression = "0 * * * * @policy(concurrency=allow,deadline=1h)";
    let off = ScheduleSettings { enabled: false, ..settings(&template, expression) };
    assert_eq!(update(off, "00:40:00").next_trigger_at, None);
    assert!(trigger(&world, "01:00:00").records.is_empty());
    let on = update(settings(&template, expression), "02:10:00");
    assert_eq!(on.next_trigger_at, Some(clock("03:00:00")));
    assert!(trigger(&world, "02:10:00").records.is_empty());
    assert_eq!(told(&trigger(&world, "03:00:00").records), ["03:00-03:00 1 executed"]);
    // 04:00 is not judged yet when the definition becomes another one: it is skipped.
    let every_half_hour = "*/30 * * * * @policy(concurrency=allow,deadline=1h)";
    let edited = update(settings(&template, every_half_hour), "04:10:00");
    assert_eq!(edited.next_trigger_at, Some(clock("04:30:00")));
    assert_eq!(
        told(&trigger(&world, "04:30:00").records),
        ["03:30-04:00 2 skipped definition changed", "04:30-04:30 1 executed"]
    );
    // An edit of something else keeps what is due.
    let renamed = ScheduleSettings { name: "other".into(), ..settings(&template, every_half_hour) };
    assert_eq!(update(renamed, "05:00:01").next_trigger_at, Some(clock("05:00:00")));
    assert_eq!(told(&trigger(&world, "05:00:02").records), ["05:00-05:00 1 executed"]);
}

#[test]
fn an_edit_of_a_template_never_reaches_jobs_that_are_there() {
    let world = World::new(Rules::default());
    let template = template(&world);
    let from = |template: &Template| NewJob {
        template_id: Some(template.template_id),
        params: Some(json!({"a": null})),
        ..NewJob::default()
    };
    let before = world.add(from(&template));
    assert_eq!(before.params, json!({"b": {"c": 2}}));
    let (template_id, now) = (template.template_id, clock("00:01:00"));
    let settings = TemplateSettings {
        name: "nightly".into(),
        job_type: "research".into(),
        params: json!({"z": 1}),
        priority: 0,
    };
    world.queue.call(UpdateTemplate { template_id, settings, now }).unwrap();
    assert_eq!(world.job(before.job_id), before);
    assert_eq!(world.add(from(&template)).job_type, "research");
    world.queue.call(DeleteTemplate { template_id, now }).unwrap();
    let jobs = vec![from(&template)];
    let gone = world.queue.call(kron_queue::Enqueue { jobs, now });
    assert!(matches!(gone, Err(kron_queue::EnqueueError::NoTemplate(_))));
}

#[test]
fn definitions_that_make_no_sense_are_refused() {
    let world = World::new(Rules::default());
    let schedule = hourly(&world, "0 * * * *");
    let template_id = schedule.template_id;
    let now = clock("00:31:00");
    let used = world.queue.call(DeleteTemplate { template_id, now });
    assert!(matches!(used, Err(DefinitionError::InUse { .. })));
    let template = world.queue.template(template_id).unwrap().unwrap();
    let create = |expression: &str, timezone: Option<&str>, name: &str| {
        let settings = ScheduleSettings {
            name: name.into(),
            timezone: timezone.map(Into::into),
            ..settings(&template, expression)
        };
        world.queue.call(CreateSchedule { settings, now })
    };
    for (expression, zone, said) in [
        ("61 * * * *", None, "61"),
        ("0 * * * * @nope(1)", None, "unknown modifier `@nope`"),
        ("0 * * * *", Some("Mars/Olympus"), "Mars/Olympus"),
        ("0 * * * * @tz(Europe/Paris)", Some("UTC"), "`timezone` says `UTC`"),
        ("0 * * * * @win(after,2h)", None, "can overlap"),
    ] {
        let error = create(expression, zone, "x").unwrap_err();
        assert!(error.to_string().contains(said), "{expression}: {error}");
    }
    assert!(matches!(create("0 * * * *", None, "hourly"), Err(DefinitionError::NameTaken(_))));
    let paris = create("0 3 * * *", Some("Europe/Paris"), "paris").unwrap();
    assert_eq!(paris.next_trigger_at, Some(clock("02:00:00")));
    world.queue.call(DeleteSchedule { schedule_id: paris.schedule_id, now }).unwrap();
    assert!(world.queue.schedule(paris.schedule_id).unwrap().is_none());
    assert!(trigger(&world, "02:00:00").records.iter().all(|r| r.schedule_id != paris.schedule_id));
}

#[test]
fn a_schedule_that_cannot_be_read_harms_no_other() {
    let world = World::new(many_workers());
    let broken = hourly(&world, "0 * * * *");
    let template = world.queue.templates(None, 10).unwrap().remove(0);
    let other = ScheduleSettings { name: "other".into(), ..settings(&template, "0 * * * *") };
    world.queue.call(CreateSchedule { settings: other, now: clock("00:30:00") }).unwrap();
    let id = broken.schedule_id.to_string();
    let sql = "UPDATE schedules SET timezone = 'Gone/Zone' WHERE schedule_id = ?1";
    world.shell().execute(sql, [&id]).unwrap();
    let triggered = trigger(&world, "01:00:00");
    assert_eq!(triggered.jobs.len(), 1);
    assert_eq!(triggered.broken.len(), 1);
    assert!(triggered.broken[0].1.contains("Gone/Zone"), "{}", triggered.broken[0].1);
    let mend = UpdateSchedule {
        schedule_id: broken.schedule_id,
        settings: settings(&template, "0 * * * *"),
        now: clock("01:30:00"),
    };
    assert_eq!(world.queue.call(mend).unwrap().next_trigger_at, Some(clock("02:00:00")));
}
