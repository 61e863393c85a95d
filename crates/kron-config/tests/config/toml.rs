//! TOML job files: every key in every form, and every fault at its place.

use crate::loading::{check_said, load, said};
use kron_config::{
    Action, Execution, Format, Job, Limit, Loader, Options, Output, Resource, Source,
};
use kron_core::Seconds;

/// A job of these lines says this of its timing, and nothing is wrong with it.
#[track_caller]
fn check_timing(lines: &str, timing: &str) {
    let text = format!("[job.a]\n{lines}\ncommand = [\"true\"]\n");
    let loaded = check_said(&Format::Toml, &text, &[]);
    assert_eq!(loaded.jobs[0].timing.to_string(), timing, "\n{text}");
}

/// A file of these lines has exactly these faults, and so no job may be scheduled.
#[track_caller]
fn check_faults(text: &str, expected: &[&str]) {
    let loaded = check_said(&Format::Toml, text, expected);
    assert!(!loaded.is_usable() && loaded.has_errors());
}

/// A job with a schedule, a command and these lines, which begin on the fourth.
#[track_caller]
fn check_setting_faults(lines: &str, expected: &[&str]) {
    let text = format!("[job.a]\nschedule = \"0 3 * * *\"\ncommand = [\"true\"]\n{lines}\n");
    check_faults(&text, expected);
}

#[track_caller]
fn job(lines: &str) -> Job {
    let text = format!("[job.a]\nschedule = \"0 3 * * *\"\n{lines}\n");
    check_said(&Format::Toml, &text, &[]).jobs.remove(0)
}

#[test]
fn every_timing_key_in_every_form() {
    for (lines, timing) in [
        ("schedule = '0 3 * * *'", "0 3 * * *"),
        ("schedule = '@daily'", "0 0 * * *"),
        ("schedule = '30 0 3 * * *'", "30 0 3 * * *"),
        ("schedule = '0 3 * * *'\ntimezone = 'Europe/Paris'", "0 3 * * * @tz(Europe/Paris)"),
        ("schedule = '0 3 * * *'\nwindow = 'after,2h'", "0 3 * * * @win(after,2h)"),
        (
            "schedule = '0 3 * * *'\nwindow = { mode = 'before', duration = '1h30m' }",
            "0 3 * * * @win(before,1h30m)",
        ),
        (
            "schedule = '0 3 * * *'\nwindow.duration = '20m'\nwindow.mode = 'around'",
            "0 3 * * * @win(around,20m)",
        ),
        (
            "schedule = '0 3 * * *'\nwindow = 'after,2h'\ndistribution = 'skewEarly,shape=3'",
            "0 3 * * * @win(after,2h) @dist(skewEarly,shape=3)",
        ),
        (
            "schedule = '0 3 * * *'\nwindow = 'after,2h'\ndistribution = { shape = 2.5, name = 'skewLate' }",
            "0 3 * * * @win(after,2h) @dist(skewLate,shape=2.5)",
        ),
        (
            "schedule = '0 3 * * *'\nwindow = 'after,2h'\ndistribution = { name = 'exponential', lambda = 4, dir = 'late' }",
            "0 3 * * * @win(after,2h) @dist(exponential,lambda=4,dir=late)",
        ),
        ("schedule = '0 3 * * *'\nseed = 'daily'", "0 3 * * * @seed(daily)"),
        (
            "schedule = '0 3 * * *'\nseed = { strategy = 'weekly', salt = 'blue, \"two\"' }",
            r#"0 3 * * * @seed(weekly,salt="blue, \"two\"")"#,
        ),
        (
            "schedule = '0 3 * * *'\npolicy = 'concurrency=allow,deadline=5m'",
            "0 3 * * * @policy(concurrency=allow,deadline=5m)",
        ),
        (
            "schedule = '0 3 * * *'\npolicy = { concurrency = 'replace', suspend = true }",
            "0 3 * * * @policy(concurrency=replace,suspend=true)",
        ),
        (
            "schedule = '0 3 * * *'\nonly = 'dow=MON-FRI;hours=3'",
            "0 3 * * * @only(hours=3;dow=MON-FRI)",
        ),
        (
            "schedule = '0 3 * * *'\nonly = ['dow=MON-FRI', 'hours=3']",
            "0 3 * * * @only(hours=3;dow=MON-FRI)",
        ),
        (
            "schedule = '0 3 * * * @only(hours=3)'\nonly = ['dow=MON-FRI']",
            "0 3 * * * @only(hours=3;dow=MON-FRI)",
        ),
        (
            "schedule = '0 3 * * *'\navoid = 'dates=2026-12-24..2027-01-01'",
            "0 3 * * * @avoid(dates=2026-12-24..2027-01-01)",
        ),
        (
            "schedule = '0 3 * * *'\navoid = [\n  'date=2026-12-24',\n  'dom=13',\n]",
            "0 3 * * * @avoid(dom=13;date=2026-12-24)",
        ),
        ("schedule = '0 3 * * *'\ndst = 'gap=skip'", "0 3 * * * @dst(gap=skip,overlap=auto)"),
        (
            "schedule = '0 3 * * *'\ndst = { overlap = 'both' }",
            "0 3 * * * @dst(gap=shift,overlap=both)",
        ),
        ("schedule = '0 3 * * * @seed(stable,salt=%H)'", r#"0 3 * * * @seed(stable,salt="web-1")"#),
        ("schedule = '0 3 * * *'\nseed.salt = '100%%'", r#"0 3 * * * @seed(stable,salt="100%%")"#),
    ] {
        check_timing(lines, timing);
    }
}

#[test]
fn a_key_and_a_modifier_are_the_same_definition() {
    let keys = "schedule = '0 3 * * *'\ntimezone = 'Europe/Paris'\nwindow = 'after,2h'\n\
                distribution = 'skewEarly'\nseed = 'daily,salt=x'\npolicy = 'deadline=1m'\n\
                only = 'dow=MON-FRI'\navoid = 'date=2026-12-25'\ndst = 'overlap=last'";
    let text = "schedule = '0 3 * * * @dst(overlap=last) @avoid(date=2026-12-25) @only(dow=MON-FRI) \
                @policy(deadline=1m) @seed(daily,salt=x) @dist(skewEarly) @win(after,2h) \
                @tz(Europe/Paris)'";
    let command = "\ncommand = ['true']\n";
    let keys = load(&Format::Toml, &format!("[job.a]\n{keys}{command}"));
    let text = load(&Format::Toml, &format!("[job.a]\n{text}{command}"));
    assert_eq!(keys.jobs[0].timing, text.jobs[0].timing);
    assert_eq!(keys.jobs[0].timing.decision_hash(), text.jobs[0].timing.decision_hash());
}

#[test]
fn every_setting() {
    let job =
        job("command = ['/usr/bin/backup', '--full', 'a b']\nuser = 'backup'\ngroup = 'staff'\n\
         cwd = '/srv'\numask = '027'\nnice = -5\ntimeout = '2h'\ngrace = '0s'\n\
         stdin = \"one\\ntwo\\n\"\nduration = '90s'\ndescription = 'nightly'\n\
         env = { ZONE = 'b', MODE = 'prod' }");
    assert_eq!(
        job.action,
        Action::Program(vec!["/usr/bin/backup".into(), "--full".into(), "a b".into()].into())
    );
    let execution = &job.execution;
    assert_eq!(execution.user.as_deref(), Some("backup"));
    assert_eq!(execution.group.as_deref(), Some("staff"));
    assert_eq!(execution.cwd.as_deref(), Some("/srv"));
    assert_eq!(execution.umask, Some(0o027));
    assert_eq!(execution.nice, Some(-5));
    assert_eq!(execution.timeout.map(Seconds::get), Some(7_200));
    assert_eq!(execution.grace.map(Seconds::get), Some(0));
    assert_eq!(execution.stdin.as_deref(), Some("one\ntwo\n"));
    assert_eq!(job.duration.map(Seconds::get), Some(90));
    assert_eq!(job.description.as_deref(), Some("nightly"));
    // As written, not by name.
    let env =
        [("ZONE", "b"), ("MODE", "prod")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(&*execution.env, env);
    assert_eq!((job.origin.line, job.origin.column), (1, 6));
}

#[test]
fn forms_of_settings() {
    let shell = Action::Shell { shell: "/bin/sh".into(), line: "a | b".into() };
    assert_eq!(job("command = 'a | b'\nshell = true").action, shell);
    assert_eq!(job("shell = true\ncommand = 'a | b'").action, shell);
    assert_eq!(
        job("command = ['a']\nshell = false").action,
        Action::Program(vec!["a".into()].into())
    );
    assert_eq!(job("command = ['a']\numask = 0o22").execution.umask, Some(0o22));
    assert_eq!(job("command = ['a']\nnice = '19'").execution.nice, Some(19));
    assert_eq!(&*job("command = ['a']\nenv = 'A=b=c'").execution.env, [("A".into(), "b=c".into())]);
    assert_eq!(&*job("command = ['a']\nenv.A = ''").execution.env, [("A".into(), "".into())]);
    assert_eq!(
        &*job("command = ['a']\n[job.a.env]\nA = 'b'").execution.env,
        [("A".into(), "b".into())]
    );
    assert_eq!(*job("command = ['a']").execution, Execution::default());
}

/// A limit of `resource`.
fn limit(resource: Resource, soft: Option<u64>, hard: Option<u64>) -> Limit {
    Limit { resource, soft, hard }
}

#[test]
fn where_output_goes_and_what_a_run_may_use() {
    let job =
        job("command = ['a']\noutput = 'syslog'\nlog_size = '64KiB'\nno_new_privileges = true\n\
         [job.a.limits]\nstack = '8MiB'\nnofile = 1_024\nnproc = '64:128'\ncpu = '600'\n\
         as = '1GiB:unlimited'\ncore = 0\nfsize = 'unlimited'\ndata = 0x1000\n\
         memlock = 'unlimited:unlimited'");
    let execution = &job.execution;
    assert_eq!(execution.output, Some(Output::Syslog));
    assert_eq!(execution.log_bytes_max, Some(65_536));
    assert!(execution.no_new_privileges);
    // In one order, whatever the file's.
    assert_eq!(
        &*execution.limits,
        [
            limit(Resource::As, Some(1 << 30), None),
            limit(Resource::Core, Some(0), Some(0)),
            limit(Resource::Cpu, Some(600), Some(600)),
            limit(Resource::Data, Some(4_096), Some(4_096)),
            limit(Resource::Fsize, None, None),
            limit(Resource::Memlock, None, None),
            limit(Resource::Nofile, Some(1_024), Some(1_024)),
            limit(Resource::Nproc, Some(64), Some(128)),
            limit(Resource::Stack, Some(8 << 20), Some(8 << 20)),
        ]
    );
    assert_eq!(
        Resource::ALL.map(|resource| execution
            .limits
            .iter()
            .filter(|limit| limit.resource == resource)
            .count()),
        [1; 9]
    );
}

#[test]
fn forms_of_process_settings() {
    let limits =
        |value: &str| job(&format!("command = ['a']\nlimits = {value}")).execution.limits.clone();
    assert_eq!(&*limits("{}"), []);
    assert_eq!(&*limits("{ nproc = '7:7' }"), [limit(Resource::Nproc, Some(7), Some(7))]);
    let most = i64::MAX as u64;
    assert_eq!(
        &*limits("{ nproc = 9223372036854775807 }"),
        [limit(Resource::Nproc, Some(most), Some(most))]
    );
    for output in Output::ALL {
        let line = format!("command = ['a']\noutput = '{}'", output.as_str());
        assert_eq!(job(&line).execution.output, Some(output));
    }
    let off = job("command = ['a']\nno_new_privileges = false").execution;
    assert_eq!(*off, Execution::default());
    assert_eq!(job("command = ['a']\nlog_size = 4096").execution.log_bytes_max, Some(4_096));
}

#[test]
fn faults_of_process_settings() {
    let long = format!("limits = {{ nproc = '{}' }}", "9".repeat(64 * 1024 + 1));
    for (lines, expected) in [
        ("output = 'file'", &["4:10 unknown output `file`"][..]),
        ("output = true", &["4:10 expected a text, found a truth value"]),
        ("log_size = '1KiB'", &["4:12 `log_size` goes from 4KiB to 1GiB"]),
        (
            "log_size = 1e6",
            &["4:12 expected a number of bytes or a size such as `10MiB`, found a decimal number"],
        ),
        ("no_new_privileges = 'yes'", &["4:21 expected `true` or `false`, found a text"]),
        ("no_new_privileges = 1", &["4:21 expected `true` or `false`, found a number"]),
        ("limits = 5", &["4:10 expected a table such as `{ nofile = 1024 }`, found a number"]),
        (
            "limits = 'nofile=5'",
            &["4:10 expected a table such as `{ nofile = 1024 }`, found a text"],
        ),
        ("limits = { nofile = 1, nofile = 2 }", &["4:24 duplicate key"]),
        ("limits = { files = 1 }", &["4:12 unknown limit `files`"]),
        ("limits = { NOFILE = 1 }", &["4:12 unknown limit `NOFILE`"]),
        ("limits = { '' = 1 }", &["4:12 unknown limit ``"]),
        ("limit_nofile = 5", &["4:1 unknown key `limit_nofile`"]),
        ("limits = { nofile = -1 }", &["4:21 `-1` is not a limit for `nofile`"]),
        ("limits = { nofile = '-1' }", &["4:21 `-1` is not a limit for `nofile`"]),
        ("limits = { nofile = '+1' }", &["4:21 `+1` is not a limit for `nofile`"]),
        ("limits = { nofile = '' }", &["4:21 `` is not a limit for `nofile`"]),
        ("limits = { nofile = ':' }", &["4:21 `` is not a limit for `nofile`"]),
        ("limits = { nofile = '1:' }", &["4:21 `` is not a limit for `nofile`"]),
        ("limits = { nofile = '1:2:3' }", &["4:21 `2:3` is not a limit for `nofile`"]),
        ("limits = { nofile = '1: 2' }", &["4:21 ` 2` is not a limit for `nofile`"]),
        ("limits = { nofile = 'Unlimited' }", &["4:21 `Unlimited` is not a limit for `nofile`"]),
        ("limits = { nofile = '1KiB' }", &["4:21 `1KiB` is not a limit for `nofile`"]),
        ("limits = { cpu = '10m' }", &["4:18 `10m` is not a limit for `cpu`"]),
        ("limits = { as = '1GB' }", &["4:17 `1GB` is not a limit for `as`"]),
        (
            "limits = { nproc = '128:64' }",
            &["4:20 the soft limit of `128:64` is above the hard one"],
        ),
        (
            "limits = { nproc = 'unlimited:64' }",
            &["4:20 the soft limit of `unlimited:64` is above the hard one"],
        ),
        // What the system would take for unlimited is not, and what is negative there is not either.
        (
            "limits = { as = '18446744073709551615' }",
            &["4:17 `18446744073709551615` is too large for a limit"],
        ),
        (
            "limits = { as = '1:9223372036854775808' }",
            &["4:17 `9223372036854775808` is too large for a limit"],
        ),
        (
            "limits = { as = 9223372036854775808 }",
            &["4:17 `9223372036854775808` is too large for a limit"],
        ),
        ("limits = { as = '99999999999TiB' }", &["4:17 `99999999999TiB` is too large"]),
        (&long, &["4:20 longer than 65536 bytes"]),
        ("limits = { as = \"1\\u0000\" }", &["4:17 a text with a NUL character"]),
        (
            "limits = { as = 1.5 }",
            &["4:17 expected a number or a text such as `64:128`, found a decimal number"],
        ),
        (
            "limits = { as = [1] }",
            &["4:17 expected a number or a text such as `64:128`, found a list"],
        ),
        (
            "limits = { files = 1, nproc = 'x', as = {}, core = 0, cpu = true }",
            &[
                "4:12 unknown limit `files`",
                "4:31 `x` is not a limit for `nproc`",
                "4:41 expected a number or a text such as `64:128`, found a table",
                "4:61 expected a number or a text such as `64:128`, found a truth value",
            ],
        ),
    ] {
        check_setting_faults(lines, expected);
    }
    let help = |lines: &str| {
        let text = format!("[job.a]\nschedule = '@daily'\ncommand = ['x']\n{lines}\n");
        load(&Format::Toml, &text).diagnostics[0].help.clone().expect("help")
    };
    assert_eq!(help("limits = { nofiles = 1 }"), "did you mean `nofile`?");
    assert_eq!(help("limit = { nofile = 1 }"), "did you mean `limits`?");
    assert_eq!(help("limit_nofile = 1"), "did you mean `limits`?");
    assert_eq!(
        help("limits = { rss = 1 }"),
        "the limits are as, core, cpu, data, fsize, memlock, nofile, nproc, stack"
    );
    assert_eq!(
        help("limits = { cpu = '10m' }"),
        "expected a number of seconds, `unlimited`, or a soft and a hard one with `:` between"
    );
    assert_eq!(
        help("limits = { as = '1GB' }"),
        "expected a size such as `512MiB`, `unlimited`, or a soft and a hard one with `:` between"
    );
    assert_eq!(help("limits = { as = 'unlimted' }"), "did you mean `unlimited`?");
    assert_eq!(help("output = 'logs'"), "did you mean `log`?");
    assert_eq!(help("no_new_privs = true"), "did you mean `no_new_privileges`?");
}

/// A hundred thousand jobs are kept in memory, and few of them have limits.
#[test]
fn what_most_jobs_do_not_say_takes_little_room() {
    assert!(size_of::<Execution>() <= 192, "{} bytes", size_of::<Execution>());
    let cost = allocation_counter::measure(|| drop(Execution::default().limits));
    assert_eq!(cost.count_total, 0);
}

#[test]
fn faults_of_settings() {
    for (lines, expected) in [
        ("comand = 'x'", &["4:1 unknown key `comand`"][..]),
        ("name = 'x'", &["4:1 unknown key `name`"]),
        ("zzz.y = 1", &["4:1 unknown key `zzz`"]),
        ("[job.a.policies]\nx = 1", &["4:8 unknown key `policies`"]),
        ("user = 7", &["4:8 expected a text, found a number"]),
        ("user = ''", &["4:8 `` is not a user or group"]),
        ("user = 'a b'", &["4:8 `a b` is not a user or group"]),
        ("group = 'a:b'", &["4:9 `a:b` is not a user or group"]),
        ("user = '../etc'", &["4:8 `../etc` is not a user or group"]),
        ("cwd = 'srv'", &["4:7 `srv` is not an absolute path"]),
        ("cwd = ['/srv']", &["4:7 expected a text, found a list"]),
        ("nice = 20", &["4:8 `nice` goes from -20 to 19"]),
        ("nice = 1.5", &["4:8 expected a whole number, found a decimal number"]),
        ("user = 1.5", &["4:8 expected a text, found a decimal number"]),
        ("user = ['a', 1]", &["4:8 expected a text, found a list"]),
        ("nice = 'low'", &["4:8 not a whole number"]),
        ("nice = true", &["4:8 expected a whole number, found a truth value"]),
        ("nice = 99999999999999999999", &["4:8 not a whole number"]),
        ("umask = 27", &["4:9 not a file mode mask"]),
        ("umask = '1777'", &["4:9 not a file mode mask"]),
        ("umask = '089'", &["4:9 not a file mode mask"]),
        ("timeout = '0s'", &["4:11 must be longer than 0s"]),
        ("timeout = 30", &["4:11 expected a text, found a number"]),
        ("timeout = '-1s'", &["4:11 `-1s` is negative"]),
        ("grace = 'soon'", &["4:9 `soon` is not a duration"]),
        ("duration = '1.5s'", &["4:12 `1.5s` is not a whole number of seconds"]),
        ("stdin = \"a\\u0000\"", &["4:9 a text with a NUL character"]),
        ("description = 1979-05-27", &["4:15 expected a text, found a date or time"]),
        ("env = []", &["4:7 expected a table such as `{ MODE = \"prod\" }`, found a list"]),
        ("env = 'A'", &["4:7 `A` is not `NAME=value`"]),
        (
            "env = { A = 1, '2B' = 'x', C = true, KRON_ID = 'y', D = 'z' }",
            &[
                "4:13 expected a text, found a number",
                "4:16 `2B` is not a variable's name",
                "4:32 expected a text, found a truth value",
                "4:38 `KRON_ID` is set by Kron itself",
            ],
        ),
        ("timezone = {}", &["4:12 expected a text, found a table"]),
        ("timezone = 1", &["4:12 expected a text, found a number"]),
        ("window = 2", &["4:10 expected a text or a table, found a number"]),
        ("window = ['after', '2h']", &["4:10 expected a text or a table, found a list"]),
        ("only = { hours = 3 }", &["4:8 expected a text or a list of texts, found a table"]),
        ("only = ['hours=3', 4]", &["4:20 expected a clause, found a number"]),
        ("avoid = false", &["4:9 expected a text or a list of texts, found a truth value"]),
        ("policy = { suspend = [] }", &["4:22 expected a text or a number, found a list"]),
        ("dst = { gap = { } }", &["4:15 expected a text or a number, found a table"]),
    ] {
        check_setting_faults(lines, expected);
    }
}

#[test]
fn faults_of_timing_keys_speak_of_the_key() {
    let row = |lines: &str| {
        let text = format!("[job.a]\nschedule = \"0 3 * * *\"\ncommand = [\"true\"]\n{lines}\n");
        let loaded = load(&Format::Toml, &text);
        let [diagnostic] = &loaded.diagnostics[..] else { panic!("{:?}", said(&loaded)) };
        let column = diagnostic.location.as_ref().map_or(0, |location| location.column);
        let help = diagnostic.help.as_deref().unwrap_or("");
        format!("{column}: {} / {help}", diagnostic.message)
    };
    assert_eq!(
        row("window = '2h'"),
        "11: `window` takes a mode and a duration / as in `window = \"after,2h\"`, \
         `window = \"around,30m\"` or `window = \"before,1h\"`"
    );
    assert_eq!(
        row("timezone = 'A, B'"),
        "13: `timezone` takes one zone / as in `timezone = \"Europe/Paris\"`"
    );
    assert_eq!(
        row("only = ''"),
        "9: `only` without a clause / expected clauses such as `hours=9-17;dow=MON-FRI`"
    );
    assert_eq!(
        row("policy = 'deadlin=5m'"),
        "11: unknown parameter `deadlin` of `policy` / did you mean `deadline`?"
    );
    assert_eq!(
        row("policy = { deadlin = '5m' }"),
        "12: unknown parameter `deadlin` of `policy` / did you mean `deadline`?"
    );
    assert_eq!(
        row("window = { mode = 'aftr', duration = '2h' }"),
        "19: unknown window mode `aftr` / did you mean `after`?"
    );
    assert_eq!(
        row("timezone = 'Europe/Pariss'"),
        "13: unknown time zone `Europe/Pariss` / did you mean `Europe/Paris`?"
    );
}

#[test]
fn what_a_job_must_have() {
    for (text, expected) in [
        (
            "[job.a]\n",
            &[
                "1:6 job `a` has no `schedule`",
                "1:6 a job with none of `command`, `enqueue` and `spool`",
            ][..],
        ),
        (
            "[job.a]\nschedule = '0 3 * * *'\n",
            &["1:6 a job with none of `command`, `enqueue` and `spool`"],
        ),
        ("[job.a]\ncommand = ['x']\n", &["1:6 job `a` has no `schedule`"]),
        ("[job.a]\nschedule = 5\ncommand = ['x']\n", &["2:12 expected a text, found a number"]),
        ("[job.a]\nschedule = ''\ncommand = ['x']\n", &["2:13 a schedule with no fields"]),
        // A command that was given and refused is not also missing.
        ("[job.a]\nschedule = '0 3 * * *'\ncommand = []\n", &["3:11 an empty command"]),
        ("[job.a]\nschedule = '0 3 * * *'\ncommand = ['']\n", &["3:11 an empty command"]),
        (
            "[job.a]\nschedule = '0 3 * * *'\ncommand = [1, 'x', 2]\n",
            &["3:12 expected a text, found a number", "3:20 expected a text, found a number"],
        ),
        (
            "[job.a]\nschedule = '0 3 * * *'\ncommand = '  '\nshell = true\n",
            &["3:11 an empty command"],
        ),
        (
            "[job.a]\nschedule = '0 3 * * *'\ncommand = 'x'\n",
            &["3:11 a command line needs `shell = true`"],
        ),
        (
            "[job.a]\nschedule = '0 3 * * *'\ncommand = 'x'\nshell = 'yes'\n",
            &["4:9 expected `true` or `false`, found a text"],
        ),
        (
            "[job.a]\nschedule = '0 3 * * *'\ncommand = ['x']\nshell = true\n",
            &["3:11 `shell` goes with a command line, not with a list of words"],
        ),
        (
            "[job.a]\nschedule = '0 3 * * *'\ncommand = { x = 'y' }\n",
            &["3:11 expected a list of words, or a line with `shell = true`, found a table"],
        ),
        (
            "[job.\"\"]\nschedule = '0 3 * * *'\ncommand = ['x']\n",
            &["1:6 a job with an empty name"],
        ),
        (
            "[job.\"a\\tb\"]\nschedule = '0 3 * * *'\ncommand = ['x']\n",
            &["1:6 the job's name `a\\tb` contains a control character"],
        ),
    ] {
        check_faults(text, expected);
    }
}

#[test]
fn what_is_not_a_job() {
    for (text, expected) in [
        ("[jobs.a]\n", &["1:2 unknown table or key `jobs`"][..]),
        ("job = 5\n", &["1:1 `job` is not a table"]),
        ("[job]\na = 5\n", &["2:1 `job.a` is not a table"]),
        ("[[job]]\n", &["1:3 `job` is not a table"]),
        ("[[job.a]]\nschedule = 'x'\n[[job.a]]\n", &["1:7 `job.a` is not a table"]),
        (
            "z = 1\nb = 2\n[c]\nx = 1\n",
            &[
                "1:1 unknown table or key `z`",
                "2:1 unknown table or key `b`",
                "3:2 unknown table or key `c`",
            ],
        ),
    ] {
        check_faults(text, expected);
    }
    let nearest = load(&Format::Toml, "[jobs.a]\n");
    assert_eq!(nearest.diagnostics[0].help.as_deref(), Some("did you mean `job`?"));
    let far = load(&Format::Toml, "[xyz]\n");
    assert_eq!(
        far.diagnostics[0].help.as_deref(),
        Some(
            "expected `[daemon]`, `[api]`, `[queue]` and tables such as `[job.NAME]`, `[hook.NAME]` and `[spool.NAME]`"
        )
    );
    let key = load(&Format::Toml, "[job.a]\nschedul = '0 3 * * *'\ncommand = ['x']\n");
    assert_eq!(key.diagnostics[1].help.as_deref(), Some("did you mean `schedule`?"));
}

#[test]
fn every_fault_of_a_file_at_once_and_in_order() {
    check_faults(
        "[job.b]\nschedule = \"0 25 * * * @win(aftr,2h) @nope(1)\"\ncommand = 'x'\nuser = 1\ntime = 2\n\
         [job.a]\nwindow = 'after,x'\nschedule = \"61 * * * *\"\n",
        &[
            "2:15 `25` is outside the hour field",
            "2:29 unknown window mode `aftr`",
            "2:38 unknown modifier `@nope`",
            "3:11 a command line needs `shell = true`",
            "4:8 expected a text, found a number",
            "5:1 unknown key `time`",
            "6:6 a job with none of `command`, `enqueue` and `spool`",
            "7:17 `x` is not a duration",
            "8:13 `61` is outside the minute field",
        ],
    );
}

#[test]
fn places_inside_strings() {
    let fault = |schedule: &str| {
        let text = format!("[job.a]\ncommand = ['x']\nschedule = {schedule}\n");
        said(&load(&Format::Toml, &text)).join(" | ")
    };
    let minute = "`61` is outside the minute field";
    let mode = "unknown window mode `aftr`";
    assert_eq!(fault("'61 * * * *'"), format!("3:13 {minute}"));
    // Columns count characters, not bytes.
    assert_eq!(fault("'61 * * * *' # é"), format!("3:13 {minute}"));
    let salted = r#"'0 3 * * * @seed(stable,salt=zürich→) @win(aftr,2h)'"#;
    assert_eq!(fault(salted), format!("3:55 {mode}"));
    // An escape is longer than what it stands for.
    let escaped = r#""0 3 * * * @seed(stable,salt=\"x\") @win(aftr,2h)""#;
    assert_eq!(fault(escaped), format!("3:53 {mode}"));
    assert_eq!(fault(r#""\u0036\U00000031 * * * *""#), format!("3:13 {minute}"));
    assert_eq!(fault(r#""\x36\x31 * * * *""#), format!("3:13 {minute}"));
    assert_eq!(
        fault(r#""0 3 * * * @seed(stable,salt=\u00fc) @win(aftr,2h)""#),
        format!("3:54 {mode}")
    );
    // Strings of several lines, with either end of line.
    for end in ["\n", "\r\n"] {
        let long = format!("\"\"\"{end}0 3 * * *{end} @win(aftr,2h)\"\"\"");
        assert_eq!(fault(&long), format!("5:7 {mode}"), "{long:?}");
        let literal = format!("'''{end}0 3 * * *{end}  @win(aftr,2h){end}'''");
        assert_eq!(fault(&literal), format!("5:8 {mode}"), "{literal:?}");
        let continued = format!("\"\"\"\\{end}   0 3 * * * \\{end}   @win(aftr,2h)\"\"\"");
        assert_eq!(fault(&continued), format!("5:9 {mode}"), "{continued:?}");
        let first = format!("\"\"\"61 * * * *{end}\"\"\"");
        assert_eq!(fault(&first), format!("3:15 {minute}"));
    }
    // What is missing is missed at the end.
    assert_eq!(fault("'0 3 * * * @win(after,2h'"), "3:23 `@win(` is never closed");
}

#[test]
fn places_in_files_of_other_systems() {
    check_faults(
        "\u{feff}# Zürich\r\n[job.a]\r\nschedule = '61 * * * *'\r\ncommand = 'x'\r\n",
        &["3:13 `61` is outside the minute field", "4:11 a command line needs `shell = true`"],
    );
    check_said(
        &Format::Toml,
        "\u{feff}[job.a]\r\nschedule = '@daily'\r\ncommand = ['x']\r\n[job.a.env]\r\nA = 'b'\r\n",
        &[],
    );
}

#[test]
fn damage_in_one_job_buries_no_other() {
    let after = "[job.b]\nschedule = '61 * * * *'\ncommand = ['x']\n";
    for (damaged, fault) in [
        ("command = ['x',\n", "2:16 unclosed array, expected `]`"),
        ("command = [\n", "2:12 unclosed array, expected `]`"),
        ("env = { A = 'x',\n", "2:17 unclosed inline table, expected `}`"),
        ("schedule = 'x\n", "2:14 invalid literal string, expected `'`"),
        ("schedule = \"x\n", "2:14 invalid basic string, expected `\"`"),
        ("schedule = \"\"\"x\n", "2:12 this string is never closed"),
        ("schedule = '''x\n", "2:12 this string is never closed"),
        ("schedule =\n", "2:11 string values must be quoted, expected literal string"),
        ("schedule\n", "2:9 key with no value, expected `=`"),
        ("= 5\n", "2:1 unquoted keys cannot be empty, expected letters, numbers, `-`, `_`"),
    ] {
        let loaded = load(&Format::Toml, &format!("[job.a]\n{damaged}{after}"));
        let [first, second] = &said(&loaded)[..] else { panic!("{damaged}: {:?}", said(&loaded)) };
        assert_eq!(first, fault, "{damaged}");
        assert_eq!(second, "4:13 `61` is outside the minute field", "{damaged}");
    }
    // A header that was never closed is its own job's trouble.
    check_faults(
        "[job.a\nschedule = '@daily'\n[job.b]\nschedule = '61 * * * *'\ncommand = ['x']\n",
        &["1:7 unclosed table, expected `]`", "4:13 `61` is outside the minute field"],
    );
    // Two open strings close one another, and the jobs between them are still read.
    check_faults(
        "[job.a]\ndescription = '''x\n[job.b]\nnope = 1\n[job.c]\ndescription = '''x\n[job.d]\nnope = 1\n",
        &[
            "2:15 this string is never closed",
            "3:6 job `b` has no `schedule`",
            "3:6 a job with none of `command`, `enqueue` and `spool`",
            "4:1 unknown key `nope`",
            "6:15 this string is never closed",
            "7:6 job `d` has no `schedule`",
            "7:6 a job with none of `command`, `enqueue` and `spool`",
            "8:1 unknown key `nope`",
        ],
    );
}

#[test]
fn what_looks_like_a_header_is_none_inside_strings_and_arrays() {
    let rest = "schedule = '@daily'\n";
    for text in [
        format!("[job.a]\n{rest}command = ['x']\ndescription = '''\n[job.b]\n  [x]\n'''\n"),
        format!(
            "[job.a]\n{rest}command = ['x']\ndescription = \"\"\"\n[job.b]\n\\\"\"\"\n[job.c]\n\"\"\"\n"
        ),
        format!("[job.a]\n{rest}command = ['x',\n  '[job.b]',\n'[job.c]' # ]\n]\n"),
        format!("[job.a]\n{rest}command = ['x', # [\n'y'\n]\n"),
        format!("[job.a]\n{rest}only = [\n'hours=0', # a ' quote\n]\ncommand = ['x']\n"),
        format!("[job.a] # [job.b]\n{rest}command = ['#', \"\\\"[\"]\n"),
    ] {
        let loaded = check_said(&Format::Toml, &text, &[]);
        assert_eq!(loaded.jobs.len(), 1, "{text}");
    }
    // A fault before such a line is told as it is.
    check_faults(
        "[job.a]\nschedule =\ndescription = '''\n[job.b]\n'''\n",
        &["2:11 string values must be quoted, expected literal string"],
    );
}

#[test]
fn tables_of_a_job_stand_together_however_they_are_written() {
    let a = "schedule = '@daily'\ncommand = ['x']\n";
    for text in [
        format!("[job.a]\n{a}[job.a.env]\nA = 'b'\n[job.a.policy]\ndeadline = '5m'\n"),
        format!("[ job . a ]\n{a}[job.a.env]\nA = 'b'\n"),
        format!("[job.\"a\"]\n{a}  [job.'a'.env]\n  A = 'b'\n"),
        format!("['job'.a]\n{a}[job.a.env]\nA = 'b'\n"),
        format!("[job.a.env]\nA = 'b'\n[job.a]\n{a}"),
        format!("[job]\n[job.a]\n{a}env.A = 'b'\n"),
        "[job]\na = { schedule = '@daily', command = ['x'], env = { A = 'b' } }\n".to_owned(),
        "job.a.schedule = '@daily'\njob.a.command = ['x']\njob.a.env.A = 'b'\n".to_owned(),
        "job.a = { schedule = '@daily', command = ['x'], env = { A = 'b' } }\n".to_owned(),
    ] {
        let loaded = check_said(&Format::Toml, &text, &[]);
        let job = loaded.job("a").unwrap_or_else(|| panic!("{text}"));
        assert_eq!(&*job.execution.env, [("A".into(), "b".into())], "{text}");
    }
    check_faults(
        &format!("[job.a]\n{a}[job.b]\n{a}[job.a.env]\nA = 'b'\n"),
        &["7:1 `[job.a]` stands in two places"],
    );
    // The same table twice in a row is the parser's to refuse.
    check_faults(&format!("[job.a]\n{a}[job.a]\n{a}"), &["4:6 duplicate key"]);
}

#[test]
fn names_may_be_quoted() {
    for (header, name) in [
        ("[job.db-backup_2]", "db-backup_2"),
        ("[job.\"prod/db backup\"]", "prod/db backup"),
        ("[job.'a.b']", "a.b"),
        ("[job.\"a\\\"]b\"]", "a\"]b"),
        ("[job.\"Zürich\"]", "Zürich"),
        ("[job.2026]", "2026"),
    ] {
        let text = format!("{header}\nschedule = '@daily'\ncommand = ['x']\n");
        let loaded = check_said(&Format::Toml, &text, &[]);
        assert_eq!(loaded.jobs[0].identity(), name);
    }
    check_said(
        &Format::Toml,
        "[job.\"a.b\"]\nschedule = '@daily'\ncommand = ['x']\n[job.a]\nschedule = '@daily'\ncommand = ['x']\n",
        &[],
    );
}

#[test]
fn a_name_taken_in_another_file_names_both_places() {
    let text = "# first\n[job.a]\nschedule = '@daily'\ncommand = ['x']\n";
    let mut loader = Loader::new(Options::default());
    loader.load(&Source::new("10-one.toml", text), &Format::Toml);
    loader.load(
        &Source::new("20-two.krontab", "@daily name=b command=x\n@daily name=a command=x\n"),
        &Format::Krontab,
    );
    loader.load(
        &Source::new("30-three.toml", "[job.b]\nschedule = '@daily'\ncommand = ['x']\n"),
        &Format::Toml,
    );
    let loaded = loader.finish();
    assert!(!loaded.is_usable());
    let told: Vec<String> = loaded
        .diagnostics
        .iter()
        .map(|d| {
            format!(
                "{} {} / {}",
                d.location.as_ref().unwrap(),
                d.message,
                d.help.as_deref().unwrap()
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "20-two.krontab:2:13 job `a` is defined twice / it is first defined at 10-one.toml:2:6; names are unique over all files",
            "30-three.toml:1:6 job `b` is defined twice / it is first defined at 20-two.krontab:1:1; names are unique over all files",
        ]
    );
    assert_eq!(loaded.jobs.len(), 2);
}

#[test]
fn a_setting_given_twice() {
    check_faults(
        "[job.a]\nschedule = '0 3 * * * @win(after,1h)'\nwindow = 'after,2h'\ncommand = ['x']\n",
        &["3:11 `window` is given twice"],
    );
    check_faults(
        "[job.a]\nschedule = '@daily'\nschedule = '@daily'\ncommand = ['x']\n",
        &["3:1 duplicate key"],
    );
}

#[test]
fn salts_that_name_the_machine() {
    let job = |host: Option<&str>, machine: Option<&str>, salt: &str| {
        let options = Options {
            host_name: host.map(str::to_owned),
            machine_id: machine.map(str::to_owned),
            ..Options::default()
        };
        let text =
            format!("[job.a]\nschedule = '@daily'\ncommand = ['x']\nseed = 'stable,salt={salt}'\n");
        let mut loader = Loader::new(options);
        loader.load(&Source::new("jobs", &text), &Format::Toml);
        let loaded = loader.finish();
        match &loaded.diagnostics[..] {
            [] => loaded.jobs[0].timing.placement().salt().to_owned(),
            [fault] => {
                let help = fault.help.as_deref().unwrap_or("");
                let flag =
                    ["--host NAME", "--machine-id ID"].into_iter().find(|flag| help.contains(flag));
                format!("{} ({})", said(&loaded)[0], flag.unwrap_or(""))
            }
            more => panic!("{more:?}"),
        }
    };
    assert_eq!(job(Some("web-1"), Some("0a"), "%H/%m/%%"), "web-1/0a/%");
    assert_eq!(job(None, None, "plain"), "plain");
    assert_eq!(
        job(None, Some("0a"), "x%H"),
        "4:21 the salt names the host (`%H`), which is not known here (--host NAME)"
    );
    assert_eq!(
        job(Some("web-1"), None, "%m"),
        "4:21 the salt names the machine id (`%m`), which is not known here (--machine-id ID)"
    );
    assert!(job(None, None, "50%").starts_with("4:21 a lone `%` in a salt"));
}

#[test]
fn limits() {
    let row = |text: &str| {
        let loaded = load(&Format::Toml, text);
        (loaded.jobs.len(), said(&loaded), loaded.cut_short)
    };
    let job = "[job.a]\nschedule = '@daily'\ncommand = ['x']\n";
    let after = "[job.b]\nschedule = '@daily'\ncommand = ['x']\n";
    // A job's tables.
    let long = format!("{job}description = '''{}'''\n{after}", "x".repeat(1024 * 1024));
    assert_eq!(row(&long), (1, vec!["1:1 a job of more than 1024 KiB".to_owned()], false));
    // A string left open is the fault, not the length it gives the job.
    let open = format!("{job}description = '''\n{after}#{}\n", "x".repeat(1024 * 1024));
    assert_eq!(
        row(&open).1,
        ["4:15 this string is never closed", "5:1 a job of more than 1024 KiB"]
    );
    // A setting, an environment, a command, a name.
    let setting = format!("{job}description = '{}'\n", "x".repeat(64 * 1024 + 1));
    assert_eq!(row(&setting).1, ["4:15 longer than 65536 bytes"]);
    let variables = |count: usize| {
        let lines: String = (0..count).map(|n| format!("V{n} = ''\n")).collect();
        row(&format!("{job}[job.a.env]\n{lines}")).1
    };
    assert_eq!(variables(256), [""; 0]);
    assert_eq!(variables(258), ["261:1 more than 256 variables", "262:1 more than 256 variables"]);
    let words = |count: usize| {
        row(&format!("[job.a]\nschedule = '@daily'\ncommand = [{}]\n", "'x',".repeat(count))).1
    };
    assert_eq!(words(4_096), [""; 0]);
    assert_eq!(words(4_097), ["3:11 more than 4096 words"]);
    let name = |length: usize| {
        row(&format!("[job.{}]\nschedule = '@daily'\ncommand = ['x']\n", "n".repeat(length))).1
    };
    assert_eq!(name(4_096), [""; 0]);
    assert_eq!(name(4_097), ["1:6 a job's name of more than 4096 bytes"]);
    // Errors: a thousand are told, and then nothing more is read.
    let errors = |count: usize| {
        let lines: String = (0..count).map(|n| format!("x{n} = 1\n")).collect();
        let (jobs, said, cut_short) = row(&format!("{lines}{after}"));
        (jobs, said.len(), cut_short)
    };
    assert_eq!(errors(1_000), (1, 1_000, false));
    assert_eq!(errors(1_001), (0, 1_000, true));
}

#[test]
fn warnings_forbid_nothing_however_many() {
    let text: String = (0..1_500)
        .map(|n| format!("[job.j{n}]\nschedule = '0 0 30 2 *'\ncommand = ['x']\n"))
        .collect();
    let loaded = load(&Format::Toml, &text);
    assert!(loaded.is_usable() && !loaded.has_errors() && !loaded.cut_short);
    assert_eq!((loaded.jobs.len(), loaded.diagnostics.len()), (1_500, 1_000));
    assert_eq!(said(&loaded)[0], "2:13 warning: this schedule never fires");
    // They leave room for the error that matters.
    let loaded = load(&Format::Toml, &(text + "[job.bad]\n"));
    assert!(!loaded.is_usable());
    assert_eq!(loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count(), 2);
}

#[test]
fn a_rich_bad_file_as_people_see_it() {
    insta::assert_snapshot!(rendered(include_str!("../texts/bad.toml"), "bad.toml"));
}

fn rendered(text: &str, name: &str) -> String {
    let mut loader = Loader::new(Options::default());
    loader.load(&Source::new(name, text), &Format::Toml);
    let loaded = loader.finish();
    let texts: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    texts.join("\n\n")
}
