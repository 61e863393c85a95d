//! `kron up` as somebody meets it who has nothing yet.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use kron_testkit::needs::{Need, left_out};
use tempfile::TempDir;

use crate::daemon::krond::{bytes, wait_for};
use crate::daemon::terminal::Terminal;

const LONG: &str = r#"
[job.long]
schedule = "*/2 * * * * *"
command = "trap 'exit 7' TERM; echo $$ >pid; while :; do sleep 0.1; done"
shell = true
# A test that fails must not leave it behind for ever.
timeout = "5m"
# A daemon that ends it waits for that, however slow the machine is.
grace = "10m"
cwd = "DIR"
"#;

fn directory() -> TempDir {
    tempfile::Builder::new().prefix("kron-up").tempdir().expect("a directory")
}

fn text(path: &Path) -> String {
    String::from_utf8(bytes(path)).expect("text")
}

/// `kron` with these words, in this directory.
fn kron(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kron"));
    command.args(words).current_dir(directory);
    command
}

fn said(directory: &Path, words: &[&str]) -> String {
    let output = kron(directory, words).output().expect("kron runs");
    String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
}

fn is_alive(pid: &str) -> bool {
    // What is left of a process that nobody has waited for is none.
    let stat = text(Path::new(&format!("/proc/{}/stat", pid.trim())));
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Whoever is told to compare two columns finds them.
#[test]
fn the_sample_names_columns_that_there_are() {
    let dir = directory();
    let sample = include_str!("../../../src/command/up/sample.toml");
    std::fs::write(dir.path().join("kron.toml"), sample).expect("it is written");
    let (_, spread) = sample.split_once("[job.spread]").expect("the job");
    let (_, description) = spread.split_once("description = ").expect("its description");
    let description = description.lines().next().expect("a line");
    let mut named = description.split('`').skip(1).step_by(2);
    let command = named.next().expect("a command");
    assert_eq!(command, "kron next");
    let next = said(dir.path(), &["next", "spread", "--config", "kron.toml"]);
    let header = next.lines().find(|line| line.contains("window start")).expect(&next);
    let columns: Vec<&str> = header.split("  ").map(str::trim).collect();
    let named: Vec<&str> = named.collect();
    assert_eq!(named.len(), 2, "{description}");
    assert!(named.iter().all(|name| columns.contains(name)), "{named:?} in {columns:?}");
}

#[test]
fn one_command_in_an_empty_directory_shows_jobs_firing() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let dir = directory();
    let mut up = Terminal::start(dir.path(), 150, 30, &["up"]);
    let frame = up.see("a run that succeeded", |frame| {
        frame.lines().any(|line| line.starts_with("tick") && line.contains('✓'))
    });
    assert!(frame.starts_with("krond "), "{frame}");
    for word in
        ["every 5 seconds", "daily at 03:00 Europe/Paris within 2h", "kron.toml (new, a sample)"]
    {
        assert!(frame.contains(word), "{word}: {frame}");
    }
    assert!(frame.contains("log: kron-data/krond.log"), "{frame}");
    assert!(up.raw().starts_with("made kron.toml: "), "{}", up.raw());
    assert!(text(&dir.path().join("kron.toml")).contains("[job.tick]"));
    let state_dir = dir.path().join("kron-data");
    assert_eq!(state_dir.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
    // A thread of its own writes the log.
    for event in [" event=ready ", " event=decision "] {
        wait_for(event, || text(&state_dir.join("krond.log")).contains(event).then_some(()));
    }
    assert!(!up.raw().contains("component=krond"), "the log stays off the terminal");

    // Whoever asks for another daemon is told of this one.
    let hint = said(dir.path(), &["status", "--socket", "nowhere"]);
    assert!(hint.contains("`--state-dir kron-data` means the one of `kron up` here"), "{hint}");
    // Only one runs here.
    let other = Terminal::start(dir.path(), 80, 24, &["up"]);
    let (code, told) = other.end();
    assert_eq!(code, 4, "{told}");
    assert!(
        told.contains("error: another daemon holds the lock") && told.contains("hint: "),
        "{told}"
    );

    up.press("q");
    let (code, told) = up.end();
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("stopped; what was done is recorded in kron-data"), "{told}");
}

#[test]
fn the_first_ctrl_c_waits_and_the_second_ends_what_runs() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let dir = directory();
    let file = dir.path().join("kron.toml");
    let jobs = LONG.replace("DIR", &dir.path().display().to_string());
    std::fs::write(&file, &jobs).expect("a file");
    let mut up = Terminal::start(dir.path(), 150, 30, &["up"]);
    up.see("the run", |frame| frame.contains("running "));
    let pid = wait_for("the command's number", || {
        Some(text(&dir.path().join("pid"))).filter(|pid| pid.ends_with('\n'))
    });
    up.press("\x03");
    let waiting = "stopping: nothing more is started, 1 run to wait for";
    up.see("that it stops", |frame| frame.contains(waiting));
    assert!(is_alive(&pid), "the run goes on");
    up.press("\x03");
    assert_eq!(up.end().0, 0);
    assert!(!is_alive(&pid), "the run was ended");
    assert_eq!(text(&file), jobs, "a file that is there is kept");
    let state = said(dir.path(), &["state", "show", "long", "--state-dir", "kron-data"]);
    assert!(state.contains("stopped"), "{state}");

    // The next one shows what became of it.
    let up = Terminal::start(dir.path(), 150, 30, &["up"]);
    let frame = up.see("the past", |frame| {
        frame.lines().any(|line| line.starts_with("long") && line.contains('S'))
    });
    assert!(!frame.contains("a sample"), "{frame}");
    // Two signals that come at once may count as one, so it is asked another way.
    said(dir.path(), &["stop", "--kill", "--state-dir", "kron-data"]);
    assert_eq!(up.end().0, 0);
}

#[test]
fn a_window_that_is_closed_or_a_signal_leaves_the_terminal_as_it_was() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let dir = directory();
    let up = Terminal::start(dir.path(), 100, 20, &["up"]);
    up.see("the jobs", |frame| frame.contains("\ntick "));
    up.signal("TERM");
    assert_eq!(up.end().0, 0);
}

#[test]
fn what_is_wrong_with_a_file_is_told_on_the_terminal() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let dir = directory();
    std::fs::write(
        dir.path().join("kron.toml"),
        "[job.a]\nschedule = \"0 25 * * *\"\ncommand = [\"x\"]\n",
    )
    .expect("a file");
    for words in [&["up"][..], &["up", "--log-format", "json"]] {
        let up = Terminal::start(dir.path(), 100, 20, words);
        let (code, told) = up.end();
        assert_eq!(code, 2, "{told}");
        assert!(told.contains("error: `25` is outside the hour field"), "{told}");
        assert!(told.contains("the log is in kron-data/krond.log"), "{told}");
        assert!(!told.contains("component"), "{told}");
    }
    let missing = Terminal::start(dir.path(), 100, 20, &["up", "--config", "no.toml"]);
    let (code, told) = missing.end();
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("cannot read `no.toml`"), "{told}");
}

#[test]
fn without_a_terminal_the_log_is_shown() {
    // Too long for the path of a socket, were it not for the place it is seen from.
    let dir = directory();
    let deep = dir.path().join("x".repeat(120));
    std::fs::create_dir(&deep).expect("a directory");
    let words = ["up", "--log-format", "json", "--state-dir", "state"];
    let mut child = kron(&deep, &words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(dir.path().join("err")).expect("a file"))
        .spawn()
        .expect("kron runs");
    let log = || text(&dir.path().join("err"));
    wait_for("a run", || {
        assert!(child.try_wait().expect("it can be waited for").is_none(), "{}", log());
        log().contains(r#""event":"finished""#).then_some(())
    });
    assert!(log().starts_with("made kron.toml"), "{}", log());
    assert_eq!(deep.join("state").metadata().unwrap().permissions().mode() & 0o7777, 0o700);
    assert!(said(&deep, &["status", "--state-dir", "state"]).contains("every 5 seconds"));
    assert!(said(&deep, &["stop", "--kill", "--state-dir", "state"]).starts_with("stopped"));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"");
}
