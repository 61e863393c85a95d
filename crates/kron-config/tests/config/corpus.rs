//! Crontab files as distributions ship them and people keep them: what becomes of each.

use std::fmt::Write as _;

use crate::corpus_files::{self, File};
use kron_config::{Action, CrontabOwner, Format, Job, Loaded, Loader, Options};
use kron_core::UtcSecond;
use sha2::{Digest as _, Sha256};

/// Files that stand beside the others and that cron passes over.
const PASSED_OVER: [&str; 6] = [
    "cron.d/#edited#",
    "cron.d/.placeholder",
    "cron.d/README.txt",
    "cron.d/backup.dpkg-old",
    "cron.d/backup~",
    "cron.d/jobs.bak",
];

/// What becomes of a file alone.
fn load(file: &File) -> Loaded {
    let mut loader = Loader::new(Options::default());
    loader.load(&file.source, &Format::Crontab(file.owner.clone()));
    loader.finish()
}

fn load_file(name: &str) -> Loaded {
    let found = corpus_files::all().into_iter().find(|file| file.name == name);
    load(&found.unwrap_or_else(|| panic!("no {name}")))
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
        Action::Program(_) | Action::Enqueue(_) | Action::Spool(_) => panic!("{:?}", job.action),
    }
}

fn next_after(job: &Job, after: &str) -> String {
    let after: UtcSecond = after.parse().expect("a time");
    job.timing.schedule().next_after(after).expect("a next time").to_string()
}

/// A file's jobs and what is said about it, on a few lines each.
fn described(file: &File) -> String {
    let loaded = load(file);
    let mut text = String::new();
    let mut env_above = None;
    for job in &loaded.jobs {
        let Action::Shell { shell, line } = &job.action else { panic!("{:?}", job.action) };
        let execution = &job.execution;
        let user = execution.user.as_deref().expect("a user");
        let _ = writeln!(text, "line {}: {}", job.origin.line, job.identity());
        let _ = writeln!(text, "  as {user}: {}", job.timing);
        let _ = writeln!(text, "  {shell} -c {line:?}");
        if let Some(stdin) = &execution.stdin {
            let _ = writeln!(text, "  reads {stdin:?}");
        }
        if let Some(cwd) = &execution.cwd {
            let _ = writeln!(text, "  in {cwd}");
        }
        if env_above.replace(execution.env.clone()).as_ref() != Some(&execution.env) {
            for (name, value) in execution.env.iter() {
                let _ = writeln!(text, "    {name}={value:?}");
            }
        }
    }
    for diagnostic in &loaded.diagnostics {
        let place = diagnostic.location.as_ref().expect("a place");
        let level = if diagnostic.is_error() { "error" } else { "warning" };
        let _ = writeln!(text, "{}:{} {level}: {}", place.line, place.column, diagnostic.message);
    }
    let _ = writeln!(text, "{} jobs, {} notes", loaded.jobs.len(), loaded.diagnostics.len());
    text
}

#[test]
fn every_file_gives_the_jobs_it_should() {
    for file in corpus_files::all() {
        assert!(load(&file).is_usable(), "{}", file.name);
        insta::assert_snapshot!(file.name.replace('/', "-"), described(&file));
    }
}

#[test]
fn the_corpus_is_whole() {
    let mut found: Vec<String> = corpus_files::all().into_iter().map(|file| file.name).collect();
    assert!(found.len() >= 60, "{} files", found.len());
    found.extend(PASSED_OVER.map(str::to_owned));
    found.sort();
    let mut there = Vec::new();
    for directory in ["", "cron.d", "crontabs"] {
        for entry in corpus_files::root().join(directory).read_dir().expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.strip_prefix(corpus_files::root()).expect("inside");
                there.push(name.display().to_string());
            }
        }
    }
    there.sort();
    assert_eq!(found, there);
}

/// Where a crontab's entry comes from and what it hangs on can be told from its line alone.
#[test]
fn identities_are_those_of_the_lines() {
    for file in corpus_files::all() {
        let mut seen: Vec<String> = Vec::new();
        let lines: Vec<&str> = file.source.text().lines().collect();
        for job in load(&file).jobs {
            let line = lines[job.origin.line - 1].trim_start().trim_start_matches('-');
            let mut words = line.split_whitespace().peekable();
            let count = if line.starts_with('@') { 1 } else { 5 };
            let fields: Vec<&str> = words.by_ref().take(count).collect();
            while words.next_if(|word| word.starts_with('@') && word.contains('(')).is_some() {}
            let user = match &file.owner {
                CrontabOwner::System => words.next().expect("a user"),
                CrontabOwner::User(user) => user,
            };
            // What is left of the line, from its next word on.
            let next = words.next().expect("a command");
            let start = next.as_ptr() as usize - line.as_ptr() as usize;
            let command = line[start..].trim_end();
            let digest = Sha256::digest(format!("{}\n{command}", fields.join(" ")));
            let hash: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let first = format!("crontab/{user}/{hash}");
            seen.push(first.clone());
            let expected = match seen.iter().filter(|known| **known == first).count() {
                1 => first,
                count => format!("{first}#{count}"),
            };
            assert_eq!(job.identity(), expected, "{}: {line}", file.name);
        }
    }
}

#[test]
fn all_of_them_together_have_different_identities() {
    let mut loader = Loader::new(Options::default());
    let mut alone = 0;
    for file in corpus_files::all() {
        alone += load(&file).jobs.len();
        loader.load(&file.source, &Format::Crontab(file.owner.clone()));
    }
    let loaded = loader.finish();
    let mut names: Vec<&str> = loaded.jobs.iter().map(Job::identity).collect();
    assert_eq!(names.len(), alone);
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
    assert!(matches!(&exec.action, Action::Shell { shell, .. } if **shell == *"/bin/bash"));
    let env: Vec<_> = exec.execution.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(env, ["SHELL", "PATH", "HOME", "MAILTO"]);
    assert_eq!(exec.execution.cwd.as_deref(), Some("/srv/deploy"));
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
