//! What the scenarios share: a namespace on a control plane, KronJobs in it, and what becomes of
//! them.
//!
//! There are two kinds of scenes. In a [`Scene::shared`] one operator for all tests looks at every
//! namespace, with no rights but those of `deploy/manifests/rbac.yaml`. In a [`Scene::quiet`] there
//! is no operator but those that the test starts for its own namespace, so it decides when one runs.
//!
//! Everything waits for conditions. Where a test shows that something does *not* happen it waits
//! for the clock, and until something that comes later has happened.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use kron_testkit::process::has_ended;
pub(crate) use kron_testkit::waiting::PATIENCE;
use kron_testkit::waiting::now;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::audit::Request;
use crate::control_plane::{ControlPlane, OPERATOR};
use crate::judge::period_label;
use crate::operator::{HOME, Operator};
use crate::process::read;
use crate::service::served;

/// How often a scene looks again. The API server has other things to do.
const LOOK: Duration = Duration::from_millis(100);

/// A namespace, and where it is.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) namespace: String,
}

/// A lease that no operator loses because the machine is busy. No test waits for its end.
const LONG_LEASE: &str = "300s";

/// The operator that looks at all namespaces of the shared control plane.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SharedOperator {
    id: i32,
    log: PathBuf,
}

impl SharedOperator {
    pub(crate) fn of(operator: &Operator) -> SharedOperator {
        SharedOperator { id: operator.id(), log: operator.log_file().to_owned() }
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&self) -> bool {
        !has_ended(self.id)
    }

    /// Everything that it has logged so far.
    pub(crate) fn log_text(&self) -> String {
        read(&self.log)
    }
}

/// The operator that looks at all namespaces of the shared control plane. It is started unless it
/// runs already, in this process or in that of the service.
pub(crate) fn shared_operator() -> &'static SharedOperator {
    static SHARED: OnceLock<(SharedOperator, Operator)> = OnceLock::new();
    if let Some(served) = served() {
        return &served.operator;
    }
    let (operator, _) = SHARED.get_or_init(|| {
        let operator = start_shared_operator(ControlPlane::shared());
        (SharedOperator::of(&operator), operator)
    });
    operator
}

/// Starts the operator that looks at all namespaces, and waits until it leads. It has the options of
/// the manifests, and the age of everyday from which it removes Jobs.
pub(crate) fn start_shared_operator(plane: &ControlPlane) -> Operator {
    let args = ["--lease-namespace", HOME, "--lease-duration", "15s"];
    let log = plane.path("shared-operator.log");
    let mut operator = Operator::start_with_log(&plane.kubeconfig(OPERATOR), &args, log);
    operator.await_event("planned", PATIENCE);
    operator
}

impl Scene {
    /// A namespace that the shared operator looks at.
    pub(crate) fn shared(name: &str) -> Scene {
        shared_operator();
        let plane = ControlPlane::shared();
        Scene { plane, namespace: plane.namespace(name) }
    }

    /// A namespace that nobody looks at yet.
    pub(crate) fn quiet(name: &str) -> Scene {
        let plane = ControlPlane::quiet();
        let namespace = plane.namespace(name);
        // The lease of this scene's operators is in its own namespace.
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": { "name": "lease", "namespace": namespace },
            "rules": [{
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["get", "watch", "update", "create"],
            }],
        });
        let subject = |group: &str| json!({ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group });
        let subjects = ["kron:operators", "kron:nobodies", "kron:lodgers"].map(subject);
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": "lease", "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lease" },
            "subjects": subjects,
        });
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        plane.api().post(&format!("{path}/roles"), &role).expect(201);
        plane.api().post(&format!("{path}/rolebindings"), &binding).expect(201);
        Scene { plane, namespace }
    }

    /// Starts an operator for this namespace alone as a user, and does not wait.
    pub(crate) fn start_operator_as(&self, user: &str) -> Operator {
        self.start(user, "3s", &[])
    }

    /// The same as the usual user and with a long lease: what falls due is judged by one leader.
    pub(crate) fn start_patient_operator(&self) -> Operator {
        self.start(OPERATOR, LONG_LEASE, &[])
    }

    /// The same with more arguments.
    pub(crate) fn start_operator_with(&self, more: &[&str]) -> Operator {
        self.start(OPERATOR, LONG_LEASE, more)
    }

    fn start(&self, user: &str, lease: &str, more: &[&str]) -> Operator {
        let namespace = self.namespace.as_str();
        let mut args = vec![
            "--namespace",
            namespace,
            "--lease-namespace",
            namespace,
            "--lease-duration",
            lease,
        ];
        args.extend_from_slice(more);
        Operator::start(&self.plane.kubeconfig(user), &args)
    }

    fn kronjobs(&self) -> String {
        format!("/apis/kron.dev/v1alpha1/namespaces/{}/kronjobs", self.namespace)
    }

    /// The path of one KronJob.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.kronjobs())
    }

    /// The path of the namespace's Jobs.
    pub(crate) fn jobs_path(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs", self.namespace)
    }

    /// Makes a KronJob.
    #[track_caller]
    pub(crate) fn create(&self, name: &str, spec: &Value) -> Value {
        let path = format!("{}?fieldValidation=Strict", self.kronjobs());
        self.plane.api().post(&path, &kronjob(name, spec)).expect(201)
    }

    /// Changes the spec of a KronJob by a merge patch, and waits until the operator has seen it.
    #[track_caller]
    pub(crate) fn edit(&self, name: &str, spec: &Value) {
        let edited = self.plane.api().patch(&self.path(name), &json!({ "spec": spec })).expect(200);
        let generation = edited["metadata"]["generation"].clone();
        self.await_status(name, "the edit is observed", |status| {
            (status["observedGeneration"] == generation).then_some(())
        });
    }

    /// Makes KronJobs that are due once, in some seconds. All of them exist before that second: on
    /// a machine that is too slow for it they are removed and made again for a later one.
    #[track_caller]
    pub(crate) fn create_before<'a>(
        &self,
        lead_s: i64,
        specs: impl Fn(Timestamp) -> Vec<(&'a str, Value)>,
    ) -> Timestamp {
        let mut lead_s = lead_s;
        loop {
            let due = in_seconds(lead_s);
            let made: Vec<Value> =
                specs(due).iter().map(|(name, spec)| self.create(name, spec)).collect();
            let is_early = |made: &Value| time(&made["metadata"]["creationTimestamp"]) < due;
            if made.iter().all(is_early) {
                return due;
            }
            self.remove_all();
            lead_s *= 2;
        }
    }

    /// Removes all KronJobs, and waits until they are gone with their Jobs.
    #[track_caller]
    pub(crate) fn remove_all(&self) {
        self.plane.api().delete(&self.kronjobs()).expect(200);
        self.await_that("all KronJobs and Jobs are gone", || {
            let gone = |path: &str| {
                let list = self.plane.api().get(path).expect(200);
                list["items"].as_array().is_some_and(Vec::is_empty)
            };
            (gone(&self.kronjobs()) && gone(&self.jobs_path())).then_some(())
        });
    }

    /// A KronJob as it is.
    #[track_caller]
    pub(crate) fn kronjob(&self, name: &str) -> Value {
        self.plane.api().get(&self.path(name)).expect(200)
    }

    /// Waits until something is true of a KronJob's status.
    #[track_caller]
    pub(crate) fn await_status<T>(
        &self,
        name: &str,
        what: &str,
        mut condition: impl FnMut(&Value) -> Option<T>,
    ) -> T {
        let deadline = now() + PATIENCE;
        loop {
            let status = self.kronjob(name)["status"].take();
            if let Some(found) = condition(&status) {
                return found;
            }
            assert!(now() < deadline, "`{name}`: {what}: not within {PATIENCE:?}: {status:#}");
            thread::sleep(LOOK);
        }
    }

    /// Waits until there is a record with this outcome, and gives the newest of them.
    #[track_caller]
    pub(crate) fn await_outcome(&self, name: &str, outcome: &str) -> Value {
        self.await_outcomes(name, outcome, 1).remove(0)
    }

    /// Waits until there are so many records with this outcome, and gives them, newest first.
    #[track_caller]
    pub(crate) fn await_outcomes(&self, name: &str, outcome: &str, count: usize) -> Vec<Value> {
        self.await_status(name, &format!("{count} × `{outcome}`"), |status| {
            let found = records(status, outcome);
            (found.len() >= count).then_some(found)
        })
    }

    /// Waits until a condition has this status, and gives it.
    #[track_caller]
    pub(crate) fn await_condition(&self, name: &str, kind: &str, wanted: &str) -> Value {
        self.await_status(name, &format!("condition `{kind}` is `{wanted}`"), |status| {
            condition(status, kind).filter(|condition| condition["status"] == wanted)
        })
    }

    /// The Events about a KronJob with this reason.
    pub(crate) fn events(&self, name: &str, reason: &str) -> Vec<Value> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace);
        let mut list = self.plane.api().get(&path).expect(200);
        let Value::Array(mut events) = list["items"].take() else { return Vec::new() };
        events.retain(|event| {
            event["regarding"]["kind"] == "KronJob"
                && event["regarding"]["name"] == name
                && event["reason"] == reason
        });
        events
    }

    /// Waits for an Event about a KronJob with this reason.
    #[track_caller]
    pub(crate) fn await_event(&self, name: &str, reason: &str) -> Value {
        self.await_that(&format!("an Event `{reason}` about `{name}`"), || {
            self.events(name, reason).into_iter().next()
        })
    }

    /// Waits until something is true, and looks as seldom as a scene may.
    #[track_caller]
    pub(crate) fn await_that<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(now() < deadline, "{}: {what}: not within {PATIENCE:?}", self.namespace);
            thread::sleep(LOOK);
        }
    }

    /// Lets the pod of a Job end that would run for ever.
    pub(crate) fn end_endless(&self, job: &str) {
        let pods = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let of_job = format!("{pods}?labelSelector=batch.kubernetes.io/job-name%3D{job}");
        let pod = self.await_that("the Job has a pod", || {
            let list = self.plane.api().get(&of_job).expect(200);
            list["items"][0]["metadata"]["name"].as_str().map(str::to_owned)
        });
        let free = json!({ "metadata": { "labels": { "kron.test/forever": null } } });
        self.plane.api().patch(&format!("{pods}/{pod}"), &free).expect(200);
    }

    /// The Jobs of a KronJob that exist, by their periods.
    pub(crate) fn jobs(&self, name: &str) -> Vec<Value> {
        let path = format!("{}?labelSelector=kron.dev/kronjob%3D{name}", self.jobs_path());
        let mut list = self.plane.api().get(&path).expect(200);
        let Value::Array(mut jobs) = list["items"].take() else { return Vec::new() };
        jobs.sort_by_key(|job| text(&job["metadata"]["labels"]["kron.dev/period"]).to_owned());
        jobs
    }

    /// Everything that was asked about this namespace so far, by the audit log.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.plane.requests(&self.namespace)
    }

    /// Everything that the operator asked about this namespace so far.
    pub(crate) fn operator_requests(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.user == OPERATOR);
        requests
    }

    /// Every record of a KronJob with this outcome that was ever stored, oldest first. A status has
    /// only the latest ten.
    pub(crate) fn all_records(&self, name: &str, outcome: &str) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        for request in self.requests().iter().filter(|request| request.succeeded()) {
            if request.resource == "kronjobs/status" && request.given["metadata"]["name"] == name {
                for record in records(&request.given["status"], outcome).into_iter().rev() {
                    if !all.iter().any(|known| known["periodId"] == record["periodId"]) {
                        all.push(record);
                    }
                }
            }
        }
        all
    }

    /// How many Jobs of each period of a KronJob were ever created. It asserts that it is one.
    #[track_caller]
    pub(crate) fn created_once(&self, name: &str) -> BTreeMap<String, Timestamp> {
        let judge = self.plane.judge(&self.namespace);
        assert_eq!(judge.doubled(), [], "a period has at most one Job");
        let ours = judge.created().iter().filter(|(key, _)| key.kronjob == name);
        ours.map(|(key, creations)| (key.period.clone(), creations[0].received)).collect()
    }
}

impl Drop for Scene {
    /// What has been looked at makes no more Jobs: others need the machine.
    fn drop(&mut self) {
        drop(self.plane.api().send("DELETE", &self.kronjobs(), "", None));
    }
}

/// A KronJob with this spec.
pub(crate) fn kronjob(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "kron.dev/v1alpha1",
        "kind": "KronJob",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// A spec with this schedule whose Jobs are done at once. It has a deadline, because a machine that
/// runs tests is busy.
pub(crate) fn spec(schedule: &str) -> Value {
    json!({
        "schedule": schedule,
        "policy": { "deadline": "30s", "concurrency": "allow" },
        "jobTemplate": { "spec": { "backoffLimit": 0, "template": {
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "none" }] },
        } } },
    })
}

/// The same with a merge patch on it.
pub(crate) fn spec_with(schedule: &str, patch: &Value) -> Value {
    let mut spec = spec(schedule);
    merge(&mut spec, patch);
    spec
}

/// A patch that lets Jobs run for ever.
pub(crate) fn endless() -> Value {
    json!({ "jobTemplate": { "spec": { "template": {
        "metadata": { "labels": { "kron.test/forever": "" } },
    } } } })
}

/// A spec whose Jobs run for ever, with this concurrency.
pub(crate) fn endless_spec(schedule: &str, concurrency: &str) -> Value {
    let mut spec = spec_with(schedule, &endless());
    spec["policy"]["concurrency"] = concurrency.into();
    spec
}

pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}

/// The wall clock of the tests, which is the operator's, too.
pub(crate) fn wall() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "tests look at the same clock as the operator")]
    let now = std::time::SystemTime::now();
    Timestamp::try_from(now).unwrap()
}

/// Waits until the clock has passed this moment: there is nothing else to wait for where something
/// must not happen.
pub(crate) fn wait_for_clock(moment: Timestamp) {
    while let Ok(left) = Duration::try_from(moment.duration_since(wall()))
        && !left.is_zero()
    {
        thread::sleep(left);
    }
}

/// A whole second so far from now.
pub(crate) fn in_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second(wall().as_second() + seconds).unwrap()
}

/// A schedule with this second as its only period for a year.
pub(crate) fn once_at(second: Timestamp) -> String {
    second.strftime("%-S %-M %-H %-d %-m *").to_string()
}

/// A schedule that is due only in half a year, at whatever time a test runs.
pub(crate) fn seldom() -> String {
    once_at(in_seconds(183 * 86_400))
}

/// The name of a period's Job, by its own rule.
pub(crate) fn job_name(kronjob: &str, period: Timestamp) -> String {
    format!("{kronjob}-{}", period_label(period).to_lowercase())
}

/// The records with this outcome, newest first.
pub(crate) fn records(status: &Value, outcome: &str) -> Vec<Value> {
    let recent = status["recent"].as_array().into_iter().flatten();
    recent.filter(|record| record["outcome"] == outcome).cloned().collect()
}

/// A condition of a status.
pub(crate) fn condition(status: &Value, kind: &str) -> Option<Value> {
    status["conditions"].as_array()?.iter().find(|known| known["type"] == kind).cloned()
}

#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

#[track_caller]
pub(crate) fn time(value: &Value) -> Timestamp {
    text(value).parse().unwrap()
}
