//! `kron spool` on real directories, without a daemon: what was acknowledged is there, and nothing
//! is changed by whoever has no right to.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use kron_spool::{Spool, State};
use kron_testkit::files::copy_program;
use kron_testkit::needs::{Need, left_out};
use serde_json::{Value, json};

use crate::command::kron::{Run, command, finish, kron, kron_reading};
use crate::command::scratch::Scratch;

/// A spool that nobody has.
struct Dir(Scratch);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = Dir(Scratch::new(name));
        drop(Spool::open(&dir.path(), &[]).expect("a spool"));
        dir
    }

    fn path(&self) -> PathBuf {
        Path::new(self.0.path()).join("spool")
    }

    fn words<'a>(&'a self, path: &'a str, words: &[&'a str]) -> Vec<&'a str> {
        [&["spool"], words, &["--dir", path]].concat()
    }

    fn kron(&self, words: &[&str]) -> Run {
        self.kron_reading(words, b"")
    }

    fn kron_reading(&self, words: &[&str], input: &[u8]) -> Run {
        let path = self.path();
        kron_reading(&self.words(path.to_str().expect("text"), words), input)
    }

    fn file(&self, state: &str, id: &str) -> PathBuf {
        self.path().join("tasks").join(state).join(format!("{id}.json"))
    }

    fn task(&self, state: &str, id: &str) -> Value {
        serde_json::from_slice(&bytes(&self.file(state, id))).expect("JSON")
    }

    fn ids(&self, state: State) -> Vec<String> {
        let spool = Spool::open_to_read(&self.path()).expect("a spool");
        spool.ids(state).expect("ids").iter().map(ToString::to_string).collect()
    }

    /// A task that has ended.
    fn completed(&self, id: &str, outcome: &str) {
        let task = json!({
            "taskId": id, "state": "COMPLETED", "createdAt": "2026-03-01T00:00:00Z",
            "payload": {"type": "T", "data": {}}, "attempts": 3,
            "completedAt": "2026-03-01T00:00:01Z", "result": {"outcome": outcome},
        });
        // As `put` orders it, but for blanks.
        let text =
            task.to_string().replace(r#"{"data":{},"type":"T"}"#, r#"{"type":"T","data":{}}"#);
        self.write(&self.file("completed", id), &text);
    }

    /// Writes a file as its holder would.
    fn write(&self, path: &Path, content: &str) {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path).expect("a file");
        file.write_all(content.as_bytes()).expect("it is written");
    }
}

#[expect(clippy::disallowed_methods, reason = "a file that the test itself caused")]
fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a file")
}

fn age(path: &Path) {
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(path).expect("a file").set_modified(long_ago).expect("aged");
}

#[test]
fn a_task_is_put_once() {
    let dir = Dir::new("spool-put");
    let put = ["put", "--type", "EMAIL_SEND", "--id", "a-1", "--data", r#"{"n": 1.50, "n2":[]}"#];
    let run = dir.kron(&put);
    assert_eq!(run, Run { code: Some(0), signal: None, out: "a-1\n".into(), err: String::new() });
    let first = bytes(&dir.file("pending", "a-1"));
    let text = String::from_utf8(first.clone()).expect("text");
    assert!(text.contains(r#""data": {"n": 1.50, "n2":[]}"#), "to the byte: {text}");
    let task = dir.task("pending", "a-1");
    assert_eq!(task["taskId"], "a-1");
    assert_eq!(task["state"], "PENDING");
    assert_eq!(task["payload"]["type"], "EMAIL_SEND");

    let again = dir.kron(&put);
    let told = "note: task `a-1` is there already, pending\n";
    assert_eq!(again, Run { code: Some(0), signal: None, out: "a-1\n".into(), err: told.into() });
    assert_eq!(bytes(&dir.file("pending", "a-1")), first, "it is as it was");

    dir.completed("b", "SUCCEEDED");
    let run = dir.kron(&["put", "--type", "T", "--id", "b", "--format", "json"]);
    let expected = json!({"task_id": "b", "state": "completed", "new": false, "same": true});
    assert_eq!(run.json(), expected, "blanks make no difference");
    assert_eq!(run.err, "note: task `b` is there already, completed\n");
    // Whoever means another task is told that it was not put.
    let run = dir.kron(&["put", "--type", "T", "--id", "b", "--data", "1", "--format", "json"]);
    assert_eq!((run.code, &run.json()["same"]), (Some(0), &json!(false)));
    let told =
        "warning: task `b` is there already, completed, with another payload, and stays as it is\n";
    assert_eq!(run.err, told);
    assert_eq!(dir.ids(State::Pending), ["a-1"]);
}

#[test]
fn data_comes_from_the_line_or_from_standard_input() {
    let dir = Dir::new("spool-data");
    let put = |words: &[&str], input: &[u8]| {
        let run = dir.kron_reading(&[&["put", "--type", "T"], words].concat(), input);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{words:?}");
        dir.task("pending", run.out.trim_end())
    };
    assert_eq!(put(&[], b"")["payload"], json!({"type": "T", "data": {}}));
    assert_eq!(put(&["--data", "-5"], b"")["payload"]["data"], json!(-5));
    assert_eq!(put(&["--data", "-"], b" [1,\n 2]\n")["payload"]["data"], json!([1, 2]));
    let fixed = put(&["--not-before", "2999-01-01T01:00:00+01:00"], b"");
    assert_eq!(fixed["notBefore"], "2999-01-01T00:00:00.000Z");
    assert!(put(&["--not-before", "1h"], b"")["notBefore"].is_string());
    assert_eq!(put(&[], b"")["notBefore"], Value::Null);

    let long = format!("\"{}\"", "x".repeat(256 * 1024));
    for (words, input, expected) in [
        (&["--data", "-"][..], &b""[..], "--data: it is not JSON: EOF"),
        (&["--data", "-"], b"{} {}", "--data: it is not JSON: trailing characters"),
        (&["--data", "-"], long.as_bytes(), "--data: it has more than 262144 bytes"),
        (&["--data", "-"], "[".repeat(10_000).as_bytes(), "--data: its JSON is nested"),
        (&["--data", "-"], b"\"\xff\"", "UTF-8"),
    ] {
        let before = dir.ids(State::Pending).len();
        let run = dir.kron_reading(&[&["put", "--type", "T"], words].concat(), input);
        assert!(matches!(run.code, Some(2 | 6)) && run.err.contains(expected), "{run:?}");
        assert_eq!((run.out.as_str(), dir.ids(State::Pending).len()), ("", before));
    }
}

#[test]
fn lines_become_tasks_in_their_order_and_bad_ones_are_told() {
    let dir = Dir::new("spool-lines");
    let mut input = String::new();
    for number in 1..=300 {
        input.push_str(&match number {
            7 => "{\n".to_owned(),
            100 => "\n".to_owned(),
            200 => format!("\"{}\"\n", "x".repeat(300 * 1024)),
            number => format!("{{\"n\":{number}}}\n"),
        });
    }
    let run = dir.kron_reading(&["put", "--stdin", "--type", "T"], input.as_bytes());
    assert_eq!(run.code, Some(2));
    assert_eq!(
        run.err,
        "error: line 7: `data`: it is not JSON: EOF while parsing an object at column 1\n\
         error: line 200: it has more than 262144 bytes\n"
    );
    let numbers: Vec<u64> = run
        .out
        .lines()
        .map(|id| dir.task("pending", id)["payload"]["data"]["n"].as_u64().expect("a number"))
        .collect();
    let expected: Vec<u64> = (1..=300).filter(|n| ![7, 100, 200].contains(n)).collect();
    assert_eq!(numbers, expected);
    assert_eq!(dir.ids(State::Pending).len(), expected.len());
    let temporary = std::fs::read_dir(dir.path().join("tasks/pending")).expect("a directory");
    assert_eq!(temporary.count(), expected.len(), "nothing else is left");

    let whole = r#"
        {"type": "A", "id": "x"}
        {"id": "x", "type": "B", "data": 1}
        {"type": "A", "id": "y", "data": null, "notBefore": "2999-01-01T00:00:00Z"}
        {"type": "A", "idd": "z"}
        ["A"]"#;
    let run = dir.kron_reading(&["put", "--stdin", "--format", "json"], whole.as_bytes());
    assert_eq!(run.code, Some(2));
    assert_eq!(
        run.json_lines(),
        [
            json!({"task_id": "x", "state": "pending", "new": true, "line": 2}),
            json!({"task_id": "x", "state": "pending", "new": false, "same": false, "line": 3}),
            json!({"task_id": "y", "state": "pending", "new": true, "line": 4}),
        ]
    );
    for expected in [
        "line 3: task `x` is there already, pending",
        "line 5: it is no task: unknown field `idd`",
        "line 6: it is no JSON object",
    ] {
        assert!(run.err.contains(expected), "{}", run.err);
    }
    assert_eq!(dir.task("pending", "x")["payload"], json!({"type": "A", "data": {}}));
    let y = dir.task("pending", "y");
    assert_eq!(
        (&y["payload"]["data"], &y["notBefore"]),
        (&Value::Null, &json!("2999-01-01T00:00:00.000Z"))
    );
    let run = dir.kron_reading(&["put", "--stdin", "--type", "T"], b"");
    assert_eq!(run, Run { code: Some(0), signal: None, out: String::new(), err: String::new() });
}

#[test]
fn an_id_is_told_as_soon_as_its_task_is_there_and_no_sooner() {
    let dir = Dir::new("spool-talk");
    let path = dir.path();
    let words = dir.words(path.to_str().expect("text"), &["put", "--stdin", "--type", "T"]);
    let mut child =
        command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut ids = BufReader::new(child.stdout.take().expect("piped")).lines();
    // The input stays open: whoever waits for more lines than these never answers.
    for lines in [1, 3, 1, 64, 65, 1] {
        stdin.write_all("7\n".repeat(lines).as_bytes()).expect("written");
        for _ in 0..lines {
            let id = ids.next().expect("a line").expect("text");
            assert_eq!(dir.task("pending", &id)["payload"]["data"], 7);
        }
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_disk_that_takes_nothing_is_no_acknowledgement() {
    let dir = Dir::new("spool-full");
    let path = dir.path();
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let limited = |words: &[&str], input: &[u8]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_kron")]);
        shell.args(dir.words(path.to_str().expect("text"), words));
        finish(shell, input)
    };
    let big = format!("\"{}\"", "x".repeat(100_000));
    let run = limited(&["put", "--type", "T", "--id", "big", "--data", "-"], big.as_bytes());
    assert_eq!((run.code, run.out.as_str()), (Some(5), ""), "{}", run.err);
    assert!(run.err.starts_with("error: cannot write `"), "{}", run.err);
    let run = limited(&["put", "--stdin", "--type", "T"], format!("1\n{big}\n").as_bytes());
    assert_eq!((run.code, run.out.lines().count()), (Some(5), 1), "{}", run.err);
    assert!(run.err.contains("error: line 2: it was not put\n"), "{}", run.err);
    assert_eq!(dir.ids(State::Pending).len(), 1, "what was told, and nothing else");
}

#[test]
fn what_has_failed_is_started_anew_by_whoever_has_the_spool() {
    let dir = Dir::new("spool-retry");
    dir.completed("bad", "FAILED");
    dir.completed("skipped", "SKIPPED");
    dir.completed("good", "SUCCEEDED");
    let (_spool, lock) = Spool::open(&dir.path(), &[]).expect("nobody has it");
    for words in [&["retry", "bad"][..], &["purge", "--older-than", "0s"]] {
        let run = dir.kron(words);
        assert_eq!(run.code, Some(4), "{run:?}");
        assert!(run.err.contains("another process has the spool"), "{}", run.err);
        assert!(run.err.contains("\nhint: if a daemon has it, say `--spool NAME`"), "{}", run.err);
    }
    // Looking and putting need no lock.
    assert_eq!(dir.kron(&["ls", "--state", "completed"]).code, Some(0));
    assert_eq!(dir.kron(&["put", "--type", "T", "--id", "waits"]).code, Some(0));
    drop(lock);

    let run = dir.kron(&["retry", "bad", "good", "nothing", "waits", "skipped"]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.out, "bad: it waits again\nskipped: it waits again\n");
    assert_eq!(
        run.err,
        "error: task `good` has succeeded\n\
         error: no task `nothing`\n\
         hint: `kron spool ls` lists tasks, with `--state completed` those that have ended, which \
         go when they are old\n\
         error: task `waits` is not completed\n"
    );
    let task = dir.task("pending", "bad");
    assert_eq!((&task["attempts"], &task["result"]), (&Value::Null, &Value::Null));
    assert_eq!(dir.ids(State::Completed), ["good"]);
    assert_eq!(dir.ids(State::Pending), ["bad", "skipped", "waits"]);

    // What a crash has left in two places is not for us to judge.
    dir.completed("twice", "FAILED");
    let running = json!({
        "taskId": "twice", "state": "RUNNING", "createdAt": "2026-03-01T00:00:00Z",
        "payload": {"type": "T", "data": {}}, "attempts": 3,
    });
    dir.write(&dir.file("running", "twice"), &running.to_string());
    age(&dir.file("completed", "twice"));
    for words in [&["retry", "twice"][..], &["purge"]] {
        let run = dir.kron(words);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(
            run.err.starts_with("error: task `twice` is completed and running at once"),
            "{run:?}"
        );
    }
    assert_eq!(dir.ids(State::Completed), ["good", "twice"]);
    let shown = dir.kron(&["show", "twice"]);
    assert!(shown.out.contains("\n  state     completed\n"), "{shown:?}");
    assert!(shown.err.starts_with("note: it is in `running/` as well"), "{shown:?}");
}

#[test]
fn only_what_is_old_is_removed() {
    let dir = Dir::new("spool-purge");
    for id in ["new", "old-1", "old-2"] {
        dir.completed(id, "SUCCEEDED");
    }
    age(&dir.file("completed", "old-1"));
    age(&dir.file("completed", "old-2"));
    assert_eq!(dir.kron(&["put", "--type", "T", "--id", "waits"]).code, Some(0));
    age(&dir.file("pending", "waits"));
    let rejected = dir.path().join("rejected");
    dir.write(&rejected.join("x"), "x");
    dir.write(&rejected.join("x.report"), "{}");
    age(&rejected.join("x.report"));
    dir.write(&rejected.join("y"), "y");
    dir.write(&rejected.join("y.report"), "{}");

    let run = dir.kron(&["purge"]);
    assert_eq!(
        run,
        Run {
            code: Some(0),
            signal: None,
            out: "removed 2 completed tasks\n".into(),
            err: String::new()
        }
    );
    assert_eq!(dir.ids(State::Completed), ["new"]);
    assert_eq!(dir.ids(State::Pending), ["waits"]);
    assert_eq!(dir.kron(&["purge", "--older-than", "1d"]).out, "there was nothing to remove\n");
    let run = dir.kron(&["purge", "--rejected", "--format", "json"]);
    assert_eq!(run.json(), json!({"completed": 0, "rejected": 1, "temporary": 0}));
    assert!(!rejected.join("x").exists() && rejected.join("y").exists());
    assert_eq!(dir.ids(State::Completed), ["new"], "only what was set aside");
}

/// Both forms of `put` say the same of what has the name of a task's file.
#[test]
fn what_is_in_the_way_is_refused_in_both_forms() {
    let dir = Dir::new("spool-in-the-way");
    dir.write(&dir.file("pending", "x"), "{");
    let one = dir.kron(&["put", "--type", "T", "--id", "x"]);
    let many = dir.kron_reading(&["put", "--stdin"], br#"{"type":"T","id":"x"}"#);
    for run in [one, many] {
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
        assert!(run.err.contains("is in the way"), "{run:?}");
    }
}

#[test]
fn a_directory_that_was_set_aside_stays_while_something_is_in_it() {
    let dir = Dir::new("spool-purge-directory");
    let rejected = dir.path().join("rejected");
    for name in ["empty", "full"] {
        std::fs::create_dir(rejected.join(name)).expect("a directory");
        dir.write(&rejected.join(format!("{name}.report")), "{}");
        age(&rejected.join(format!("{name}.report")));
    }
    std::fs::write(rejected.join("full/x"), "").expect("a file");
    let run = dir.kron(&["purge", "--rejected"]);
    assert_eq!(run.out, "removed 1 rejected thing\n");
    let told = "note: 1 directory in `rejected/` stayed, since something is in it\n";
    assert_eq!(run.err, told);
    assert!(!rejected.join("empty").exists() && rejected.join("full/x").exists());
}

#[test]
fn fields_that_nobody_knows_are_mentioned() {
    let dir = Dir::new("spool-unknown");
    let task = json!({
        "taskId": "x", "state": "PENDING", "createdAt": "2026-03-01T00:00:00Z",
        "payload": {"type": "T"}, "trace": "abc", "priority": 3,
    });
    dir.write(&dir.file("pending", "x"), &task.to_string());
    let shown = dir.kron(&["show", "x"]).out;
    let (one, other) = ("`trace`, `priority`, which", "`priority`, `trace`, which");
    assert!(shown.contains(one) || shown.contains(other), "{shown}");
    assert!(shown.contains("`--format json` shows"), "{shown}");
}

#[test]
fn who_may_not_look_is_told_who_may() {
    use std::os::unix::fs::PermissionsExt as _;
    if left_out("commands of another user", &[Need::Root]) {
        return;
    }
    // Where anybody can get to the program, but not into the spool.
    let parent = tempfile::tempdir().expect("a directory");
    let open_to_all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(parent.path(), open_to_all).expect("opened");
    let (dir, program) = (parent.path().join("spool"), parent.path().join("kron"));
    drop(Spool::open(&dir, &[]).expect("a spool"));
    copy_program(Path::new(env!("CARGO_BIN_EXE_kron")), &program);
    for words in [&["ls"][..], &["show", "x"], &["stats"], &["ls", "--state", "rejected"]] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=12345", "--regid=12345", "--clear-groups"]).arg(&program);
        command.arg("spool").args(words).arg("--dir").arg(&dir).current_dir("/");
        let run = command.output().expect("it runs");
        let err = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(6), "{words:?}: {err}");
        assert!(err.contains("Permission denied"), "{words:?}: {err}");
        assert!(err.contains("hint: a spool is for root and its daemon's user alone"), "{err}");
    }
}

#[test]
fn a_typing_mistake_makes_no_spool() {
    let scratch = Scratch::new("spool-none");
    let dir = format!("{}/nowhere", scratch.path());
    for words in [&["retry", "x"][..], &["purge"], &["put", "--type", "T"], &["ls"], &["stats"]] {
        let run = kron(&[&["spool"], words, &["--dir", &dir]].concat());
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.err.contains("No such file or directory"), "{run:?}");
        assert!(!Path::new(&dir).exists(), "{words:?}");
    }
}

#[test]
fn files_are_shown_as_they_are_and_strange_ones_without_harm() {
    let dir = Dir::new("spool-show");
    let odd = "{\"payload\":{\"type\":\"T\",\"x\":1e400},\n\n\"taskId\":\"odd\",\"createdAt\":\
               \"2026-03-01T00:00:00+05:00\",\"state\":\"PENDING\",\"mine\":[ 1 ]}";
    dir.write(&dir.file("pending", "odd"), odd);
    assert_eq!(dir.kron(&["show", "odd", "--format", "json"]).out, odd);

    let fifo = dir.file("pending", "fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
    assert!(made.success());
    std::os::unix::fs::symlink("/etc/passwd", dir.file("pending", "link")).expect("a link");
    std::fs::create_dir(dir.file("pending", "dir")).expect("a directory");
    dir.write(&dir.file("pending", "huge"), &" ".repeat(1_000_000));
    for id in ["fifo", "link", "dir", "huge"] {
        let shown = dir.kron(&["show", id]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(shown.out.contains("\n  no task  "), "{shown:?}");
        let shown = dir.kron(&["show", id, "--format", "json"]);
        assert_eq!((shown.code, shown.out.as_str()), (Some(3), ""), "{shown:?}");
    }
    let listed = dir.kron(&["ls", "--format", "json"]).json_lines();
    let faults = listed.iter().filter(|row| row["fault"].is_string()).count();
    assert_eq!((listed.len(), faults), (5, 4), "{listed:?}");
    let stats = dir.kron(&["stats", "--format", "json"]).json();
    assert_eq!((&stats["pending"], &stats["unfit"]), (&json!(5), &json!(4)));
    assert_eq!(stats["types"], json!({"T": {"pending": 1, "running": 0, "completed": 0}}));
    let run = dir.kron(&["put", "--type", "T", "--id", "huge"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("is in the way: it has more than"), "{run:?}");
}
