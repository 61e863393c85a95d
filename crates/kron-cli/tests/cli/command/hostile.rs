//! Input from people who mean harm, or from machines that are broken: whatever is thrown at the
//! real command, it answers 2 with a short message, soon, in little memory.
//!
//! The child runs under limits of its address space and its processor time, so that going beyond
//! them ends it by a signal and is seen here.

use std::process::Command;

use kron_testkit::effort;
use nix::sys::signal::Signal;

use crate::command::kron::{Run, finish};
use crate::command::scratch::Scratch;

/// Kibibytes of address space: 100 MB beside the program itself, its stack and its tables.
const ADDRESS_SPACE_KIB: &str = "110000";
/// Bytes all complaints together may have, except those of `lint`, which shows a thousand.
const MESSAGE_BYTES_MAX: usize = 8_000;
/// Seconds of processor time for one input; unlike the clock on the wall, it does not run on a busy
/// machine.
const PROCESSOR_SECONDS: u64 = 1;

/// Runs `kron` under both limits.
fn limited(words: &[&str], input: &[u8]) -> Run {
    limited_to(PROCESSOR_SECONDS, words, input)
}

/// Runs `kron` under both limits, with another one of processor time; on a slower processor it has as
/// much more.
fn limited_to(processor_seconds: u64, words: &[&str], input: &[u8]) -> Run {
    let program = [&[env!("CARGO_BIN_EXE_kron")], words].concat();
    effort::bounded_program(&excerpt(&words.join(" ")), processor_seconds, |processor_seconds| {
        let run = under_limits(&program, processor_seconds, input);
        (!is_out_of_time(&run)).then_some(run)
    })
}

/// Runs a program; too much processor time ends it by a signal, without an exit code.
fn under_limits(words: &[&str], processor_seconds: u64, input: &[u8]) -> Run {
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"ulimit -c 0 && ulimit -v "$0" && ulimit -S -t "$1" && shift && exec "$@""#])
        .args([ADDRESS_SPACE_KIB, &processor_seconds.to_string()])
        .args(words)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    finish(command, input)
}

/// Whether it was its limit of processor time that ended it.
fn is_out_of_time(run: &Run) -> bool {
    run.signal == Some(Signal::SIGXCPU as i32)
}

/// Refused: exit code 2 and nothing that smells of a panic.
fn refused(what: &str, words: &[&str], input: &[u8]) -> Run {
    let run = limited(words, input);
    let (out, err) = (excerpt(&run.out), excerpt(&run.err));
    assert_eq!(run.code, Some(2), "{what}: {words:?}\n{out}\n{err}");
    assert!(!run.err.contains("panicked"), "{what}: {words:?}\n{err}");
    run
}

fn excerpt(text: &str) -> String {
    text.chars().take(600).collect()
}

/// Bytes that look random and are the same every time.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..length).map(|_| (next() >> 32) as u8).collect()
}

fn request(fields: &str) -> String {
    format!(r#"{{"identity":"x","nominal_time":"2026-03-01T00:00:00Z",{fields}}}"#)
}

/// Bad requests, each a line of its own.
fn bad_requests() -> Vec<(&'static str, Vec<u8>)> {
    let deep =
        |open: &str, close: &str| format!("{}{}", open.repeat(200_000), close.repeat(200_000));
    let clauses: Vec<String> = (0..40_000).map(|i| format!("\"hours={}\"", 24 + i)).collect();
    let unknown: Vec<String> = (0..20_000).map(|i| format!("\"k{i}\":1")).collect();
    let text = |text: String| text.into_bytes();
    vec![
        ("a NUL", b"\0".to_vec()),
        ("a NUL inside", text(request("\"salt\":\"\0\""))),
        ("invalid UTF-8", b"{\"identity\":\"\xff\xfe\"}".to_vec()),
        ("half a character", b"{\"identity\":\"\xe2\x82\"}".to_vec()),
        ("half a surrogate pair", text(request(r#""salt":"\ud800""#))),
        ("deep lists", text(deep("[", "]"))),
        ("deep objects", text(deep("{\"a\":", "}"))),
        ("deep inside a field", text(request(&format!("\"constraints\":{}", deep("[", "]"))))),
        ("an enormous number", text(request("\"window_duration\":1e999999"))),
        ("an enormous shape", text(request(
            r#""window_duration":"1h","distribution":{"name":"skewLate","params":{"shape":1e999999}}"#,
        ))),
        ("a shape as text", text(request(
            r#""window_duration":"1h","distribution":{"name":"skewLate","params":{"shape":"1e999999"}}"#,
        ))),
        ("a shape that is no number", text(request(
            r#""window_duration":"1h","distribution":{"name":"skewLate","params":{"shape":"NaN"}}"#,
        ))),
        ("very many clauses", text(request(&format!(
            "\"constraints\":{{\"only\":[{}]}}",
            clauses.join(",")
        )))),
        ("very many clauses in a text", text(request(&format!(
            "\"constraints\":{{\"avoid\":\"{}\"}}",
            "hours=99;".repeat(80_000)
        )))),
        ("very many unknown fields", text(request(&unknown.join(",")))),
        ("a field twice", text(request("\"salt\":\"a\",\"salt\":\"b\""))),
        ("the year 0", text(r#"{"identity":"x","nominal_time":"0000-01-01T00:00:00Z"}"#.to_owned())),
        ("the year 10000", text(r#"{"identity":"x","nominal_time":"10000-01-01T00:00:00Z"}"#.to_owned())),
        ("a window out of time", text(
            r#"{"identity":"x","nominal_time":"9999-12-31T23:00:00Z","window_duration":"2h"}"#.to_owned(),
        )),
        ("a window before time", text(
            r#"{"identity":"x","nominal_time":"0001-01-01T00:00:00Z","window_mode":"before","window_duration":"2h"}"#.to_owned(),
        )),
        ("a negative duration", text(request("\"window_duration\":\"-3h\""))),
        ("an absurd duration", text(request("\"window_duration\":\"99999999999999999999999999h\""))),
        ("a duration of many units", text(request(&format!("\"window_duration\":\"{}\"", "1h".repeat(300_000))))),
        ("half a second", text(request("\"window_duration\":\"0.5s\""))),
        ("an unknown zone", text(request("\"timezone\":\"Mars/Olympus\""))),
        ("a zone that is a path", text(request("\"timezone\":\"../../etc/passwd\""))),
        ("a zone of a megabyte", text(request(&format!("\"timezone\":\"{}\"", "A".repeat(1_000_000))))),
        ("an identity of a megabyte", text(format!(
            "{{\"identity\":\"{}\",\"nominal_time\":\"2026-03-01T00:00:00Z\"}}",
            "a".repeat(1_000_000)
        ))),
        ("an identity with a line feed", text(
            r#"{"identity":"a\nb","nominal_time":"2026-03-01T00:00:00Z"}"#.to_owned(),
        )),
        ("a line of 10 MB", vec![b'a'; 10_000_000]),
        ("a string of 10 MB", text(request(&format!("\"salt\":\"{}\"", "a".repeat(10_000_000))))),
        ("noise", noise(1, 100_000).into_iter().filter(|&byte| byte != b'\n').collect()),
    ]
}

#[test]
fn decide_refuses_each_line_and_answers_the_next() {
    let good = request("\"salt\":\"s\"");
    for (what, line) in bad_requests() {
        let mut input = line;
        input.extend_from_slice(format!("\n{good}\n").as_bytes());
        let run = refused(what, &["decide"], &input);
        let lines = run.json_lines();
        assert_eq!(lines.len(), 2, "{what}");
        let message = lines[0]["error"]["message"].as_str().expect(what);
        assert!(!message.is_empty() && message.len() < 1_000, "{what}: {}", excerpt(message));
        assert!(!message.chars().any(char::is_control), "{what}: {message:?}");
        assert_eq!(lines[1]["period_id"], "2026-03-01T00:00:00Z", "{what}");
        assert_eq!(run.err, "", "{what}");
    }
}

#[test]
fn decide_survives_a_hundred_thousand_bad_lines_and_noise() {
    let many = "{\"identity\":1}\n".repeat(100_000);
    let run = refused("100,000 bad lines", &["decide"], many.as_bytes());
    assert_eq!(run.out.lines().count(), 100_000);
    for seed in 2..8 {
        refused("noise", &["decide"], &noise(seed, 200_000));
    }
}

/// Texts that are no job file in any format.
fn bad_files() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: String| text.into_bytes();
    vec![
        ("noise", noise(9, 100_000)),
        ("NULs", vec![0; 100_000]),
        ("invalid UTF-8", b"[job.a]\nschedule = \"\xff\"\n".to_vec()),
        ("a line of 10 MB", vec![b'a'; 10_000_000]),
        ("a line of 10 MB of stars", b"* ".repeat(5_000_000)),
        ("100,000 bad lines", text("61 25 * * * name=a command=b\n".repeat(100_000))),
        ("100,000 brackets", text("[".repeat(100_000))),
        (
            "absurd durations",
            text("0 3 * * * @win(after,99999999999999999999h) name=a command=b\n".to_owned()),
        ),
        ("negative durations", text("0 3 * * * @win(after,-1h) name=a command=b\n".to_owned())),
        ("an unknown zone", text("0 3 * * * @tz(Mars/Olympus) name=a command=b\n".to_owned())),
        (
            "very many clauses",
            text(format!("0 3 * * * @only({}) name=a command=b\n", "hours=99;".repeat(5_000))),
        ),
        (
            "very many modifiers",
            text(format!("0 3 * * * {} name=a command=b\n", "@tz(UTC) ".repeat(5_000))),
        ),
        ("very many fields", text(format!("{} name=a command=b\n", "* ".repeat(20_000)))),
        ("a very long list", text(format!("{}99 3 * * * name=a command=b\n", "1,".repeat(20_000)))),
        (
            "deep parentheses",
            text(format!("0 3 * * * @win{} name=a command=b\n", "(".repeat(20_000))),
        ),
    ]
}

#[test]
fn job_files_that_are_none_are_refused_by_every_command() {
    let scratch = Scratch::new("hostile");
    let sound = scratch.write("sound.toml", "[job.a]\nschedule = \"@daily\"\ncommand = [\"b\"]\n");
    for (what, content) in bad_files() {
        let files = [scratch.write("bad.toml", &content), scratch.write("bad.krontab", &content)];
        for file in &files {
            refused(what, &["lint", file], b"");
            refused(what, &["lint", file, "--format", "json"], b"");
            refused(what, &["next", "a", "--config", file], b"");
            refused(what, &["explain", "a", "--config", file], b"");
            refused(what, &["forecast", file], b"");
            refused(what, &["diff", &sound, file], b"");
        }
        refused(what, &["lint", "-", "--as", "toml"], &content);
        let crontab = scratch.write("bad.crontab", &content);
        let run = limited(&["lint", &crontab], b"");
        // To cron, the rest of a line is the command, whatever it says.
        assert!(matches!(run.code, Some(0 | 2)), "{what}: {run:?}");
    }
    let deep = format!("a = {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    refused("deep TOML", &["lint", &scratch.write("deep.toml", deep)], b"");
    let dotted = format!("[{}a]\n", "a.".repeat(50_000));
    refused("dotted TOML", &["lint", &scratch.write("dotted.toml", dotted)], b"");
}

#[test]
fn what_is_said_about_a_bad_file_is_short() {
    let scratch = Scratch::new("short");
    for (what, content) in bad_files() {
        let file = scratch.write("bad.krontab", &content);
        let run = refused(what, &["next", "a", "--config", &file], b"");
        assert!(run.err.len() < MESSAGE_BYTES_MAX, "{what}: {} bytes", run.err.len());
        assert!(run.err.starts_with("error: "), "{what}: {}", excerpt(&run.err));
    }
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let long = "9".repeat(100_000);
    let stars = "* ".repeat(50_000);
    let rows: Vec<Vec<&str>> = vec![
        vec!["next", "--schedule", &long],
        vec!["next", "--schedule", &stars],
        vec!["next", "--schedule", "@daily", "--after", &long],
        vec!["next", "--schedule", "@daily", "--after", "0000-12-31T23:59:59Z"],
        vec!["next", "--schedule", "@daily", "--after", "10000-01-01T00:00:00Z"],
        vec!["next", "--schedule", "@daily", "--count", &long],
        vec!["next", "--schedule", "@daily", "--count", "1e999999"],
        vec!["next", "--schedule", "@daily", "--identity", "a\nb"],
        vec!["next", "--schedule", "@daily @win(after,1e999999h)"],
        vec!["next", "--schedule", "@daily @dist(skewLate,shape=1e999999) @win(after,1h)"],
        vec!["explain", "--schedule", "@daily", "--at", "-99999-01-01T00:00:00Z"],
        vec!["explain", "--schedule", "@daily @tz(Mars/Olympus)"],
        vec!["forecast", "tests/fixtures/host.toml", "--bucket", "1ns"],
        vec!["forecast", "tests/fixtures/host.toml", "--bucket", &long],
        vec!["forecast", "tests/fixtures/host.toml", "--for", "1000000d"],
        vec!["forecast", "tests/fixtures/host.toml", "--for", "100000d", "--bucket", "1s"],
        vec!["forecast", "tests/fixtures/host.toml", "--timezone", &long],
        vec!["diff", "tests/fixtures/host.toml", "tests/fixtures/host.toml", "--max-peak", "-1"],
        vec!["man", &long],
        vec![&long],
    ];
    for words in rows {
        let run = refused("a flag", &words, b"");
        assert_eq!(run.out, "", "{:?}", words.first());
        assert!(run.err.starts_with("error: "), "{}", excerpt(&run.err));
    }
}

#[test]
fn logs_that_are_none_have_no_decisions_and_broken_events_are_refused() {
    let pass_over: Vec<(&str, Vec<u8>)> = vec![
        ("noise", noise(10, 500_000)),
        ("NULs", vec![0; 100_000]),
        ("a line of 10 MB", vec![b'a'; 10_000_000]),
        ("100,000 lines", b"level=info event=load\n".repeat(100_000)),
        ("nothing", Vec::new()),
    ];
    for (what, log) in pass_over {
        let run = limited(&["replay", "-"], &log);
        assert_eq!(run.code, Some(1), "{what}: {}", excerpt(&run.err));
        assert_eq!(run.out, "no `decision` events in this log\n", "{what}");
    }
    let broken: Vec<(&str, Vec<u8>)> = vec![
        ("no fields", b"event=decision\n".to_vec()),
        ("an open quote", b"event=decision identity=\"a\n".to_vec()),
        ("attempts of another kind", b"event=decision attempts={\n".to_vec()),
        ("a cut object", b"{\"event\":\"decision\",\n".to_vec()),
        ("a deep object", format!("{{\"event\":\"decision\",\"a\":{}\n", "[".repeat(200_000)).into_bytes()),
        ("invalid UTF-8", b"event=decision identity=\xff\n".to_vec()),
        ("an absurd time", br#"{"event":"decision","identity":"x","nominal_time":"99999-01-01T00:00:00Z","timezone":"UTC","window_mode":"after","window_duration":"0s","distribution":{"name":"uniform"},"seed_strategy":"stable","salt":"","constraints":{}}"#.to_vec()),
    ];
    for (what, log) in broken {
        let run = refused(what, &["replay", "-"], &log);
        let told = "1 `decision` line cannot be read, the first at line 1: ";
        assert!(run.out.contains(told), "{what}: {}", excerpt(&run.out));
        assert!(run.out.len() < MESSAGE_BYTES_MAX, "{what}");
    }
}

#[test]
fn the_limits_are_felt() {
    let endless = under_limits(&["sh", "-c", "while :; do :; done"], PROCESSOR_SECONDS, b"");
    assert!(is_out_of_time(&endless), "{endless:?}");
    let greedy = ["dd", "if=/dev/zero", "of=/dev/null", "count=1"];
    let taking = |size| under_limits(&[&greedy[..], &[size]].concat(), PROCESSOR_SECONDS, b"");
    assert_eq!(taking("bs=1M").code, Some(0));
    assert_ne!(taking("bs=150M").code, Some(0));
}

#[test]
fn any_number_of_periods_is_listed_without_being_kept() {
    // They take 0.3 and 2.9 s of processor time. So many, because a listing that takes time by the
    // square of its length, and only moves its list in memory for each period, takes 8 and 11 s.
    for (format, count, processor_seconds) in [("text", 300_000, 1), ("json", 300_000, 5)] {
        let n = count.to_string();
        let words = ["next", "--schedule", "* * * * * *", "-n", &n, "--format", format];
        let run = limited_to(processor_seconds, &words, b"");
        assert_eq!(run.code, Some(0), "{format}: {}", run.err);
        assert!(run.out.lines().count() >= count, "{format}");
    }
}
