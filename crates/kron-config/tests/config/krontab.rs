//! Krontab lines: settings after the schedule, quoting, commands without a shell.

use crate::loading::{check_said, load, said};
use kron_config::{Action, Format, Job, Limit, Loader, Options, Output, Resource, Source};
use kron_core::Seconds;

/// A line that is a job, and what it runs.
#[track_caller]
fn check_words(line: &str, words: &[&str]) {
    let loaded = check_said(&Format::Krontab, line, &[]);
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    assert_eq!(loaded.jobs[0].action, Action::Program(words.into()), "{line}");
}

#[track_caller]
fn check_faults(text: &str, expected: &[&str]) {
    let loaded = check_said(&Format::Krontab, text, expected);
    assert!(!loaded.is_usable());
}

#[test]
fn a_line_with_everything() {
    let line = "0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly) @seed(daily,salt=\"a b\") \
                @policy(deadline=5m) @only(dow=MON-FRI) @avoid(date=2026-12-25) @dst(gap=skip) \
                name=db-backup command=\"/usr/bin/backup --full\" user=backup group=staff cwd=/srv \
                env=MODE=prod env=GREETING=\"hello world\" umask=027 nice=-5 timeout=2h grace=30s \
                stdin='yes' output=discard log_size=1MiB limit_nofile=1024 limit_as=1GiB:unlimited \
                no_new_privileges=true duration=90s description=\"every night\" shell=false\n";
    let mut loaded = check_said(&Format::Krontab, line, &[]);
    let job = loaded.jobs.remove(0);
    assert_eq!(job.identity(), "db-backup");
    assert_eq!(
        job.timing.to_string(),
        "0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly,shape=2) \
         @seed(daily,salt=\"a b\") @only(dow=MON-FRI) @avoid(date=2026-12-25) \
         @dst(gap=skip,overlap=auto) @policy(deadline=5m)"
    );
    assert_eq!(job.action, Action::Program(vec!["/usr/bin/backup".into(), "--full".into()].into()));
    let execution = &job.execution;
    assert_eq!(execution.user.as_deref(), Some("backup"));
    assert_eq!(execution.group.as_deref(), Some("staff"));
    assert_eq!(execution.cwd.as_deref(), Some("/srv"));
    let env = [("MODE", "prod"), ("GREETING", "hello world")];
    assert_eq!(&*execution.env, env.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!((execution.umask, execution.nice), (Some(0o027), Some(-5)));
    assert_eq!(execution.timeout.map(Seconds::get), Some(7_200));
    assert_eq!(execution.grace.map(Seconds::get), Some(30));
    assert_eq!(execution.stdin.as_deref(), Some("yes"));
    assert_eq!((execution.output, execution.log_bytes_max), (Some(Output::Discard), Some(1 << 20)));
    assert!(execution.no_new_privileges);
    assert_eq!(
        &*execution.limits,
        [
            Limit { resource: Resource::As, soft: Some(1 << 30), hard: None },
            Limit { resource: Resource::Nofile, soft: Some(1_024), hard: Some(1_024) },
        ]
    );
    assert_eq!(job.duration.map(Seconds::get), Some(90));
    assert_eq!(job.description.as_deref(), Some("every night"));
    assert_eq!((job.origin.line, job.origin.column), (1, 1));
}

#[test]
fn lines_that_are_jobs_and_lines_that_are_not() {
    let text = "# comment\n\n   \t\n  # indented = comment\n\
                @hourly name=a command=x\n\
                \t*/5 * * * *\tname=b\tcommand=x  \r\n\
                0 0 3 * * * name=seconds command=x\n\
                0 0 3 * * * 2030 name=year command=x";
    let loaded = check_said(&Format::Krontab, text, &[]);
    let names: Vec<&str> = loaded.jobs.iter().map(Job::identity).collect();
    assert_eq!(names, ["a", "b", "seconds", "year"]);
    assert_eq!(loaded.jobs[1].origin.line, 6);
    check_said(&Format::Krontab, "", &[]);
}

#[test]
fn commands_are_split_without_a_shell() {
    for (command, words) in [
        ("command=true", &["true"][..]),
        ("command=\"a b  c\"", &["a", "b", "c"]),
        ("command='a \"b c\" d'", &["a", "b c", "d"]),
        ("command=\"a 'b c' d\"", &["a", "b c", "d"]),
        (r#"command="a \"b c\" d""#, &["a", "b c", "d"]),
        (r#"command="a \\\"b""#, &["a", "\"b"]),
        ("command=\"a '' b\"", &["a", "", "b"]),
        (
            "command=\"a | b > c; d && $HOME *\"",
            &["a", "|", "b", ">", "c;", "d", "&&", "$HOME", "*"],
        ),
        ("command=/bin/a\" \"b", &["/bin/a", "b"]),
        ("command=\"a #b\"", &["a"]),
        ("command=\"a 'é ü'\"", &["a", "é ü"]),
    ] {
        check_words(&format!("@daily name=a {command}"), words);
    }
    let loaded = check_said(&Format::Krontab, "@daily name=a shell=true command=\"a | b\"", &[]);
    let shell = Action::Shell { shell: "/bin/sh".into(), line: "a | b".into() };
    assert_eq!(loaded.jobs[0].action, shell);
}

#[test]
fn quoting() {
    let description = |value: &str| {
        let text = format!("@daily name=a command=x description={value} user=u");
        let loaded = check_said(&Format::Krontab, &text, &[]);
        assert_eq!(loaded.jobs[0].execution.user.as_deref(), Some("u"));
        loaded.jobs[0].description.clone().unwrap().into_string()
    };
    assert_eq!(description("plain"), "plain");
    assert_eq!(description(r#""two words""#), "two words");
    assert_eq!(description(r#"'single "inside"'"#), r#"single "inside""#);
    assert_eq!(description(r#""a \"b\" \\ c""#), r#"a "b" \ c"#);
    assert_eq!(description(r#""\n stays""#), r"\n stays");
    assert_eq!(description(r"'\'"), r"\");
    assert_eq!(description(r#"a"b c"d'e f'"#), "ab cde f");
    assert_eq!(description(r#""""#), "");
    assert_eq!(description("a=b"), "a=b");
    assert_eq!(description("\"Zürich → Genève\""), "Zürich → Genève");
}

#[test]
fn faults() {
    for (line, expected) in [
        ("@daily command=x", &["1:1 a job without `name=`"][..]),
        ("@daily name=a", &["1:13 a job without `command`"]),
        ("@daily", &["1:1 a job without `name=`", "1:1 a job without `command`"]),
        ("name=a command=x", &["1:1 a schedule with no fields"]),
        ("0 3 * * name=a command=x", &["1:1 a schedule with only 4 fields"]),
        ("@daily name= command=x", &["1:13 a job with an empty name"]),
        ("H H * * * name=\"\" command=x", &["1:16 a job with an empty name"]),
        ("@daily name=a name=b command=x", &["1:15 `name` is given twice"]),
        ("@daily name=a command=x user=u user=v", &["1:32 `user` is given twice"]),
        ("@daily name=a command=x env=A=b env=A=c", &["1:37 `A` is set twice"]),
        ("@daily name=a command=x env=A", &["1:29 `A` is not `NAME=value`"]),
        (
            "@daily name=a comand=x",
            &["1:13 a job without `command`", "1:15 unknown setting `comand`"],
        ),
        ("@daily name=a command=x =y", &["1:25 `=y` is not a setting"]),
        ("@daily backup name=a command=x", &["1:8 `backup` is not a setting"]),
        (
            "@daily name=a command=/usr/bin/backup --full --now",
            &["1:39 `--full` is not a setting", "1:46 `--now` is not a setting"],
        ),
        ("@daily name=a command=\"x", &["1:23 this quote is never closed"]),
        ("@daily name=a command='x y\"", &["1:23 this quote is never closed"]),
        ("@daily name=a command=\"x 'y\"", &["1:23 `x 'y` has an unclosed quote"]),
        ("@daily name=a command=''", &["1:23 an empty command"]),
        ("@daily name=a command=\"#x\"", &["1:23 `#x` has no word that could be a program"]),
        ("@daily name=a command=\"'' x\"", &["1:23 `'' x` has no word that could be a program"]),
        ("@daily name=a command=x shell=1", &["1:31 expected `true` or `false`, found a text"]),
        ("@daily name=a command=x timeout=0s", &["1:33 must be longer than 0s"]),
        ("@daily name=a command=x output=file", &["1:32 unknown output `file`"]),
        ("@daily name=a command=x log_size=1", &["1:34 `log_size` goes from 4KiB to 1GiB"]),
        ("@daily name=a command=x log_size=big", &["1:34 `big` is not a size"]),
        (
            "@daily name=a command=x no_new_privileges=yes",
            &["1:43 expected `true` or `false`, found a text"],
        ),
        (
            "@daily name=a command=x limit_nofile=64 limit_nofile=65",
            &["1:41 `limit_nofile` is given twice"],
        ),
        ("@daily name=a command=x limit_nofiles=64", &["1:25 unknown setting `limit_nofiles`"]),
        ("@daily name=a command=x limits=nofile=64", &["1:25 unknown setting `limits`"]),
        ("@daily name=a command=x limit_=64", &["1:25 unknown setting `limit_`"]),
        ("@daily name=a command=x limit_cpu=", &["1:35 `` is not a limit for `cpu`"]),
        (
            "@daily name=a command=x limit_nproc=9:8 limit_cpu=x",
            &[
                "1:37 the soft limit of `9:8` is above the hard one",
                "1:51 `x` is not a limit for `cpu`",
            ],
        ),
        ("0 3 * * * @win(after,2h name=a command=x", &["1:11 `@win(` is never closed"]),
        ("0 3 * * * @win name=a command=x", &["1:11 `@win` is not a modifier"]),
        (
            "0 3 * * * @win(after,25h) name=a command=x",
            &[
                "1:16 windows of 1d1h can overlap: the periods 2026-01-01T03:00:00Z and 2026-01-02T03:00:00Z are only 1d apart",
            ],
        ),
        (
            "0 3 * * * @seed(stable,salt=%m) command=x",
            &[
                "1:1 a job without `name=`",
                "1:29 the salt names the machine id (`%m`), which is not known here",
            ],
        ),
        // What the host is, is known here, also where the name is missing.
        ("0 3 * * * @seed(stable,salt=%H) command=x", &["1:1 a job without `name=`"]),
        ("  é * * * * name=ü command=x", &["1:3 `é` is not a minute"]),
        (
            "0 3 * * * @tz(Zürich) @win(aftr,1h) name=a comand=x",
            &[
                "1:15 unknown time zone `Zürich`",
                "1:28 unknown window mode `aftr`",
                "1:42 a job without `command`",
                "1:44 unknown setting `comand`",
            ],
        ),
    ] {
        check_faults(line, expected);
    }
}

#[test]
fn every_bad_line_is_told_and_good_ones_stay() {
    let text = "61 * * * * name=a command=x\r\n@daily name=b command=x\r\n\r\n* * * * * name=c comand=x\r\n@daily name=b command=y\r\n";
    let loaded = check_said(
        &Format::Krontab,
        text,
        &[
            "1:1 `61` is outside the minute field",
            "4:16 a job without `command`",
            "4:18 unknown setting `comand`",
            "5:13 job `b` is defined twice",
        ],
    );
    assert_eq!(loaded.jobs.len(), 1);
    assert!(!loaded.is_usable());
}

#[test]
fn the_nearest_setting_is_named() {
    let help = |line: &str| load(&Format::Krontab, line).diagnostics[0].help.clone().unwrap();
    assert_eq!(help("@daily name=a command=x usr=b"), "did you mean `user`?");
    assert_eq!(help("@daily name=a command=x timeot=1h"), "did you mean `timeout`?");
    assert_eq!(help("@daily name=a command=x limit_nofiles=1"), "did you mean `limit_nofile`?");
    let all = help("@daily name=a command=x zzz=1h");
    assert!(all.starts_with("expected command, shell, user"), "{all}");
    assert!(all.ends_with("name, limit_as, limit_core, limit_cpu, limit_data, limit_fsize, limit_memlock, limit_nofile, limit_nproc, limit_stack"), "{all}");
}

#[test]
fn limits() {
    let line = |length: usize| {
        let start = "@daily name=a command=x #";
        let filler = "x".repeat(length - start.len());
        let text = format!("{start}{filler}\n@daily name=b command=x\n");
        let loaded = load(&Format::Krontab, &text);
        said(&loaded)[0].clone()
    };
    assert_eq!(line(64 * 1024 + 1), "1:1 a line of more than 65536 bytes");
    assert_eq!(line(64 * 1024), "1:25 a comment after a job");
    // Comments may be as long as they like.
    check_said(&Format::Krontab, &format!("#{}\n", "x".repeat(100_000)), &[]);
}

#[test]
fn a_long_line_is_shown_around_its_fault_with_its_own_column() {
    let text = format!("@daily name=a command=x description={} usr=b", "x".repeat(1_000));
    let loaded = load(&Format::Krontab, &text);
    let shown = loaded.diagnostics[0].to_string();
    assert!(shown.contains("--> jobs:1:1038\n"), "{shown}");
    assert!(shown.contains("usr=b") && shown.len() < 600, "{shown}");
}

#[test]
fn a_bad_file_as_people_see_it() {
    let mut loader = Loader::new(Options::default());
    let text = include_str!("../texts/bad.krontab");
    loader.load(&Source::new("bad.krontab", text), &Format::Krontab);
    let loaded = loader.finish();
    let texts: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n\n"));
}
