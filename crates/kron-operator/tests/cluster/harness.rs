//! The harness does what it says: the control plane serves and runs Jobs, the audit log has what
//! happened, and every fault of the proxy is the one that was asked for.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kron_testkit::process::{has_ended, is_stopped};
use kron_testkit::waiting::PATIENCE;
use nix::sys::signal::Signal;
use nix::unistd::gettid;
use serde_json::{Value, json};

use crate::audit;
use crate::control_plane::{ADMIN, Api, ControlPlane, NOBODY, OPERATOR, Settings};
use crate::judge::JobKey;
use crate::operator::Operator;
use crate::process::{Process, read, remove_at_exit, wait_until};
use crate::proxy::{Fault, Matching, Often, Proxy};
use crate::scene::wall;

/// A Job that belongs to a KronJob, as far as labels tell.
fn job(name: &str, pod: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": { "kron.dev/kronjob": "plain", "kron.dev/period": "20260301T000000Z" },
        },
        "spec": { "backoffLimit": 0, "template": {
            "metadata": pod,
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "none" }] },
        } },
    })
}

fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

/// The counts of active, succeeded and failed pods.
fn counts(plane: &ControlPlane, namespace: &str, name: &str) -> [u64; 3] {
    let job = plane.api().get(&format!("{}/{name}", jobs(namespace))).expect(200);
    ["active", "succeeded", "failed"].map(|count| job["status"][count].as_u64().unwrap_or(0))
}

/// How long the pod of a Job ran.
fn ran_for_s(plane: &ControlPlane, namespace: &str, job: &str) -> i64 {
    let selector = format!("labelSelector=batch.kubernetes.io/job-name%3D{job}");
    let pods = plane.api().get(&format!("/api/v1/namespaces/{namespace}/pods?{selector}"));
    let status = &pods.expect(200)["items"][0]["status"];
    let second = |time: &Value| time.as_str().unwrap().parse::<Timestamp>().unwrap().as_second();
    let end = &status["containerStatuses"][0]["state"]["terminated"]["finishedAt"];
    second(end) - second(&status["startTime"])
}

#[test]
fn the_node_is_ready() {
    let output = ControlPlane::shared().kubectl(&["get", "nodes", "--no-headers"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.split_whitespace().take(2).collect::<Vec<_>>(), ["node", "Ready"], "{text}");
}

/// How long a pod runs at least that is to run for five seconds, by times in whole seconds.
const SLOW_S_MIN: i64 = 4;

#[test]
fn jobs_succeed_fail_or_run_for_ever_as_their_pods_say() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("jobs");
    for (name, pod) in [
        ("good", json!({})),
        ("bad", json!({ "labels": { "kron.test/fail": "" } })),
        ("endless", json!({ "labels": { "kron.test/forever": "" } })),
        ("slow", json!({ "annotations": { "kron.test/runs-for": "5s" } })),
    ] {
        plane.api().post(&jobs(&namespace), &job(name, &pod)).expect(201);
    }
    let becomes = |name: &str, expected: [u64; 3]| {
        wait_until(&format!("`{name}` becomes {expected:?}"), PATIENCE, || {
            (counts(plane, &namespace, name) == expected).then_some(())
        });
    };
    becomes("good", [0, 1, 0]);
    becomes("bad", [0, 0, 1]);
    becomes("slow", [0, 1, 0]);
    // In whole seconds, so that 5 s may be 4. A machine that stalls makes more of the 100 ms of the
    // others, but not of all of them.
    let slow = ran_for_s(plane, &namespace, "slow");
    assert!(slow >= SLOW_S_MIN, "{slow} s");
    let mut number = 0;
    wait_until("a pod without the annotation ends sooner", PATIENCE, || {
        number += 1;
        let name = format!("good-{number}");
        plane.api().post(&jobs(&namespace), &job(&name, &json!({}))).expect(201);
        becomes(&name, [0, 1, 0]);
        (ran_for_s(plane, &namespace, &name) < SLOW_S_MIN).then_some(())
    });
    assert_eq!(counts(plane, &namespace, "endless"), [1, 0, 0]);

    // A Job's pods go with it.
    let endless = format!("{}/endless?propagationPolicy=Foreground", jobs(&namespace));
    plane.api().delete(&endless).expect(200);
    wait_until("the endless Job is gone", PATIENCE, || {
        (plane.api().get(&format!("{}/endless", jobs(&namespace))).status == 404).then_some(())
    });
}

#[test]
fn the_audit_log_shows_who_created_what() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("audit");
    plane.api().post(&jobs(&namespace), &job("a", &json!({}))).expect(201);
    plane.api().post(&jobs(&namespace), &job("a", &json!({}))).expect(409);

    let judge = plane.judge(&namespace);
    let key = JobKey {
        namespace: namespace.clone(),
        kronjob: "plain".to_owned(),
        period: "20260301T000000Z".to_owned(),
    };
    assert_eq!(judge.created()[&key].len(), 1);
    assert_eq!(judge.refused().iter().map(|refusal| refusal.code).collect::<Vec<_>>(), [409]);

    // A name is free again once its Job is deleted: that is what the judge must not miss.
    plane.api().delete(&format!("{}/a?propagationPolicy=Background", jobs(&namespace))).expect(200);
    wait_until("the Job is gone", PATIENCE, || {
        (plane.api().get(&format!("{}/a", jobs(&namespace))).status == 404).then_some(())
    });
    plane.api().post(&jobs(&namespace), &job("a", &json!({}))).expect(201);
    assert_eq!(plane.judge(&namespace).doubled().len(), 1);
    assert_eq!(audit::calls(&plane.requests(&namespace), ADMIN)["create jobs"], 3);
}

#[test]
fn users_have_the_rights_that_manifests_give_them() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("rights");
    let may = |user: &str| {
        let question = ["auth", "can-i", "create", "configmaps", "--namespace", &namespace];
        let output = plane.kubectl_as(user, &question, "");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!([ADMIN, OPERATOR, NOBODY].map(may), ["yes", "no", "no"]);
    plane.apply(&format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: maps, namespace: {namespace}}}
rules: [{{apiGroups: [''], resources: [configmaps], verbs: [create]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: maps, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: maps}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'kron:operators'}}]
"
    ));
    wait_until("the operator may", PATIENCE, || (may(OPERATOR) == "yes").then_some(()));
    assert_eq!(may(NOBODY), "no");
}

/// A proxy, requests through it, and a namespace.
fn through_a_proxy(name: &str) -> (Proxy<'static>, Api, String) {
    let plane = ControlPlane::shared();
    let proxy = Proxy::start(plane);
    let api = proxy.api(ADMIN);
    (proxy, api, plane.namespace(name))
}

#[test]
fn a_proxy_without_rules_changes_nothing() {
    let (proxy, api, namespace) = through_a_proxy("plain");
    api.post(&jobs(&namespace), &job("a", &json!({}))).expect(201);
    let list = api.get(&jobs(&namespace)).expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(proxy.api(NOBODY).get(&jobs(&namespace)).status, 403, "the token is passed on");
    assert_eq!(proxy.struck(), 0);
}

#[test]
fn a_proxy_answers_in_the_place_of_the_api_server() {
    let (proxy, api, namespace) = through_a_proxy("answer");
    for status in [409, 429, 500, 503] {
        proxy.inject(Matching::JOB_CREATION, Fault::Answer(status), Often::Next(1));
        let answer = api.post(&jobs(&namespace), &job("a", &json!({})));
        assert_eq!((answer.status, &answer.body["code"]), (status, &json!(status)));
        proxy.heal();
    }
    assert_eq!(proxy.struck(), 4);
    assert_eq!(api.get(&jobs(&namespace)).expect(200)["items"], json!([]), "none was created");

    // What does not match is not touched, and a rule is used up.
    proxy.inject(Matching::STATUS, Fault::Answer(500), Often::Always);
    proxy.inject(Matching::JOB_CREATION, Fault::Answer(500), Often::Next(2));
    let statuses: Vec<u16> = ["a", "b", "c"]
        .map(|name| api.post(&jobs(&namespace), &job(name, &json!({}))).status)
        .to_vec();
    assert_eq!(statuses, [500, 500, 201]);
    let labels = json!({ "metadata": { "labels": { "changed": "yes" } } });
    let path = format!("{}/c", jobs(&namespace));
    assert_eq!(api.patch(&path, &labels).expect(200)["metadata"]["labels"]["changed"], "yes");

    proxy.inject(Matching::LEASE, Fault::Answer(503), Often::Always);
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    assert_eq!(api.get(&format!("{leases}/mine")).status, 503);
    assert_eq!(api.get(&leases).status, 200);
}

#[test]
fn a_proxy_says_when_to_come_again() {
    let (proxy, _, _) = through_a_proxy("again");
    proxy.inject(Matching::ALL, Fault::AnswerRetryAfter(429, 7), Often::Always);
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let answer = config.new_agent().get(format!("{}/version", proxy.url())).call().unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "7");
}

#[test]
fn a_proxy_strikes_a_share_of_the_requests() {
    let (proxy, api, _) = through_a_proxy("share");
    proxy.inject(Matching::ALL, Fault::Answer(503), Often::Percent(30));
    let refused = (0..100).filter(|_| api.get("/version").status == 503).count();
    assert_eq!(refused, 30);
}

#[test]
fn a_proxy_drops_requests_before_the_api_server_sees_them() {
    let (proxy, api, namespace) = through_a_proxy("drop");
    proxy.inject(Matching::JOB_CREATION, Fault::Drop, Often::Next(1));
    let object = job("a", &json!({}));
    api.send("POST", &jobs(&namespace), "application/json", Some(&object)).unwrap_err();
    assert_eq!(api.get(&jobs(&namespace)).expect(200)["items"], json!([]));
}

#[test]
fn a_proxy_swallows_the_answer_to_what_was_done() {
    let (proxy, api, namespace) = through_a_proxy("swallow");
    proxy.inject(Matching::JOB_CREATION, Fault::SwallowAnswer, Often::Next(1));
    let object = job("a", &json!({}));
    api.send("POST", &jobs(&namespace), "application/json", Some(&object)).unwrap_err();
    api.get(&format!("{}/a", jobs(&namespace))).expect(200);
    api.post(&jobs(&namespace), &object).expect(409);
}

#[test]
fn a_proxy_delays() {
    const DELAY: Duration = Duration::from_secs(1);
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("delay");
    // When a creation was sent, when the API server received it, and when its answer came.
    let creation = |name: &str, fault: Fault| {
        let proxy = Proxy::start(plane);
        proxy.inject(Matching::JOB_CREATION, fault, Often::Next(1));
        let sent = wall();
        proxy.api(ADMIN).post(&jobs(&namespace), &job(name, &json!({}))).expect(201);
        let answered = wall();
        let requests = plane.requests(&namespace);
        let named = |request: &&audit::Request| request.given["metadata"]["name"] == name;
        let received = requests.iter().find(named).unwrap().received;
        [sent, received, answered].map(|moment| moment.duration_since(sent))
    };
    // Only how late something is at least is looked at, whatever a busy machine adds to it.
    let [_, received, answered] = creation("early", Fault::DelayAnswer(DELAY));
    assert!(answered - received >= SignedDuration::try_from(DELAY).unwrap(), "{received}");
    let [_, received, _] = creation("late", Fault::DelayRequest(DELAY));
    assert!(received >= SignedDuration::try_from(DELAY).unwrap(), "{received}");
}

#[test]
fn a_proxy_holds_requests_until_it_is_told_otherwise() {
    let (proxy, api, namespace) = through_a_proxy("hold");
    proxy.inject(Matching::JOB_CREATION, Fault::HoldRequest, Often::Next(1));
    std::thread::scope(|scope| {
        let created = scope.spawn(|| api.post(&jobs(&namespace), &job("a", &json!({}))));
        wait_until("it is held", PATIENCE, || (proxy.held() == 1).then_some(()));
        // The same name, past the request that is held.
        ControlPlane::shared().api().post(&jobs(&namespace), &job("a", &json!({}))).expect(201);
        proxy.release();
        created.join().unwrap().expect(409);
    });
}

#[test]
fn a_proxy_holds_a_request_as_long_as_its_client_waits() {
    let (proxy, _, namespace) = through_a_proxy("held");
    proxy.inject(Matching::JOB_CREATION, Fault::HoldRequest, Often::Always);
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    let object = job("a", &json!({})).to_string();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        jobs(&namespace),
        object.len()
    );
    client.write_all(format!("{head}{object}").as_bytes()).unwrap();
    wait_until("it is held", PATIENCE, || (proxy.held() == 1).then_some(()));
    drop(client);
    wait_until("it is no longer held", PATIENCE, || (proxy.held() == 0).then_some(()));
    proxy.release();
    // Behind it: what is not held goes through the same proxy.
    let api = proxy.api(ADMIN);
    assert_eq!(api.get(&jobs(&namespace)).expect(200)["items"], json!([]), "it came too late");
}

#[test]
fn a_proxy_holds_answers_to_what_was_done() {
    let (proxy, api, namespace) = through_a_proxy("hold-answer");
    proxy.inject(Matching::JOB_CREATION, Fault::HoldAnswer, Often::Next(1));
    let is_released = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answered = scope.spawn(|| {
            let answer = api.post(&jobs(&namespace), &job("a", &json!({})));
            (answer, is_released.load(Ordering::SeqCst))
        });
        wait_until("the Job is there", PATIENCE, || {
            let job = ControlPlane::shared().api().get(&format!("{}/a", jobs(&namespace)));
            (job.status == 200).then_some(())
        });
        is_released.store(true, Ordering::SeqCst);
        proxy.release();
        let (answer, was_released) = answered.join().unwrap();
        answer.expect(201);
        assert!(was_released, "the answer came before it was released");
    });
}

#[test]
fn a_proxy_cuts_watches() {
    let (proxy, api, namespace) = through_a_proxy("watch");
    std::thread::scope(|scope| {
        let watched = scope.spawn(|| {
            let path = format!("{}?watch=true&timeoutSeconds=3600", jobs(&namespace));
            api.send("GET", &path, "", None)
        });
        wait_until("the watch is open", PATIENCE, || (proxy.open_watches() == 1).then_some(()));
        // An event goes through before the end.
        api.post(&jobs(&namespace), &job("a", &json!({}))).expect(201);
        proxy.cut_watches();
        let cut = watched.join().unwrap().expect_err("the watch ended in the middle");
        assert!(!matches!(cut, ureq::Error::Timeout(_)), "the client gave up itself");
    });
    wait_until("the watch is gone", PATIENCE, || (proxy.open_watches() == 0).then_some(()));
    // A new watch is a new connection, and not cut.
    let path = format!("{}?watch=true&timeoutSeconds=1", jobs(&namespace));
    api.send("GET", &path, "", None).unwrap();
}

#[test]
fn a_private_api_server_comes_back_as_it_was() {
    let plane = ControlPlane::private(Settings::default());
    let namespace = plane.namespace("restart");
    let proxy = Proxy::start(&plane);
    plane.api().post(&jobs(&namespace), &job("a", &json!({}))).expect(201);
    plane.restart_apiserver();
    let through = proxy.api(ADMIN);
    through.get(&format!("{}/a", jobs(&namespace))).expect(200);

    plane.stop_apiserver(Signal::SIGKILL);
    assert!(plane.api().try_get("/readyz").is_none(), "it is gone");
    plane.start_apiserver();
    plane.api().get(&format!("{}/a", jobs(&namespace))).expect(200);
    // The other programs found it again.
    plane.api().post(&jobs(&namespace), &job("b", &json!({}))).expect(201);
    wait_until("a Job succeeds after all that", PATIENCE, || {
        (counts(&plane, &namespace, "b") == [0, 1, 0]).then_some(())
    });
    let judge = plane.judge(&namespace);
    let created: usize = judge.created().values().map(Vec::len).sum();
    assert_eq!(created, 2, "the audit log goes on in the same file");
}

#[test]
fn an_operator_is_found_stopped_resumed_and_ended() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("operator");
    let proxy = Proxy::start(plane);
    let args =
        ["--namespace", &namespace, "--lease-namespace", &namespace, "--lease-duration", "3s"];
    let mut operator = Operator::start(&proxy.kubeconfig(ADMIN), &args);
    operator.await_event("leading", PATIENCE);
    assert_eq!(operator.page("/healthz").map(|(status, _)| status), Some(200));
    wait_until("it goes through the proxy", PATIENCE, || (proxy.open_watches() > 0).then_some(()));

    operator.suspend();
    wait_until("it is stopped", PATIENCE, || is_stopped(operator.id()).then_some(()));
    operator.resume();
    wait_until("it runs", PATIENCE, || (!is_stopped(operator.id())).then_some(()));
    assert!(operator.stop().success(), "{}", operator.log_text());
    assert_eq!(operator.events("stopped").len(), 1);

    let mut operator = Operator::start(&plane.kubeconfig(ADMIN), &args);
    operator.await_event("leading", PATIENCE);
    operator.kill();
    assert_eq!(operator.wait(PATIENCE).signal(), Some(Signal::SIGKILL as i32));
    assert_eq!(operator.events("stopped").len(), 0);
}

#[test]
fn a_process_outlives_the_thread_that_started_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let (mut process, thread) =
        std::thread::spawn(move || (start_sleep(&log), gettid())).join().unwrap();
    let thread = PathBuf::from(format!("/proc/self/task/{thread}"));
    wait_until("the thread is gone", PATIENCE, || (!thread.exists()).then_some(()));
    // The time in which a signal would have ended it; there is nothing else to wait for.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(process.ended(), None);
}

/// A process that does nothing for a long time.
fn start_sleep(log: &Path) -> Process {
    let mut process = Process::start("sleep", Path::new("sleep"), &["1000".to_owned()], log);
    // `setpriv` becomes `sleep`; only then is the signal set that ends it.
    let comm = PathBuf::from(format!("/proc/{}/comm", process.id()));
    process.wait_until("it sleeps", PATIENCE, || (read(&comm) == "sleep\n").then_some(()));
    process
}

#[test]
fn a_killed_test_leaves_no_process_and_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "harness::holds_a_process_and_a_directory", "--ignored", "--nocapture"])
        .env(HELD, directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let held = directory.path().join("held");
    let id = wait_until("a process is held", PATIENCE, || read(&held.join("id")).parse().ok());
    assert!(!has_ended(id));
    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_until("the process is gone", PATIENCE, || has_ended(id).then_some(()));
    wait_until("the directory is gone", PATIENCE, || (!held.exists()).then_some(()));
}

/// The directory in which [`holds_a_process_and_a_directory`] makes one.
const HELD: &str = "KRON_TEST_HELD";

#[test]
#[ignore = "another test starts it and kills it"]
fn holds_a_process_and_a_directory() {
    let parent = PathBuf::from(std::env::var_os(HELD).unwrap());
    let held = parent.join("held");
    std::fs::create_dir(&held).unwrap();
    remove_at_exit(&held);
    let mut process = start_sleep(&held.join("log"));
    // Renamed, so that nobody reads half of it.
    std::fs::write(parent.join("id"), process.id().to_string()).unwrap();
    std::fs::rename(parent.join("id"), held.join("id")).unwrap();
    process.wait(Duration::from_secs(600));
}
