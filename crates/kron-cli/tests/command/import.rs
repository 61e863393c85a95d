//! `kron import` from outside: what it writes loads, is private, and replaces nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::kron::{fixture, kron, kron_reading};
use crate::scratch::Scratch;

/// The next nominal times of the one job of a file.
fn next(config: &str, read: &[&str]) -> Vec<String> {
    let words = ["next", "--config", config, "--after", "2026-03-27T00:00:00Z", "-n", "20"];
    let run = kron(&[&words[..], &["--format", "json"], read].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    run.json_lines().iter().map(|decision| decision["nominal_time"].to_string()).collect()
}

#[test]
fn a_crontab_from_standard_input_becomes_a_file_that_lints() {
    let scratch = Scratch::new("import-stdin");
    let output = format!("{}/ann.toml", scratch.path());
    let crontab = "30 2 * * * /home/ann/bin/backup.sh\n";
    let run = kron_reading(
        &["import", "-", "--user", "ann", "--crontab-timezone", "Europe/Paris", "-o", &output],
        crontab.as_bytes(),
    );
    assert_eq!((run.code, run.out.as_str()), (Some(0), ""), "{}", run.err);
    assert_eq!(run.err, format!("-: 1 job, 0 lines left out\nwrote {output}\n"));
    let mode = Path::new(&output).metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a crontab is private");
    let lint = kron(&["lint", &output, "--strict"]);
    assert_eq!((lint.code, lint.out.as_str()), (Some(0), "1 job, 0 errors, 0 warnings\n"));
    // Clocks change on 29 March, and both decide the same.
    let tab = scratch.write("ann.crontab", crontab);
    let direct = next(&tab, &["--crontab-timezone", "Europe/Paris"]);
    assert_eq!(next(&output, &[]), direct);
    assert_eq!(direct.len(), 20);
}

#[test]
fn nothing_is_overwritten() {
    let scratch = Scratch::new("import-again");
    let there = scratch.write("jobs.toml", "mine");
    let run = kron(&[
        "import",
        &fixture("import/ann.crontab"),
        "--crontab-timezone",
        "UTC",
        "-o",
        &there,
    ]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("is there already"), "{}", run.err);
    let kept = kron(&["lint", &there]);
    assert!(kept.out.contains("mine"), "{}", kept.out);
}

#[test]
fn a_directory_becomes_a_directory() {
    let scratch = Scratch::new("import-directory");
    let crontabs = fixture("import/cron.d");
    let words = ["import", &crontabs, "--crontab-timezone", "UTC", "--output", scratch.path()];
    let run = kron(&words);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let entries = Path::new(scratch.path()).read_dir().expect("a directory");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["report.toml", "sessions.toml"], "what cron passes over is passed over");
    let lint = kron(&["lint", scratch.path(), "--strict"]);
    assert_eq!((lint.code, lint.out.as_str()), (Some(0), "2 jobs, 0 errors, 0 warnings\n"));
    // A second time there is nothing to write.
    assert_eq!(kron(&words).code, Some(2));
}

#[test]
fn a_directory_of_another_name_is_the_system_s_too() {
    let scratch = Scratch::new("import-other");
    scratch.write("daily", "0 3 * * * bin /usr/bin/daily\n");
    let run = kron(&["import", scratch.path(), "--crontab-timezone", "UTC"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("user     = \"bin\""), "{}", run.out);
}

#[test]
fn the_zone_of_the_machine_is_told() {
    let run = kron(&["import", &fixture("import/cron.d/sessions")]);
    // A machine whose zone has no name must be told one.
    if run.code == Some(2) {
        assert!(run.err.contains("hint: say `--crontab-timezone ZONE`"), "{}", run.err);
        return;
    }
    assert_eq!(run.code, Some(0), "{}", run.err);
    let told = run.err.lines().next().expect("a line");
    let told = told.strip_prefix("entries without `CRON_TZ` are read in ").expect(told);
    let zone = told.split(',').next().expect("a zone");
    assert!(run.out.contains(&format!("# Entries without `CRON_TZ` are read in {zone}.")));
}

#[test]
fn other_encodings_spoil_their_line_only() {
    let scratch = Scratch::new("import-latin");
    let tab = scratch.write("ann.crontab", b"# caf\xe9\n0 1 * * * echo caf\xe9\n0 2 * * * x\n");
    let run = kron(&["import", &tab, "--crontab-timezone", "UTC"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.err.contains("2: left out: a line that is not UTF-8"), "{}", run.err);
    let lint = kron(&["lint", &tab]);
    assert_eq!(lint.code, Some(2));
    assert!(lint.out.contains("1 job, 1 error"), "{}", lint.out);
}
