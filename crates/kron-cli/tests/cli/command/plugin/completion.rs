//! What kubectl is answered when somebody presses the tab key behind `kubectl kron`.

use std::time::Duration;

use kron_testkit::waiting::{PATIENCE, eventually, now};

use super::{Command, Path, Run, Scratch, executable, finish, path_with, symlink};

/// A `kubectl` that knows some names, and says what it was asked on its standard error, which nobody
/// at a prompt wants to see.
const NAMES: &str = "echo \"$*\" >&2
case \"$*\" in
    'get --output=name --context=c --namespace=shop --request-timeout=2s kronjobs.kron.dev')
        echo kronjob.kron.dev/backup; echo kronjob.kron.dev/poll;;
    'get --output=name --request-timeout=2s cronjobs.batch') echo cronjob.batch/clean;;
    'get --output=name --request-timeout=2s namespaces') echo namespace/prod; echo namespace/test;;
    *) exit 1;;
esac";

fn complete(name: &str, script: &str, words: &[&str]) -> Run {
    let scratch = Scratch::new(name);
    executable(&scratch, "kubectl", script);
    let path = Path::new(scratch.path()).join("kubectl_complete-kron");
    symlink(env!("CARGO_BIN_EXE_kron"), &path).expect("the link is made");
    let mut command = Command::new(path);
    command.args(words).env("PATH", path_with(scratch.path()));
    finish(command, b"")
}

/// For how long kron waits for names; then it offers none.
const NAMES_PATIENCE: Duration = Duration::from_secs(3);

/// What is offered, by a kron that did not give up. An answer without names that took as long as
/// kron waits for them says only that the machine is busy. `nobody_waits_long_for_names` is about
/// giving up.
fn complete_in_time(name: &str, words: &[&str]) -> Run {
    eventually("an answer that did not take too long", || {
        let began = now();
        let run = complete(name, NAMES, words);
        let may_have_given_up = run.out == ":4\n" && began.elapsed() >= NAMES_PATIENCE;
        (!may_have_given_up).then_some(run)
    })
}

/// The candidates, without what they mean, and what the shell is to do in the end.
fn check(words: &[&str], expected: &[&str]) {
    let name = format!("plugin-complete-{}", words.join("_").replace('/', ""));
    let run = complete_in_time(&name, words);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{words:?}");
    let lines: Vec<&str> =
        run.out.lines().map(|line| line.split('\t').next().unwrap_or(line)).collect();
    assert_eq!(lines, expected, "{words:?}");
}

#[test]
fn commands_flags_and_values_are_those_of_the_help() {
    check(&["m"], &["migrate", ":4"]);
    check(&[""], &["next", "explain", "why", "forecast", "run", "migrate", "help", ":4"]);
    check(
        &["next", "--a"],
        &["--all-namespaces", "--after", "--as", "--as-group", "--as-uid", ":4"],
    );
    check(&["-n", "shop", "w"], &["why", ":4"]);
    check(&["next", "-o", ""], &["text", "json", ":4"]);
    check(&["migrate", "--output", "y"], &["yaml", ":4"]);
    check(&["next", "--count", ""], &[":4"]);
    check(&["migrate", "-f", ""], &[":0"]);
    check(&["forecast", ""], &[":4"]);
    check(&["no-such-command", ""], &[":4"]);
    let meant = complete("plugin-complete-meant", NAMES, &["migr"]);
    assert_eq!(meant.out, "migrate\tTurn CronJobs into KronJobs, and say what differs\n:4\n");
}

#[test]
fn names_are_those_of_the_cluster_that_is_said() {
    let here = ["-n", "shop", "--context=c"];
    let with = |words: &[&'static str]| -> Vec<&'static str> {
        [&words[..1], &here[..], &words[1..]].concat()
    };
    check(&with(&["why", ""]), &["backup", "poll", ":4"]);
    check(&with(&["run", "p"]), &["poll", ":4"]);
    check(&with(&["explain", "poll", ""]), &[":4"]);
    check(&with(&["next", "poll", ""]), &["backup", ":4"]);
    check(&["migrate", ""], &["clean", ":4"]);
    check(&["migrate", "--namespace", ""], &["prod", "test", ":4"]);
    // Of another cluster there is nothing to say.
    check(&["why", ""], &[":4"]);
}

#[test]
fn nobody_waits_long_for_names() {
    // One process, which kron kills: a `sleep` of its own would outlive the test. It offers a name in
    // the end, which an answer without names did not wait for.
    let late = format!(
        "mkfifo \"$0.silent\"; exec bash -c 'read -rt {} <>\"$0.silent\"
echo kronjob.kron.dev/late' \"$0\"",
        PATIENCE.as_secs()
    );
    let run = complete("plugin-complete-slow", &late, &["why", ""]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), ":4\n", ""));
}
