//! When entries run: zones, minutes, and restarts.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use kron_core::UtcSecond;
use kron_testkit::krond::{Krond, second_of};
use kron_testkit::needs::{Need, left_out, preloaded_clock};
use kron_testkit::waiting::{eventually, wall_seconds};
use nix::sys::signal::Signal;

use crate::crontab::tabs::{Tabs, identity};

/// Gives a daemon a clock that shows this time now, and goes on from there.
fn showing(command: &mut Command, time: &str) -> Krond {
    let time: UtcSecond = time.parse().unwrap();
    let offset = time.unix() - wall_seconds() as i64;
    command
        .env("LD_PRELOAD", preloaded_clock().unwrap())
        .env("FAKETIME", format!("{offset:+}"))
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("NO_FAKE_STAT", "1");
    let mut krond = Krond::spawn(command);
    krond.wait_for("ready");
    krond
}

fn stop(mut krond: Krond) {
    krond.signal(Signal::SIGTERM);
    assert_eq!(krond.wait().code(), Some(0));
}

/// The zone an entry is read in, and its next nominal time.
fn next(tabs: &Tabs, identity: &str) -> (String, String) {
    let job = tabs.job(identity);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("none").to_owned();
    (text(&job["definition"]["timezone"]), text(&job["next"]["nominal_time"])[11..].to_owned())
}

#[test]
fn entries_are_read_in_the_machine_s_zone_or_the_one_they_are_given() {
    let tabs = Tabs::new("0 9 * * * root a\nCRON_TZ=Asia/Tokyo\n0 9 * * * root b\n");
    let (a, b) = (identity("root", "0 9 * * *", "a"), identity("root", "0 9 * * *", "b"));
    let tokyo = ("Asia/Tokyo".to_owned(), "00:00:00Z".to_owned());
    let told = |krond: &mut Krond| {
        let told = krond.events("crontab_timezone");
        let told: Vec<_> =
            told.iter().map(|line| format!("{} {}", line["timezone"], line["told_by"])).collect();
        told.join(", ").replace('"', "")
    };

    // The daemon's own `TZ` is what its clock goes by, as with cron.
    let mut krond = Krond::spawn(tabs.command().env("TZ", "Asia/Kolkata"));
    krond.wait_for("ready");
    assert_eq!(told(&mut krond), "Asia/Kolkata `TZ`");
    assert_eq!(next(&tabs, &a), ("Asia/Kolkata".to_owned(), "03:30:00Z".to_owned()));
    assert_eq!(next(&tabs, &b), tokyo);
    krond.stop();

    // A zone that is given comes before that, for good.
    let mut command = tabs.command();
    let command = command.env("TZ", "Asia/Kolkata").args(["--crontab-timezone", "Asia/Dubai"]);
    let mut krond = Krond::spawn(command);
    krond.wait_for("ready");
    assert_eq!(next(&tabs, &a), ("Asia/Dubai".to_owned(), "05:00:00Z".to_owned()));
    assert_eq!(tabs.world.ask("POST", "/api/v1/reload", "{}").0, 200);
    assert_eq!(next(&tabs, &a), ("Asia/Dubai".to_owned(), "05:00:00Z".to_owned()));
    assert_eq!(next(&tabs, &b), tokyo);
    krond.stop();

    // Without either it is the machine's own, which is told.
    let mut krond = tabs.start();
    let zone = next(&tabs, &a).0;
    assert!(told(&mut krond).starts_with(&format!("{zone} ")), "{zone}: {}", told(&mut krond));
    krond.stop();

    // What has no name is not guessed.
    for (variable, words, expected) in [
        ("CET-1CEST", &[][..], "`TZ` is `CET-1CEST`, which is not the name of a time zone"),
        ("UTC", &["--crontab-timezone", "Asia/Dubay"], "unknown time zone `Asia/Dubay`"),
    ] {
        let mut krond = Krond::spawn(tabs.command().env("TZ", variable).args(words));
        assert_eq!(krond.wait().code(), Some(2));
        let said = krond.said.join("\n");
        assert!(said.contains(expected), "{said}");
        assert!(said.contains("\"help\""), "{said}");
    }
}

/// Crontabs that a daemon has read within this minute, so that the next one is their entries' first,
/// and when it begins.
fn before_a_minute(text: &str, first: &str) -> (Tabs, Krond, u64) {
    // A machine that took the rest of the minute to start a daemon has a whole one next.
    for _ in 0..4 {
        let tabs = Tabs::new(text);
        // Enough of the minute is left to start a daemon.
        eventually("most of a minute is left", || (wall_seconds() % 60 < 55).then_some(()));
        let minute = wall_seconds() / 60 * 60 + 60;
        let krond = tabs.start();
        let created = tabs.job(first)["created_at"].as_str().map(second_of);
        if created < Some(minute) {
            return (tabs, krond, minute);
        }
    }
    panic!("this machine is too slow");
}

/// The one thing that takes a minute: entries really run when the clock's minute begins.
#[test]
fn entries_run_when_their_minute_begins() {
    if left_out("the minute", &[Need::Root]) {
        return;
    }
    let first = identity("nobody", "* * * * *", "id -un");
    let second = format!("{first}#2");
    let text = "* * * * * nobody id -un\n* * * * * nobody id -un\n";
    let (tabs, mut krond, minute) = before_a_minute(text, &first);
    let nominal = UtcSecond::from_unix(minute as i64).unwrap().to_string();
    let mut started_at = BTreeMap::new();
    for identity in [&first, &second] {
        let document = eventually("the run is recorded", || {
            let document = tabs.world.document(identity);
            (document["History"][0]["ExitCode"] == 0).then_some(document)
        });
        let entry = &document["History"][0];
        assert_eq!(entry["PeriodID"], nominal.as_str());
        assert!(document["LastHandledPeriodID"].as_str() >= Some(&*nominal), "{document}");
        let run = entry["RunID"].as_str().unwrap().to_owned();
        let logs = tabs.world.logs(identity);
        let log = logs.iter().find(|log| log.to_str().unwrap().contains(&run)).unwrap();
        assert_eq!(kron_testkit::files::read(log).unwrap(), "nobody\n");
        started_at.insert(run, second_of(entry["StartedAt"].as_str().unwrap()));
    }
    let runs = krond.heard("started", 2).into_iter().filter(|line| line["period_id"] == *nominal);
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs.len(), 2, "{runs:?}");
    for started in runs {
        // It is late by the time at which the daemon learns of the start: that is not before it
        // happens, and not after the line is written.
        let happened = started_at[started["run_id"].as_str().unwrap()];
        let written = second_of(started["time"].as_str().unwrap());
        assert!(happened >= minute, "{started}");
        let late_s = started["late_s"].as_u64().unwrap();
        assert!((happened - minute..=written - minute).contains(&late_s), "{started}");
    }
    krond.stop();
}

#[test]
fn a_restart_within_the_minute_loses_nothing_and_a_later_one_makes_up_for_nothing() {
    if left_out("restarts and minutes", &[Need::Root, Need::Faketime]) {
        return;
    }
    let text = "CRON_TZ=UTC\n0 12 * * * root exit 0\n";
    let name = identity("root", "0 12 * * *", "exit 0");
    let noon = "2027-06-16T12:00:00Z";
    // A daemon is started before noon, and another one at this time: the outcome of noon, and the
    // second daemon.
    let outcome_of_noon = |again: &str| {
        let tabs = Tabs::new(text);
        stop(showing(&mut tabs.command(), "2027-06-16T11:30:00Z"));
        let krond = showing(&mut tabs.command(), again);
        let document = eventually("the noon has an outcome", || {
            let document = tabs.world.document(&name);
            let last = &document["LastOutcome"];
            (last == "executed" || last == "missed").then_some(document)
        });
        assert_eq!(document["LastHandledPeriodID"], noon, "{again}");
        (tabs, krond, document["LastOutcome"].clone())
    };

    // In the minute of noon, by the time at which the daemon decides. A machine that took the rest
    // of the minute for that gets another one.
    let minute = second_of(noon);
    let in_time = (0..4).find_map(|_| {
        let (tabs, mut krond, outcome) = outcome_of_noon("2027-06-16T12:00:05Z");
        let decision = krond.heard("decision", 1).remove(0);
        let decided = second_of(decision["time"].as_str().unwrap());
        (decided < minute + 60).then_some((tabs, krond, outcome))
    });
    let (_tabs, mut krond, outcome) = in_time.expect("a daemon that decides within 55 seconds");
    assert_eq!(outcome, "executed");
    let started = krond.wait_for("started");
    // It is late by the time at which the daemon learns of the start, before the line is written.
    let written = second_of(started["time"].as_str().unwrap());
    let late_s = started["late_s"].as_u64().unwrap();
    assert!((5..=written - minute).contains(&late_s), "{started}");
    krond.kill();

    // In the next minute, and hours later.
    for again in ["2027-06-16T12:01:30Z", "2027-06-16T18:00:00Z"] {
        let (_tabs, mut krond, outcome) = outcome_of_noon(again);
        assert_eq!(outcome, "missed", "{again}");
        assert!(krond.events("started").is_empty(), "{again}");
        krond.kill();
    }
}

#[test]
fn a_file_from_another_directory_is_read_whatever_it_is_called() {
    let tabs = Tabs::new("");
    let path = tabs.dir().with_file_name("my.tab.txt");
    fs::write(&path, "0 12 * * * root exit 0\n").unwrap();
    crate::crontab::tabs::set_mode(&path, 0o600);
    let mut command = tabs.command();
    let mut krond = Krond::spawn(command.arg("--crontab").arg(&path));
    krond.wait_for("ready");
    assert_eq!(tabs.identities(), [identity("root", "0 12 * * *", "exit 0")]);
    krond.stop();
}
