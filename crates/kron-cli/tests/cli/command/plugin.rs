//! `kubectl kron`, from outside: the real program under its other name, with a `kubectl` that answers
//! what a real API server has answered to the same words.

mod completion;
mod document;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use kron_testkit::files::write_script;
use serde_json::Value;

use crate::command::kron::{Run, finish};
use crate::command::scratch::Scratch;

/// Where the recordings are, and the `kubectl` that knows them.
const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/cluster");
const AT: &str = "2026-11-16T03:45:00Z";

/// A place where the program has the name of the plugin.
fn plugin(scratch: &Scratch) -> PathBuf {
    let path = Path::new(scratch.path()).join("kubectl-kron");
    symlink(env!("CARGO_BIN_EXE_kron"), &path).expect("the link is made");
    path
}

fn path_with(dir: &str) -> String {
    format!("{dir}:/usr/bin:/bin")
}

/// Runs the plugin with this PATH.
fn run_on(path: &str, name: &str, words: &[&str], input: &[u8]) -> Run {
    let scratch = Scratch::new(name);
    let mut command = Command::new(plugin(&scratch));
    command.args(words).env("PATH", path).current_dir(env!("CARGO_MANIFEST_DIR"));
    finish(command, input)
}

fn run(name: &str, words: &[&str]) -> Run {
    run_on(&path_with(CLUSTER), name, words, b"")
}

#[test]
fn everything_it_says() {
    let scratch = Scratch::new("plugin-says");
    trycmd::TestCases::new()
        .register_bin("kubectl-kron", trycmd::schema::Bin::Path(plugin(&scratch)))
        .env("PATH", path_with(CLUSTER))
        .case("tests/cmd/plugin/*.trycmd")
        .run();
}

#[test]
fn without_kubectl_it_says_so() {
    let nowhere = Scratch::new("plugin-nowhere");
    let told = run_on(nowhere.path(), "plugin-missing", &["next"], b"");
    assert_eq!(told.code, Some(6));
    assert!(told.err.starts_with("error: `kubectl` is not on the PATH\nhint: "), "{}", told.err);
}

/// A script that can be run.
fn executable(scratch: &Scratch, name: &str, script: &str) {
    write_script(&Path::new(scratch.path()).join(name), &format!("#!/bin/sh\n{script}\n"));
}

/// A `kubectl` that fails in this way.
fn failing(name: &str, script: &str, words: &[&str]) -> Run {
    let scratch = Scratch::new(name);
    executable(&scratch, "kubectl", script);
    run_on(&path_with(scratch.path()), &format!("{name}-run"), words, b"")
}

#[test]
fn what_kubectl_says_is_passed_on() {
    // In the words of kubectl 1.37.
    let no_kind = failing(
        "plugin-no-kind",
        "echo 'error: the server doesn'\\''t have a resource type \"kronjobs\" in group \"kron.dev\"' >&2; exit 1",
        &["next"],
    );
    assert_eq!(no_kind.code, Some(6));
    assert!(
        no_kind.err.starts_with("error: the server doesn't have a resource"),
        "{}",
        no_kind.err
    );
    assert!(no_kind.err.contains("this cluster has no KronJobs"), "{}", no_kind.err);
    assert!(no_kind.err.contains("is it the right `--context`?"), "{}", no_kind.err);
    assert!(no_kind.err.contains("docs/operator.md tells how to install"), "{}", no_kind.err);
    let refused = failing(
        "plugin-refused",
        "echo 'The connection to the server localhost:8080 was refused' >&2; exit 1",
        &["forecast"],
    );
    assert_eq!(refused.code, Some(6));
    assert_eq!(
        refused.err,
        "The connection to the server localhost:8080 was refused\nerror: `kubectl get` failed with \
         exit code 1, as told above\n"
    );
    let strange = failing("plugin-strange", "echo '<html>'", &["next"]);
    assert_eq!(strange.code, Some(6));
    assert!(strange.err.contains("cannot be read"), "{}", strange.err);
    let killed = failing("plugin-killed", "kill -9 $$", &["next"]);
    assert!(killed.err.contains("ended by a signal"), "{}", killed.err);
}

#[test]
fn whoever_may_not_is_told_what_gives_the_right() {
    // In the words of kubectl 1.37.
    let refuse = |kind: &str, group: &str| {
        format!(
            "echo 'Error from server (Forbidden): {kind}.{group} is forbidden: User \"ann\" cannot \
             list resource \"{kind}\" in API group \"{group}\" in the namespace \"shop\"' >&2; exit 1"
        )
    };
    let kronjobs = failing("plugin-forbidden-1", &refuse("kronjobs", "kron.dev"), &["next"]);
    assert_eq!(kronjobs.code, Some(6));
    assert!(kronjobs.err.starts_with("Error from server (Forbidden)"), "{}", kronjobs.err);
    assert!(
        kronjobs.err.contains("\nhint: the roles `kron-view` and `kron-edit`"),
        "{}",
        kronjobs.err
    );
    let cronjobs = failing("plugin-forbidden-2", &refuse("cronjobs", "batch"), &["migrate"]);
    assert_eq!(cronjobs.code, Some(6));
    assert!(
        cronjobs.err.ends_with("\nhint: a role such as `view` gives access to `cronjobs.batch`\n"),
        "{}",
        cronjobs.err
    );
}

#[test]
fn a_warning_of_kubectl_does_no_harm() {
    let run = failing(
        "plugin-warning",
        "echo 'Warning: old' >&2; echo '{\"items\":[]}'",
        &["next", "--format", "json"],
    );
    assert_eq!((run.code, run.err.as_str(), run.out.as_str()), (Some(1), "Warning: old\n", ""));
}

/// A `kubectl` that says what it was told, and fails.
const ECHO: &str = "for word; do echo \"<$word>\" >&2; done; exit 1";

#[test]
fn flags_of_kubectl_reach_it_as_they_are() {
    let flags = [
        "--context=a b",
        "--kubeconfig=/k",
        "--cluster=c",
        "--user=u",
        "--as=me",
        "--as-group=g",
        "--as-group=h",
        "--as-uid=7",
        "-s=https://[::1]:6443",
        "--token=t0ken",
        "--request-timeout=3s",
        "--namespace=shop",
    ];
    let words: Vec<&str> = ["next", "poll"].into_iter().chain(flags).collect();
    let run = failing("plugin-flags", ECHO, &words);
    let expected = "<get>\n<--output=json>\n<--token=t0ken>\n<--kubeconfig=/k>\n<--context=a b>\n\
                    <--cluster=c>\n<--user=u>\n<--server=https://[::1]:6443>\n<--as=me>\n\
                    <--as-uid=7>\n<--request-timeout=3s>\n<--namespace=shop>\n<--as-group=g>\n\
                    <--as-group=h>\n<kronjobs.kron.dev>\n<-->\n<poll>\n";
    assert!(run.err.starts_with(expected), "{}", run.err);
}

#[test]
fn a_selector_is_kubectls_to_read_and_all_namespaces_come_first() {
    for command in ["next", "forecast", "migrate"] {
        let kind = if command == "migrate" { "cronjobs.batch" } else { "kronjobs.kron.dev" };
        let words = [command, "-l", "app in (a, b)", "-n", "shop", "-A"];
        let run = failing(&format!("plugin-selector-{command}"), ECHO, &words);
        let expected = format!(
            "<get>\n<--output=json>\n<--all-namespaces>\n<--selector=app in (a, b)>\n<{kind}>\n"
        );
        assert!(run.err.starts_with(&expected), "{}", run.err);
        let words = [command, "--selector", "app=shop", "--namespace=shop"];
        let run = failing(&format!("plugin-selector-{command}-n"), ECHO, &words);
        assert!(run.err.contains("<--namespace=shop>\n<--selector=app=shop>\n"), "{}", run.err);
        if command != "forecast" {
            let words = [command, "poll", "-l", "app=shop"];
            let run = failing(&format!("plugin-selector-{command}-name"), ECHO, &words);
            assert_eq!(run.code, Some(2), "{}", run.err);
        }
    }
}

#[test]
fn a_token_is_in_nothing_that_is_written() {
    let file = format!("{CLUSTER}/objects.yaml");
    let words = ["migrate", "-f", &file, "--at", AT, "--token", "t0ken", "--context", "c"];
    let dir = Scratch::new("plugin-token");
    let mut all = String::new();
    for (index, more) in [
        &["-o", "json"][..],
        &["--output=yaml"],
        &["--output-dir", dir.path()],
        &["--output-dir", dir.path(), "--format", "json"],
    ]
    .into_iter()
    .enumerate()
    {
        let run = run(&format!("plugin-token-{index}"), &[&words[..], more].concat());
        assert_eq!(run.code, Some(1), "one is left out: {}", run.err);
        all.extend([run.out, run.err]);
    }
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::File::open(entry.unwrap().path()).map(read_all).unwrap();
        all.push_str(&String::from_utf8(bytes).unwrap());
    }
    assert!(all.contains("kubectl --context=c"), "there are commands: {all}");
    assert!(!all.contains("t0ken"), "{all}");
}

#[test]
fn a_cluster_that_hides_jobs_and_events_is_asked_all_the_same() {
    let run = failing(
        "plugin-hidden",
        &format!(
            "case \"$*\" in *kronjobs*) cat {CLUSTER}/kronjob-poll.json;; *) echo 'Error from \
             server (Forbidden)' >&2; exit 1;; esac"
        ),
        &["why", "poll", "2026-11-16T03:30:00Z", "--format", "json"],
    );
    assert_eq!(run.code, Some(0), "{}", run.err);
    let said = run.json();
    assert_eq!(said["answer"], "missed");
    assert_eq!(said["unseen"], serde_json::json!(["Jobs", "Events"]));
}

#[test]
fn runs_come_in_order_of_time() {
    let run =
        run("plugin-order", &["next", "-A", "--count", "40", "--after", AT, "--format", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let lines = run.json_lines();
    let times: Vec<&str> = lines.iter().filter_map(|line| line["chosen_time"].as_str()).collect();
    assert_eq!(times.len(), 160, "four KronJobs are sound");
    assert!(times.is_sorted(), "{times:?}");
    let invalid: Vec<&Value> = lines.iter().filter(|line| line.get("invalid").is_some()).collect();
    assert_eq!(invalid.len(), 1);
    assert_eq!(invalid[0]["name"], "broken");
    assert_eq!(invalid[0]["invalid"][0]["field"], "spec.timeZone");
}

#[test]
fn manifests_go_into_new_files_only() {
    let scratch = Scratch::new("plugin-files");
    let dir = format!("{}/new", scratch.path());
    let words = ["migrate", "-A", "--at", AT, "--output-dir", &dir];
    let run = run("plugin-files-1", &words);
    assert_eq!(run.code, Some(1), "one is left out: {}", run.err);
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["prod.backup.yaml", "prod.poll.yaml", "prod.report.yaml", "test.clean.yaml"]
    );
    #[expect(clippy::disallowed_methods, reason = "a manifest that was just written")]
    let read = |name: &str| std::fs::read_to_string(format!("{dir}/{name}")).unwrap();
    let text = read("prod.backup.yaml");
    assert!(text.contains(&format!("apply --filename {dir}/prod.backup.yaml")), "{text}");
    assert!(text.contains("To go back instead"), "{text}");
    // What is there stays as it is; what is not is written.
    std::fs::remove_file(format!("{dir}/prod.poll.yaml")).unwrap();
    scratch.write("new/prod.report.yaml", "mine\n");
    let again = self::run("plugin-files-2", &words);
    assert_eq!(again.code, Some(1), "{}", again.err);
    for (identity, file) in [
        ("prod/backup", "prod.backup"),
        ("prod/report", "prod.report"),
        ("test/clean", "test.clean"),
    ] {
        let told = format!("{identity}: not written: `{dir}/{file}.yaml` is there already\n");
        assert!(again.err.contains(&told), "{}", again.err);
    }
    let wrote = format!("wrote {dir}/prod.poll.yaml\n");
    assert!(again.err.contains(&wrote), "{}", again.err);
    assert_eq!(again.err.matches("wrote ").count(), 1, "{}", again.err);
    assert!(again.err.ends_with("remove those files, or say another `--output-dir`\n"));
    assert_eq!(read("prod.backup.yaml"), text);
    assert_eq!(read("prod.report.yaml"), "mine\n");
    assert!(read("prod.poll.yaml").contains("kind: KronJob"));
}

#[test]
fn the_same_cronjob_twice_is_written_once() {
    let scratch = Scratch::new("plugin-twice");
    let recorded = format!("{CLUSTER}/cronjob-clean.json");
    let words = ["migrate", "-f", &recorded, "-f", &recorded, "--at", AT, "--output-dir"];
    let run = run("plugin-twice-run", &[&words[..], &[scratch.path()]].concat());
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert_eq!(run.err.matches("wrote ").count(), 1, "{}", run.err);
    assert_eq!(run.err.matches("is there already").count(), 1, "{}", run.err);
}

#[test]
fn several_on_one_stream_have_no_steps() {
    let several = ["migrate", "-n", "prod", "--at", AT];
    let yaml = run("plugin-several-1", &several);
    assert_eq!(yaml.code, Some(0), "{}", yaml.err);
    assert!(
        yaml.out.starts_with("# 3 KronJobs. Whoever applies this file makes all"),
        "{}",
        yaml.out
    );
    assert!(yaml.out.contains("suspend all\n# 3 CronJobs before."), "{}", yaml.out);
    assert!(yaml.out.contains("`--output-dir DIR`"), "{}", yaml.out);
    assert!(!yaml.out.contains("FILE") && !yaml.out.contains("patch cronjob"), "{}", yaml.out);
    let json = run("plugin-several-2", &[&several[..], &["-o", "json"]].concat());
    assert!(json.err.contains("3 KronJobs. Whoever applies this file makes all"), "{}", json.err);
    assert!(!json.err.contains("FILE") && !json.err.contains("patch cronjob"), "{}", json.err);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&yaml.out).unwrap();
    assert_eq!(Value::from(documents), json.json()["items"]);
    // One alone has them.
    let alone = run("plugin-several-3", &["migrate", "-n", "prod", "report", "--at", AT]);
    assert!(alone.out.contains("apply --filename FILE"), "{}", alone.out);
    assert!(!alone.out.contains("Whoever applies"), "{}", alone.out);
}

#[test]
fn a_comparison_says_every_note_once() {
    let run = run("plugin-diff", &["migrate", "-A", "--diff", "--at", AT]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert_eq!(
        run.err,
        "test/odd: left out: `@every 7m` has no equal: it is not an even part of a minute, an hour \
         or a day; give the CronJob cron fields first\n4 KronJobs, 1 CronJob left out\n"
    );
    assert_eq!(run.out.matches("are left out: `meta.helm.sh/release-name`").count(), 1);
}

#[test]
fn files_and_the_cluster_give_the_same_kronjobs() {
    let words = ["--at", AT, "--format", "json", "--window", "2m"];
    let cluster = run("plugin-same-1", &[&["migrate", "-A"][..], &words].concat());
    let recorded = format!("{CLUSTER}/cronjobs-all.json");
    let file = run("plugin-same-2", &[&["migrate", "-f", &recorded][..], &words].concat());
    assert_eq!((cluster.code, &cluster.out), (Some(1), &file.out), "{}", cluster.err);
    let yaml = run("plugin-same-3", &["migrate", "-A", "--at", AT, "--window", "2m"]);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&yaml.out).unwrap();
    assert_eq!(Value::from(documents), cluster.json()["items"]);
    let piped = run_on(
        &path_with(CLUSTER),
        "plugin-same-4",
        &["migrate", "-f", "-", "--at", AT, "--window", "2m"],
        &std::fs::File::open(recorded).map(read_all).unwrap(),
    );
    assert_eq!(piped.out, yaml.out);
}

#[test]
fn of_a_file_with_many_things_the_cronjobs_are_taken() {
    let objects = format!("{CLUSTER}/objects.yaml");
    let run = run("plugin-many", &["migrate", "-f", &objects, "--at", AT, "--format", "json"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    let said = run.json();
    let items = said["items"].as_array().unwrap();
    let names: Vec<&str> =
        items.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["backup", "report", "poll", "clean"]);
    // Nothing tells when it was made, so that it counts from the hour.
    assert_eq!(items[2]["spec"]["schedule"], "*/5 * * * *");
    assert!(run.err.contains("test/odd: left out: `@every 7m`"), "{}", run.err);
}

fn read_all(mut file: std::fs::File) -> Vec<u8> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("a readable recording");
    bytes
}

#[test]
fn a_job_by_hand_is_for_kubectl_to_create() {
    let words = ["run", "-n", "shop", "poll", "-o"];
    let json = run("plugin-run-1", &[&words[..], &["json"]].concat());
    assert_eq!((json.code, json.err.as_str()), (Some(0), ""));
    let job = json.json();
    assert_eq!(job["metadata"]["generateName"], "poll-manual-");
    assert_eq!(job["metadata"]["labels"], serde_json::json!({"kron.dev/kronjob": "poll"}));
    let yaml = run("plugin-run-2", &[&words[..], &["yaml"]].concat());
    assert!(yaml.out.starts_with("# For `kubectl create --filename -`"), "{}", yaml.out);
    let read: Value = serde_saphyr::from_str(&yaml.out).unwrap();
    assert_eq!(read, job);
    let untemplated = failing(
        "plugin-run-3",
        "echo '{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"uid\":\"c\"},\"spec\":{}}'",
        &["run", "a"],
    );
    assert_eq!(untemplated.code, Some(2), "{}", untemplated.err);
    assert!(untemplated.err.contains("spec.jobTemplate: it has no spec"), "{}", untemplated.err);
}
