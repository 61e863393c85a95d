//! Tables of fixed jobs, as people see them.

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-03-02T09:00:00Z";

fn at(text: &str) -> UtcSecond {
    text.parse().expect("a time")
}

/// A job that is defined so, with these fields changed.
fn job(identity: &str, expression: &str, zone: &str, fields: Value) -> JobView {
    let mut job = json!({
        "identity": identity,
        "definition": {
            "expression": expression, "timezone": zone, "command": ["x"], "defined_at": "a:1:1",
            "concurrency": "forbid", "deadline_seconds": 0, "decision_hash": "", "generation": 1,
        },
    });
    if let (Value::Object(job), Value::Object(fields)) = (&mut job, fields) {
        job.extend(fields);
    }
    serde_json::from_value(job).expect("a job")
}

fn next(nominal: &str, chosen: Option<&str>) -> Value {
    json!({
        "period_id": nominal, "nominal_time": nominal, "window_start": nominal,
        "window_end": nominal, "chosen_time": chosen, "unschedulable": chosen.is_none(),
        "reason": null, "timezone": "UTC", "distribution": {"name": "uniform", "params": {}},
        "seed_strategy": "stable", "salt": "", "period_key": "", "seed_hash": "", "attempts": 1,
        "constraints_applied": {"only": [], "avoid": []}, "tzdb": "",
    })
}

fn jobs() -> Vec<JobView> {
    let exited = |code: i32, from: &str, to: &str| {
        json!({
            "period_id": from, "outcome": "executed", "ending": "exited", "exit_code": code,
            "started_at": from, "completed_at": to,
        })
    };
    vec![
        job(
            "db-backup",
            "0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly,shape=2)",
            "Europe/Paris",
            json!({
                "next": next("2026-03-03T02:00:00Z", Some("2026-03-03T02:45:10Z")),
                "last": exited(0, "2026-03-02T02:10:00Z", "2026-03-02T02:31:40Z"),
                "recent": ["succeeded", "failed", "missed", "skipped", "succeeded"],
            }),
        ),
        job(
            "mail-digest",
            "*/5 * * * * @win(after,1m)",
            "UTC",
            json!({
                "next": next("2026-03-02T09:05:00Z", Some("2026-03-02T09:05:17Z")),
                "last": {
                    "period_id": "2026-03-02T08:59:30Z", "outcome": "executed",
                    "started_at": "2026-03-02T08:59:30Z",
                },
                "recent": ["timed_out", "lost", "replaced", "stopped", "unschedulable", "failed"],
                "active": [{
                    "run_id": "1", "period_id": "p", "stage": "running",
                    "started_at": "2026-03-02T08:59:30Z",
                }],
            }),
        ),
        job(
            "month-end",
            "0 0 L * *",
            "UTC",
            json!({
                "next": next("2026-03-31T00:00:00Z", None),
                "last": {
                    "period_id": "2026-02-28T00:00:00Z", "outcome": "missed",
                    "reason": "deadline passed", "completed_at": "2026-02-28T00:00:00Z",
                },
                "recent": ["missed"],
            }),
        ),
        job(
            "new\x1b[2J",
            "0 0 1 1 *",
            "UTC",
            json!({
                "next": next("2027-01-01T00:00:00Z", Some("2027-01-01T00:00:00Z")),
                "failing": {
                    "attempts": 3, "category": "execution", "operation": "execute",
                    "message": "no such file\nor directory",
                },
            }),
        ),
        job("resting", "@hourly", "UTC", json!({"suspended_by": "hand"})),
    ]
}

fn shown(style: &Style) -> String {
    let jobs = jobs();
    let lines = table(&jobs.iter().collect::<Vec<_>>(), at(NOW), style);
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn with_room_for_everything() {
    let expected = "\
job          schedule                               nominal         chosen                in       last                               recent      now
db-backup    daily at 03:00 Europe/Paris within 2h  03:00:00        Tue 03:45:10+01:00    17h45m   exited 0 in 21m40s, 6h28m ago      ✓✗–·✓       -
mail-digest  every 5 minutes within 1m              09:05:00        09:05:17Z             5m17s    failed                             T?RS!✗      running 30s
month-end    0 0 L * *                              03-31 00:00:00  unschedulable                  missed: deadline passed, 2d9h ago  –           -
new?[2J      yearly on Jan 1 at 00:00               00:00:00        2027-01-01 00:00:00Z  304d15h  -                                              not started, tried 3 times: execute: no such file?or directory
resting      hourly                                                 suspended by hand              -                                              -
";
    assert_eq!(shown(&Style::default()), expected);
}

#[test]
fn in_a_hundred_columns_of_ascii() {
    let expected = "\
job          schedule          chosen                in       last            recent      now
db-backup    daily at 03:00 ~  Tue 03:45:10+01:00    17h45m   exited 0 in 2~  +x-.+       -
mail-digest  every 5 minutes~  09:05:17Z             5m17s    failed          T?RS!x      running 3~
month-end    0 0 L * *         unschedulable                  missed: deadl~  -           -
new?[2J      yearly on Jan 1~  2027-01-01 00:00:00Z  304d15h  -                           not start~
resting      hourly            suspended by hand              -                           -
";
    assert_eq!(shown(&Style { width: Some(100), ascii: true, colours: false }), expected);
}

#[test]
fn in_sixty_columns() {
    let expected = "\
job          chosen                in       last
db-backup    Tue 03:45:10+01:00    17h45m   exited 0 in 21m…
mail-digest  09:05:17Z             5m17s    failed
month-end    unschedulable                  missed: deadlin…
new?[2J      2027-01-01 00:00:00Z  304d15h  -
resting      suspended by hand              -
";
    assert_eq!(shown(&Style { width: Some(60), ..Style::default() }), expected);
}

#[test]
fn the_narrower_the_less_and_never_too_wide() {
    let all = shown(&Style::default());
    let widest = all.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut columns = COLUMNS;
    for width in (1..=widest).rev() {
        let table = shown(&Style { width: Some(width), ..Style::default() });
        for line in table.lines() {
            assert!(line.chars().count() <= width.max(10), "{width}: {line}");
        }
        assert_eq!(table.lines().count(), 6);
        let header = table.lines().next().unwrap_or("");
        let now = header.split_whitespace().count();
        assert!(now <= columns, "{width}: a column came back: {header}");
        columns = now;
    }
    assert_eq!(columns, 2, "the job and its wait stay");
}

#[test]
fn colours_add_nothing_but_themselves() {
    let painted = shown(&Style { colours: true, ..Style::default() });
    assert!(painted.contains("\x1b[32m✓\x1b[0m") && painted.contains("\x1b[31m✗\x1b[0m"));
    let mut plain = painted;
    for code in ["0", "1", "2", "31", "32", "33", "36"] {
        plain = plain.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(plain, shown(&Style::default()));
}

#[test]
fn an_entry_of_a_crontab_is_known_by_its_command() {
    let mut entry = job("crontab/root/8781080fd1d48771", "0 3 * * *", "UTC", json!({}));
    let command = ["/bin/sh", "-c", "/usr/local/bin/backup --full --to /srv/backups/nightly"];
    if let Some(definition) = &mut entry.definition {
        definition.command = command.map(str::to_owned).to_vec();
    }
    let lines = table(&[&entry], at(NOW), &Style { width: None, ..Style::default() });
    let name = "crontab/root/8781080fd1d48771 /usr/local/bin/backup --full --to /srv/b  ";
    assert!(lines[1].starts_with(name), "{}", lines[1]);
}
