//! Crontab files as distributions ship them and people keep them: what becomes of each.

use std::path::{Path, PathBuf};

use kron_config::{Action, Job, Loaded, Loader, Options, files};
use kron_core::UtcSecond;

/// Every file with its jobs and what is said about it; the format is told by the path.
const FILES: [(&str, usize, &[&str]); 18] = [
    ("crontab", 4, &[]),
    ("cron.d/activity-report", 2, &[]),
    ("cron.d/anacron", 1, &[]),
    ("cron.d/certificates", 1, &[]),
    ("cron.d/hourly-zero", 1, &["4:1 warning: `MAILTO` is accepted, but Kron sends no mail"]),
    ("cron.d/php-sessions", 1, &[]),
    ("cron.d/raid-check", 1, &[]),
    ("cron.d/scrub", 2, &[]),
    (
        "cron.d/with-mistakes",
        1,
        &[
            "2:13 `/usr/local/bin/poll` is not a user",
            "3:7 `13` is outside the month field",
            "4:1 `@reboot` is not a time",
        ],
    ),
    ("crontabs/ann", 5, &["4:1 warning: `MAILTO` is accepted, but Kron sends no mail"]),
    ("crontabs/deploy", 4, &[]),
    ("crontabs/empty", 0, &[]),
    ("crontabs/lists", 6, &[]),
    ("crontabs/mail", 2, &[]),
    ("crontabs/modifiers", 4, &[]),
    ("crontabs/no-newline", 1, &[]),
    ("crontabs/windows", 2, &[]),
    (
        "crontabs/zones",
        4,
        &["6:1 warning: `TZ` is set for the commands, and does not move the schedule"],
    ),
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn load_file(name: &str) -> Loaded {
    let path = corpus().join(name);
    let mut loader = Loader::new(Options::default());
    for (file, format) in files::expand(&path, None).expect("a known format") {
        loader.load(&files::read(&file).expect("a text"), &format);
    }
    loader.finish()
}

/// Each diagnostic as `line:column message`, with `warning:` before what is only that.
fn said(loaded: &Loaded) -> Vec<String> {
    let said = loaded.diagnostics.iter().map(|diagnostic| {
        let place = diagnostic.location.as_ref().expect("a place");
        let level = if diagnostic.is_error() { "" } else { "warning: " };
        format!("{}:{} {level}{}", place.line, place.column, diagnostic.message)
    });
    said.collect()
}

/// The job of `file` that runs a line with `part` in it.
fn job_of(file: &str, part: &str) -> Job {
    let jobs = load_file(file).jobs;
    let found = jobs.into_iter().find(|job| line_of(job).contains(part));
    found.unwrap_or_else(|| panic!("no {part} in {file}"))
}

fn line_of(job: &Job) -> &str {
    match &job.action {
        Action::Shell { line, .. } => line,
        Action::Program(words) => panic!("{words:?}"),
    }
}

fn next_after(job: &Job, after: &str) -> String {
    let after: UtcSecond = after.parse().expect("a time");
    job.timing.schedule().next_after(after).expect("a next time").to_string()
}

#[test]
fn every_file_gives_the_jobs_it_should() {
    for (name, jobs, expected) in FILES {
        let loaded = load_file(name);
        assert_eq!(said(&loaded), expected, "{name}");
        assert_eq!(loaded.jobs.len(), jobs, "{name}");
        assert!(loaded.is_usable(), "{name}");
    }
}

#[test]
fn no_file_is_forgotten() {
    let mut found = Vec::new();
    for directory in ["", "cron.d", "crontabs"] {
        for entry in corpus().join(directory).read_dir().expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.strip_prefix(corpus()).expect("inside").display().to_string();
                found.push(name);
            }
        }
    }
    found.sort();
    let mut listed: Vec<&str> = FILES.iter().map(|(name, ..)| *name).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

#[test]
fn all_of_them_together_have_different_identities() {
    let mut loader = Loader::new(Options::default());
    for (name, ..) in FILES {
        for (file, format) in files::expand(&corpus().join(name), None).expect("a known format") {
            loader.load(&files::read(&file).expect("a text"), &format);
        }
    }
    let loaded = loader.finish();
    let mut names: Vec<&str> = loaded.jobs.iter().map(Job::identity).collect();
    assert_eq!(names.len(), FILES.iter().map(|(_, jobs, _)| jobs).sum::<usize>());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), loaded.jobs.len());
}

#[test]
fn commands_are_what_cron_would_run() {
    for (file, line, user) in [
        ("crontab", "cd / && run-parts --report /etc/cron.hourly", "root"),
        (
            "crontab",
            "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }",
            "root",
        ),
        (
            "cron.d/raid-check",
            "if [ -x /usr/share/raid/check ] && [ $(date +%d) -le 7 ]; \
             then /usr/share/raid/check --cron --all --idle --quiet; fi",
            "root",
        ),
        ("crontabs/ann", "tar czf /backup/home-$(date +%Y%m%d).tar.gz /home/ann", "ann"),
        ("crontabs/ann", "find ~/Downloads -mtime +30 -delete", "ann"),
        ("crontabs/windows", "/usr/bin/report --weekly", "windows"),
        ("crontabs/modifiers", "/usr/bin/digest", "modifiers"),
        ("crontabs/no-newline", "/usr/bin/last-line-without-an-end", "no-newline"),
    ] {
        let job = job_of(file, line);
        assert_eq!(line_of(&job), line);
        assert_eq!(job.execution.user.as_deref(), Some(user), "{line}");
        assert_eq!(job.execution.stdin, None, "{line}");
    }
    let report = job_of("crontabs/mail", "weekly report");
    assert_eq!(line_of(&report), "mail -s \"weekly report\" team@example.org");
    let input = "Hello all,\n\nthe report is at 100% again.\n";
    assert_eq!(report.execution.stdin.as_deref(), Some(input));
    let note = job_of("crontabs/mail", "note");
    assert_eq!(note.execution.stdin.as_deref(), Some("have a nice weekend\n"));
}

#[test]
fn surroundings_are_what_cron_would_set() {
    let exec = job_of("crontabs/deploy", "artisan");
    assert!(matches!(&exec.action, Action::Shell { shell, .. } if shell == "/bin/bash"));
    let env: Vec<_> = exec.execution.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(env, ["SHELL", "HOME"]);
    let hourly = job_of("crontab", "cron.hourly");
    assert_eq!(hourly.execution.env[1].0, "PATH");
    assert_eq!(hourly.execution.env[1].1.split(':').count(), 6);
}

#[test]
fn next_runs() {
    // 2026-03-01 is a Sunday.
    for (file, part, after, next) in [
        ("crontab", "cron.hourly", "2026-03-01T00:17:00Z", "2026-03-01T01:17:00Z"),
        ("crontab", "cron.weekly", "2026-03-01T06:47:00Z", "2026-03-08T06:47:00Z"),
        ("crontab", "cron.monthly", "2026-03-01T06:52:00Z", "2026-04-01T06:52:00Z"),
        ("cron.d/activity-report", "1 1", "2026-03-01T00:55:00Z", "2026-03-01T01:05:00Z"),
        ("cron.d/anacron", "anacron", "2026-03-01T23:30:00Z", "2026-03-02T07:30:00Z"),
        ("cron.d/certificates", "renew", "2026-03-01T00:00:00Z", "2026-03-01T12:00:00Z"),
        ("cron.d/php-sessions", "php", "2026-03-01T00:09:00Z", "2026-03-01T00:39:00Z"),
        ("crontabs/ann", "half-year", "2026-03-01T00:00:00Z", "2026-07-01T00:00:00Z"),
        ("crontabs/ann", "remind", "2026-03-06T17:00:00Z", "2026-03-09T09:00:00Z"),
        ("crontabs/deploy", "drain", "2026-03-01T00:50:00Z", "2026-03-01T01:00:00Z"),
        ("crontabs/deploy", "prune", "2026-03-01T03:15:00Z", "2026-03-08T03:15:00Z"),
        ("crontabs/zones", "utc", "2026-03-01T07:00:00Z", "2026-03-02T07:00:00Z"),
        // New York changes its clocks on 2026-03-08.
        ("crontabs/zones", "close", "2026-03-06T20:00:00Z", "2026-03-06T21:00:00Z"),
        ("crontabs/zones", "close", "2026-03-06T21:00:00Z", "2026-03-09T20:00:00Z"),
        ("crontabs/lists", "sunday", "2026-03-01T00:05:00Z", "2026-03-08T00:05:00Z"),
        // Day of month or day of week, but both when one begins with a star.
        ("crontabs/lists", "either", "2026-03-01T00:00:00Z", "2026-03-04T00:00:00Z"),
        ("crontabs/lists", "both", "2026-03-01T00:00:00Z", "2026-03-11T00:00:00Z"),
        ("crontabs/lists", "padded", "2026-03-01T00:00:00Z", "2027-02-08T04:00:00Z"),
        ("crontabs/lists", "odd", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"),
        ("crontabs/modifiers", "digest", "2026-03-01T00:00:00Z", "2026-03-07T23:00:00Z"),
    ] {
        assert_eq!(next_after(&job_of(file, part), after), next, "{file} {part} {after}");
    }
}

#[test]
fn modifiers_take_effect() {
    let loaded = load_file("crontabs/modifiers");
    let [first, second, refresh, digest] = &loaded.jobs[..] else { panic!() };
    assert_eq!(second.identity(), format!("{}#2", first.identity()));
    assert_ne!(first.timing, second.timing);
    let start = "2026-03-01T00:00:00Z".parse().expect("a time");
    let decision = first.timing.due_after(start).next().expect("a period");
    assert_eq!(decision.nominal.to_string(), "2026-03-01T03:00:00Z");
    assert!((decision.window_start..=decision.window_end).contains(&decision.due()));
    let hour = refresh.timing.due_after(start).next().expect("a period").nominal.to_string();
    assert!(("01".."06").contains(&&hour[11..13]), "{hour}");
    assert_eq!(refresh.timing.policy.deadline.get(), 600);
    assert!(digest.timing.to_string().contains("@avoid(dates=2026-12-20..2027-01-03)"));
}
