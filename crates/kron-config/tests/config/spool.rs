//! Tables `[spool.NAME]`, their handlers, and jobs that drop tasks.

use kron_config::{
    Action, Execution, Format, Handler, HandlerTarget, Loaded, Loader, Options, RetrySettings,
    Source, SpoolDrop, SpoolSettings,
};
use kron_core::Seconds;

use crate::loading::{check_said, load, said};

const MAIL: &str = "[spool.mail]\ndir = '/srv/mail'\n";
const HANDLER: &str = "[spool.mail.handler.send]\ncommand = ['/usr/bin/send']\n";

fn load_files(files: &[(&str, &str)]) -> Loaded {
    let mut loader = Loader::new(Options::default());
    for (name, text) in files {
        loader.load(&Source::new(name, text), &Format::Toml);
    }
    loader.finish()
}

#[track_caller]
fn spools(text: &str) -> Vec<SpoolSettings> {
    let loaded = check_said(&Format::Toml, text, &[]);
    assert!(loaded.is_usable());
    loaded.daemon.spools
}

/// The only spool of a text.
#[track_caller]
fn spool(text: &str) -> SpoolSettings {
    let mut spools = spools(text);
    assert_eq!(spools.len(), 1);
    spools.remove(0)
}

#[track_caller]
fn drops(lines: &str) -> SpoolDrop {
    let text = format!("{MAIL}{HANDLER}[job.a]\nschedule = '@daily'\n{lines}\n");
    let loaded = check_said(&Format::Toml, &text, &[]);
    match &loaded.jobs[0].action {
        Action::Spool(drop) => (**drop).clone(),
        other => panic!("{other:?}"),
    }
}

fn help(text: &str) -> String {
    load(&Format::Toml, text).diagnostics[0].help.clone().expect("help")
}

fn minutes(minutes: u64) -> Seconds {
    Seconds::new(60 * minutes)
}

fn default_retry() -> RetrySettings {
    RetrySettings {
        retries_max: 3,
        lost_retries_max: 10,
        backoff: Seconds::new(10),
        backoff_max: minutes(60),
    }
}

#[test]
fn what_is_not_written_has_its_default() {
    assert!(spools("[daemon]\n[queue]\n").is_empty());
    assert!(spools("[spool]\n").is_empty());
    let expected = SpoolSettings {
        name: "mail".to_owned(),
        dir: "/srv/mail".to_owned(),
        workers_max: 1,
        retry: default_retry(),
        keep: Seconds::new(2_592_000),
        stop_grace: Seconds::new(10),
        producers: Vec::new(),
        handlers: Vec::new(),
    };
    for text in [MAIL, "spool.mail.dir = '/srv/mail'\n", "[spool]\nmail = { dir = '/srv/mail' }\n"]
    {
        assert_eq!(spool(text), expected, "{text}");
    }
    let handler = Handler {
        job_type: "send".to_owned(),
        target: HandlerTarget::Command(Action::Program(vec!["/usr/bin/send".to_owned()].into())),
        execution: Execution::default().into(),
        skip_codes: Vec::new(),
        workers_max: None,
        retry: default_retry(),
    };
    assert_eq!(spool(&format!("{MAIL}{HANDLER}")).handlers, [handler]);
}

#[test]
fn every_key_of_a_spool() {
    let written = spool(
        "[spool.\"the mail\"]\ndir = '/srv/mail'\nworkers = 1_024\nretries = 0\n\
         lost_retries = 100\nbackoff = '0s'\nbackoff_max = '2h'\nkeep = '7d'\nstop_grace = '0s'\n\
         producers = ['www-data', '33', 'ann', 'www-data']\n",
    );
    let retry = RetrySettings {
        retries_max: 0,
        lost_retries_max: 100,
        backoff: Seconds::ZERO,
        backoff_max: minutes(120),
    };
    let expected = SpoolSettings {
        name: "the mail".to_owned(),
        dir: "/srv/mail".to_owned(),
        workers_max: 1_024,
        retry,
        keep: Seconds::new(604_800),
        stop_grace: Seconds::ZERO,
        producers: ["33", "ann", "www-data"].map(str::to_owned).into(),
        handlers: Vec::new(),
    };
    assert_eq!(written, expected);
    assert!(spool(&format!("{MAIL}producers = []\n")).producers.is_empty());
}

#[test]
fn every_key_of_a_handler_is_as_in_the_queue() {
    let lines = "command = 'a | b'\nshell = true\nuser = 'mail'\ngroup = 'media'\ncwd = '/srv'\n\
         umask = '027'\nnice = 5\ntimeout = '5m'\ngrace = '3s'\nlog_size = '1MiB'\n\
         limits = { nofile = 64 }\nno_new_privileges = true\nskip_codes = [99, 75, 99]\n\
         workers = 2\nretries = 7\nlost_retries = 6\nbackoff = '1m'\nbackoff_max = '9m'\n";
    let queue = format!("[queue.handler.send]\n{lines}[queue.handler.send.env]\nA = 'b'\n");
    let queue = check_said(&Format::Toml, &queue, &[]).daemon.queue.expect("a queue");
    let text =
        format!("{MAIL}[spool.mail.handler.send]\n{lines}[spool.mail.handler.send.env]\nA = 'b'\n");
    let spool = spool(&text);
    assert_eq!(spool.handlers, queue.handlers);
    assert_eq!(spool.handlers[0].execution.user.as_deref(), Some("mail"));
    assert_eq!(spool.handlers[0].skip_codes, [75, 99]);
    assert_eq!(spool.retry, default_retry());
}

#[test]
fn a_handler_of_a_spool_is_a_command() {
    for line in [
        "url = 'https://example.org/'",
        "headers = { A = 'b' }",
        "token_file = '/etc/token'",
        "allow_private = true",
    ] {
        let key = line.split(' ').next().expect("a key");
        let text = format!("{MAIL}{HANDLER}{line}\n");
        let expected = format!("5:1 unknown key `{key}` of a spool's handler");
        let loaded = check_said(&Format::Toml, &text, &[&expected]);
        assert!(!loaded.is_usable());
        assert_eq!(help(&text), "a spool's handler is a command");
    }
    let lone = format!("{MAIL}[spool.mail.handler.send]\nurl = 'https://example.org/'\n");
    check_said(
        &Format::Toml,
        &lone,
        &["3:21 handler `send` has no `command`", "4:1 unknown key `url` of a spool's handler"],
    );
    for (line, expected) in [
        ("output = 'log'", "unknown key `output` of a spool's handler"),
        ("usr = 'mail'", "unknown key `usr` of a spool's handler"),
        ("producers = []", "unknown key `producers` of a spool's handler"),
    ] {
        let text = format!("{MAIL}{HANDLER}{line}\n");
        check_said(&Format::Toml, &text, &[&format!("5:1 {expected}")]);
    }
    assert_eq!(help(&format!("{MAIL}{HANDLER}usr = 'mail'\n")), "did you mean `user`?");
}

#[test]
fn spools_and_their_handlers_have_an_order_wherever_they_stand() {
    let spool_table =
        "[spool.mail]\nretries = 9\nlost_retries = 8\nbackoff = '2m'\nbackoff_max = '5m'\n";
    let dir = "[spool.mail]\ndir = '/srv/mail'\n";
    let handlers = "[spool.mail.handler.z]\ncommand = ['x']\nretries = 1\nbackoff_max = '3m'\n\
                    [spool.other]\ndir = '/srv/other'\n\
                    [spool.mail.handler.a]\ncommand = ['x']\n\
                    [spool.other.handler.a]\ncommand = ['y']\n";
    let own = RetrySettings {
        retries_max: 1,
        lost_retries_max: 8,
        backoff: minutes(2),
        backoff_max: minutes(3),
    };
    let all = RetrySettings { retries_max: 9, backoff_max: minutes(5), ..own };
    let one_text = format!("{handlers}{spool_table}dir = '/srv/mail'\n");
    for files in [
        &[("a", spool_table), ("b", handlers), ("c", dir)][..],
        &[("a", handlers), ("b", dir), ("c", spool_table)],
        &[("a", &one_text)],
    ] {
        let loaded = load_files(files);
        assert_eq!(said(&loaded), [""; 0]);
        let [mail, other] = &loaded.daemon.spools[..] else { panic!("{:?}", loaded.daemon) };
        assert_eq!((&*mail.name, &*other.name), ("mail", "other"));
        assert_eq!((&*mail.dir, mail.retry), ("/srv/mail", all));
        let types: Vec<&str> = mail.handlers.iter().map(|it| it.job_type.as_str()).collect();
        assert_eq!(types, ["a", "z"]);
        assert_eq!(mail.handler("z").map(|handler| handler.retry), Some(own));
        assert_eq!(mail.handler("a").map(|handler| handler.retry), Some(all));
        assert_eq!(mail.handler("b"), None);
        assert_eq!(other.handler("a").map(|handler| handler.retry), Some(default_retry()));
        assert_eq!(other.handler("z"), None);
    }
}

#[test]
fn a_spool_has_a_directory() {
    let none = "spool `mail` has no `dir`";
    check_said(&Format::Toml, "[spool.mail]\nworkers = 2\n", &[&format!("1:8 {none}")]);
    check_said(&Format::Toml, HANDLER, &[&format!("1:8 {none}")]);
    check_said(&Format::Toml, "[spool]\nmail = {}\n", &[&format!("2:1 {none}")]);
    let loaded = load_files(&[("a", "[spool.mail]\n"), ("b", HANDLER)]);
    assert_eq!(said(&loaded), [format!("1:8 {none}")]);
    assert_eq!(&*loaded.diagnostics[0].location.as_ref().expect("a place").file, "a");
    assert!(!loaded.is_usable());
    // Whoever gave one that is refused, or in a table that cannot be read, is not told to give one.
    for (text, expected) in [
        ("[spool.mail]\ndir = 5\n", "2:7 expected a text, found a number"),
        ("[spool.mail]\ndir = ''\n", "2:7 `` is not an absolute path"),
        ("[spool.mail]\ndir = 'srv/mail'\n", "2:7 `srv/mail` is not an absolute path"),
        ("[spool.mail]\ndir = '/srv/../mail'\n", "2:7 `/srv/../mail` has a part `..`"),
        ("[spool.mail]\ndir = '/..'\n", "2:7 `/..` has a part `..`"),
        ("[spool.mail]\ndir = '//./'\n", "2:7 `/` is no directory of a spool's own"),
        ("[spool.mail]\ndir = \"/srv/\\u0000\"\n", "2:7 a text with a NUL character"),
        ("[spool.mail]\ndir = '/srv\n", "2:12 invalid literal string, expected `'`"),
        ("[spool]\nmail = { dir = '/srv }\n", "2:23 unclosed inline table, expected `}`"),
    ] {
        let loaded = check_said(&Format::Toml, text, &[expected]);
        assert!(!loaded.is_usable());
    }
    let broken = format!("{HANDLER}[spool.mail]\ndir = \n");
    assert_eq!(said(&load(&Format::Toml, &broken)).len(), 1);

    let dir = |path: &str| spool(&format!("[spool.mail]\ndir = '{path}'\n")).dir;
    for path in ["/srv/mail", "/srv/mail/", "//srv/./mail/.", "/./srv///mail//"] {
        assert_eq!(dir(path), "/srv/mail", "{path}");
    }
    assert_eq!(dir("/srv/..mail/.x/..."), "/srv/..mail/.x/...");
    let longest = format!("/{}", "x".repeat(3_071));
    assert_eq!(dir(&longest), longest);
    check_said(
        &Format::Toml,
        &format!("[spool.mail]\ndir = '{longest}x'\n"),
        &["2:7 `dir` has more than 3072 bytes"],
    );
}

#[test]
fn directories_are_apart() {
    let pair = |first: &str, second: &str| {
        let first = format!("[spool.b]\nworkers = 2\ndir = '{first}'\n");
        let second = format!("[spool.a]\ndir = '{second}'\n");
        let loaded = load_files(&[("10.toml", &first), ("20.toml", &second)]);
        for diagnostic in &loaded.diagnostics {
            assert_eq!(
                diagnostic.help.as_deref(),
                Some("that one is given at 10.toml:3:1; each spool has its own")
            );
            assert_eq!(&*diagnostic.location.as_ref().expect("a place").file, "20.toml");
            assert!(!loaded.is_usable());
        }
        said(&loaded)
    };
    let is = ["2:7 the directory of spool `a` is that of spool `b`"];
    let is_inside = ["2:7 the directory of spool `a` is inside that of spool `b`"];
    let contains = ["2:7 the directory of spool `a` contains that of spool `b`"];
    assert_eq!(pair("/srv/mail", "/srv/mail"), is);
    assert_eq!(pair("/srv/mail/", "//srv/./mail"), is);
    assert_eq!(pair("/srv", "/srv/mail/"), is_inside);
    assert_eq!(pair("/srv/mail/deep/er", "/srv/./mail/"), contains);
    for (first, second) in [("/srv/mail", "/srv/mail2"), ("/srv/a/x", "/srv/b/x"), ("/a", "/A")] {
        assert_eq!(pair(first, second), [""; 0]);
    }
}

#[test]
fn a_first_wait_is_never_cut_in_silence() {
    for (text, expected) in [
        (
            format!("{MAIL}backoff = '2h'\n"),
            "3:1 `backoff` of `[spool.mail]` is 2h, longer than its `backoff_max`, 1h",
        ),
        (
            format!("{MAIL}backoff_max = '5m'\n{HANDLER}backoff = '6m'\n"),
            "4:21 `backoff` of `[spool.mail.handler.send]` is 6m, longer than its `backoff_max`, 5m",
        ),
        (
            format!("{MAIL}backoff_max = '9s'\n{HANDLER}"),
            "3:1 `backoff` of `[spool.mail]` is 10s, longer than its `backoff_max`, 9s",
        ),
    ] {
        let loaded = check_said(&Format::Toml, &text, &[expected]);
        assert!(!loaded.is_usable());
        assert_eq!(
            help(&text),
            "where it is not given, a handler's `backoff_max` is the spool's, and the spool's 1h"
        );
    }
}

#[test]
fn a_job_drops_data_of_any_shape() {
    let expected = SpoolDrop { spool: "mail".into(), task_type: "send".into(), data: "{}".into() };
    assert_eq!(drops("spool = { name = 'mail', type = 'send' }"), expected);
    for (written, expected) in [
        ("{}", "{}"),
        ("[]", "[]"),
        ("'x'", r#""x""#),
        ("''", r#""""#),
        ("5", "5"),
        ("-0.5", "-0.5"),
        ("false", "false"),
        ("2026-01-02", r#""2026-01-02""#),
        ("{ b = 1, a = ['x', { c = 0xFF }] }", r#"{"a":["x",{"c":255}],"b":1}"#),
        (r#""\u0000\n\"é""#, r#""\u0000\n\"é""#),
    ] {
        let drop = drops(&format!("spool = {{ name = 'mail', type = 'send', data = {written} }}"));
        assert_eq!(&*drop.data, expected);
    }
    let tables = drops(
        "description = 'x'\n[job.a.spool]\nname = 'mail'\ntype = 'send'\n\
         [[job.a.spool.data]]\nto = 'ann'\n[[job.a.spool.data]]\nto = 'bob'\n",
    );
    assert_eq!(&*tables.data, r#"[{"to":"ann"},{"to":"bob"}]"#);
    let action = Action::Spool(Box::new(tables));
    assert!(action.is_handed_over() && action.to_argv().is_empty());
    assert!(!Action::Program(vec!["x".to_owned()].into()).is_handed_over());
}

#[test]
fn data_is_bounded() {
    let drop = |data: &str| {
        let job = "[job.a]\nschedule = '@daily'\n";
        load(
            &Format::Toml,
            &format!(
                "{MAIL}{HANDLER}{job}spool = {{ name = 'mail', type = 'send', data = {data} }}\n"
            ),
        )
    };
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(said(&drop(&lists(32))), [""; 0]);
    assert_eq!(said(&drop(&lists(33))), ["7:80 `data` is nested more than 32 deep"]);
    let tables = |depth: usize| format!("{}{}", "{a=".repeat(depth - 1) + "{", "}".repeat(depth));
    assert_eq!(said(&drop(&tables(32))), [""; 0]);
    assert_eq!(said(&drop(&tables(33))).len(), 1);
    // The quotes count.
    let long = |bytes: usize| format!("'{}'", "x".repeat(bytes - 2));
    assert_eq!(said(&drop(&long(196_608))), [""; 0]);
    assert_eq!(
        said(&drop(&long(196_609))),
        ["7:48 `data` has 196609 bytes as JSON; at most 196608 are allowed"]
    );
}

#[test]
fn what_is_dropped_in_vain() {
    let job = |name: &str, spool: &str, task_type: &str| {
        format!(
            "[job.{name}]\nschedule = '@daily'\n\
             spool = {{ name = '{spool}', type = '{task_type}' }}\n"
        )
    };
    let jobs = [job("a", "mial", "x"), job("b", "mail", "y"), job("c", "mial", "y")].concat();
    let none = "1:6 this job names spool `mial`, and there is no such spool";
    let loaded = check_said(
        &Format::Toml,
        &jobs,
        &[none, "4:6 this job names spool `mail`, and there is no such spool"],
    );
    assert!(!loaded.is_usable());
    assert_eq!(help(&jobs), "add a table `[spool.mial]` to any of the files");
    assert_eq!(
        help(&job("a", "the mail", "x")),
        "add a table `[spool.\"the mail\"]` to any of the files"
    );

    // Wherever the spool stands; the nearest is named.
    let tables = format!("{MAIL}{HANDLER}");
    for files in [[("a", &*jobs), ("b", &tables)], [("b", &tables), ("a", &jobs)]] {
        let loaded = load_files(&files);
        let expected = [
            none,
            "4:6 warning: this job drops `y` into spool `mail`, which has no handler for it",
        ];
        assert_eq!(said(&loaded), expected);
        let helps: Vec<_> = loaded.diagnostics.iter().map(|it| it.help.as_deref()).collect();
        let wait = "its tasks wait until there is `[spool.mail.handler.y]`";
        assert_eq!(helps, [Some("did you mean `mail`?"), Some(wait)]);
        assert!(!loaded.is_usable());
    }
    // A type without a handler alone forbids nothing, and is told once of each spool.
    let jobs = [job("a", "mail", "a.b"), job("b", "b", "a.b"), job("c", "mail", "a.b")].concat();
    let text = format!("{tables}[spool.b]\ndir = '/srv/b'\n{jobs}");
    let loaded = load(&Format::Toml, &text);
    assert_eq!(said(&loaded).len(), 2, "{:?}", said(&loaded));
    assert!(loaded.is_usable() && loaded.jobs.len() == 3);
    assert_eq!(help(&text), "its tasks wait until there is `[spool.mail.handler.\"a.b\"]`");

    // A handler at fault is a handler, and a table at fault is a spool.
    for (tables, fault) in [
        (format!("{MAIL}[spool.mail.handler.x]\ncommand = 5\n"), "4:11 expected a list of words"),
        (format!("{MAIL}[spool.mail.handler.x]\ncommand = [\n"), "4:12 unclosed array"),
        ("[spool.mail]\ndir = 5\n[spool.mail.handler.x]\ncommand = ['x']\n".to_owned(), "2:7 "),
        ("[spool.mail]\ndir = \n".to_owned(), "2:7 "),
        (format!("[spool.mail]\n#{}\n", "x".repeat(1_048_576)), "1:1 a table of more than"),
        ("[spool]\nmail = { dir = }\n".to_owned(), "2:16 "),
    ] {
        let said = said(&load(&Format::Toml, &format!("{tables}{}", job("a", "mail", "x"))));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(fault), "{said:?}");
    }
}

#[test]
fn a_job_that_could_not_be_told_of_is_refused_all_the_same() {
    // More types without a handler than there are warnings must not hide a spool that is not there.
    let jobs: String = (0..1_100)
        .map(|n| {
            format!("[job.j{n}]\nschedule = '@daily'\nspool = {{ name = 'mail', type = 't{n}' }}\n")
        })
        .collect();
    let last = "[job.z]\nschedule = '@daily'\nspool = { name = 'x', type = 't' }\n";
    let loaded = load(&Format::Toml, &format!("{MAIL}{jobs}{last}"));
    assert!(!loaded.is_usable());
    assert_eq!(loaded.diagnostics.iter().filter(|it| it.is_error()).count(), 1);
    assert_eq!(loaded.diagnostics.len(), 1_001);
}

#[test]
fn a_job_does_one_thing() {
    for (lines, expected) in [
        ("", &["5:6 a job with none of `command`, `enqueue` and `spool`"][..]),
        (
            "command = ['x']\nspool = { name = 'mail', type = 'send' }\nuser = 'a'",
            &["8:9 a job with both `command` and `spool`"],
        ),
        (
            "spool = { name = 'mail', type = 'send' }\ncommand = ['x']",
            &["7:9 a job with both `command` and `spool`"],
        ),
        (
            "spool = { name = 'mail', type = 'send' }\nenqueue = { type = 'send' }",
            &["8:11 a job with both `enqueue` and `spool`"],
        ),
        (
            "spool = { name = 'mail', type = 'send' }\ncommand = ['x']\nenqueue = { type = 'x' }",
            &["9:11 a job with `command`, `enqueue` and `spool`"],
        ),
        (
            "shell = true\nuser = 'a'\nstdin = ''\noutput = 'log'\nlimits = { nofile = 5 }\n\
             duration = '5m'\nspool = { name = 'mail', type = 'send' }\ndescription = 'x'",
            &[
                "7:9 `shell` goes with `command`, not with `spool`",
                "8:8 `user` goes with `command`, not with `spool`",
                "9:9 `stdin` goes with `command`, not with `spool`",
                "10:10 `output` goes with `command`, not with `spool`",
                "11:10 `limits` goes with `command`, not with `spool`",
                "12:12 `duration` goes with `command`, not with `spool`",
            ],
        ),
        ("spool = 'mail'", &["7:9 expected a table, found a text"]),
        ("spool = {}", &["7:9 `spool` without `name`", "7:9 `spool` without `type`"]),
        (
            "spool = { nam = 'mail', type = 'send' }",
            &["7:9 `spool` without `name`", "7:11 unknown key `nam` of `spool`"],
        ),
        (
            "spool = { name = '', type = 'a b' }",
            &["7:18 a spool with an empty name", "7:29 `a b` is not a task type"],
        ),
        (
            "spool = { name = 5, type = '' }",
            &["7:18 expected a text, found a number", "7:28 an empty task type"],
        ),
        ("spool = { name = 'mail', type = '../../x' }", &["7:33 `../../x` is not a task type"]),
        (
            "spool = { name = 'mail', type = 'send', data = [nan, 9223372036854775808] }",
            &["7:49 JSON has no number `nan`", "7:54 a whole number of more than 64 bits"],
        ),
        (
            "spool = { name = 'mail', type = 'send', priority = 5 }",
            &["7:41 unknown key `priority` of `spool`"],
        ),
    ] {
        let text = format!("{MAIL}{HANDLER}[job.a]\nschedule = '@daily'\n{lines}\n");
        let loaded = check_said(&Format::Toml, &text, expected);
        assert!(!loaded.is_usable() && loaded.jobs.is_empty(), "{lines}");
    }
    let long = "x".repeat(65);
    check_said(
        &Format::Toml,
        &format!("{MAIL}[spool.mail.handler.{long}]\ncommand = ['x']\n"),
        &["3:21 a task type of more than 64 bytes"],
    );
    assert_eq!(
        spool(&format!("{MAIL}[spool.mail.handler.\"a.B-_9\"]\ncommand = ['x']\n")).handlers[0]
            .job_type,
        "a.B-_9"
    );
}

#[test]
fn tables_that_are_none() {
    for (text, expected) in [
        ("spool = 5\n", &["1:1 `spool` is not a table"][..]),
        ("[[spool]]\n", &["1:3 `spool` is not a table"]),
        ("[spool]\ndir = '/srv/mail'\n", &["2:1 `spool.dir` is not a table"]),
        ("[[spool.mail]]\ndir = '/srv/mail'\n", &["1:9 `spool.mail` is not a table"]),
        (
            "[spool.mail]\ndir = '/a'\nhandler = ['x']\n",
            &["3:1 `spool.mail.handler` is not a table"],
        ),
        (
            "[spool.mail]\ndir = '/a'\n[spool.mail.handler]\nsend = 5\n",
            &["4:1 `spool.mail.handler.send` is not a table"],
        ),
        (
            "[spool.mail]\ndir = '/a'\n[[spool.mail.handler.send]]\ncommand = ['x']\n",
            &["3:22 `spool.mail.handler.send` is not a table"],
        ),
        (
            "[spool.mail]\ndir = '/a'\n[spool.mail.handlers.send]\ncommand = ['x']\n",
            &["3:13 unknown key `handlers` of `[spool.mail]`"],
        ),
        ("[spool.mail]\ndir = '/a'\nworker = 5\n", &["3:1 unknown key `worker` of `[spool.mail]`"]),
        ("[spool.\"\"]\ndir = '/a'\n", &["1:8 a spool with an empty name"]),
        (
            "[spool.\"a\\nb\"]\ndir = '/a'\n",
            &["1:8 the spool's name `a\\nb` contains a control character"],
        ),
        (
            "[spool.mail]\ndir = '/a'\nproducers = 'ann'\n",
            &["3:13 expected a list such as `[\"www-data\"]`, found a text"],
        ),
        (
            "[spool.mail]\ndir = '/a'\nproducers = ['ann', 33, '', 'a:b', '../x']\n",
            &[
                "3:21 expected a text, found a number",
                "3:25 `` is not a user or group",
                "3:29 `a:b` is not a user or group",
                "3:36 `../x` is not a user or group",
            ],
        ),
        ("[spool.mail]\ndir = '/a'\nworkers = 1025\n", &["3:11 `workers` goes from 1 to 1024"]),
        ("[spool.mail]\ndir = '/a'\nretries = -1\n", &["3:11 `retries` goes from 0 to 100"]),
        ("[spool.mail]\ndir = '/a'\nkeep = '0s'\n", &["3:8 must be longer than 0s"]),
    ] {
        let loaded = check_said(&Format::Toml, text, expected);
        assert!(!loaded.is_usable(), "{text}");
    }
    let own = "a spool is a table of its own: `[spool.NAME]`";
    assert_eq!(help("spool = 5\n"), own);
    assert_eq!(help("[spool]\ndir = '/srv/mail'\n"), own);
    let handler = "a handler is a table of its own: `[spool.NAME.handler.TYPE]`";
    assert_eq!(help("[spool.mail]\ndir = '/a'\nhandler = ['x']\n"), handler);
    assert_eq!(help("[spool.mail.handlers.send]\n"), "did you mean `handler`?");
    assert_eq!(help("[spol.mail]\n"), "did you mean `spool`?");
    assert_eq!(help("[spool.mail]\ndir = '/a'\nproducers = [33]\n"), "put it in quotes");
}

#[test]
fn nothing_is_defined_twice() {
    let twice = |first: &str, second: &str| {
        let loaded = load_files(&[("10.toml", first), ("20.toml", second)]);
        assert_eq!(loaded.diagnostics.len(), 1, "{:?}", said(&loaded));
        assert!(!loaded.is_usable());
        let help = loaded.diagnostics[0].help.clone().expect("help");
        assert!(help.contains("it is first defined at 10.toml:"), "{help}");
        assert_eq!(&*loaded.diagnostics[0].location.as_ref().expect("a place").file, "20.toml");
        said(&loaded).remove(0)
    };
    assert_eq!(twice(MAIL, MAIL), "2:1 `dir` of `[spool.mail]` is defined twice");
    let both = format!("{MAIL}{HANDLER}");
    assert_eq!(twice(&both, HANDLER), "1:21 handler `send` is defined twice");
    // A key that was refused was given all the same.
    let loaded = load_files(&[("a", "[spool.mail]\ndir = 5\n"), ("b", MAIL)]);
    assert_eq!(said(&loaded)[1], "2:1 `dir` of `[spool.mail]` is defined twice");

    // In one file too; inline and as a table of its own are the same.
    check_said(
        &Format::Toml,
        &format!("{MAIL}handler.send = {{ command = ['x'] }}\n{HANDLER}"),
        &["4:21 handler `send` is defined twice"],
    );
    // The same key of different tables is not the same key, nor the same type of different spools.
    let text = format!(
        "{MAIL}retries = 1\n{HANDLER}retries = 2\n[spool.b]\ndir = '/srv/b'\nretries = 4\n\
         [spool.b.handler.send]\ncommand = ['x']\n[queue]\nretries = 5\n"
    );
    let spools = spools(&text);
    let retries =
        |spool: &SpoolSettings| (spool.retry.retries_max, spool.handlers[0].retry.retries_max);
    assert_eq!(spools.iter().map(retries).collect::<Vec<_>>(), [(4, 4), (1, 2)]);
}

#[test]
fn tables_of_a_spool_stand_together() {
    let job = "[job.a]\nschedule = '@daily'\ncommand = ['x']\n";
    let apart = format!("{MAIL}{HANDLER}{job}[spool.mail.handler.send.env]\nA = 'b'\n");
    let loaded = check_said(
        &Format::Toml,
        &apart,
        &["8:1 `[spool.mail.handler.send]` stands in two places"],
    );
    let help = loaded.diagnostics[0].help.as_deref().expect("help");
    assert_eq!(help, "it begins at jobs:3:1; keep the tables of a handler together");
    let apart = format!("[spool.mail]\nworkers = 2\n{job}{MAIL}");
    let loaded = check_said(&Format::Toml, &apart, &["6:1 `[spool.mail]` stands in two places"]);
    let help = loaded.diagnostics[0].help.as_deref().expect("help");
    assert_eq!(help, "it begins at jobs:1:1; keep its keys together");
    // Handlers and other tables may stand between and anywhere.
    let text = format!(
        "[spool.\"mail\".handler.\"b\"]\ncommand = ['x']\n[spool.mail.handler.b.env]\nA = 'b'\n\
         {job}{HANDLER}[spool.b]\ndir = '/srv/b'\n[queue]\n{MAIL}[spool.b.handler.b]\ncommand = ['x']\n"
    );
    let spools = spools(&text);
    assert_eq!((spools[0].handlers.len(), spools[1].handlers.len()), (1, 2));
    assert_eq!(*spools[1].handlers[0].execution.env, [("A".to_owned(), "b".to_owned())]);
}

#[test]
fn damage_stays_in_its_table() {
    // An array left open ends at the next header of a spool.
    let text = format!("[job.a]\ncommand = ['x',\n[spool.mail]\ndir = 5\n{HANDLER}nice = ''\n");
    check_said(
        &Format::Toml,
        &text,
        &[
            "2:16 unclosed array, expected `]`",
            "4:7 expected a text, found a number",
            "7:8 not a whole number",
        ],
    );
    // Damage in a handler leaves the spool's other tables alone.
    let text = format!("[spool.mail.handler.x]\ncommand = ['x\n{MAIL}{HANDLER}nice = ''\n");
    let said = said(&load(&Format::Toml, &text));
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[1], "7:8 not a whole number");
}

#[test]
fn spools_are_bounded() {
    let many = |count: usize| -> String {
        (0..count).map(|n| format!("[spool.s{n}]\ndir = '/srv/{n}'\n")).collect()
    };
    assert_eq!(spools(&many(64)).len(), 64);
    // A job may name the one that is too many.
    let job = "[job.a]\nschedule = '@daily'\nspool = { name = 's64', type = 'x' }\n";
    check_said(&Format::Toml, &format!("{}{job}", many(65)), &["129:8 more than 64 spools"]);
    let handlers = |count: usize| -> String {
        let handlers = (0..count).map(|n| format!("[spool.mail.handler.h{n}]\ncommand = ['x']\n"));
        format!("{MAIL}{}", handlers.collect::<String>())
    };
    assert_eq!(spool(&handlers(1_000)).handlers.len(), 1_000);
    check_said(&Format::Toml, &handlers(1_001), &["2003:21 more than 1000 handlers"]);
    let producers = |count: usize| format!("{MAIL}producers = [{}]\n", "'ann',".repeat(count));
    assert_eq!(spool(&producers(64)).producers, ["ann"]);
    check_said(&Format::Toml, &producers(65), &["3:13 more than 64 producers"]);
    let longest = "x".repeat(4_096);
    assert_eq!(spool(&format!("[spool.{longest}]\ndir = '/a'\n")).name, longest);
    check_said(
        &Format::Toml,
        &format!("[spool.{longest}x]\ndir = '/a'\n"),
        &["1:8 a spool's name of more than 4096 bytes"],
    );
}

#[test]
fn secrets_are_shown_in_no_error() {
    for text in [
        "[spool.a]\ndir = '/a'\ntoken = 'hunter2'\n",
        "[spool.a.handler.b]\nurl = 'https://u:hunter2@a/'\n",
        "[spool.a.handler.b]\nheaders = { A = 'hunter2' }\n",
        "[spool.a.handler.b]\ncommand = ['x']\nsecret = 'hunter2'\n",
        "[spool.a.handler.b]\nheaders = { A = 'hunter2\n",
        "[spool.a.handler]\nb = 'hunter2'\n",
        "[spool.a]\nhandler = ['hunter2']\n",
        "[spool]\ntoken = 'hunter2'\n",
        "spool = 'hunter2'\n",
        "spool = { a = { handler = { b = { token = 'hunter2' } } } }\n",
    ] {
        let loaded = load(&Format::Toml, text);
        assert!(!loaded.diagnostics.is_empty(), "{text}");
        for diagnostic in &loaded.diagnostics {
            let shown = format!("{diagnostic} {diagnostic:?}");
            assert!(!shown.contains("hunter"), "{text}\n{shown}");
        }
    }
    // What is no secret is shown.
    let loaded = load(&Format::Toml, "[spool.a]\ndir = 'srv'\n[spool.a.handler.b]\nnice = 'x'\n");
    let shown: String = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert!(shown.contains("dir = 'srv'") && shown.contains("nice = 'x'"), "{shown}");
}

#[test]
fn what_is_shown_is_short_and_printable() {
    let name = "\\u009b31m\\u2028".repeat(200);
    let text = format!(
        "[job.a]\nschedule = '@daily'\nspool = {{ name = \"{}\", type = 'x' }}\n",
        "é\\\"".repeat(500)
    );
    for text in [&text, &format!("[spool.\"{name}\"]\ndir = '/a'\n")] {
        for diagnostic in load(&Format::Toml, text).diagnostics {
            let shown = diagnostic.to_string();
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
            assert!(shown.len() < 2_000, "{shown}");
        }
    }
}

/// What the page says of spools: its defaults are the defaults, and it names every key.
#[test]
fn the_page_is_right() {
    let page = include_str!("../../../../docs/job-files.md");
    let (_, rest) = page.split_once("\n### Spools\n").expect("a chapter");
    let (chapter, rest) = rest.split_once("\n### Jobs that drop tasks\n").expect("a chapter");
    let (jobs, _) = rest.split_once("\n### The API\n").expect("an end");
    let rows = |table: &str| -> Vec<Vec<String>> {
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.map(|row| {
            row.split(" | ").map(|cell| cell.trim_matches(['`', ' ', '|']).to_owned()).collect()
        })
        .collect()
    };
    let keys = |table: &str| -> Vec<String> {
        let mut keys: Vec<String> = rows(table)
            .iter()
            .flat_map(|cells| cells[0].split("`, `"))
            .map(str::to_owned)
            .collect();
        keys.sort_unstable();
        keys
    };
    let known = |text: &str| -> Vec<String> {
        let loaded = load(&Format::Toml, text);
        let all =
            loaded.diagnostics.iter().filter_map(|it| it.help.as_deref()?.split_once(" are "));
        let mut keys: Vec<String> =
            all.flat_map(|(_, keys)| keys.split(", ")).map(str::to_owned).collect();
        keys.sort_unstable();
        keys
    };
    let tables: Vec<&str> = chapter.split("\n| key | value | default |\n").skip(1).collect();
    let [spool_table, handler_table] = tables[..] else { panic!("{tables:?}") };
    let defaults: String = rows(spool_table)
        .iter()
        .filter(|cells| cells[0] != "dir")
        .map(|cells| format!("{} = {}\n", cells[0], cells.last().expect("a default")))
        .collect();
    assert_eq!(spool(&format!("{MAIL}{defaults}")), spool(MAIL));
    assert_eq!(keys(spool_table), known(&format!("{MAIL}zzz = 1\n")));
    assert_eq!(keys(handler_table), known(&format!("{MAIL}{HANDLER}zzz = 1\n")));

    // Its examples are sound as they stand.
    let example = |text: &str| -> String {
        let (_, rest) = text.split_once("```toml\n").expect("an example");
        rest.split_once("```").expect("an end").0.to_owned()
    };
    let loaded = check_said(&Format::Toml, &(example(chapter) + &example(jobs)), &[]);
    assert!(loaded.jobs[0].action.is_handed_over());
}

#[test]
fn a_bad_file_as_people_see_it() {
    let loaded = load_files(&[("bad-spool.toml", include_str!("../texts/bad-spool.toml"))]);
    let texts: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    let all = texts.join("\n\n");
    assert!(!all.contains("aKeyThatNobodyMaySee"), "{all}");
    insta::assert_snapshot!(all);
}
