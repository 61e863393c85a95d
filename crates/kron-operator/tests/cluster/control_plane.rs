//! A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, and kwok in the
//! place of a kubelet. `tests/control-plane/build` makes the programs.
//!
//! Two are shared by all tests, each of which takes a namespace of its own; those that stop the API
//! server start a private one. The shared ones belong to a process of their own where there is one
//! (see [`crate::service`]), else to the test's. There is no scheduler (a policy binds every pod to
//! the one node) and no admission of service accounts. Authorization is RBAC: [`ADMIN`] may do
//! everything, the other users what a test's manifests say.
//!
//! Nothing outlives the process that started it: see [`crate::process`].
//! `KRON_KEEP_CONTROL_PLANE=1` keeps the directory with the logs and says where it is.

mod api;
mod start;

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use kron_testkit::files::scratch_named;
use kron_testkit::waiting::PATIENCE;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::TempDir;

pub(crate) use self::api::Api;
pub(crate) use self::start::Site;
use crate::audit::{AuditLog, Request};
use crate::judge::Judge;
use crate::process::{Process, remove_at_exit, wait_until};
use crate::service::served;

/// A user in the group `system:masters`.
pub(crate) const ADMIN: &str = "admin";
/// A user in the group `kron:operators`, with no rights but those a test gives.
pub(crate) const OPERATOR: &str = "operator";
/// A user in no group, with no rights but those a test gives.
pub(crate) const NOBODY: &str = "nobody";
/// A user in the group `kron:lodgers`, for the one test that looks at everything its user asks for.
pub(crate) const LODGER: &str = "lodger";

/// What the name of every control plane's directory begins with.
const PREFIX: &str = "kron-control-plane-";
/// How much one writes at most. It is kept in memory where there is so much: etcd gives up whatever
/// waits for a disk that others write for seven seconds.
const BYTES_MAX: u64 = 2 << 30;

/// What a control plane may differ in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The controllers that run.
    pub(crate) controllers: Vec<String>,
    /// More arguments of kube-controller-manager.
    pub(crate) controller_manager_args: Vec<String>,
    /// More arguments of kube-apiserver.
    pub(crate) apiserver_args: Vec<String>,
}

impl Default for Settings {
    /// Everything a Job needs, without the rival `cronjob-controller`.
    fn default() -> Settings {
        let controllers = [
            "job-controller",
            "garbage-collector-controller",
            "namespace-controller",
            "serviceaccount-controller",
            "ttl-after-finished-controller",
        ];
        Settings {
            controllers: controllers.map(str::to_owned).to_vec(),
            // By default it asks no more than 20 times a second, and so do bursts of Jobs pile up.
            controller_manager_args: ["--kube-api-qps=500", "--kube-api-burst=1000"]
                .map(str::to_owned)
                .to_vec(),
            apiserver_args: Vec::new(),
        }
    }
}

/// A running control plane. When it is dropped, nothing of it is left.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    site: Site,
    api: Api,
    /// What the API server has written down about requests since this process began to look.
    audit_log: AuditLog,
    /// `None` while it is stopped, or when another process runs it.
    apiserver: Mutex<Option<Process>>,
    /// The other programs, for as long as this lives; none when another process runs them.
    others: Vec<Process>,
    /// Its files, removed after everything else is gone; `None` when another removes them.
    _directory: Option<TempDir>,
}

/// A directory that only its owner may look into: the tokens of every user are in it.
fn own_directory() -> TempDir {
    let directory = scratch_named(PREFIX, BYTES_MAX);
    let own = PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(directory.path(), own).unwrap();
    directory
}

impl ControlPlane {
    /// The one that all tests share. Each takes a namespace of its own. The resource is installed,
    /// and the rights of the manifests.
    pub(crate) fn shared() -> &'static ControlPlane {
        static SHARED: OnceLock<ControlPlane> = OnceLock::new();
        SHARED.get_or_init(|| match served() {
            Some(served) => ControlPlane::attached(&served.shared),
            None => ControlPlane::for_all(),
        })
    }

    /// A second one that all tests share, on which no operator runs but those that a test starts
    /// for its own namespace.
    pub(crate) fn quiet() -> &'static ControlPlane {
        static QUIET: OnceLock<ControlPlane> = OnceLock::new();
        QUIET.get_or_init(|| match served() {
            Some(served) => ControlPlane::attached(&served.quiet),
            None => ControlPlane::for_all(),
        })
    }

    /// Starts one that is to be shared, with the resource and the rights of the manifests.
    pub(crate) fn for_all() -> ControlPlane {
        let root = own_directory().keep();
        if !kept() {
            remove_at_exit(&root);
        }
        let plane = ControlPlane::start(Site::new(root, Settings::default()), None);
        crate::operator::install(&plane);
        plane
    }

    /// One that another process runs.
    fn attached(site: &Site) -> ControlPlane {
        ControlPlane {
            site: site.clone(),
            api: site.api_as(ADMIN),
            audit_log: AuditLog::from_now_on(site.audit_log()),
            apiserver: Mutex::new(None),
            others: Vec::new(),
            _directory: None,
        }
    }

    /// One of its own for a test that disturbs it.
    pub(crate) fn private(settings: Settings) -> ControlPlane {
        let directory = own_directory();
        let root = directory.path().to_owned();
        let directory = if kept() {
            drop(directory.keep());
            None
        } else {
            Some(directory)
        };
        ControlPlane::start(Site::new(root, settings), directory)
    }

    fn start(site: Site, directory: Option<TempDir>) -> ControlPlane {
        let etcd = site.start_etcd();
        let (mut apiserver, api) = site.start_first_apiserver();
        start::create_node(&api);
        let mut controller_manager = site.launch_controller_manager();
        let mut kwok = site.launch_kwok();
        start::bind_pods(&mut apiserver, &api, site.minor);
        start::await_node(&mut kwok, &api);
        start::await_controllers(&mut controller_manager, &api);
        ControlPlane {
            audit_log: AuditLog::from_the_start(site.audit_log()),
            site,
            api,
            apiserver: Mutex::new(Some(apiserver)),
            others: vec![controller_manager, kwok, etcd],
            _directory: directory,
        }
    }

    /// Where it is, for another process.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Requests to the API server as [`ADMIN`].
    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// Requests to the API server as another user.
    pub(crate) fn api_as(&self, user: &str) -> Api {
        self.site.api_as(user)
    }

    /// Where the API server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.site.ports.apiserver).into()
    }

    /// The certificates that the API server's is checked against, as PEM.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.path("certs/apiserver.crt")
    }

    /// The requests about a namespace that have been answered before now. The namespace is one that
    /// this process made: what was asked before it began is left out.
    pub(crate) fn requests(&self, namespace: &str) -> Vec<Request> {
        self.settle_audit_log();
        self.audit_log.requests_about(namespace)
    }

    /// The requests of a user that have been answered before now and since this process began.
    pub(crate) fn requests_of(&self, user: &str) -> Vec<Request> {
        self.settle_audit_log();
        self.audit_log.requests_of(user)
    }

    /// All requests that have ever been answered.
    pub(crate) fn all_requests(&self) -> Vec<Request> {
        self.settle_audit_log();
        self.audit_log.all_requests()
    }

    /// The judge of what happened in a namespace before now.
    pub(crate) fn judge(&self, namespace: &str) -> Judge {
        Judge::of(self.requests(namespace))
    }

    /// The configuration with which a user reaches the API server.
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.path(&format!("{user}.kubeconfig"))
    }

    /// The configuration with which a user reaches the API server by way of a plain HTTP address.
    pub(crate) fn kubeconfig_through(&self, address: SocketAddr, user: &str) -> PathBuf {
        let path = self.path(&format!("{user}-{}.kubeconfig", address.port()));
        let cluster = json!({ "server": format!("http://{address}") });
        start::write_kubeconfig(&path, user, &cluster);
        path
    }

    /// A new namespace whose name begins like this. The API server chooses the rest, so that no two
    /// tests have the same, in whatever processes they are.
    pub(crate) fn namespace(&self, name: &str) -> String {
        let metadata = json!({ "generateName": format!("{name}-") });
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        let made = self.api.post("/api/v1/namespaces", &namespace).expect(201);
        made["metadata"]["name"].as_str().unwrap().to_owned()
    }

    /// Runs `kubectl` as [`ADMIN`].
    pub(crate) fn kubectl(&self, args: &[&str]) -> Output {
        self.kubectl_as(ADMIN, args, "")
    }

    /// Runs `kubectl` as a user, with this on its standard input.
    pub(crate) fn kubectl_as(&self, user: &str, args: &[&str], input: &str) -> Output {
        let mut child = Command::new(self.site.programs.join("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig(user))
            .arg("--cache-dir")
            .arg(self.path("kubectl-cache"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that does not read its input may be gone before it is all written.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        child.wait_with_output().unwrap()
    }

    /// Applies manifests as [`ADMIN`], which must work.
    pub(crate) fn apply(&self, manifests: &str) {
        let output = self.kubectl_as(ADMIN, &["apply", "--server-side", "-f", "-"], manifests);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Waits until a user may do something with a resource of a group in a namespace. An API server
    /// learns of roles and bindings in its own time, and refuses until then what they allow.
    pub(crate) fn await_right(&self, user: &str, namespace: &str, right: [&str; 3]) {
        let [verb, group, resource] = right;
        let attributes =
            json!({ "namespace": namespace, "verb": verb, "group": group, "resource": resource });
        // Asked by the administrator, as it is no request of the user's.
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "groups": [start::group_of(user)],
                "resourceAttributes": attributes,
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        wait_until(&format!("`{user}` may {verb} {resource}"), PATIENCE, || {
            let review = self.api.post(path, &question).expect(201);
            (review["status"]["allowed"] == true).then_some(())
        });
    }

    /// Waits until the audit log has everything that was answered before now.
    ///
    /// The API server writes a line when it has sent its answer, so a client may be faster: a last
    /// request is made and its line waited for.
    fn settle_audit_log(&self) {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let marker = format!("/api/v1/namespaces/kron-test-marker-{}-{number}", std::process::id());
        // Another process may have had this number before; its line lies before this place.
        let before = self.audit_log.len();
        self.api.get(&marker).expect(404);
        wait_until("the audit log has the last request", PATIENCE, || {
            self.audit_log.text_from(before).contains(&marker).then_some(())
        });
    }

    /// Ends the API server: with `SIGTERM` in order, with `SIGKILL` without the last lines of the
    /// audit log.
    pub(crate) fn stop_apiserver(&self, signal: Signal) {
        let mut process = self.apiserver.lock().unwrap().take().expect("it runs");
        process.signal(signal);
        process.wait(PATIENCE);
    }

    /// Starts the API server again after [`ControlPlane::stop_apiserver`], with the same address,
    /// certificates and data.
    pub(crate) fn start_apiserver(&self) {
        let mut place = self.apiserver.lock().unwrap();
        assert!(place.is_none(), "the API server runs already");
        let mut process = self.site.launch_apiserver();
        start::await_apiserver(&mut process, &self.api);
        start::await_binding(&mut process, &self.api);
        *place = Some(process);
    }

    /// Ends the API server in order and starts it again.
    pub(crate) fn restart_apiserver(&self) {
        self.stop_apiserver(Signal::SIGTERM);
        self.start_apiserver();
    }

    /// A file of it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.site.root.join(name)
    }
}

impl Drop for ControlPlane {
    /// A test that failed shows what a private control plane said last.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let pods = self.api.try_get("/api/v1/pods").map(|answer| answer.body);
        let mut text = format!("pods: {:#}\n", pods.unwrap_or_default());
        for process in &self.others {
            text.push_str(&process.log_tail());
        }
        #[expect(clippy::print_stderr, reason = "captured with the output of the test")]
        {
            eprintln!("{text}");
        }
    }
}

fn kept() -> bool {
    std::env::var_os("KRON_KEEP_CONTROL_PLANE").is_some()
}
