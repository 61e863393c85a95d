//! Texts that no well-meaning person writes: any bytes in any format end soon, without a panic, and
//! with every diagnostic inside the text.

use std::time::Duration;

use kron_config::{CrontabOwner, Format, Loaded, Loader, Options, Source, lint};
use kron_core::{Host, TimingParser};
use kron_testkit::effort::bounded;
use proptest::prelude::*;

const TEN_MEGABYTES: usize = 10_000_000;

fn formats() -> [Format; 4] {
    [
        Format::Toml,
        Format::Krontab,
        Format::Crontab(CrontabOwner::System),
        Format::Crontab(CrontabOwner::User("ann".to_owned())),
    ]
}

fn load(source: &Source, format: &Format) -> Loaded {
    let mut loader = Loader::new(Options::default());
    loader.load(source, format);
    loader.finish()
}

/// Diagnostics are few and short, can be shown, and point into the text.
fn check_diagnostics(source: &Source, loaded: &Loaded) {
    let lines: Vec<&str> = source.text().split('\n').collect();
    // A thousand errors, a thousand warnings, and how many more there are.
    assert!(loaded.diagnostics.len() <= 2_001);
    for diagnostic in &loaded.diagnostics {
        let place = diagnostic.location.as_ref().expect("a place");
        let line = lines.get(place.line - 1).expect("a line of the text");
        let width = line.strip_suffix('\r').unwrap_or(line).chars().count();
        assert!(place.column >= 1 && place.column <= width + 2, "{place} of {width} columns");
        assert!(diagnostic.message.len() < 2_000, "{}", diagnostic.message.len());
        assert!(!diagnostic.message.contains(char::is_control), "{:?}", diagnostic.message);
    }
    for diagnostic in loaded.diagnostics.iter().take(20) {
        let shown = diagnostic.to_string();
        assert!(shown.len() < 8_000, "{} bytes", shown.len());
        let odd = |c: char| c.is_control() && c != '\n';
        assert!(!shown.contains(odd), "{shown:?}");
    }
}

/// Processor time that reading may take, which other tests on the machine do not use up. It is
/// within a second when fully optimised, which these tests are not.
const CPU_TIME_MAX: Duration = Duration::from_secs(4);

/// What reading may take beside the text and the jobs.
const BYTES_MAX: u64 = 128 * 1024 * 1024;
/// What a small job may take.
const JOB_BYTES_MAX: u64 = 2 * 1024;

fn check(name: &str, text: &str) {
    for format in formats() {
        let source = Source::new("hostile", text);
        let (loaded, cost) = bounded(&format_args!("{name} as {format:?}"), CPU_TIME_MAX, || {
            let mut loaded = None;
            let cost = allocation_counter::measure(|| loaded = Some(load(&source, &format)));
            (loaded.expect("a result"), cost)
        });
        let most = BYTES_MAX + JOB_BYTES_MAX * loaded.jobs.len() as u64;
        assert!(cost.bytes_max < most, "{name} as {format:?} took {} bytes", cost.bytes_max);
        check_diagnostics(&source, &loaded);
    }
}

#[test]
fn one_character_for_ten_megabytes() {
    for unit in [
        "[", "{", "\"", "'", "=", ".", "\n", "\r\n", "x", "#", "\\", "\0", " ", "@", "%", "é", "*",
        ",", "-",
    ] {
        check(unit, &unit.repeat(TEN_MEGABYTES / unit.len()));
    }
}

#[test]
fn one_line_for_ten_megabytes() {
    for unit in [
        "a.",
        "[[",
        "a=",
        "\"\"\"",
        "'''",
        "\\\"\"\"",
        "=[",
        "={",
        "a={",
        "['",
        "@win(",
        "@only(hours=",
        "0 ",
        "x,",
        "*/",
        "\u{feff}",
        "\u{2028}",
        "[job.",
        "[job.a]",
        "[daemon]",
        "[queue.handler.a]",
        "[queue.",
        "[spool.a.handler.b]",
        "[spool.",
        "limit_cpu=",
        "a=\"\",",
    ] {
        check(unit, &unit.repeat(TEN_MEGABYTES / unit.len()));
    }
}

#[test]
fn many_lines() {
    for unit in [
        "[\n",
        "[a]\n[b]\n",
        "[job.a]\n",
        "[job.a]\n[job.b]\n",
        "[daemon]\n",
        "[daemon]\nhistory = 1\n[job.a]\n",
        "[daemon]\n\"\"\"\n",
        "[daemon.x]\n[daemon.y]\n",
        "[queue]\n",
        "[queue]\nworkers = 1\n[job.a]\n",
        "[queue.handler.a]\n[queue.handler.b]\n",
        "[[queue.handler.a]]\n",
        "[api]\n[queue]\n",
        "[spool]\n",
        "[spool.a]\n[job.a]\n",
        "[spool.a]\ndir = '/a'\n[spool.b]\ndir = '/a'\n",
        "[spool.a.handler.b]\n[spool.b.handler.a]\n",
        "[[spool.a.handler.b]]\n",
        "[job.\n",
        "[[job.a]]\n",
        "x\n",
        "= 1\n",
        "\"\"\"\n",
        "\\\"\"\"\n[job.x]\n",
        "'''\n[job.a]\n[job.b]\n",
        "A=b\n",
        "A=\n* * * * * x\n",
        "* * * * * x\n",
        "-* * * * * root x\n",
        "61 * * * * x\n",
        "@reboot x\n",
        "CRON_TZ=x\n",
        "CRON_TZ=Europe/Pariss\n* * * * * x\n",
        "CRON_TZ=\n",
        "0 3 * * * @tz(Europe/Pariss) @win(arond,1h) root x\n",
        "TZ=x\n",
        "@daily name=a command=x\n",
        "@daily\n",
        "#\n",
        "a = [\n",
        "a = {\n",
        "a.b = 1\n",
        "\0\n",
        "\r",
        "\u{feff}\n",
    ] {
        check(unit, &unit.repeat(TEN_MEGABYTES / 4 / unit.len()));
    }
}

#[test]
fn a_million_different_things() {
    let numbered = |line: &dyn Fn(usize) -> String| (0..1_000_000).map(line).collect::<String>();
    check("keys", &numbered(&|n| format!("k{n}=1\n")));
    check("keys of the daemon", &format!("[daemon]\n{}", numbered(&|n| format!("k{n}=1\n"))));
    check("keys of the queue", &format!("[queue]\n{}", numbered(&|n| format!("k{n}=1\n"))));
    check("keys of handlers", &format!("[queue.handler]\n{}", numbered(&|n| format!("k{n}=1\n"))));
    check("handlers", &numbered(&|n| format!("[queue.handler.t{n}]\n")));
    check("webhooks", &numbered(&|n| format!("[queue.webhook.t{n}]\n")));
    check("keys of a spool", &format!("[spool.a]\n{}", numbered(&|n| format!("k{n}=1\n"))));
    check("spools", &numbered(&|n| format!("[spool.s{n}]\ndir='/{n}'\n")));
    check("spools in one table", &format!("[spool]\n{}", numbered(&|n| format!("s{n}={{}}\n"))));
    check("handlers of a spool", &numbered(&|n| format!("[spool.a.handler.t{n}]\n")));
    check("handlers of spools", &numbered(&|n| format!("[spool.s{n}.handler.t]\n")));
    check(
        "jobs for no spool",
        &numbered(&|n| format!("[job.j{n}]\nschedule='@daily'\nspool={{name='{n}',type='t'}}\n")),
    );
    check("keys of a job", &format!("[job.a]\n{}", numbered(&|n| format!("k{n}=1\n"))));
    check("variables", &numbered(&|n| format!("V{n}=\n")));
    check("tables", &numbered(&|n| format!("[t{n}]\n")));
    check("bad lines", &numbered(&|n| format!("b{n}\n")));
}

#[test]
fn as_deep_as_a_section_may_be() {
    let million = 1_000_000;
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let depth = million / (open.len() + close.len());
        let text = format!("[job.a]\nenv = {}1{}\n", open.repeat(depth), close.repeat(depth));
        check(open, &text);
        let params = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        check(open, &format!("[job.a.enqueue]\ntype = 'x'\nparams = {{ a = {params} }}\n"));
        check(open, &format!("[queue.handler.a]\nheaders = {params}\n"));
        check(open, &format!("[job.a.spool]\nname = 'x'\ntype = 'x'\ndata = {params}\n"));
        check(open, &format!("[spool.a]\nproducers = {params}\nnope = {params}\n"));
    }
    let dotted = "a.".repeat(million / 2 - 100);
    check("dotted key", &format!("[job.a]\n{dotted}a = 1\n"));
    check("dotted header", &format!("[job.{dotted}a]\n"));
    check("dotted parameters", &format!("[job.a.enqueue.params]\n{dotted}a = 1\n"));
    check("dotted headers", &format!("[hook.a.headers]\n{dotted}a = 1\n"));
    check("dotted data", &format!("[job.a.spool.data]\n{dotted}a = 1\n"));
    check("dotted spool", &format!("[spool.{dotted}a]\n"));
    check("dotted handler of a spool", &format!("[spool.a.handler.{dotted}a]\n"));
    check("dotted handler", &format!("[queue.handler.{dotted}a]\n"));
    check("dotted root", &format!("{dotted}a = 1\n"));
}

#[test]
fn long_values_of_valid_shape() {
    let many = |unit: &str, bytes: usize| unit.repeat(bytes / unit.len());
    for value in [
        many("61,", 900_000),
        many("* ", 900_000),
        format!("{} * * * *", many("1,", 900_000)),
        format!("0 3 * * * {}", many("@only(hours=3) ", 900_000)),
        format!("0 3 * * * @only({})", many("hours=99;", 900_000)),
        format!("0 3 * * * @dist(uniform,{})", many("a=b,", 900_000)),
        format!("0 3 * * * @seed(stable,salt=\\\"{}\\\") @nope", many("\\u00e9", 900_000)),
        format!("0 3 * * * @avoid({})", many("date=2026-01-01;", 900_000)),
        format!("0 3 * * * @avoid({})", many("between=00:00-00:01;", 900_000)),
    ] {
        let name: String = value.chars().take(40).collect();
        check(&name, &format!("[job.a]\nschedule = \"{value}\"\ncommand = ['x']\n"));
        let line: String = value.chars().take(60_000).collect();
        check(&name, &format!("{line} name=a command=x\n"));
    }
    check(
        "only list",
        &format!("[job.a]\nschedule = '@daily'\nonly = [{}]\n", many("'x',", 900_000)),
    );
    check("words", &format!("[job.a]\nschedule = '@daily'\ncommand = [{}]\n", many("1,", 900_000)));
    let variables: String = (0..60_000).map(|n| format!("V{n}=''\n")).collect();
    check("env", &format!("[job.a]\nschedule = '@daily'\n[job.a.env]\n{variables}"));
    check("limits", &format!("[job.a]\nschedule = '@daily'\n[job.a.limits]\n{variables}"));
    check("daemon", &format!("[daemon]\n{variables}"));
    check("handler", &format!("[queue.handler.a]\n{variables}"));
    check("headers", &format!("[queue.webhook.a.headers]\n{variables}"));
    check(
        "parameters",
        &format!("[job.a.enqueue]\ntype = 'x'\n[job.a.enqueue.params]\n{variables}"),
    );
    let numbers = many("nan,", 900_000);
    check("no numbers", &format!("[job.a]\nenqueue = {{ params = {{ a = [{numbers}] }} }}\n"));
    let codes = many("0,", 900_000);
    check("codes", &format!("[queue.handler.a]\nskip_codes = [{codes}]\n"));
    check("events", &format!("[queue.webhook.a]\non = [{}]\n", many("'x',", 900_000)));
    check("no numbers for a spool", &format!("[job.a]\nspool = {{ data = [{numbers}] }}\n"));
    check("codes of a spool", &format!("[spool.a.handler.a]\nskip_codes = [{codes}]\n"));
    check("producers", &format!("[spool.a]\nproducers = [{}]\n", many("'x',", 900_000)));
    check("directory", &format!("[spool.a]\ndir = '{}'\n", many("/a", 60_000)));
    check("empty directories", &format!("[spool.a]\ndir = '{}'\n", many("/.", 60_000)));
    check("name of a spool", &format!("[spool.{}]\ndir = '/a'\n", many("é", 900_000)));
    check("sizes", &format!("[daemon]\nlog_size = '{}'\n", many("1", 900_000)));
    check("path", &format!("[daemon]\npath = '{}'\n", many("/:", 900_000)));
}

#[test]
fn as_many_jobs_as_fit() {
    let text: String = (0..250_001).map(|n| format!("@daily name=j{n} command=x\n")).collect();
    let source = Source::new("many", &text);
    let loaded = load(&source, &Format::Krontab);
    assert_eq!(loaded.jobs.len(), 250_000);
    assert!(loaded.cut_short && !loaded.is_usable());
    assert_eq!(loaded.diagnostics.len(), 1);
    assert_eq!(loaded.diagnostics[0].message, "more than 250000 jobs");
}

#[test]
fn what_is_shown_gives_a_terminal_no_orders() {
    let source = Source::new("a\u{1b}[31m\u{9b}b", "61 * * * * x\u{1b}[2J\u{9b}2J\u{7}\u{8}\n");
    let loaded = load(&source, &Format::Crontab(CrontabOwner::System));
    let shown = loaded.diagnostics[0].to_string();
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    assert!(shown.contains("--> a·[31m·b:1:1\n"), "{shown}");
}

/// Words that formats are made of, so that random texts get somewhere.
fn fragments() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "[job.a]",
        "[job.b.env]",
        "[job.a.limits]",
        "[daemon]",
        "[queue]",
        "[queue.handler.t]",
        "[queue.webhook.w.headers]",
        "[api]",
        "[job.a.enqueue]",
        "enqueue = { type = 't' }",
        "[[job.a.enqueue.params.p]]",
        "[spool.a]",
        "[spool.a.handler.t]",
        "[spool.a.handler.t.env]",
        "dir = '/a'",
        "spool = { name = 'a', type = 't' }",
        "[[job.a.spool.data]]",
        "params",
        "headers = { A = 'b' }",
        "url = 'http://a'",
        "history",
        "log_size = \"10MiB\"",
        "path = ",
        "limits = {",
        "nofile",
        "\"64:128\"",
        "limit_cpu=1:2",
        "output=log",
        "[job.\"q\\\"]",
        "schedule",
        "command",
        " = ",
        "\"",
        "'",
        "\"\"\"",
        "'''",
        "\n",
        "\r\n",
        "0 3 * * *",
        "@daily",
        "@win(after,2h)",
        "@only(",
        "hours=3",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        "=",
        "#",
        "\\",
        "\\u00e9",
        "\\\n",
        "name=a",
        "command=x",
        "env=A=b",
        "CRON_TZ=",
        "Europe/Paris",
        "MAILTO=x",
        "root ",
        "%",
        "\\%",
        "H",
        "L",
        "W",
        "MON-FRI",
        "61",
        "\0",
        "\t",
        " ",
        "é",
        "→",
        "\u{feff}",
        "shell = true",
        "['x']",
        "window",
        "only",
        "seed",
        "salt=%H",
        "-",
    ]);
    prop::collection::vec(prop_oneof![8 => words.prop_map(str::to_owned), 1 => ".{0,8}"], 0..40)
        .prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_and_read_alike(text in prop_oneof![fragments(), any::<String>()]) {
        for format in formats() {
            let source = Source::new("any", &text);
            let loaded = load(&source, &format);
            check_diagnostics(&source, &loaded);
            let again = load(&source, &format);
            prop_assert_eq!(&loaded.jobs, &again.jobs);
            prop_assert_eq!(&loaded.diagnostics, &again.diagnostics);
            for job in &loaded.jobs {
                let printed = job.timing.to_string();
                let parsed = TimingParser::new().parse(&printed, job.identity(), Host::default());
                prop_assert_eq!(parsed.as_ref(), Ok(&job.timing), "{}", printed);
                let _ = lint(job);
            }
        }
    }
}
