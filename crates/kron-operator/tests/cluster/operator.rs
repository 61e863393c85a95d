//! The operator as it really is: the binary, its command line, its log.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use kron_testkit::waiting::PATIENCE;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::control_plane::{ControlPlane, OPERATOR};
use crate::process::{Process, read, wait_until};

/// A running operator. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Operator {
    process: Process,
    log: PathBuf,
    /// Where the log is, unless another owns that place; removed with the operator.
    directory: Option<TempDir>,
}

impl Drop for Operator {
    /// What went wrong may stand in its log, which goes with it.
    #[expect(clippy::print_stderr, reason = "captured with the output of the test")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("kron-operator: {}", self.process.log_tail());
        }
    }
}

impl Operator {
    /// Starts the operator with this configuration and these further arguments of `run`, and does
    /// not wait for anything.
    pub(crate) fn start(kubeconfig: &Path, args: &[&str]) -> Operator {
        let directory = TempDir::with_prefix("kron-operator-").unwrap();
        let log = directory.path().join("log");
        let mut operator = Operator::start_with_log(kubeconfig, args, log);
        operator.directory = Some(directory);
        operator
    }

    /// The same with a log in a directory that another owns.
    pub(crate) fn start_with_log(kubeconfig: &Path, args: &[&str], log: PathBuf) -> Operator {
        let mut all: Vec<String> =
            ["run", "--log-format", "json", "--listen", "127.0.0.1:0"].map(str::to_owned).to_vec();
        all.push("--kubeconfig".to_owned());
        all.push(kubeconfig.display().to_string());
        all.extend(args.iter().map(|&arg| arg.to_owned()));
        let process = Process::start("kron-operator", Path::new(BINARY), &all, &log);
        Operator { process, log, directory: None }
    }

    /// The file that it logs to.
    pub(crate) fn log_file(&self) -> &Path {
        &self.log
    }

    /// The process id.
    pub(crate) fn id(&self) -> i32 {
        self.process.id()
    }

    /// Everything that it has logged so far. Lines that are not JSON are messages for people.
    pub(crate) fn log(&self) -> Vec<Value> {
        read(&self.log)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| Value::from(line)))
            .collect()
    }

    /// Everything that it has logged so far, as it is.
    pub(crate) fn log_text(&self) -> String {
        read(&self.log)
    }

    /// The events of this name so far.
    pub(crate) fn events(&self, event: &str) -> Vec<Value> {
        let mut lines = self.log();
        lines.retain(|line| line["event"] == event);
        lines
    }

    /// Waits for the first event of this name.
    pub(crate) fn await_event(&mut self, event: &str, timeout: Duration) -> Value {
        self.await_events(event, 1, timeout).remove(0)
    }

    /// Waits until there have been so many events of this name.
    pub(crate) fn await_events(
        &mut self,
        event: &str,
        count: usize,
        timeout: Duration,
    ) -> Vec<Value> {
        let log = self.log.clone();
        self.process.wait_until(&format!("{count} × event `{event}`"), timeout, || {
            let text = read(&log);
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let found: Vec<Value> = lines.filter(|line| line["event"] == event).collect();
            (found.len() >= count).then_some(found)
        })
    }

    /// Where it serves health, readiness and metrics.
    pub(crate) fn address(&mut self) -> SocketAddr {
        let listening = self.await_event("listening", PATIENCE);
        listening["address"].as_str().unwrap().parse().unwrap()
    }

    /// A page of it: the status, and the text. `None` where it does not answer.
    pub(crate) fn page(&mut self, path: &str) -> Option<(u16, String)> {
        let url = format!("http://{}{path}", self.address());
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        let mut answer = config.new_agent().get(url).call().ok()?;
        Some((answer.status().as_u16(), answer.body_mut().read_to_string().ok()?))
    }

    /// Kills it: nothing that it would do at its end happens.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it in its tracks until [`Operator::resume`].
    pub(crate) fn suspend(&self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Lets it go on after [`Operator::suspend`].
    pub(crate) fn resume(&self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// Asks it to end, and does not wait.
    pub(crate) fn terminate(&self) {
        self.process.signal(Signal::SIGTERM);
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, timeout: Duration) -> ExitStatus {
        self.process.wait(timeout)
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.terminate();
        self.wait(PATIENCE)
    }
}

const BINARY: &str = env!("CARGO_BIN_EXE_kron-operator");

/// What the operator may do, as users install it.
const RBAC: &str = include_str!("../../../../deploy/manifests/rbac.yaml");
/// The service account that the manifests give it to.
const SUBJECT: &str =
    "  - kind: ServiceAccount\n    name: kron-operator\n    namespace: kron-system\n";
/// The namespace of the operator in the manifests.
pub(crate) const HOME: &str = "kron-system";

/// Installs the resource, and the rights of the manifests for the users in `kron:operators`.
pub(crate) fn install(plane: &ControlPlane) {
    install_crd(plane);
    let home = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } });
    plane.api().post("/api/v1/namespaces", &home).expect(201);
    plane.apply(&rbac_for("kron:operators"));
    await_rights(plane, OPERATOR, "default", HOME);
}

/// Waits until the rights of the manifests are in force, one of each binding: for the KronJobs of a
/// namespace, and for the lease in one.
pub(crate) fn await_rights(plane: &ControlPlane, user: &str, kronjobs: &str, lease: &str) {
    plane.await_right(user, kronjobs, ["create", "batch", "jobs"]);
    plane.await_right(user, lease, ["create", "coordination.k8s.io", "leases"]);
}

/// The manifests' rights, given to a group instead of the service account.
pub(crate) fn rbac_for(group: &str) -> String {
    assert_eq!(RBAC.matches(SUBJECT).count(), 2, "the manifests name the service account twice");
    let subject =
        format!("  - kind: Group\n    apiGroup: rbac.authorization.k8s.io\n    name: {group}\n");
    RBAC.replace(SUBJECT, &subject)
}

/// Installs the resource as `kron-operator crd` prints it, and waits until it is served.
pub(crate) fn install_crd(plane: &ControlPlane) {
    plane.apply(&printed_crd());
    // Asked for here, as `kubectl wait` fails on an object that has no conditions yet.
    wait_until("the resource is served", PATIENCE, || {
        (plane.api().get("/apis/kron.dev/v1alpha1/kronjobs").status == 200).then_some(())
    });
}

/// What `kron-operator crd` prints.
pub(crate) fn printed_crd() -> String {
    let output = Command::new(BINARY).arg("crd").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
