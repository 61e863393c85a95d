//! Table `[daemon]`: defaults, every key and its bounds, merging over files, and what is refused.

use crate::loading::{check_said, load, said};
use kron_config::{
    ApiSettings, DaemonSettings, Execution, Format, Loaded, Loader, Options, Output, Source,
};
use kron_core::Seconds;

/// The settings of a table of these lines, with which nothing is wrong.
#[track_caller]
fn daemon(lines: &str) -> DaemonSettings {
    check_said(&Format::Toml, &format!("[daemon]\n{lines}\n"), &[]).daemon
}

/// A table of these lines, which begin on the second, has exactly these faults.
#[track_caller]
fn check_faults(lines: &str, expected: &[&str]) -> Loaded {
    let loaded = check_said(&Format::Toml, &format!("[daemon]\n{lines}\n"), expected);
    assert!(!loaded.is_usable() && loaded.has_errors());
    loaded
}

fn load_files(files: &[(&str, &str)]) -> Loaded {
    let mut loader = Loader::new(Options::default());
    for (name, text) in files {
        let format = if name.ends_with(".toml") { Format::Toml } else { Format::Krontab };
        loader.load(&Source::new(name, text), &format);
    }
    loader.finish()
}

/// Each diagnostic with its file and its help.
fn told(loaded: &Loaded) -> Vec<String> {
    let told = loaded.diagnostics.iter().map(|diagnostic| {
        let place = diagnostic.location.as_ref().expect("a place");
        let help = diagnostic.help.as_deref().unwrap_or("");
        format!("{place} {} / {help}", diagnostic.message)
    });
    told.collect()
}

#[test]
fn what_is_not_written_has_its_default() {
    let default = DaemonSettings {
        history_entries_max: 100,
        log_runs_max: 20,
        log_age_max: Seconds::new(2_592_000),
        log_bytes_max: 10_485_760,
        output: Output::Log,
        timeout: None,
        grace: Seconds::new(10),
        umask: 0o022,
        path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        socket_group: "kron".to_owned(),
        hooks: Vec::new(),
        queue: None,
        api: ApiSettings::default(),
        spools: Vec::new(),
    };
    assert_eq!(DaemonSettings::default(), default);
    assert_eq!(daemon(""), default);
    assert_eq!(load(&Format::Toml, "").daemon, default);
    assert_eq!(load(&Format::Krontab, "@daily name=a command=x\n").daemon, default);
}

#[test]
fn every_key() {
    let written = daemon(
        "history = 7\nlog_runs = 8\nlog_age = '36h'\nlog_size = '1MiB'\noutput = 'syslog'\n\
         timeout = '2h'\ngrace = '0s'\numask = '077'\npath = '/opt/bin:/bin'\nsocket_group = 'ops'",
    );
    let expected = DaemonSettings {
        history_entries_max: 7,
        log_runs_max: 8,
        log_age_max: Seconds::new(129_600),
        log_bytes_max: 1_048_576,
        output: Output::Syslog,
        timeout: Some(Seconds::new(7_200)),
        grace: Seconds::ZERO,
        umask: 0o077,
        path: "/opt/bin:/bin".to_owned(),
        socket_group: "ops".to_owned(),
        hooks: Vec::new(),
        queue: None,
        api: ApiSettings::default(),
        spools: Vec::new(),
    };
    assert_eq!(written, expected);
}

#[test]
fn forms_of_values() {
    for (line, expected) in [
        ("history = 1", 1),
        ("history = 10000", 10_000),
        ("history = 1_000", 1_000),
        ("history = 0x10", 16),
        ("history = '12'", 12),
    ] {
        assert_eq!(daemon(line).history_entries_max, expected, "{line}");
    }
    for (line, expected) in [
        ("log_size = 4096", 4_096),
        ("log_size = 1073741824", 1_073_741_824),
        ("log_size = 1_000_000", 1_000_000),
        ("log_size = '4096'", 4_096),
        ("log_size = '5000B'", 5_000),
        ("log_size = '4KiB'", 4_096),
        ("log_size = '010MiB'", 10_485_760),
        ("log_size = '1GiB'", 1_073_741_824),
    ] {
        assert_eq!(daemon(line).log_bytes_max, expected, "{line}");
    }
    for output in Output::ALL {
        assert_eq!(daemon(&format!("output = '{}'", output.as_str())).output, output);
    }
    assert_eq!(daemon("umask = 0o27").umask, 0o27);
    // However the table is written.
    for text in [
        "daemon.history = 3\n",
        "daemon = { history = 3 }\n",
        "[ daemon ]\nhistory = 3\n",
        "['daemon']\nhistory = 3\n",
        "\u{feff}[daemon] # settings\r\nhistory = 3\r\n",
    ] {
        let loaded = check_said(&Format::Toml, text, &[]);
        assert_eq!(loaded.daemon.history_entries_max, 3, "{text}");
    }
}

#[test]
fn values_that_are_refused() {
    let long = "x".repeat(64 * 1024 + 1);
    let long_path = format!("path = '/{long}'");
    for (line, expected) in [
        ("history = 0", "2:11 `history` goes from 1 to 10000"),
        ("history = -1", "2:11 `history` goes from 1 to 10000"),
        ("history = 10001", "2:11 `history` goes from 1 to 10000"),
        ("history = 4294967396", "2:11 `history` goes from 1 to 10000"),
        ("history = 99999999999999999999", "2:11 not a whole number"),
        ("history = 1.5", "2:11 expected a whole number, found a decimal number"),
        ("history = nan", "2:11 expected a whole number, found a decimal number"),
        ("history = 'many'", "2:11 not a whole number"),
        ("history = [1]", "2:11 expected a whole number, found a list"),
        ("history = {}", "2:11 expected a whole number, found a table"),
        ("history = 2026-01-01", "2:11 expected a whole number, found a date or time"),
        ("log_runs = 0", "2:12 `log_runs` goes from 1 to 10000"),
        ("log_runs = 10001", "2:12 `log_runs` goes from 1 to 10000"),
        ("log_age = '0s'", "2:11 must be longer than 0s"),
        ("log_age = 30", "2:11 expected a text, found a number"),
        ("log_age = '30 days'", "2:11 `30 days` is not a duration"),
        ("log_size = 4095", "2:12 `log_size` goes from 4KiB to 1GiB"),
        ("log_size = 1073741825", "2:12 `log_size` goes from 4KiB to 1GiB"),
        ("log_size = -4096", "2:12 `log_size` goes from 4KiB to 1GiB"),
        ("log_size = '3KiB'", "2:12 `log_size` goes from 4KiB to 1GiB"),
        ("log_size = '2GiB'", "2:12 `log_size` goes from 4KiB to 1GiB"),
        // As many bytes as 64 bits hold, and one more.
        ("log_size = '16777215TiB'", "2:12 `log_size` goes from 4KiB to 1GiB"),
        ("log_size = '16777216TiB'", "2:12 `16777216TiB` is too large"),
        ("log_size = '18446744073709551616'", "2:12 `18446744073709551616` is too large"),
        ("log_size = ''", "2:12 `` is not a size"),
        ("log_size = 'MiB'", "2:12 `MiB` is not a size"),
        ("log_size = '10MB'", "2:12 `10MB` is not a size"),
        ("log_size = '10 MiB'", "2:12 `10 MiB` is not a size"),
        ("log_size = '1.5MiB'", "2:12 `1.5MiB` is not a size"),
        ("log_size = '+10MiB'", "2:12 `+10MiB` is not a size"),
        ("log_size = '10é'", "2:12 `10é` is not a size"),
        (
            "log_size = true",
            "2:12 expected a number of bytes or a size such as `10MiB`, found a truth value",
        ),
        ("output = 'logs'", "2:10 unknown output `logs`"),
        ("output = 'Log'", "2:10 unknown output `Log`"),
        ("output = \"\\u001b[2J\"", "2:10 unknown output `\\u{1b}[2J`"),
        ("output = 1", "2:10 expected a text, found a number"),
        ("timeout = '0'", "2:11 must be longer than 0s"),
        ("grace = '-1s'", "2:9 `-1s` is negative"),
        ("umask = 22", "2:9 not a file mode mask"),
        ("umask = '1000'", "2:9 not a file mode mask"),
        ("path = ''", "2:8 `` in `path` is not an absolute path"),
        ("path = '/bin:bin'", "2:8 `bin` in `path` is not an absolute path"),
        ("path = '/bin:'", "2:8 `` in `path` is not an absolute path"),
        ("path = '/bin::/usr/bin'", "2:8 `` in `path` is not an absolute path"),
        ("path = '.:/bin'", "2:8 `.` in `path` is not an absolute path"),
        ("path = \"/bin\\u0000\"", "2:8 a text with a NUL character"),
        ("path = ['/bin']", "2:8 expected a text, found a list"),
        (&long_path, "2:8 longer than 65536 bytes"),
        ("socket_group = ''", "2:16 `` is not a user or group"),
        ("socket_group = 'a:b'", "2:16 `a:b` is not a user or group"),
        ("socket_group = 100", "2:16 expected a text, found a number"),
        ("hostname = 'x'", "2:1 unknown key `hostname` of `[daemon]`"),
        ("[daemon.history]\nx = 1", "2:1 expected a whole number, found a table"),
        ("[daemon.x]\ny = 1", "2:9 unknown key `x` of `[daemon]`"),
    ] {
        let loaded = check_faults(line, &[expected]);
        assert_eq!(loaded.daemon, DaemonSettings::default(), "{line}");
    }
}

#[test]
fn the_nearest_word_is_named() {
    let help = |line: &str| {
        let loaded = load(&Format::Toml, &format!("[daemon]\n{line}\n"));
        loaded.diagnostics[0].help.clone().expect("help")
    };
    assert_eq!(help("histori = 5"), "did you mean `history`?");
    assert_eq!(help("log_siz = 5"), "did you mean `log_size`?");
    assert_eq!(
        help("group = 'x'"),
        "the keys of `[daemon]` are history, log_runs, log_age, log_size, output, timeout, grace, umask, path, socket_group"
    );
    assert_eq!(help("output = 'sylog'"), "did you mean `syslog`?");
    assert_eq!(help("output = 'mail'"), "expected log, inherit, discard, syslog");
    assert_eq!(help("grace = 10"), "durations have units and stand in quotes, such as `\"90s\"`");
    for (size, meant) in [
        ("10MB", "10MiB"),
        ("10M", "10MiB"),
        ("10 MiB", "10MiB"),
        ("10kb", "10KiB"),
        ("1g", "1GiB"),
        ("9000b", "9000B"),
    ] {
        assert_eq!(help(&format!("log_size = '{size}'")), format!("did you mean `{meant}`?"));
    }
    for size in ["big", "", "MiB", "10é", "10 bytes", "1.5MiB", "10Mebibyte"] {
        assert_eq!(
            help(&format!("log_size = '{size}'")),
            "expected bytes such as `4096`, or with a unit: B, KiB, MiB, GiB, TiB",
            "{size}"
        );
    }
}

#[test]
fn what_is_no_table() {
    for (text, expected) in [
        ("daemon = 5\n", "1:1 `daemon` is not a table"),
        ("[[daemon]]\nhistory = 5\n", "1:3 `daemon` is not a table"),
        ("[deamon]\nhistory = 5\n", "1:2 unknown table or key `deamon`"),
    ] {
        let loaded = check_said(&Format::Toml, text, &[expected]);
        assert!(!loaded.is_usable(), "{text}");
    }
    let help = |text: &str| load(&Format::Toml, text).diagnostics[0].help.clone().expect("help");
    assert_eq!(help("[deamon]\n"), "did you mean `daemon`?");
}

#[test]
fn files_are_merged_key_by_key() {
    let job = "[job.a]\nschedule = '@daily'\ncommand = ['x']\n";
    let loaded = load_files(&[
        ("10-jobs.toml", job),
        ("20-daemon.toml", "[daemon]\nhistory = 5\n"),
        ("30-jobs.krontab", "@daily name=b command=x\n"),
        ("40-both.toml", "[daemon]\nlog_runs = 6\n[job.c]\nschedule = '@daily'\ncommand = ['x']\n"),
    ]);
    assert_eq!(told(&loaded), [""; 0]);
    assert_eq!((loaded.daemon.history_entries_max, loaded.daemon.log_runs_max), (5, 6));
    assert_eq!(loaded.jobs.len(), 3);
}

#[test]
fn a_key_given_twice_names_both_places() {
    let loaded = load_files(&[
        ("10.toml", "# first\n[daemon]\nhistory = 5\n  grace = 'soon'\n"),
        ("20.toml", "[daemon]\nlog_runs = 6\nhistory = 6\ngrace = '5s'\n"),
        ("30.toml", "daemon.history = 7\n[daemon]\nlog_runs = 7\n"),
    ]);
    // A key that was given and refused was given nevertheless.
    assert_eq!(
        told(&loaded),
        [
            "10.toml:4:11 `soon` is not a duration / expected numbers with units, such as `90m`, `1h30m`, `45s` or `2d`",
            "20.toml:3:1 `history` of `[daemon]` is defined twice / it is first defined at 10.toml:3:1; keys are unique over all files",
            "20.toml:4:1 `grace` of `[daemon]` is defined twice / it is first defined at 10.toml:4:3; keys are unique over all files",
            "30.toml:1:8 `history` of `[daemon]` is defined twice / it is first defined at 10.toml:3:1; keys are unique over all files",
            "30.toml:3:1 `log_runs` of `[daemon]` is defined twice / it is first defined at 20.toml:2:1; keys are unique over all files",
        ]
    );
    assert!(!loaded.is_usable());
    assert_eq!((loaded.daemon.history_entries_max, loaded.daemon.log_runs_max), (5, 6));
    // The same value is no excuse.
    let loaded =
        load_files(&[("a.toml", "[daemon]\nhistory = 5\n"), ("b.toml", "[daemon]\nhistory = 5\n")]);
    assert_eq!(said(&loaded), ["2:1 `history` of `[daemon]` is defined twice"]);
}

#[test]
fn twice_in_one_file() {
    let job = "[job.a]\nschedule = '@daily'\ncommand = ['x']\n";
    let row = |text: &str| told(&load_files(&[("a.toml", text)]));
    assert_eq!(
        row("[daemon]\nhistory = 1\nhistory = 2\n"),
        ["a.toml:3:1 duplicate key / it is first defined at a.toml:2:1"]
    );
    assert_eq!(
        row(&format!("[daemon]\nhistory = 1\n{job}[daemon]\ngrace = '1s'\n")),
        [
            "a.toml:6:1 `[daemon]` stands in two places / it begins at a.toml:1:1; keep its keys together"
        ]
    );
}

#[test]
fn every_fault_at_once_beside_those_of_jobs() {
    let text = "[job.a]\nschedule = '61 * * * *'\ncommand = ['x']\n\
                [daemon]\ngrace = 1\nhistry = 2\nlog_size = '1KiB'\n\
                [job.b]\nschedule = '@daily'\ncommnd = ['x']\n";
    let loaded = check_said(
        &Format::Toml,
        text,
        &[
            "2:13 `61` is outside the minute field",
            "5:9 expected a text, found a number",
            "6:1 unknown key `histry` of `[daemon]`",
            "7:12 `log_size` goes from 4KiB to 1GiB",
            "8:6 a job with none of `command`, `enqueue` and `spool`",
            "10:1 unknown key `commnd`",
        ],
    );
    assert!(!loaded.is_usable());
}

#[test]
fn damage_before_it_does_not_bury_it() {
    for (damaged, fault) in [
        ("command = ['x',\n", "2:16 unclosed array, expected `]`"),
        ("env = { A = 'x',\n", "2:17 unclosed inline table, expected `}`"),
        ("description = '''x\n", "2:15 this string is never closed"),
        ("description = 'x\n", "2:17 invalid literal string, expected `'`"),
    ] {
        let text = format!("[job.a]\n{damaged}[daemon]\nhistory = 0\n");
        check_said(&Format::Toml, &text, &[fault, "4:11 `history` goes from 1 to 10000"]);
    }
    // Inside a string or an array that is closed, it is no header.
    let rest = "schedule = '@daily'\ncommand = ['x']\n";
    for text in [
        format!("[job.a]\n{rest}description = '''\n[daemon]\nx = 1\n'''\n"),
        format!("[job.a]\n{rest}only = [\n'hours=0', # [daemon]\n]\n"),
    ] {
        check_said(&Format::Toml, &text, &[]);
    }
    // Damage in the table itself is told at its place, and the job after it is read.
    check_said(
        &Format::Toml,
        "[daemon]\nlog_age = '30d\n[job.b]\nschedule = '@daily'\ncommnd = ['x']\n",
        &[
            "2:15 invalid literal string, expected `'`",
            "3:6 a job with none of `command`, `enqueue` and `spool`",
            "5:1 unknown key `commnd`",
        ],
    );
}

#[test]
fn a_table_beyond_its_size() {
    let text = format!("[daemon]\n#{}\nhistory = 5\n", "x".repeat(1024 * 1024));
    check_said(&Format::Toml, &text, &["1:1 a table of more than 1024 KiB"]);
}

#[test]
fn jobs_go_before_the_daemon() {
    let daemon = daemon(
        "log_size = '1MiB'\noutput = 'inherit'\ntimeout = '1h'\ngrace = '3s'\numask = '077'",
    );
    let filled = daemon.for_job(&Execution::default());
    assert_eq!((filled.output, filled.log_bytes_max), (Output::Inherit, 1_048_576));
    assert_eq!((filled.timeout, filled.grace), (Some(Seconds::new(3_600)), Seconds::new(3)));
    assert_eq!(filled.umask, 0o077);
    let own = Execution {
        output: Some(Output::Log),
        log_bytes_max: Some(4_096),
        timeout: Some(Seconds::new(7_200)),
        grace: Some(Seconds::ZERO),
        umask: Some(0),
        ..Execution::default()
    };
    let filled = daemon.for_job(&own);
    assert_eq!((filled.output, filled.log_bytes_max), (Output::Log, 4_096));
    assert_eq!((filled.timeout, filled.grace), (Some(Seconds::new(7_200)), Seconds::ZERO));
    assert_eq!(filled.umask, 0);
    assert_eq!(DaemonSettings::default().for_job(&Execution::default()).timeout, None);
}

/// What the page says of job files: its examples load, and the defaults it gives are the defaults.
#[test]
fn the_page_is_right() {
    let page = include_str!("../../../../docs/job-files.md");
    let examples: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split_once("```").expect("an end").0)
        .collect();
    let loaded = check_said(&Format::Toml, &examples.concat(), &[]);
    assert_eq!((loaded.jobs.len(), loaded.daemon.spools.len()), (4, 1));
    assert_eq!(loaded.jobs[1].execution.limits.len(), 4);
    assert_eq!(loaded.daemon.history_entries_max, 500);

    let (_, rest) = page.split_once("### The daemon's own settings\n").expect("a chapter");
    let (chapter, _) = rest.split_once("\n### ").expect("an end");
    let mut keys = Vec::new();
    let mut table = String::new();
    for row in chapter.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [key, .., default] = cells[..] else { panic!("{row}") };
        let key = key.trim_end_matches('`');
        keys.push(key);
        // A run may take for ever, for which there is no value.
        if key != "timeout" {
            table += &format!("{key} = {}\n", default.trim_matches('`'));
        }
    }
    assert_eq!(daemon(&table), DaemonSettings::default());
    let known = load(&Format::Toml, "[daemon]\nzzz = 1\n").diagnostics.remove(0).help;
    assert_eq!(known, Some(format!("the keys of `[daemon]` are {}", keys.join(", "))));
}

#[test]
fn a_bad_table_as_people_see_it() {
    let loaded = load_files(&[
        ("10-daemon.toml", "[daemon]\nhistory = 50\n"),
        ("bad-daemon.toml", include_str!("../texts/bad-daemon.toml")),
    ]);
    let texts: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n\n"));
}
