//! Tables `[queue]`, its handlers and webhooks, `[api]`, and jobs that enqueue.

use kron_config::{
    Action, ApiSettings, EnqueueSettings, Execution, Format, Handler, HandlerTarget, Loaded,
    Loader, Options, QueueSettings, QueueWebhook, RetrySettings, Source,
};
use kron_core::Seconds;

use crate::loading::{check_said, load, said};

const HANDLER: &str = "[queue.handler.resize]\ncommand = ['/usr/bin/resize']\n";

fn load_files(files: &[(&str, &str)]) -> Loaded {
    let mut loader = Loader::new(Options::default());
    for (name, text) in files {
        loader.load(&Source::new(name, text), &Format::Toml);
    }
    loader.finish()
}

#[track_caller]
fn queue(text: &str) -> QueueSettings {
    let loaded = check_said(&Format::Toml, text, &[]);
    assert!(loaded.is_usable());
    loaded.daemon.queue.expect("a queue")
}

#[track_caller]
fn handler(lines: &str) -> Handler {
    let queue = queue(&format!("[queue.handler.resize]\n{lines}\n"));
    assert_eq!(queue.handlers.len(), 1);
    queue.handler("resize").expect("a handler").clone()
}

#[track_caller]
fn enqueues(lines: &str) -> EnqueueSettings {
    let text = format!("{HANDLER}[job.a]\nschedule = '@daily'\n{lines}\n");
    let loaded = check_said(&Format::Toml, &text, &[]);
    match &loaded.jobs[0].action {
        Action::Enqueue(enqueue) => (**enqueue).clone(),
        other => panic!("{other:?}"),
    }
}

fn minutes(minutes: u64) -> Seconds {
    Seconds::new(60 * minutes)
}

#[test]
fn a_queue_is_there_when_one_of_its_tables_is() {
    assert_eq!(load(&Format::Toml, "[daemon]\n[api]\n").daemon.queue, None);
    assert_eq!(load(&Format::Krontab, "@daily name=a command=x\n").daemon.queue, None);
    assert_eq!(queue("[queue]\n"), QueueSettings::default());
    assert_eq!(queue(HANDLER).handlers.len(), 1);
    assert_eq!(queue("[queue.webhook.a]\nurl = 'http://a'\n").webhooks.len(), 1);
    assert_eq!(queue("queue = {}\n"), QueueSettings::default());
}

#[test]
fn what_is_not_written_has_its_default() {
    let retry = RetrySettings {
        retries_max: 3,
        lost_retries_max: 1,
        backoff: Seconds::new(10),
        backoff_max: minutes(60),
    };
    let default = QueueSettings {
        workers_max: 1,
        retry,
        keep: Seconds::new(2_592_000),
        stop_grace: Seconds::new(10),
        handlers: Vec::new(),
        webhooks: Vec::new(),
    };
    assert_eq!(QueueSettings::default(), default);
    let expected = Handler {
        job_type: "resize".to_owned(),
        target: HandlerTarget::Command(Action::Program(vec!["/usr/bin/resize".to_owned()].into())),
        execution: Execution::default().into(),
        skip_codes: Vec::new(),
        workers_max: None,
        retry,
    };
    assert_eq!(handler("command = ['/usr/bin/resize']"), expected);
    let webhook = QueueWebhook {
        name: "pager".to_owned(),
        url: "https://example.org/".to_owned(),
        on: Vec::new(),
        headers: Vec::new(),
        secret_file: None,
        timeout: Seconds::new(10),
        allow_private: false,
    };
    assert_eq!(queue("[queue.webhook.pager]\nurl = 'https://example.org/'\n").webhooks, [webhook]);
    assert_eq!(load(&Format::Toml, "[queue]\n").daemon.api, ApiSettings::default());
}

#[test]
fn every_key_of_the_queue() {
    let written = queue(
        "[queue]\nworkers = 8\nretries = 0\nlost_retries = 100\nbackoff = '0s'\n\
         backoff_max = '2h'\nkeep = '7d'\nstop_grace = '0s'\n",
    );
    let retry = RetrySettings {
        retries_max: 0,
        lost_retries_max: 100,
        backoff: Seconds::ZERO,
        backoff_max: minutes(120),
    };
    let expected = QueueSettings {
        workers_max: 8,
        retry,
        keep: Seconds::new(604_800),
        stop_grace: Seconds::ZERO,
        ..QueueSettings::default()
    };
    assert_eq!(written, expected);
}

#[test]
fn every_key_of_a_handler() {
    let command = handler(
        "command = 'a | b'\nshell = true\nuser = 'images'\ngroup = 'media'\ncwd = '/srv'\n\
         env = { MODE = 'prod' }\numask = '027'\nnice = 5\ntimeout = '5m'\ngrace = '3s'\n\
         log_size = '1MiB'\nlimits = { nofile = 64 }\nno_new_privileges = true\n\
         skip_codes = [99, 75, 99]\nworkers = 2\nretries = 7\nlost_retries = 6\n\
         backoff = '1m'\nbackoff_max = '9m'",
    );
    let line = Action::Shell { shell: "/bin/sh".into(), line: "a | b".into() };
    assert_eq!(command.target, HandlerTarget::Command(line));
    let job = "[job.a]\nschedule = '@daily'\ncommand = ['x']\nuser = 'images'\ngroup = 'media'\n\
         cwd = '/srv'\nenv = { MODE = 'prod' }\numask = '027'\nnice = 5\ntimeout = '5m'\n\
         grace = '3s'\nlog_size = '1MiB'\nlimits = { nofile = 64 }\nno_new_privileges = true\n";
    let job = load(&Format::Toml, job).jobs.remove(0);
    assert_eq!(*command.execution, *job.execution);
    assert_eq!((command.skip_codes, command.workers_max), (vec![75, 99], Some(2)));
    let retry = RetrySettings {
        retries_max: 7,
        lost_retries_max: 6,
        backoff: minutes(1),
        backoff_max: minutes(9),
    };
    assert_eq!(command.retry, retry);

    let web = handler(
        "url = 'https://example.org/resize?x=1'\nheaders = { X-Key = 'a b' }\n\
         token_file = '/etc/kron/token'\nallow_private = true\ntimeout = '30s'",
    );
    let target = HandlerTarget::Web {
        url: "https://example.org/resize?x=1".to_owned(),
        headers: vec![("X-Key".to_owned(), "a b".to_owned())],
        token_file: Some("/etc/kron/token".to_owned()),
        allow_private: true,
    };
    assert_eq!(web.target, target);
    let timeout = Some(Seconds::new(30));
    assert_eq!(*web.execution, Execution { timeout, ..Execution::default() });
}

#[test]
fn every_key_of_a_webhook_and_of_the_api() {
    let queue = queue(
        "[queue.webhook.pager]\nurl = 'http://example.org'\nsecret_file = '/etc/kron/secret'\n\
         on = ['job.failed', 'job.started', 'job.cancelled', 'job.failed', 'job.skipped', 'job.completed']\n\
         timeout = '10m'\nallow_private = true\n[queue.webhook.pager.headers]\nX-Key = 'a'\n",
    );
    let events = ["job.started", "job.completed", "job.failed", "job.skipped", "job.cancelled"];
    let expected = QueueWebhook {
        name: "pager".to_owned(),
        url: "http://example.org".to_owned(),
        on: events.map(str::to_owned).into(),
        headers: vec![("X-Key".to_owned(), "a".to_owned())],
        secret_file: Some("/etc/kron/secret".to_owned()),
        timeout: minutes(10),
        allow_private: true,
    };
    assert_eq!(queue.webhooks, [expected]);

    let text = "[api]\nlisten = '[::1]:7070'\ntoken_file = '/etc/kron/token'\n";
    let expected = ApiSettings {
        listen: Some("[::1]:7070".parse().expect("an address")),
        token_file: Some("/etc/kron/token".to_owned()),
    };
    assert_eq!(check_said(&Format::Toml, text, &[]).daemon.api, expected);
    // The address may come from the command line.
    check_said(&Format::Toml, "[api]\ntoken_file = '/etc/kron/token'\n", &[]);
    check_said(
        &Format::Toml,
        "[api]\nlisten = '127.0.0.1:7070'\n",
        &["2:1 `listen` of `[api]` needs `token_file`"],
    );
}

#[test]
fn retries_are_the_queues_where_a_handler_does_not_say_whatever_comes_first() {
    let queue_table =
        "[queue]\nretries = 9\nlost_retries = 8\nbackoff = '2m'\nbackoff_max = '5m'\n";
    let handlers = "[queue.handler.z]\ncommand = ['x']\nretries = 1\nbackoff_max = '3m'\n\
                    [queue.handler.a]\nurl = 'http://a'\n";
    let own = RetrySettings {
        retries_max: 1,
        lost_retries_max: 8,
        backoff: minutes(2),
        backoff_max: minutes(3),
    };
    let all = RetrySettings { retries_max: 9, backoff_max: minutes(5), ..own };
    let one_text = format!("{handlers}{queue_table}");
    for files in [
        &[("a", queue_table), ("b", handlers)][..],
        &[("a", handlers), ("b", queue_table)],
        &[("a", &one_text)],
    ] {
        let loaded = load_files(files);
        assert_eq!(said(&loaded), [""; 0]);
        let queue = loaded.daemon.queue.expect("a queue");
        assert_eq!(queue.retry, all);
        let types: Vec<&str> = queue.handlers.iter().map(|it| it.job_type.as_str()).collect();
        assert_eq!(types, ["a", "z"]);
        assert_eq!(queue.handler("z").map(|handler| handler.retry), Some(own));
        assert_eq!(queue.handler("a").map(|handler| handler.retry), Some(all));
        assert_eq!(queue.handler("b"), None);
    }
}

#[test]
fn a_first_wait_is_never_cut_in_silence() {
    let command = "command = ['x']";
    for (text, expected) in [
        (
            "[queue]\nworkers = 2\nbackoff = '2h'\n".to_owned(),
            &["3:1 `backoff` of `[queue]` is 2h, longer than its `backoff_max`, 1h"][..],
        ),
        (
            format!("[queue]\nbackoff_max = '5m'\n[queue.handler.a]\n{command}\nbackoff = '6m'\n"),
            &["3:16 `backoff` of `[queue.handler.a]` is 6m, longer than its `backoff_max`, 5m"],
        ),
        (
            format!("[queue.handler.a]\n{command}\nbackoff_max = '9s'\n"),
            &["1:16 `backoff` of `[queue.handler.a]` is 10s, longer than its `backoff_max`, 9s"],
        ),
        // What a handler has from the queue is told of the queue.
        (
            format!("[queue]\nbackoff_max = '9s'\n[queue.handler.a]\n{command}\n"),
            &["2:1 `backoff` of `[queue]` is 10s, longer than its `backoff_max`, 9s"],
        ),
    ] {
        let loaded = check_said(&Format::Toml, &text, expected);
        assert!(!loaded.is_usable());
    }
}

#[test]
fn a_job_enqueues_parameters_of_any_shape() {
    let expected = EnqueueSettings { job_type: "resize".into(), params: "{}".into(), priority: 0 };
    assert_eq!(enqueues("enqueue = { type = 'resize' }"), expected);
    let params = |lines: &str| enqueues(lines).params.to_string();
    for (written, expected) in [
        ("{}", "{}"),
        ("{ b = 1, a = 'x' }", r#"{"a":"x","b":1}"#),
        ("{ n = [0xFF, -1, +2, 1_000] }", r#"{"n":[255,-1,2,1000]}"#),
        ("{ n = [1.5, +1.0, 1e300, -0.0, 1_0.5] }", r#"{"n":[1.5,1.0,1e+300,-0.0,10.5]}"#),
        ("{ n = 9223372036854775807 }", r#"{"n":9223372036854775807}"#),
        ("{ b = true, c = false }", r#"{"b":true,"c":false}"#),
        ("{ a = { b = { c = [[], {}] } } }", r#"{"a":{"b":{"c":[[],{}]}}}"#),
        (r#"{ "a \"b\"" = "\u0000\n\"é" }"#, r#"{"a \"b\"":"\u0000\n\"é"}"#),
        (
            "{ d = [2026-01-02, 07:30:00, 2026-01-02T07:30:00Z] }",
            r#"{"d":["2026-01-02","07:30:00","2026-01-02T07:30:00Z"]}"#,
        ),
    ] {
        assert_eq!(
            params(&format!("enqueue = {{ type = 'resize', params = {written} }}")),
            expected
        );
    }
    let tables = enqueues(
        "description = 'x'\n[job.a.enqueue]\ntype = 'resize'\npriority = -1_000_000\n\
         [job.a.enqueue.params]\nwidth = 300\n[[job.a.enqueue.params.files]]\nname = 'a'\n",
    );
    assert_eq!(tables.priority, -1_000_000);
    assert_eq!(&*tables.params, r#"{"files":[{"name":"a"}],"width":300}"#);
    let job = load(&Format::Toml, "[queue]\n[job.a]\nschedule = '@daily'\nenqueue.type = 'x'\n");
    assert!(job.jobs[0].action.to_argv().is_empty());
}

#[test]
fn parameters_are_bounded_as_in_the_queue() {
    let enqueue = |params: &str| {
        let job = "[job.a]\nschedule = '@daily'\n";
        load(
            &Format::Toml,
            &format!("{HANDLER}{job}enqueue = {{ type = 'resize', params = {params} }}\n"),
        )
    };
    let nested = |depth: usize| format!("{}{}", "{a=".repeat(depth - 1) + "{", "}".repeat(depth));
    assert_eq!(said(&enqueue(&nested(32))), [""; 0]);
    assert_eq!(said(&enqueue(&nested(33))), ["5:135 `params` is nested more than 32 deep"]);
    let lists =
        |depth: usize| format!("{{ a = {}{} }}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert_eq!(said(&enqueue(&lists(32))), [""; 0]);
    assert_eq!(said(&enqueue(&lists(33))).len(), 1);

    // `{"a":"…"}` has eight bytes beside the text.
    let long = |bytes: usize| format!("{{ a = '{}' }}", "x".repeat(bytes - 8));
    assert_eq!(said(&enqueue(&long(262_144))), [""; 0]);
    assert_eq!(
        said(&enqueue(&long(262_145))),
        ["5:39 `params` has 262145 bytes as JSON; at most 262144 are allowed"]
    );
}

#[test]
fn what_is_enqueued_in_vain() {
    let job = |name: &str, job_type: &str| {
        format!("[job.{name}]\nschedule = '@daily'\nenqueue.type = '{job_type}'\n")
    };
    let (first, second, third) = (job("a", "x"), job("b", "y"), job("c", "x"));
    let jobs = format!("{first}{second}{third}");
    let none =
        check_said(&Format::Toml, &jobs, &["1:6 this job enqueues `x`, and there is no queue"]);
    let help = none.diagnostics[0].help.as_deref().expect("help");
    assert!(help.contains("add a table `[queue]`"), "{help}");
    assert!(!none.is_usable());

    // Wherever the queue stands.
    let handlers = "[queue.handler.y]\ncommand = ['y']\n";
    for files in [[("a", &*jobs), ("b", handlers)], [("b", handlers), ("a", &jobs)]] {
        let loaded = load_files(&files);
        assert_eq!(said(&loaded), ["1:6 warning: this job enqueues `x`, which has no handler"]);
        assert_eq!(&*loaded.diagnostics[0].location.as_ref().expect("a place").file, "a");
        assert!(loaded.is_usable() && loaded.jobs.len() == 3);
    }

    // A handler at fault is a handler, and tables at fault are a queue.
    for (table, fault) in [
        ("[queue.handler.x]\ncommand = 5\n", "2:11 expected a list of words"),
        ("[queue.handler.x]\ncommand = [\n", "2:"),
        ("[queue.handler.x]\nurl = 'http://a'\nnice = ''\n", "3:8 not a whole number"),
    ] {
        let loaded = load(&Format::Toml, &format!("{table}{first}"));
        let said = said(&loaded);
        assert!(said.iter().all(|said| !said.contains("this job")), "{said:?}");
        assert!(said[0].starts_with(fault), "{said:?}");
    }
    let broken = load(&Format::Toml, &format!("[queue]\nworkers = \n{first}"));
    assert!(said(&broken).iter().all(|said| !said.contains("no queue")), "{:?}", said(&broken));
}

#[test]
fn what_does_not_go_with_enqueue() {
    for (lines, expected) in [
        ("", &["3:6 a job with none of `command`, `enqueue` and `spool`"][..]),
        (
            "command = ['x']\nenqueue = { type = 'resize' }\nuser = 'a'",
            &["6:11 a job with both `command` and `enqueue`"],
        ),
        (
            "enqueue = { typ = 'resize' }\ncommand = 5",
            &[
                "5:11 `enqueue` without `type`",
                "5:11 a job with both `command` and `enqueue`",
                "5:13 unknown key `typ` of `enqueue`",
                "6:11 expected a list of words, or a line with `shell = true`, found a number",
            ],
        ),
        (
            "shell = true\nuser = 'a'\nenv = { A = 'b' }\nlimits = { nofile = 5 }\ntimeout = '5m'\n\
             duration = '5m'\nenqueue = { type = 'resize' }\ndescription = 'x'",
            &[
                "5:9 `shell` goes with `command`, not with `enqueue`",
                "6:8 `user` goes with `command`, not with `enqueue`",
                "7:7 `env` goes with `command`, not with `enqueue`",
                "8:10 `limits` goes with `command`, not with `enqueue`",
                "9:11 `timeout` goes with `command`, not with `enqueue`",
                "10:12 `duration` goes with `command`, not with `enqueue`",
            ],
        ),
        ("enqueue = 'resize'", &["5:11 expected a table, found a text"]),
        ("enqueue = { type = 'a b' }", &["5:20 `a b` is not a job type"]),
        ("enqueue = { type = '' }", &["5:20 an empty job type"]),
        ("enqueue = { type = 5 }", &["5:20 expected a text, found a number"]),
        (
            "enqueue = { type = 'resize', priority = 1_000_001 }",
            &["5:41 `priority` goes from -1000000 to 1000000"],
        ),
        (
            "enqueue = { type = 'resize', params = 5, priority = 1.5 }",
            &[
                "5:39 expected a table such as `{ width = 300 }`, found a number",
                "5:53 expected a whole number, found a decimal number",
            ],
        ),
        (
            "enqueue = { type = 'resize', params = { a = nan, b = [9223372036854775808] } }",
            &["5:45 JSON has no number `nan`", "5:55 a whole number of more than 64 bits"],
        ),
    ] {
        let text = format!("{HANDLER}[job.a]\nschedule = '@daily'\n{lines}\n");
        let loaded = check_said(&Format::Toml, &text, expected);
        assert!(!loaded.is_usable() && loaded.jobs.is_empty(), "{lines}");
    }
    let long = "x".repeat(65);
    check_said(
        &Format::Toml,
        &format!("[queue.handler.{long}]\ncommand = ['x']\n"),
        &["1:16 a job type of more than 64 bytes"],
    );
    let longest = "x".repeat(64);
    assert_eq!(
        queue(&format!("[queue.handler.\"{longest}\"]\ncommand = ['x']\n")).handlers.len(),
        1
    );
    assert_eq!(
        queue("[queue.handler.\"a.B-_9\"]\ncommand = ['x']\n").handlers[0].job_type,
        "a.B-_9"
    );
}

#[test]
fn tables_that_are_none() {
    for (text, expected) in [
        ("queue = 5\n", "1:1 `queue` is not a table"),
        ("[[queue]]\n", "1:3 `queue` is not a table"),
        ("api = []\n", "1:1 `api` is not a table"),
        ("[queue]\nhandler = 5\n", "2:1 `queue.handler` is not a table"),
        ("[queue.handler]\na = 5\n", "2:1 `queue.handler.a` is not a table"),
        ("[[queue.handler.a]]\ncommand = ['x']\n", "1:17 `queue.handler.a` is not a table"),
        ("[queue.webhook]\na = 5\n", "2:1 `queue.webhook.a` is not a table"),
        ("[queue.handlers.a]\ncommand = ['x']\n", "1:8 unknown key `handlers` of `[queue]`"),
        ("[queue]\nworker = 5\n", "2:1 unknown key `worker` of `[queue]`"),
        ("[api]\nlisen = ''\n", "2:1 unknown key `lisen` of `[api]`"),
        (
            "[queue.handler.a]\ncommand = ['x']\noutput = 'log'\n",
            "3:1 unknown key `output` of a handler",
        ),
        (
            "[queue.handler.a]\ncommand = ['x']\nstdin = ''\n",
            "3:1 unknown key `stdin` of a handler",
        ),
    ] {
        let loaded = check_said(&Format::Toml, text, &[expected]);
        assert!(!loaded.is_usable(), "{text}");
    }
    let help = |text: &str| load(&Format::Toml, text).diagnostics[0].help.clone().expect("help");
    assert_eq!(help("[queue.handlers.a]\n"), "did you mean `handler`?");
    assert_eq!(
        help("[queue.webhook.a]\nurl = 'http://a'\nsecret = 'x'\n"),
        "did you mean `secret_file`?"
    );
    assert_eq!(help("[queu]\n"), "did you mean `queue`?");
}

#[test]
fn nothing_is_defined_twice() {
    let twice = |first: &str, second: &str| {
        let loaded = load_files(&[("10.toml", first), ("20.toml", second)]);
        assert_eq!(loaded.diagnostics.len(), 1, "{:?}", said(&loaded));
        let help = loaded.diagnostics[0].help.clone().expect("help");
        assert!(help.contains("10.toml:"), "{help}");
        assert_eq!(&*loaded.diagnostics[0].location.as_ref().expect("a place").file, "20.toml");
        said(&loaded).remove(0)
    };
    let workers = "[queue]\nworkers = 2\n";
    assert_eq!(twice(workers, workers), "2:1 `workers` of `[queue]` is defined twice");
    assert_eq!(twice(HANDLER, HANDLER), "1:16 handler `resize` is defined twice");
    let webhook = "[queue.webhook.a]\nurl = 'http://a'\n";
    assert_eq!(twice(webhook, webhook), "1:16 webhook `a` is defined twice");
    let api = "[api]\ntoken_file = '/x'\n";
    assert_eq!(twice(api, api), "2:1 `token_file` of `[api]` is defined twice");

    // In one file too; inline and as a table of its own are the same.
    check_said(
        &Format::Toml,
        &format!("[queue]\nhandler.resize = {{ command = ['x'] }}\n{HANDLER}"),
        &["3:16 handler `resize` is defined twice"],
    );
    // The same key of different tables is not the same key.
    assert_eq!(
        queue("[queue]\nretries = 1\n[queue.handler.a]\nurl = 'http://a'\nretries = 2\n").handlers
            [0]
        .retry
        .retries_max,
        2
    );
}

#[test]
fn tables_of_a_handler_stand_together() {
    let job = "[job.a]\nschedule = '@daily'\ncommand = ['x']\n";
    let apart = format!("{HANDLER}{job}[queue.handler.resize.env]\nA = 'b'\n");
    let loaded =
        check_said(&Format::Toml, &apart, &["6:1 `[queue.handler.resize]` stands in two places"]);
    let help = loaded.diagnostics[0].help.as_deref().expect("help");
    assert_eq!(help, "it begins at jobs:1:1; keep the tables of a handler together");
    // Other tables of the queue may stand between and anywhere.
    let text = format!(
        "[queue.handler.b]\ncommand = ['x']\n[queue.handler.b.env]\nA = 'b'\n{job}{HANDLER}\
         [queue.webhook.a]\nurl = 'http://a'\n[job.b]\nschedule = '@daily'\ncommand = ['x']\n[queue]\n"
    );
    let queue = queue(&text);
    assert_eq!((queue.handlers.len(), queue.webhooks.len()), (2, 1));
    assert_eq!(*queue.handlers[0].execution.env, [("A".to_owned(), "b".to_owned())]);
    check_said(
        &Format::Toml,
        "[queue]\n[job.a]\nschedule = '@daily'\ncommand = ['x']\n[queue]\nworkers = 2\n",
        &["5:1 `[queue]` stands in two places"],
    );
}

#[test]
fn handlers_and_webhooks_are_bounded() {
    let handlers = |count: usize| -> String {
        (0..count).map(|n| format!("[queue.handler.h{n}]\ncommand = ['x']\n")).collect()
    };
    assert_eq!(queue(&handlers(1_000)).handlers.len(), 1_000);
    check_said(&Format::Toml, &handlers(1_001), &["2001:16 more than 1000 handlers"]);
    let webhooks = |count: usize| -> String {
        (0..count).map(|n| format!("[queue.webhook.w{n}]\nurl = 'http://a'\n")).collect()
    };
    assert_eq!(queue(&webhooks(64)).webhooks.len(), 64);
    check_said(&Format::Toml, &webhooks(65), &["129:16 more than 64 webhooks"]);
}

#[test]
fn secrets_are_shown_in_no_error() {
    for text in [
        "[hook.a]\nurl = 'http://a'\nheaders = { Host = 'hunter2' }\n",
        "[hook.a]\nurl = 'http://a'\nheaders = 'hunter2'\n",
        "[hook.a]\nurl = 'http://a'\nheaders = ['hunter2']\n",
        "[hook.a]\nurl = 'https://u:hunter2@a/'\n",
        "[hook.a]\nurl = 'ftp://a/?key=hunter2'\n",
        "[hook.a]\nurl = 'http://a'\nheders = { A = 'hunter2' }\n",
        "[hook.a]\nurl = 'http://a'\ntoken = 'hunter2'\n",
        "[hook.a]\nurl = 'http://a'\nheaders = { A = 'hunter2\n",
        "[hook.a]\nurl = 'http://a'\nheaders = { A = \"hunter2\\n\" }\n",
        "[hook.a]\nurl = 'http://a'\n[hook.a.headers]\nA = 'b'\n'A B' = 'hunter2'\n",
        "[hook.a]\nurl = 'http://a'\n[hook.a.headers]\nA = 'b'\nA = 'hunter2'\n",
        "[hook]\na = ['hunter2']\n",
        "hook = { a = { url = 'http://a', headers = { Host = 'hunter2' } } }\n",
        "hook = { a = { url = 'http://a', headers = { Host = 'hunter2 } } }\n",
        "hook = 'hunter2'\n",
        "[queue.handler.a]\nurl = 'http://a'\nheaders = { Host = 'hunter2' }\n",
        "[queue.handler.a]\ncommand = ['x']\nheaders = { A = 'hunter2' }\n",
        "[queue.handler.a]\nurl = 'http://a'\ntoken = 'hunter2'\n",
        "[queue.handler]\na = 'hunter2'\n",
        "[queue.webhook.a]\nurl = 'http://a'\nsecret = 'hunter2'\n",
        "[queue.webhook.a]\nurl = 'http://a'\nsecret = 'hunter2\n",
        "[queue]\nsecret = 'hunter2'\n",
        "[api]\ntoken = 'hunter2'\n",
        "api = ['hunter2']\n",
        "[queue.webhook.é]\nurl = 'http://a'\nheaders = { 'é' = 'é', Host = 'hunter2' }\n",
    ] {
        let loaded = load(&Format::Toml, text);
        assert!(!loaded.diagnostics.is_empty(), "{text}");
        for diagnostic in &loaded.diagnostics {
            let shown = format!("{diagnostic} {diagnostic:?}");
            assert!(!shown.contains("hunter"), "{text}\n{shown}");
        }
    }
    // What is no secret is shown.
    let loaded = load(&Format::Toml, "[queue.handler.a]\nurl = 'ftp://a'\nworkers = 'x'\n");
    let shown: String = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert!(shown.contains("url = 'ftp://a'") && shown.contains("workers = 'x'"), "{shown}");
}

/// What the page says of the queue: its defaults are the defaults, and it names every key.
#[test]
fn the_page_is_right() {
    let page = include_str!("../../../../docs/job-files.md");
    let (_, rest) = page.split_once("\n### The queue\n").expect("a chapter");
    let (chapter, rest) = rest.split_once("\n### Jobs that enqueue\n").expect("a chapter");
    let (_, rest) = rest.split_once("\n### The API\n").expect("a chapter");
    let (api, _) = rest.split_once("\n## ").expect("an end");
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
    let known = |header: &str| -> Vec<String> {
        let loaded = load(&Format::Toml, &format!("{header}\nzzz = 1\n"));
        let all =
            loaded.diagnostics.iter().filter_map(|it| it.help.as_deref()?.split_once(" are "));
        let mut keys: Vec<String> =
            all.flat_map(|(_, keys)| keys.split(", ")).map(str::to_owned).collect();
        keys.sort_unstable();
        keys
    };
    let tables: Vec<&str> = chapter.split("\n| key | value | default |\n").skip(1).collect();
    let [queue_table, handler_table, webhook_table] = tables[..] else { panic!("{tables:?}") };
    let defaults: String = rows(queue_table)
        .iter()
        .map(|cells| format!("{} = {}\n", cells[0], cells.last().expect("a default")))
        .collect();
    assert_eq!(queue(&format!("[queue]\n{defaults}")), QueueSettings::default());
    assert_eq!(keys(queue_table), known("[queue]"));
    assert_eq!(keys(handler_table), known("[queue.handler.a]"));
    assert_eq!(keys(webhook_table), known("[queue.webhook.a]"));
    assert_eq!(keys(api), known("[api]"));
}

#[test]
fn a_bad_file_as_people_see_it() {
    let loaded = load_files(&[("bad-queue.toml", include_str!("../texts/bad-queue.toml"))]);
    let texts: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    let all = texts.join("\n\n");
    assert!(!all.contains("aKeyThatNobodyMaySee"), "{all}");
    insta::assert_snapshot!(all);
}
