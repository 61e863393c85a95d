//! `kron import` from outside: what it writes loads, is private, and replaces nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kron_testkit::needs::{Need, left_out};

use crate::command::kron::{fixture, kron, kron_reading};
use crate::command::scratch::Scratch;

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

/// The fixtures of a directory, as nobody else may write them. A checkout may be anybody's.
fn cron_d(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    for file in ["report", "report.dpkg-old", "sessions"] {
        let from = fixture(&format!("import/cron.d/{file}"));
        std::fs::copy(&from, scratch.write(file, "")).expect("it is copied");
        set_mode(&scratch, file, 0o644);
    }
    scratch
}

fn set_mode(scratch: &Scratch, file: &str, mode: u32) {
    let path = Path::new(scratch.path()).join(file);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// What `kron import` says of a directory, without its path, and what it prints.
fn import_directory(scratch: &Scratch) -> (Option<i32>, String, String) {
    let run = kron(&["import", scratch.path(), "--crontab-timezone", "UTC"]);
    let short = |text: &str| text.replace(&format!("{}/", scratch.path()), "");
    (run.code, short(&run.err), short(&run.out))
}

#[test]
fn a_directory_as_people_see_it() {
    let (code, told, out) = import_directory(&cron_d("import-seen"));
    assert_eq!(code, Some(0));
    assert_eq!(
        told,
        "report:1: differs: it has become the `@tz` of the jobs below\n\
         report: 1 job, 0 lines left out\n\
         sessions: 1 job, 0 lines left out\n"
    );
    let page = "\
# Imported from report by `kron import`.
# Entries without `CRON_TZ` are read in UTC.

# line 1: CRON_TZ=Europe/Zurich
#   differs: it has become the `@tz` of the jobs below
# line 2: 0 8 * * 1-5 report /opt/report/bin/morning
[job.report-morning]
schedule = \"0 8 * * 1-5 @tz(Europe/Zurich) @policy(concurrency=allow,deadline=1m)\"
command  = \"/opt/report/bin/morning\"
shell    = true
user     = \"report\"
env      = { SHELL = \"/bin/sh\", PATH = \"/usr/bin:/bin\", CRON_TZ = \"Europe/Zurich\" }

# Imported from sessions by `kron import`.
# Entries without `CRON_TZ` are read in UTC.

# line 1: 09,39 * * * * root [ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean
[job.root-sessionclean]
schedule = \"09,39 * * * * @policy(concurrency=allow,deadline=1m)\"
command  = \"[ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean\"
shell    = true
user     = \"root\"
env      = { SHELL = \"/bin/sh\", PATH = \"/usr/bin:/bin\" }

";
    assert_eq!(out, page);
}

#[test]
fn what_others_may_write_is_not_made_trusted_in_silence() {
    let found = cron_d("import-open");
    set_mode(&found, "report", 0o666);
    let (code, told, out) = import_directory(&found);
    assert_eq!(code, Some(1));
    assert_eq!(
        told,
        "report: left out: `report` may be written by others than its owner: its mode is 0666\n  \
         hint: `chmod go-w report`, if you trust what is in it\n\
         sessions: 1 job, 0 lines left out\n"
    );
    assert!(!out.contains("morning") && out.contains("sessionclean"), "{out}");
    // Whoever names it is told, and gets it.
    let named = format!("{}/report", found.path());
    let run = kron(&["import", &named, "--system", "--crontab-timezone", "UTC"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let told = run.err.replace(&format!("{}/", found.path()), "");
    assert!(
        told.starts_with(
            "report: differs: krond would leave it out: `report` may be written by others than its \
             owner: its mode is 0666\n  hint: `chmod go-w report`, if you trust what is in it\n\
             report:1: differs: "
        ),
        "{told}"
    );
    assert!(run.out.contains("[job.report-morning]"), "{}", run.out);
    // A user's own is the user's.
    let run = kron(&["import", &named, "--user", "ann", "--crontab-timezone", "UTC"]);
    assert!(!run.err.contains("krond"), "{}", run.err);
}

#[test]
fn what_belongs_to_somebody_else_is_not_made_trusted_in_silence() {
    const SOMEBODY: u32 = 65_534;
    if left_out("a file that is given away", &[Need::Root]) {
        return;
    }
    let found = cron_d("import-owner");
    let path = Path::new(found.path()).join("report");
    std::os::unix::fs::chown(path, Some(SOMEBODY), None).expect("another owner");
    let (code, told, out) = import_directory(&found);
    assert_eq!(code, Some(1));
    let line = "report: left out: `report` belongs to user 65534, who may not say what runs here\n";
    assert!(told.starts_with(line), "{told}");
    assert!(!out.contains("morning") && out.contains("sessionclean"), "{out}");
}

#[test]
fn nothing_is_taken_from_a_file_that_is_no_crontab() {
    let found = cron_d("import-prose");
    found.write("shadow", "root:$6$secret:19000:0:99999:7:::\nann:*:19000:0:99999:7:::\n");
    found.write("boot", "@reboot root /usr/bin/warm-up\n");
    set_mode(&found, "shadow", 0o640);
    let output = Scratch::new("import-no-prose");
    let words = ["--crontab-timezone", "UTC", "--output", output.path()];
    let run = kron(&[&["import", found.path()][..], &words].concat());
    assert_eq!(run.code, Some(1), "{}", run.err);
    let shadow = format!("{}/shadow: left out: ", found.path());
    let told: Vec<&str> =
        run.err.lines().filter_map(|line| line.strip_prefix(shadow.as_str())).collect();
    assert_eq!(told, ["it has no crontab entry, and 2 lines that cannot be read"]);
    assert!(!run.err.contains("secret"), "{}", run.err);
    let entries = Path::new(output.path()).read_dir().expect("a directory");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["boot.toml", "report.toml", "sessions.toml"]);
}

#[test]
fn entries_of_an_unknown_zone_are_told_once() {
    let scratch = Scratch::new("import-zone");
    let tab = scratch.write("ann.crontab", "CRON_TZ=US/Nowhere\n0 1 * * * a\n0 2 * * * b\n");
    let run = kron(&["import", &tab, "--crontab-timezone", "UTC"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    let told = run.err.replace(&format!("{}/", scratch.path()), "");
    let told: Vec<&str> = told.lines().filter(|line| !line.contains("hint:")).collect();
    assert_eq!(
        told,
        [
            "ann.crontab:1: left out: unknown time zone `US/Nowhere`; \
             2 entries up to the next `CRON_TZ` are left out",
            "ann.crontab: 0 jobs, 3 lines left out",
        ]
    );
}

#[test]
fn a_directory_becomes_a_directory() {
    let scratch = Scratch::new("import-directory");
    let found = cron_d("import-found");
    let crontabs = found.path();
    let words = ["import", crontabs, "--crontab-timezone", "UTC", "--output", scratch.path()];
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
