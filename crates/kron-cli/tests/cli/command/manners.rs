//! How the command behaves towards shells, scripts and other machines: exit codes, pipes, the
//! environment, files and what it makes for others.

use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::command::kron::{command, finish, fixture, kron, kron_reading};
use crate::command::scratch::Scratch;

const FROM: &str = "2026-03-01T00:00:00Z";
const COMMANDS: [&str; 28] = [
    "up",
    "lint",
    "next",
    "decide",
    "explain",
    "forecast",
    "diff",
    "replay",
    "import",
    "status",
    "top",
    "history",
    "why",
    "logs",
    "run",
    "suspend",
    "resume",
    "reload",
    "stop",
    "clock",
    "doctor",
    "state",
    "queue",
    "template",
    "schedule",
    "spool",
    "completions",
    "man",
];
/// Commands of commands, as their pages are named.
const SUBCOMMANDS: [&str; 45] = [
    "clock-accept",
    "state-check",
    "state-ls",
    "state-reset",
    "state-show",
    "queue-add",
    "queue-ls",
    "queue-show",
    "queue-move",
    "queue-prio",
    "queue-edit",
    "queue-cancel",
    "queue-retry",
    "queue-pause",
    "queue-resume",
    "queue-direct",
    "queue-logs",
    "queue-artifacts",
    "queue-stats",
    "queue-top",
    "queue-group",
    "queue-group-add",
    "queue-group-ls",
    "queue-group-show",
    "queue-group-cancel",
    "template-add",
    "template-ls",
    "template-show",
    "template-edit",
    "template-rm",
    "schedule-add",
    "schedule-ls",
    "schedule-show",
    "schedule-edit",
    "schedule-enable",
    "schedule-disable",
    "schedule-rm",
    "schedule-next",
    "schedule-outcomes",
    "spool-put",
    "spool-ls",
    "spool-show",
    "spool-retry",
    "spool-purge",
    "spool-stats",
];

/// Commands of the plugin of kubectl.
const PLUGIN_COMMANDS: [&str; 6] = ["next", "explain", "why", "forecast", "run", "migrate"];

/// One call of each command that shows something.
fn calls() -> Vec<Vec<String>> {
    let (host, edited) = (fixture("host.toml"), fixture("host-edited.toml"));
    let (requests, log) = (fixture("requests.jsonl"), fixture("decisions.log"));
    let rows: [&[&str]; 14] = [
        &["--help"],
        &["next", "--help"],
        &["next", "-n", "many"],
        &["lint", &host],
        &["next", "db-backup", "--config", &host, "--after", FROM],
        &["next", "db-backup", "--config", &host, "--after", FROM, "--format", "json"],
        &["decide", &requests],
        &["explain", "db-backup", "--config", &host, "--at", FROM],
        &["explain", "db-backup", "--config", &host, "--at", FROM, "--format", "json"],
        &["forecast", &host, "--from", FROM],
        &["forecast", &host, "--from", FROM, "--format", "json"],
        &["diff", &host, &edited, "--from", FROM],
        &["replay", &log],
        &["man", "next"],
    ];
    rows.iter().map(|row| row.iter().map(|&word| word.to_owned()).collect()).collect()
}

fn words(call: &[String]) -> Vec<&str> {
    call.iter().map(String::as_str).collect()
}

#[test]
fn two_runs_give_the_same_bytes_whatever_the_environment() {
    for call in calls() {
        let plain = kron(&words(&call));
        assert_eq!(plain, kron(&words(&call)), "{call:?}");
        for (key, value) in [
            ("TZ", "Asia/Tokyo"),
            ("LANG", "de_DE.UTF-8"),
            ("LC_ALL", "tr_TR.UTF-8"),
            ("COLUMNS", "31"),
            ("NO_COLOR", "1"),
            ("CLICOLOR_FORCE", "1"),
            ("TERM", "xterm-256color"),
            ("RUST_BACKTRACE", "1"),
        ] {
            let mut other = command(&words(&call));
            other.env(key, value);
            assert_eq!(plain, finish(other, b""), "{call:?} with {key}={value}");
        }
        let mut bare = command(&words(&call));
        bare.env_clear();
        assert_eq!(plain, finish(bare, b""), "{call:?} without any environment");
    }
}

#[test]
fn exit_codes_tell_yes_no_refused_and_broken() {
    let (host, edited, broken) =
        (fixture("host.toml"), fixture("host-edited.toml"), fixture("broken.toml"));
    let (empty, log, bad) =
        (fixture("empty.toml"), fixture("decisions.log"), fixture("tampered.log"));
    let day = ["--from", FROM, "--for", "1d"];
    let diff = |words: &[&str]| {
        let call = [&["diff", &host, &edited][..], &day, words].concat();
        kron(&call).code
    };
    let rows: [(i32, &[&str]); 15] = [
        (0, &["--version"]),
        (0, &["lint", &empty]),
        (0, &["next", "db-backup", "--config", &host]),
        (0, &["explain", "impossible", "--config", &host]),
        (0, &["forecast", &empty]),
        (0, &["diff", &host, &host, "--exit-code"]),
        (0, &["replay", &log]),
        (1, &["replay", &bad]),
        (1, &["replay", &host]),
        (1, &["next", "nobody", "--config", &host]),
        (1, &["next", "--schedule", "0 0 30 2 *"]),
        (1, &["explain", "--schedule", "0 0 30 2 *"]),
        (2, &["next", "--config", &host]),
        (2, &["lint", &broken]),
        (2, &["frobnicate"]),
    ];
    for (code, words) in rows {
        assert_eq!(kron(words).code, Some(code), "{words:?}");
    }
    assert_eq!(diff(&[]), Some(0));
    assert_eq!(diff(&["--exit-code"]), Some(1));
    let peak = kron(&[&["diff", &host, &edited, "--format", "json"][..], &day].concat()).json();
    let peak = peak["peak_new"].as_u64().unwrap();
    assert_eq!(diff(&["--max-peak", &peak.to_string()]), Some(0));
    assert_eq!(diff(&["--max-peak", &(peak - 1).to_string()]), Some(1));
    assert_eq!(diff(&["--max-peak", "many"]), Some(2));
    // A directory opens, but does not read.
    assert_eq!(kron(&["decide", "tests"]).code, Some(6));
    assert_eq!(kron(&["replay", "tests"]).code, Some(6));
    assert_eq!(kron(&["man", "--dir", &format!("{host}/pages")]).code, Some(6));
}

#[test]
fn an_output_that_cannot_be_written_is_a_system_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut call = command(&["next", "--schedule", "@daily", "--after", FROM]);
    let output = call.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: cannot write the output: "), "{said}");
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    for format in ["text", "json"] {
        let schedule = ["next", "--schedule", "* * * * * *", "-n", "1000000", "--format", format];
        let mut child = command(&schedule)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut some = [0; 100];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut some).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{format}");
    }
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    let text = "0 3 * * * @win(after,2h) name=a command=/bin/true\n";
    let scratch = Scratch::new("stdin");
    let file = scratch.write("jobs.krontab", text);
    let later = ["--from", FROM, "--format", "json"];
    for command in ["forecast", "lint"] {
        let flags: &[&str] = if command == "forecast" { &later } else { &[] };
        let from_file = kron(&[&[command, &file][..], flags].concat());
        let call = [&[command, "-", "--as", "krontab"][..], flags].concat();
        assert_eq!(from_file, kron_reading(&call, text.as_bytes()), "{command}");
    }
    let next = kron_reading(
        &["next", "--config", "-", "--as", "krontab", "--after", FROM, "-n", "1"],
        text.as_bytes(),
    );
    assert_eq!(next.code, Some(0));
    let untold = kron_reading(&["lint", "-"], text.as_bytes());
    assert_eq!(untold.code, Some(2));
    assert!(untold.err.contains("--as"), "{}", untold.err);
}

#[test]
fn a_directory_is_its_files_in_name_order() {
    let scratch = Scratch::new("directory");
    for name in ["b.toml", "a.toml", "c.toml", ".hidden.toml", "notes.txt"] {
        let job = name.replace('.', "-");
        scratch.write(name, format!("[job.{job}]\nschedule = \"@daily\"\ncommand = [\"x\"]\n"));
    }
    let run = kron(&["next", "--config", scratch.path()]);
    assert_eq!(run.code, Some(2));
    let listed: Vec<&str> =
        run.err.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, ["a-toml", "b-toml", "c-toml"], "{}", run.err);
    scratch.write("d.toml", "[job.a-toml]\nschedule = \"@daily\"\ncommand = [\"x\"]\n");
    let twice = kron(&["lint", scratch.path()]);
    assert_eq!(twice.code, Some(2));
    assert!(twice.out.contains("d.toml") && twice.out.contains("a.toml:1:6"), "{}", twice.out);
}

#[test]
fn what_a_name_does_not_tell_flags_do() {
    let scratch = Scratch::new("flags");
    let line = "0 3 * * * /bin/true\n";
    let file = scratch.write("plain", line);
    let identity = |words: &[&str]| {
        let call = [&["next", "--after", FROM, "-n", "1", "--config", &file][..], words].concat();
        let run = kron(&call);
        assert_eq!(run.code, Some(0), "{}", run.err);
        let end = run.out.find(':').unwrap();
        (run.out[..end].to_owned(), run.out)
    };
    assert_eq!(kron(&["lint", &file]).code, Some(2));
    let (plain, text) = identity(&["--as", "crontab"]);
    assert!(plain.starts_with("crontab/plain/"), "{plain}");
    assert!(text.contains("in UTC"), "{text}");
    let (ada, text) =
        identity(&["--as", "crontab", "--crontab-user", "ada", "--crontab-timezone", "Asia/Tokyo"]);
    assert_eq!(ada, plain.replace("/plain/", "/ada/"));
    assert!(text.contains("in Asia/Tokyo") && text.contains("2026-03-01T18:00:00Z"), "{text}");
    let (system, _) = {
        scratch.write("plain", "0 3 * * * root /bin/true\n");
        identity(&["--as", "system-crontab"])
    };
    assert!(system.starts_with("crontab/root/"), "{system}");
}

#[test]
fn host_and_machine_id_are_told_never_asked() {
    let file = fixture("salted.krontab");
    let call = ["next", "--config", &file, "--after", FROM, "-n", "3", "--format", "json"];
    let with = |words: &[&str]| kron(&[&call, words].concat());
    assert_eq!(with(&[]).code, Some(2));
    assert!(with(&[]).err.contains("--host"));
    assert!(with(&["--host", "web1"]).err.contains("--machine-id"));
    let one = with(&["--host", "web1", "--machine-id", "7"]);
    let two = with(&["--host", "web2", "--machine-id", "7"]);
    assert_eq!((one.code, two.code), (Some(0), Some(0)));
    assert_ne!(one.out, two.out);
    assert_eq!(one.json_lines()[0]["salt"], "web1-7");
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = kron(&["completions", shell]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{shell}");
        for command in COMMANDS {
            assert!(run.out.contains(command), "{shell} knows {command}");
        }
        let mut check = Command::new(shell);
        if shell == "bash" && check.arg("--version").output().is_ok() {
            let mut check = Command::new(shell);
            check.arg("-n");
            let checked = finish(check, run.out.as_bytes());
            assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""));
        }
    }
}

#[test]
fn manual_pages_are_made_for_every_command() {
    let scratch = Scratch::new("man");
    assert_eq!(kron(&["man", "--dir", scratch.path()]).code, Some(0));
    let mut pages: Vec<String> = std::fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let mut expected: Vec<String> =
        COMMANDS.iter().chain(&SUBCOMMANDS).map(|command| format!("kron-{command}.1")).collect();
    expected.push("kron.1".to_owned());
    expected.push("kubectl-kron.1".to_owned());
    expected.extend(PLUGIN_COMMANDS.iter().map(|command| format!("kubectl-kron-{command}.1")));
    expected.sort();
    assert_eq!(pages, expected);
    let groff = Command::new("groff").arg("--version").output().is_ok();
    for page in &pages {
        let path = format!("{}/{page}", scratch.path());
        #[expect(clippy::disallowed_methods, reason = "a page that was just written")]
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(".ie") || text.starts_with(".TH"), "{page}");
        let name = if page.starts_with("kubectl") { ".TH kubectl-kron" } else { ".TH kron" };
        for section in [name, ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
            assert!(text.contains(section), "{page} has {section}");
        }
        if let Some(command) = page.strip_prefix("kubectl-kron-") {
            let command = command.trim_end_matches(".1");
            assert_eq!(kron(&["man", "kubectl-kron", command]).out, text, "{page}");
        }
        if let Some(command) = page.strip_prefix("kron-").and_then(|name| name.strip_suffix(".1")) {
            let words: Vec<&str> = [&["man"], &command.split('-').collect::<Vec<_>>()[..]].concat();
            assert_eq!(kron(&words).out, text, "{page}");
        }
        if groff {
            let mut check = Command::new("groff");
            check.args(["-Tutf8", "-man", "-wall", "-z", &path]);
            let checked = finish(check, b"");
            assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""), "{page}");
        }
    }
}
