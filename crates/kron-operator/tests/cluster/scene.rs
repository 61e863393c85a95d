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
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::audit::{self, Request};
use crate::control_plane::{ControlPlane, OPERATOR};
use crate::judge::{Judge, period_label};
use crate::operator::{Operator, install_crd};
use crate::process::now;

/// How long anything may take on a machine that is busy. The cluster's garbage collector looks every
/// thirty seconds which kinds there are, and backs off from owners of a kind that it does not know.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// How often a scene looks again. The API server has other things to do.
const LOOK: Duration = Duration::from_millis(100);
/// What the operator may do, as users install it.
pub(crate) const RBAC: &str = include_str!("../../../../deploy/manifests/rbac.yaml");
/// Whom the manifests give it to.
const SUBJECT: &str =
    "  - kind: ServiceAccount\n    name: kron-operator\n    namespace: kron-system\n";
/// The namespace of the operator in the manifests.
pub(crate) const HOME: &str = "kron-system";

/// A namespace, and where it is.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) namespace: String,
}

/// The operator that looks at all namespaces of the shared control plane.
pub(crate) fn shared_operator() -> MutexGuard<'static, Operator> {
    static SHARED: OnceLock<Mutex<Operator>> = OnceLock::new();
    let operator = SHARED.get_or_init(|| {
        let plane = ControlPlane::shared();
        prepare(plane);
        let kubeconfig = plane.kubeconfig(OPERATOR);
        let args = ["--lease-namespace", HOME, "--lease-duration", "15s"];
        let mut operator = Operator::start(&kubeconfig, &args);
        operator.await_event("planned", PATIENCE);
        Mutex::new(operator)
    });
    operator.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the resource, and the rights of the manifests for the users in `kron:operators`.
fn prepare(plane: &ControlPlane) {
    install_crd(plane);
    let home = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } });
    plane.api().post("/api/v1/namespaces", &home).expect(201);
    plane.apply(&rbac_for("kron:operators"));
}

/// The manifests' rights, given to a group instead of the service account.
pub(crate) fn rbac_for(group: &str) -> String {
    assert_eq!(RBAC.matches(SUBJECT).count(), 2, "the manifests name the service account twice");
    let subject =
        format!("  - kind: Group\n    apiGroup: rbac.authorization.k8s.io\n    name: {group}\n");
    RBAC.replace(SUBJECT, &subject)
}

impl Scene {
    /// A namespace that the shared operator looks at.
    pub(crate) fn shared(name: &str) -> Scene {
        drop(shared_operator());
        let plane = ControlPlane::shared();
        Scene { plane, namespace: plane.namespace(name) }
    }

    /// A namespace that nobody looks at yet.
    pub(crate) fn quiet(name: &str) -> Scene {
        static PREPARED: OnceLock<()> = OnceLock::new();
        let plane = ControlPlane::quiet();
        PREPARED.get_or_init(|| prepare(plane));
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
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": "lease", "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lease" },
            "subjects": [subject("kron:operators"), subject("kron:nobodies")],
        });
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        plane.api().post(&format!("{path}/roles"), &role).expect(201);
        plane.api().post(&format!("{path}/rolebindings"), &binding).expect(201);
        Scene { plane, namespace }
    }

    /// Starts an operator for this namespace alone, and does not wait.
    pub(crate) fn start_operator(&self) -> Operator {
        self.start_operator_as(OPERATOR)
    }

    /// The same as another user.
    pub(crate) fn start_operator_as(&self, user: &str) -> Operator {
        self.start(user, "3s")
    }

    /// The same with the lease of everyday, for a burst that keeps the machine busy.
    pub(crate) fn start_patient_operator(&self) -> Operator {
        self.start(OPERATOR, "15s")
    }

    fn start(&self, user: &str, lease: &str) -> Operator {
        let namespace = self.namespace.as_str();
        let args =
            ["--namespace", namespace, "--lease-namespace", namespace, "--lease-duration", lease];
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
        self.plane.settle_audit_log();
        let mut requests = audit::requests(&self.plane.audit_log());
        requests.retain(|request| request.namespace == self.namespace);
        requests
    }

    /// Everything that the operator asked about this namespace so far.
    pub(crate) fn operator_requests(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.user == OPERATOR);
        requests
    }

    /// How many Jobs of each period of a KronJob were ever created. It asserts that it is one.
    #[track_caller]
    pub(crate) fn created_once(&self, name: &str) -> BTreeMap<String, Timestamp> {
        self.plane.settle_audit_log();
        let judge = Judge::read(&self.plane.audit_log(), &self.namespace);
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
