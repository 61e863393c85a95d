//! What is wrong, or doubtful, about valid jobs: windows, contradictions, small shares.

use crate::loading::{check_said, load};
use kron_config::{CoverageReport, Format, Job, lint};
use kron_core::{Severity, UtcSecond};

fn job(schedule: &str) -> Job {
    let line = format!("{schedule} name=a command=x\n");
    let mut loaded = check_said(&Format::Krontab, &line, &[]);
    loaded.jobs.remove(0)
}

/// What lint says of a job, with `error` or `warning` before it.
fn linted(schedule: &str) -> Vec<String> {
    lint(&job(schedule))
        .iter()
        .map(|diagnostic| {
            let location = diagnostic.location.as_ref().expect("a place");
            assert_eq!((location.line, location.column), (1, 1));
            match diagnostic.severity {
                Severity::Error => format!("error: {}", diagnostic.message),
                Severity::Warning => format!("warning: {}", diagnostic.message),
            }
        })
        .collect()
}

#[test]
fn windows_that_can_overlap() {
    for (schedule, fault) in [
        (
            "*/10 * * * * @win(after,15m)",
            Some(
                "windows of 15m can overlap: the periods 2026-01-01T00:00:00Z and 2026-01-01T00:10:00Z are only 10m apart",
            ),
        ),
        ("*/10 * * * * @win(after,10m)", None),
        ("*/10 * * * * @win(around,10m)", None),
        (
            "*/10 * * * * @win(before,10m1s)",
            Some(
                "windows of 10m1s can overlap: the periods 2026-01-01T00:00:00Z and 2026-01-01T00:10:00Z are only 10m apart",
            ),
        ),
        ("0 0,1,23 * * * @win(after,1h)", None),
        ("0 0 1 * * @win(after,28d)", None),
        (
            "0 0 1 * * @win(after,29d)",
            Some(
                "windows of 29d can overlap: the periods 2026-02-01T00:00:00Z and 2026-03-01T00:00:00Z are only 28d apart",
            ),
        ),
        // The day that has 23 hours.
        (
            "0 0 * * * @tz(Europe/Paris) @win(after,24h)",
            Some(
                "windows of 1d can overlap: the periods 2026-03-28T23:00:00Z and 2026-03-29T22:00:00Z are only 23h apart",
            ),
        ),
        ("0 0 * * * @tz(Europe/Paris) @win(after,23h)", None),
    ] {
        let loaded = load(&Format::Krontab, &format!("{schedule} name=a command=x\n"));
        let told = loaded.diagnostics.first().map(|diagnostic| diagnostic.message.as_str());
        assert_eq!(told, fault, "{schedule}");
        assert_eq!(loaded.is_usable(), fault.is_none());
    }
    let loaded = load(&Format::Krontab, "*/10 * * * * @win(after,15m) name=a command=x\n");
    assert_eq!(loaded.diagnostics[0].help.as_deref(), Some("use a window of at most 10m"));
}

#[test]
fn contradictions_are_errors_at_once() {
    for (modifiers, fault) in [
        (
            "@only(hours=9) @avoid(hours=8-10)",
            "the constraints can never match: no minute of any day is allowed",
        ),
        (
            "@only(between=09:00-10:00;hours=12)",
            "the constraints can never match: no minute of any day is allowed",
        ),
        ("@avoid(hours=0-23)", "the constraints can never match: no minute of any day is allowed"),
        (
            "@only(dow=MON) @avoid(dow=MON)",
            "the constraints can never match: no day of any year is allowed",
        ),
        (
            "@only(months=FEB;dom=30)",
            "the constraints can never match: no day of any year is allowed",
        ),
        ("@avoid(months=1-12)", "the constraints can never match: no day of any year is allowed"),
    ] {
        let loaded = load(&Format::Krontab, &format!("0 3 * * * {modifiers} name=a command=x\n"));
        let told: Vec<&str> = loaded.diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(told, [fault], "{modifiers}");
        assert!(!loaded.is_usable());
    }
}

#[test]
fn constraints_that_never_meet_a_period_are_refused() {
    for schedule in [
        "0 3 * * * @only(hours=4)",
        "0 3 * * * @win(after,30m) @only(hours=4)",
        "0 3 * * MON @only(dow=TUE)",
        "0 0 29 2 * @only(months=MAR)",
        "0 3 * * MON @only(date=2031-01-02)",
        "*/5 0-11 * * * @only(hours=12)",
        "*/5 0-11 * * * @win(after,4m) @only(hours=12)",
        "0 0 0 1 1 * 2027 @win(after,1d) @only(months=FEB)",
        "30 0 1 1 * @win(after,1h) @only(dates=2026-01-01..9999-12-31;months=JUL)",
        "0 3 * * MON @only(dow=TUE) @avoid(dates=2026-01-01..2070-01-01)",
    ] {
        let loaded = load(&Format::Krontab, &format!("{schedule} name=a command=x\n"));
        let told: Vec<&str> = loaded.diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(told, ["job `a` can never run: its constraints allow no second of any period"]);
        assert!(!loaded.is_usable(), "{schedule}");
    }
}

#[test]
fn jobs_may_wait_for_their_season() {
    for schedule in [
        "* * * * * @only(months=DEC)",
        "*/5 * * * * @win(after,5m) @only(months=NOV)",
        "*/5 * * * * @win(before,5m) @tz(Europe/Paris) @only(date=2029-07-01)",
        "* * * * * * @only(date=2029-12-31;between=23:59-23:59)",
        "0 3 * * * @only(dates=2031-01-01..2031-12-31)",
        "*/20 * * * * * @only(date=2071-01-01)",
        "0 0 29 2 * @only(dow=MON)",
        "0 0 0 * * * 2070-2199 @only(months=JUL)",
        "* * * * * @win(after,1m) @only(dow=MON) @avoid(dates=2026-01-01..2070-01-01)",
        "0 3 1 * * @only(dates=2026-01-02..2026-01-03,2090-01-01..2090-02-01)",
        // Its window ends where the allowed hour does, and touches it in one second.
        "0 12 * * * @win(before,1s) @only(hours=11;months=DEC)",
        // It meets its hour in one second a day, and only because its window reaches that far.
        "*/5 0-11 * * * @win(after,5m) @only(hours=12)",
    ] {
        let told = linted(schedule);
        assert!(told.iter().all(|line| line.starts_with("warning: ")), "{schedule}: {told:?}");
    }
}

#[test]
fn periods_that_are_always_unschedulable() {
    assert_eq!(
        linted("0 3 * * * @avoid(dow=SUN)"),
        [
            "warning: job `a`: 209 of the first 1464 periods from 2026-01-01 on have no allowed second and are always `unschedulable`, the first at 2026-01-04T03:00:00Z"
        ]
    );
    // Counted here by looking at every period's every second.
    let job = job("0 3 * * * @win(after,2m) @avoid(dow=SUN)");
    let report = CoverageReport::of(&job).expect("constraints");
    let start: UtcSecond = "2025-12-31T23:59:59Z".parse().expect("a time");
    let placement = job.timing.placement();
    let impossible = job
        .timing
        .schedule()
        .after(start)
        .take(report.periods)
        .filter(|nominal| {
            !(0..=120).any(|offset| {
                let second = nominal.checked_add(offset).expect("in range");
                placement.constraints().allow(placement.zone().wall_at(second))
            })
        })
        .count();
    assert_eq!(report.impossible, impossible);
    assert_eq!(report.periods, 1_464);
}

#[test]
fn small_shares_are_told_with_their_chance() {
    // The share and the chance by hand: seconds 03:00:00 to 03:00:59 of 7201, 64 draws.
    assert_eq!(
        linted("0 3 * * * @win(after,2h) @only(between=03:00-03:00)"),
        [
            "warning: job `a`: the constraints leave 60 of 7201 seconds of the window (0.83 %) in the period 2026-01-01T03:00:00Z; the chance of `unschedulable` is 58.54 %"
        ]
    );
    let share: f64 = 60.0 / 7201.0;
    let mut chance = 1.0;
    for _ in 0..64 {
        chance *= 1.0 - share;
    }
    assert_eq!(format!("{:.2} {:.2}", share * 100.0, chance * 100.0), "0.83 58.54");
    // Plenty is left, or nothing is random: no word.
    for quiet in [
        "0 3 * * * @win(after,2h)",
        "0 3 * * * @only(hours=3)",
        "0 3 * * * @win(after,2h) @only(hours=3)",
        "0 3 * * * @win(after,2h) @avoid(between=03:10-03:20)",
    ] {
        assert_eq!(linted(quiet), [""; 0], "{quiet}");
    }
}

#[test]
fn shares_and_chances_agree_with_brute_force() {
    for schedule in [
        "0 3 * * * @win(after,2h) @only(between=04:30-04:39)",
        "0 3 * * * @win(after,2h) @dist(skewLate,shape=3) @only(between=03:05-03:20)",
        "0 12 * * * @win(around,1h) @dist(normal) @avoid(between=11:40-12:20)",
        "0 3 * * * @win(before,90m) @dist(exponential,lambda=5,dir=late) @only(between=01:40-02:10)",
        "0 1 * * * @tz(Europe/Paris) @win(after,3h) @only(hours=2)",
    ] {
        let job = job(schedule);
        let report = CoverageReport::of(&job).expect("constraints");
        let (nominal, coverage) = report.tightest.expect("a period with a chance");
        let placement = job.timing.placement();
        let start = placement.decide(nominal).expect("a decision").window_start;
        let length = placement.window().length().get();
        // Every second of the window counts for the share, every thousandth of `u` for the chance.
        let allowed = |offset: u64| {
            let second = start.checked_add(offset as i64).expect("in range");
            placement.constraints().allow(placement.zone().wall_at(second))
        };
        let seconds = (0..=length).filter(|&offset| allowed(offset)).count() as u64;
        assert_eq!(
            (coverage.allowed_seconds, coverage.window_seconds),
            (seconds, length + 1),
            "{schedule}"
        );
        let mass: f64 = (0..=length)
            .filter(|&offset| allowed(offset))
            .map(|offset| placement.sampler().mass(offset, offset))
            .sum();
        assert!((mass - coverage.acceptance).abs() < 1e-9, "{schedule}");
        let mut chance = 1.0;
        for _ in 0..64 {
            chance *= 1.0 - mass;
        }
        assert!((chance - coverage.unschedulable_chance()).abs() < 1e-9, "{schedule}");
    }
}

#[test]
fn what_decisions_come_to_agrees_with_the_chance() {
    let job =
        job("0 * * * * @win(after,59m) @only(between=00:00-23:59) @avoid(between=00:02-00:59)");
    let report = CoverageReport::of(&job).expect("constraints");
    let (_, coverage) = report.tightest.expect("a tight period");
    let chance = coverage.unschedulable_chance();
    let start: UtcSecond = "2026-01-01T00:30:00Z".parse().expect("a time");
    let midnights = job.timing.periods_after(start).filter(|d| d.nominal.unix() % 86_400 == 0);
    let days = 20_000;
    let lost = midnights.take(days).filter(|decision| decision.chosen.is_none()).count();
    let expected = chance * days as f64;
    let deviation = (expected * (1.0 - chance)).sqrt();
    assert!((lost as f64 - expected).abs() < 5.0 * deviation, "{lost} lost, {expected} expected");
}
