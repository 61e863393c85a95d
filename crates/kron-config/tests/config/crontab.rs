//! Crontab files: what cron accepts is accepted, and a bad line spoils nothing else.

use crate::loading::{check_said, load, said};
use kron_config::{Action, CrontabOwner, Format, Job, Loader, Options, Source};
use kron_core::{Concurrency, Zone};
use sha2::{Digest as _, Sha256};

fn user() -> Format {
    Format::Crontab(CrontabOwner::User("ann".to_owned()))
}

fn system() -> Format {
    Format::Crontab(CrontabOwner::System)
}

/// The one job of a user's crontab in which nothing is wrong.
#[track_caller]
fn job(text: &str) -> Job {
    let text = &format!("{}\n", text.trim_end_matches('\n'));
    let mut loaded = check_said(&user(), text, &[]);
    assert_eq!(loaded.jobs.len(), 1, "{text}");
    loaded.jobs.remove(0)
}

/// A file with these faults still gives this many jobs, and they may be scheduled.
#[track_caller]
fn check_faults(format: &Format, text: &str, jobs: usize, expected: &[&str]) {
    let loaded = check_said(format, text, expected);
    assert_eq!(loaded.jobs.len(), jobs, "{text}");
    assert!(loaded.is_usable(), "{text}");
}

fn line_of(job: &Job) -> (&str, &str) {
    match &job.action {
        Action::Shell { shell, line } => (shell, line),
        Action::Program(_) | Action::Enqueue(_) | Action::Spool(_) => panic!("{:?}", job.action),
    }
}

/// The first sixteen hexadecimal digits of the SHA-256 of these bytes.
fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn entries_of_users_and_of_the_system() {
    let own = job("30 4 1,15 * 5 /usr/bin/report --all\n");
    assert_eq!(own.execution.user.as_deref(), Some("ann"));
    assert_eq!(line_of(&own), ("/bin/sh", "/usr/bin/report --all"));
    assert_eq!(own.timing.to_string(), "30 4 1,15 * FRI @policy(concurrency=allow,deadline=1m)");
    assert_eq!(own.timing.policy.concurrency, Concurrency::Allow);
    let loaded = check_said(&system(), "30 4 1,15 * 5\twww-data\t/usr/bin/report  --all \t\n", &[]);
    assert_eq!(loaded.jobs[0].execution.user.as_deref(), Some("www-data"));
    assert_eq!(line_of(&loaded.jobs[0]), ("/bin/sh", "/usr/bin/report  --all"));
}

#[test]
fn identities() {
    // Computed with `printf '…' | sha256sum`.
    assert_eq!(hash(b"0 3 * * *\n/usr/bin/backup --full"), "a168619b3cc8088d");
    for (line, bytes) in [
        ("0 3 * * * /usr/bin/backup --full", "0 3 * * *\n/usr/bin/backup --full"),
        // Blanks between fields and at the end of the line are nobody's.
        ("0\t3 *  * *   /usr/bin/backup --full \t", "0 3 * * *\n/usr/bin/backup --full"),
        ("0 3 * * * /usr/bin/backup --full\r", "0 3 * * *\n/usr/bin/backup --full"),
        // Modifiers may change without making another job of it.
        ("0 3 * * * @win(after,2h) /usr/bin/backup --full", "0 3 * * *\n/usr/bin/backup --full"),
        ("@daily /usr/bin/backup --full", "@daily\n/usr/bin/backup --full"),
        ("@daily @win(after,2h) /usr/bin/backup", "@daily\n/usr/bin/backup"),
        ("0 3 * * * mail -s \\% ann%dear ann%", "0 3 * * *\nmail -s \\% ann%dear ann%"),
    ] {
        let expected = format!("crontab/ann/{}", hash(bytes.as_bytes()));
        assert_eq!(job(line).identity(), expected, "{line}");
    }
    let silent = load(&user(), "-0 3 * * * x\n");
    assert_eq!(silent.jobs[0].identity(), format!("crontab/ann/{}", hash(b"0 3 * * *\nx")));
}

#[test]
fn repeated_entries_are_numbered() {
    let text = "@daily root x\n@daily root x\n@daily bin x\n@daily @win(after,1h) root x\n";
    let hash = hash(b"@daily\nx");
    let loaded = check_said(&system(), text, &[]);
    let names: Vec<&str> = loaded.jobs.iter().map(Job::identity).collect();
    let expected = ["root/", "root/", "bin/", "root/"].map(|user| format!("crontab/{user}{hash}"));
    let marks = ["", "#2", "", "#3"];
    for ((name, start), mark) in names.iter().zip(&expected).zip(marks) {
        assert_eq!(*name, format!("{start}{mark}"));
    }
    // The number counts over files.
    let mut loader = Loader::new(Options::default());
    for name in ["a", "b"] {
        loader.load(&Source::new(name, "@daily root x\n"), &system());
    }
    let loaded = loader.finish();
    assert_eq!(loaded.jobs[1].identity(), format!("crontab/root/{hash}#2"));
}

#[test]
fn environment_lines() {
    let env = |lines: &str| -> Vec<String> {
        let job = job(&format!("{lines}\n* * * * * x\n"));
        job.execution.env.iter().map(|(name, value)| format!("{name}={value}")).collect()
    };
    // What cron sets itself, in front of what the file sets.
    let own = ["SHELL=/bin/sh", "PATH=/usr/bin:/bin"];
    assert_eq!(env(""), own);
    assert_eq!(env("PATH=/opt/bin"), ["SHELL=/bin/sh", "PATH=/opt/bin"]);
    assert_eq!(env("PATH=/a\nB=1\nPATH=/c"), ["SHELL=/bin/sh", "PATH=/c", "B=1"]);
    for (line, expected) in [
        ("A=b", "A=b"),
        ("  A = b  ", "A=b"),
        ("A\t=\tb c", "A=b c"),
        ("A=\"b c \"", "A=b c "),
        ("A='b \"c\"'", "A=b \"c\""),
        ("\"A\"=b", "A=b"),
        ("'A' = 'b'", "A=b"),
        ("A=", "A="),
        ("A=\"\"", "A="),
        ("A=b=c", "A=b=c"),
        ("A=$HOME/bin # not a comment", "A=$HOME/bin # not a comment"),
        ("A=50%", "A=50%"),
    ] {
        assert_eq!(env(line), [own[0], own[1], expected], "{line}");
    }
    // The last word holds, for the entries below it only.
    let loaded = check_said(&user(), "* * * * * x\nA=1\n* * * * * y\nB=2\nA=3\n* * * * * z\n", &[]);
    let envs: Vec<_> = loaded.jobs.iter().map(|job| job.execution.env[2..].to_vec()).collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(envs, [vec![], vec![pair("A", "1")], vec![pair("A", "3"), pair("B", "2")]]);
}

#[test]
fn faults_of_environment_lines() {
    let entry = "\n* * * * * x\n";
    for (line, expected) in [
        ("2A=b", &["1:1 `2A` is not a variable's name"][..]),
        ("A-B=c", &["1:1 `A-B` is not a variable's name"]),
        ("=c", &["1:1 `` is not a variable's name"]),
        ("KRON_MODE=x", &["1:1 `KRON_MODE` is set by Kron itself"]),
        ("A=\"b", &["1:3 a value that is only partly in quotes"]),
        ("A = 'b' c", &["1:5 a value that is only partly in quotes"]),
        ("A=\"b\" \"c\"", &["1:3 a value that is only partly in quotes"]),
        ("SHELL=bash", &["1:7 `bash` is not an absolute path"]),
        ("SHELL=", &["1:7 `` is not an absolute path"]),
        ("A=b\0c", &["1:4 a line with a NUL character"]),
    ] {
        check_faults(&user(), &format!("{line}{entry}"), 1, expected);
    }
}

/// A variable that the commands of a job see.
fn variable<'a>(job: &'a Job, name: &str) -> Option<&'a str> {
    let found = job.execution.env.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

#[test]
fn variables_that_mean_something() {
    for (line, expected) in [
        ("MAILTO=ann@example.org", &["1:1 warning: `MAILTO` is set, but Kron sends no mail"][..]),
        ("MAILTO=\"\"", &[]),
        ("MAILTO=", &[]),
        ("MAILFROM=x", &["1:1 warning: `MAILFROM` is set, but Kron sends no mail"]),
        // Once is enough for a file.
        (
            "MAILTO=a\nMAILTO=b\nMAILFROM=c",
            &["1:1 warning: `MAILTO` is set, but Kron sends no mail"],
        ),
        ("MAILTO=\nMAILTO=b", &["2:1 warning: `MAILTO` is set, but Kron sends no mail"]),
        ("RANDOM_DELAY=45", &["1:1 warning: `RANDOM_DELAY` delays nothing here"]),
        (
            "TZ=Europe/Paris",
            &["1:1 warning: `TZ` is set for the commands, and does not move the schedule"],
        ),
        (
            "LOGNAME=eve",
            &["1:1 warning: `LOGNAME` is always the name of the user, and this changes nothing"],
        ),
        ("USER=eve", &[]),
        ("HOME=/srv", &[]),
        (
            "HOME=~eve",
            &[
                "1:1 warning: `~eve` is not an absolute path, so commands start at their user's home",
            ],
        ),
    ] {
        check_faults(&user(), &format!("{line}\n* * * * * x\n"), 1, expected);
        // All of them reach the commands, but for the one that no cron lets a file set.
        let name = line.rsplit('\n').next().and_then(|line| line.split('=').next()).unwrap();
        let loaded = load(&user(), &format!("{line}\n* * * * * x\n"));
        let value = line.rsplit('=').next().unwrap().trim_matches('"');
        let expected = (name != "LOGNAME").then_some(value);
        assert_eq!(variable(&loaded.jobs[0], name), expected, "{line}");
    }
    let shells = "* * * * * a\nSHELL=/bin/bash\n* * * * * b\nSHELL = \"/bin/dash\"\n* * * * * c\n";
    let loaded = check_said(&user(), shells, &[]);
    let lines: Vec<_> = loaded.jobs.iter().map(line_of).collect();
    assert_eq!(lines, [("/bin/sh", "a"), ("/bin/bash", "b"), ("/bin/dash", "c")]);
    let seen: Vec<_> = loaded.jobs.iter().map(|job| variable(job, "SHELL")).collect();
    assert_eq!(seen, [Some("/bin/sh"), Some("/bin/bash"), Some("/bin/dash")]);
    let help = load(&user(), "RANDOM_DELAY=45\n").diagnostics[0].help.clone().unwrap();
    assert_eq!(help, "`@win(after,45m)` after the five fields spreads reproducibly");
    // `TZ` reaches the commands and leaves the schedule alone.
    let loaded = load(&user(), "TZ=Europe/Paris\n0 3 * * * x\n");
    assert_eq!(loaded.jobs[0].timing.schedule().zone().name(), "UTC");
    // Commands start in the `HOME` that the file sets, as with cron.
    let homes = "* * * * * a\nHOME=/srv\n* * * * * b\nHOME=~\n* * * * * c\n";
    let loaded = load(&user(), homes);
    let started: Vec<_> = loaded.jobs.iter().map(|job| job.execution.cwd.as_deref()).collect();
    assert_eq!(started, [None, Some("/srv"), None]);
}

#[test]
fn an_entry_may_start_as_late_as_cron_would_look_again() {
    let deadline = |line: &str| job(line).timing.policy.deadline.get();
    assert_eq!(deadline("0 3 * * * x"), 60);
    assert_eq!(deadline("0 3 * * * @policy(concurrency=forbid) x"), 60);
    assert_eq!(deadline("0 3 * * * @policy(deadline=0s) x"), 0);
    assert_eq!(deadline("0 3 * * * @policy(deadline=2h) x"), 7_200);
}

#[test]
fn the_zone_of_an_entry() {
    let text = "0 3 * * * a\nCRON_TZ=Europe/Paris\n0 3 * * * b\n0 3 * * * @tz(Asia/Tokyo) c\n\
                CRON_TZ = \"America/New_York\"\n0 3 * * * d\n";
    let zones = |zone: Option<Zone>| -> Vec<String> {
        let mut loader = Loader::new(Options { crontab_zone: zone, ..Options::default() });
        loader.load(&Source::new("tab", text), &user());
        loader.load(&Source::new("other", "0 3 * * * e\n"), &user());
        let loaded = loader.finish();
        assert!(loaded.diagnostics.is_empty());
        let name = |job: &Job| job.timing.schedule().zone().name().to_owned();
        loaded.jobs.iter().map(name).collect()
    };
    let governed = ["Europe/Paris", "Asia/Tokyo", "America/New_York"];
    assert_eq!(zones(None), [&["UTC"], &governed[..], &["UTC"]].concat());
    let berlin = Zone::named("Europe/Berlin").unwrap();
    assert_eq!(
        zones(Some(berlin)),
        [&["Europe/Berlin"], &governed[..], &["Europe/Berlin"]].concat()
    );
    // Commands see it, and read nothing into it.
    let loaded = load(&user(), "CRON_TZ=Europe/Paris\n0 3 * * * b\n");
    assert_eq!(variable(&loaded.jobs[0], "CRON_TZ"), Some("Europe/Paris"));
    assert_eq!(variable(&loaded.jobs[0], "TZ"), None);
}

#[test]
fn entries_under_an_unknown_zone_run_at_no_other_zones_time() {
    check_faults(
        &user(),
        "0 1 * * * a\nCRON_TZ=Europe/Pariss\n0 2 * * * b\n0 3 * * * @tz(UTC) c\nCRON_TZ=UTC\n0 4 * * * d\n",
        3,
        &["2:9 unknown time zone `Europe/Pariss`; 1 entry up to the next `CRON_TZ` is left out"],
    );
    // Each is counted once, and what is wrong with an entry itself is told once.
    check_faults(
        &user(),
        "CRON_TZ=US/Nowhere\n0 1 * * * a\n61 * * * * b\nA=b\n0 2 * * * c\nCRON_TZ=Mars\nCRON_TZ='UTC\n0 3 * * * d\n",
        0,
        &[
            "1:9 unknown time zone `US/Nowhere`; 2 entries up to the next `CRON_TZ` are left out",
            "3:1 `61` is outside the minute field",
            "6:9 unknown time zone `Mars`",
            "7:9 a value that is only partly in quotes; 1 entry up to the next `CRON_TZ` is left out",
        ],
    );
    // One that cannot be read at all is no zone either.
    check_faults(
        &user(),
        "CRON_TZ=Asia/Tokyo\nCRON_TZ=Am\u{fffd}rica\n0 1 * * * a\nA=\u{fffd}\n0 2 * * * b\n",
        0,
        &[
            "2:11 a line that is not UTF-8; 2 entries up to the next `CRON_TZ` are left out",
            "4:3 a line that is not UTF-8",
        ],
    );
}

/// As cronie has it, which takes an empty zone for none.
#[test]
fn an_empty_zone_is_none() {
    let text = "CRON_TZ=Asia/Tokyo\n0 1 * * * a\nCRON_TZ=\n0 2 * * * b\nCRON_TZ=Mars\nCRON_TZ=\"\"\n0 3 * * * c\n";
    for (zone, name) in [(None, "UTC"), (Some("Europe/Paris"), "Europe/Paris")] {
        let crontab_zone = zone.map(|zone| Zone::named(zone).unwrap());
        let mut loader = Loader::new(Options { crontab_zone, ..Options::default() });
        loader.load(&Source::new("tab", text), &user());
        let loaded = loader.finish();
        let zones: Vec<&str> =
            loaded.jobs.iter().map(|job| job.timing.schedule().zone().name()).collect();
        assert_eq!(zones, ["Asia/Tokyo", name, name]);
        assert_eq!(
            said(&loaded),
            [
                format!("3:1 warning: `CRON_TZ` is empty: the entries below it are read in {name}"),
                "5:9 unknown time zone `Mars`".to_owned(),
                format!("6:1 warning: `CRON_TZ` is empty: the entries below it are read in {name}"),
            ]
        );
    }
}

/// Debian's cron and cronie were asked what they make of these. They differ only where a warning says
/// so: Debian's makes one backslash of two in the command.
#[test]
fn percent_signs() {
    for (command, line, stdin) in [
        ("mail ann%Hello%%Bye", "mail ann", Some("Hello\n\nBye\n")),
        ("date +\\%F", "date +%F", None),
        ("date +\\%Y-\\%m-\\%d >> log", "date +%Y-%m-%d >> log", None),
        ("cat%100\\% sure", "cat", Some("100% sure\n")),
        // Cron ends the input with a newline, unless it has one or is empty.
        ("cat%a%", "cat", Some("a\n")),
        ("cat%", "cat", Some("")),
        ("cat%%", "cat", Some("\n")),
        ("cat%a\\b", "cat", Some("a\\b\n")),
        // Blanks at the end of a line count in the input, and after a backslash.
        ("cat%a  ", "cat", Some("a  \n")),
        ("echo a\\ ", "echo a\\ ", None),
        ("echo a  ", "echo a", None),
        // In the input a percent sign is escaped by the backslash before it, whatever is before
        // that one.
        ("cat%a\\\\%b", "cat", Some("a\\%b\n")),
        ("cat%a\\\\b\\\\\\\\c\\d\\", "cat", Some("a\\\\b\\\\\\\\c\\d\\\n")),
    ] {
        let job = job(&format!("* * * * * {command}\n"));
        assert_eq!(line_of(&job).1, line, "{command}");
        assert_eq!(job.execution.stdin.as_deref(), stdin, "{command}");
    }
    let doubled = "warning: `\\\\` is handed to the shell as it is, as most crons do; \
                   Debian's makes one backslash of it";
    for (command, line, stdin, column) in [
        ("a\\b \\\\ c", "a\\b \\\\ c", None, 15),
        // The backslash is escaped, and so the percent sign is not.
        ("cat \\\\%a", "cat \\\\", Some("a\n"), 15),
        ("cat \\\\\\%a", "cat \\\\%a", None, 15),
    ] {
        let text = format!("* * * * * {command}\n");
        let loaded = check_said(&user(), &text, &[&format!("1:{column} {doubled}")]);
        assert_eq!(line_of(&loaded.jobs[0]).1, line, "{command}");
        assert_eq!(loaded.jobs[0].execution.stdin.as_deref(), stdin, "{command}");
    }
    // What everybody forgets once.
    let ends = "warning: the command ends at this `%`, and what follows is its input, as in cron";
    for (command, column) in [("x-$(date +%F)", 21), ("x-$(date '+%F')", 22), ("date +%F +%T", 17)]
    {
        let text = format!("* * * * * {command}\n");
        check_said(&user(), &text, &[&format!("1:{column} {ends}")]);
    }
}

#[test]
fn options_before_a_command_are_cron_s() {
    let text = "* * * * * root -n -q /usr/bin/x -n\n";
    let expected = [
        "1:16 warning: `-n` before a command asks for mail only when it fails; Kron sends no mail",
        "1:19 warning: `-q` before a command silences cron's log; Kron always records its runs",
    ];
    let loaded = check_said(&system(), text, &expected);
    assert_eq!(line_of(&loaded.jobs[0]).1, "/usr/bin/x -n");
    // It is the entry that has an identity, not what is made of it.
    let identity = format!("crontab/root/{}", hash(b"* * * * *\n-n -q /usr/bin/x -n"));
    assert_eq!(loaded.jobs[0].identity(), identity);
}

#[test]
fn a_line_that_does_not_end_is_told() {
    let expected =
        "2:12 warning: the last line does not end; cron would leave it out, and Kron runs it";
    let loaded = check_said(&user(), "* * * * * x\n* * * * * y", &[expected]);
    assert_eq!(loaded.jobs.len(), 2);
    check_said(&user(), "* * * * * x\n# the end", &[]);
    check_said(&user(), "* * * * * x\nA=b", &[]);
}

#[test]
fn bytes_that_are_no_text_spoil_their_line_only() {
    let text = "# caf\u{fffd}\n0 1 * * * caf\u{fffd}\nA=\u{fffd}\n0 2 * * * x\n";
    let expected = ["2:14 a line that is not UTF-8", "3:3 a line that is not UTF-8"];
    check_faults(&user(), text, 1, &expected);
}

#[test]
fn nicknames() {
    for (nickname, pattern) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 JAN *"),
        ("@annually", "0 0 1 JAN *"),
    ] {
        let job = job(&format!("{nickname} x\n"));
        assert_eq!(job.timing.schedule().pattern().to_string(), pattern);
        assert_eq!(line_of(&job).1, "x");
    }
    let boot = "1:1 `@reboot` is not supported: it is not a time, so it has no period";
    check_faults(&user(), "@reboot x\n@daily y\n", 1, &[boot]);
    check_faults(&system(), "@reboot bin x\n@daily root y\n", 1, &[boot]);
    let help = load(&system(), "@reboot bin x\n").diagnostics[0].help.clone().unwrap();
    assert!(help.contains("`User=bin`") && help.contains("`WantedBy=multi-user.target`"), "{help}");
    check_faults(&user(), "@daly x\n@daily y\n", 1, &["1:1 unknown nickname `@daly`"]);
}

#[test]
fn a_leading_minus_is_told() {
    let expected = "1:1 warning: a leading `-` silences cron's log; Kron always records its runs";
    let loaded = check_said(&system(), "-*/5 * * * * root x\n", &[expected]);
    assert_eq!(line_of(&loaded.jobs[0]).1, "x");
}

#[test]
fn modifiers_follow_the_five_fields() {
    let text = "0 3 * * * @win(after,2h) @policy(concurrency=forbid) root @echo (x)\n";
    let loaded = check_said(&system(), text, &[]);
    let job = &loaded.jobs[0];
    assert_eq!(job.timing.to_string(), "0 3 * * * @win(after,2h) @policy(deadline=1m)");
    assert_eq!(line_of(job).1, "@echo (x)");
    assert_eq!(job.execution.user.as_deref(), Some("root"));
    // Words with `@` or `=` that are no modifiers belong to the command.
    assert_eq!(line_of(&self::job("0 3 * * * A=b @x\n")).1, "A=b @x");
    let hashed = self::job("H H * * * x\n");
    assert!(hashed.identity().ends_with(&hash(b"H H * * *\nx")));
    for (line, fault) in [
        ("0 3 * * * @wni(after,2h) root x", "1:11 unknown modifier `@wni`"),
        ("0 3 * * * @win(after,2h root x", "1:11 `@win(` is never closed"),
        (
            "0 3 * * * @win(after,2d) root x",
            "1:16 windows of 2d can overlap: the periods 2026-01-01T03:00:00Z and 2026-01-02T03:00:00Z are only 1d apart",
        ),
        (
            "0 3 * * * @seed(stable,salt=%m) root x",
            "1:29 the salt names the machine id (`%m`), which is not known here",
        ),
    ] {
        check_faults(&system(), &format!("{line}\n@daily root y\n"), 1, &[fault]);
    }
}

#[test]
fn bad_lines_are_left_out() {
    for (format, line, expected) in [
        (user(), "61 * * * * x", &["1:1 `61` is outside the minute field"][..]),
        (user(), "* * * * MOX x", &["1:9 `MOX` is not a day-of-week"]),
        (
            user(),
            "60 24 * * * x",
            &["1:1 `60` is outside the minute field", "1:4 `24` is outside the hour field"],
        ),
        (user(), "* * * *", &["1:1 a schedule with only 4 fields"]),
        (user(), "* * * * *", &["1:1 an entry without a command"]),
        (user(), "* * * * *   \t", &["1:1 an entry without a command"]),
        (user(), "* * * * * %input", &["1:1 an entry without a command"]),
        (system(), "* * * * * /usr/bin/true", &["1:11 `/usr/bin/true` is not a user"]),
        (system(), "* * * * * root", &["1:1 an entry without a command"]),
        (system(), "* * * * *", &["1:1 an entry without a command"]),
        // Somebody's own crontab, or one with seconds, in the place of a system's.
        (system(), "* * * * * /usr/bin/true --now", &["1:11 `/usr/bin/true` is not a user"]),
        (system(), "0 0 3 * * * root x", &["1:11 `*` is not a user"]),
        (user(), "hello", &["1:1 a schedule with only 1 field"]),
        (user(), "0~30 * * * * x", &["1:1 `0~30`: random ranges are not reproducible"]),
        (user(), "0 0 30 2 * x\0", &["1:13 a line with a NUL character"]),
    ] {
        let rest = if format == system() { "@daily root y\n" } else { "@daily y\n" };
        check_faults(&format, &format!("{line}\n{rest}"), 1, expected);
    }
    // Line and column, whatever ends the lines and however wide the characters are.
    check_faults(
        &user(),
        "\u{feff}# Zürich\r\n\r\n\té 3 * * * x\r\n  0 3 * * MOX x\r\n0 3 * * * y\r\n",
        1,
        &["3:2 `é` is not a minute", "4:11 `MOX` is not a day-of-week"],
    );
}

#[test]
fn limits() {
    let long = format!("* * * * * {}\n* * * * * x\n", "y".repeat(64 * 1024));
    check_faults(&user(), &long, 1, &["1:1 a line of more than 65536 bytes"]);
    // `SHELL` and `PATH` count.
    let variables: String = (0..255).map(|n| format!("V{n}=\n")).collect();
    check_faults(
        &user(),
        &format!("{variables}V0=x\nPATH=/x\n* * * * * x\n"),
        1,
        &["255:1 more than 256 variables"],
    );
    // A fresh environment for each of very many entries.
    let value = "v".repeat(60_000);
    let many: String = (0..300).map(|n| format!("A={value}{n}\n* * * * * x\n")).collect();
    let loaded = load(&user(), &many);
    assert_eq!(said(&loaded)[0], "558:1 environments of more than 16 MiB");
    assert!(loaded.jobs.len() < 300);
    // Warnings without end, and errors up to a thousand.
    let loaded = load(&user(), &"-* * * * * x\n".repeat(1_500));
    assert_eq!((loaded.jobs.len(), loaded.diagnostics.len()), (1_500, 1_000));
    assert!(loaded.is_usable());
    let loaded = load(&user(), &("x\n".repeat(1_000) + "* * * * * x\n"));
    assert_eq!((loaded.jobs.len(), loaded.diagnostics.len(), loaded.cut_short), (1, 1_000, false));
    let loaded = load(&user(), &("x\n".repeat(1_001) + "* * * * * x\n"));
    assert_eq!((loaded.jobs.len(), loaded.diagnostics.len(), loaded.cut_short), (1, 1_001, false));
    assert_eq!(said(&loaded)[1_000], "1001:1 1 more line of this file is left out");
}

#[test]
fn bad_lines_without_end_spoil_no_other_line_and_no_other_file() {
    // Of exactly as many as are read nothing is unread.
    let loaded = load(&system(), &"x\n".repeat(2_000));
    assert_eq!(said(&loaded)[1_000], "1001:1 1000 more lines of this file are left out");
    // An entry is counted even if its zone is one of too many errors.
    let zones = "x\n".repeat(1_000) + "CRON_TZ=Mars\n* * * * * root x\n";
    assert_eq!(
        said(&load(&system(), &zones))[1_000],
        "1001:1 2 more lines of this file are left out"
    );
    let good = "* * * * * root x\n";
    let mut loader = Loader::new(Options::default());
    let prose = "prose\n".repeat(1_500);
    loader.load(&Source::new("prose", &format!("{good}{prose}{good}")), &system());
    // What has that many is no crontab, and need not be read to its end.
    let endless = format!("{good}{}{good}", "x\n".repeat(2_000));
    loader.load(&Source::new("endless", &endless), &system());
    loader.load(&Source::new("good", &format!("61 * * * * root y\n{good}")), &system());
    let loaded = loader.finish();
    assert!(loaded.is_usable() && loaded.has_errors() && !loaded.cut_short);
    let lines: Vec<String> = loaded.jobs.iter().map(|job| job.origin.to_string()).collect();
    assert_eq!(lines, ["prose:1:1", "prose:1502:1", "endless:1:1", "good:2:1"]);
    assert_eq!(loaded.diagnostics.len(), 1_003);
    let told = |index: usize| {
        let diagnostic = &loaded.diagnostics[index];
        format!("{} {}", diagnostic.location.as_ref().unwrap(), diagnostic.message)
    };
    assert!(told(999).starts_with("prose:1001:"), "{}", told(999));
    assert_eq!(told(1_000), "prose:1002:1 500 more lines of this file are left out");
    assert_eq!(
        told(1_001),
        "endless:2:1 2000 more lines of this file are left out, \
         and what follows from line 2002 on is not read"
    );
    assert_eq!(told(1_002), "good:1:1 1 more line of this file is left out");
}

#[test]
fn errors_of_native_files_are_told_after_any_number_of_bad_crontab_lines() {
    let mut loader = Loader::new(Options::default());
    loader.load(&Source::new("tab", &"x\n".repeat(1_500)), &user());
    loader.load(&Source::new("jobs.krontab", "@daily command=x\n"), &Format::Krontab);
    let missing = kron_config::files::ReadError::NotAFile { path: "pipe".into() };
    loader.leave_out(std::path::Path::new("pipe"), &missing);
    let loaded = loader.finish();
    assert!(!loaded.is_usable() && !loaded.cut_short);
    let last: Vec<&str> =
        loaded.diagnostics[1_001..].iter().map(|it| &*it.location.as_ref().unwrap().file).collect();
    assert_eq!(last, ["jobs.krontab", "pipe"]);
}

#[test]
fn errors_of_crontabs_and_of_native_files_are_not_the_same() {
    let mut loader = Loader::new(Options::default());
    loader.load(&Source::new("tab", "61 * * * * x\n"), &user());
    loader.load(&Source::new("jobs.krontab", "@daily name=a command=x\n"), &Format::Krontab);
    let loaded = loader.finish();
    assert!(loaded.is_usable() && loaded.has_errors());
    let mut loader = Loader::new(Options::default());
    loader.load(&Source::new("jobs.krontab", "@daily command=x\n"), &Format::Krontab);
    loader.load(&Source::new("tab", "@daily x\n"), &user());
    assert!(!loader.finish().is_usable());
}

#[test]
fn a_bad_file_as_people_see_it() {
    let mut loader = Loader::new(Options::default());
    let text = include_str!("../texts/bad.crontab");
    loader.load(&Source::new("/etc/crontab", text), &system());
    let loaded = loader.finish();
    let texts: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n\n"));
}
