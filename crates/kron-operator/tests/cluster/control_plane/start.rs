//! The start of a control plane: programs, ports, files, arguments, and waiting until each serves.

use std::fs::{create_dir_all, write};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

use kron_testkit::waiting::PATIENCE;
use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use serde_json::{Value, json};

use super::{ADMIN, Api, LODGER, NOBODY, OPERATOR, Settings, kept};
use crate::process::{Process, read};
use serde::{Deserialize, Serialize};

const AUDIT_POLICY: &str = include_str!("../audit.yaml");
const STAGES: &str = include_str!("../stages.yaml");

/// The users and their groups. A user's name is its token, too: it guards nothing.
const USERS: [(&str, &str); 4] = [
    (ADMIN, "system:masters"),
    (OPERATOR, "kron:operators"),
    (NOBODY, "kron:nobodies"),
    (LODGER, "kron:lodgers"),
];

/// The group of a user.
pub(super) fn group_of(user: &str) -> &'static str {
    let known = USERS.iter().find(|(name, _)| *name == user);
    known.unwrap_or_else(|| panic!("`{user}` is no user")).1
}

const AUDIT_LOG: &str = "audit.jsonl";
/// The name of the one node.
const NODE: &str = "node";

/// What is decided before anything is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Site {
    pub(super) programs: PathBuf,
    /// The second number of the Kubernetes version.
    pub(super) minor: u32,
    pub(super) root: PathBuf,
    pub(super) ports: Ports,
    settings: Settings,
}

/// The ports of the programs that others ask.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ports {
    etcd: u16,
    pub(super) apiserver: u16,
}

impl Site {
    pub(super) fn new(root: PathBuf, settings: Settings) -> Site {
        if kept() {
            // Not captured with the output of the test that happens to be the first.
            let line = format!("the control plane's directory is `{}`\n", root.display());
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
        create_dir_all(root.join("certs")).unwrap();
        write(root.join("audit-policy.yaml"), AUDIT_POLICY).unwrap();
        write(root.join("stages.yaml"), STAGES).unwrap();
        let tokens = USERS.map(|(user, group)| format!("{user},{user},{user},\"{group}\"\n"));
        write(root.join("tokens.csv"), tokens.concat()).unwrap();
        let ports = Ports { etcd: reserved_port(), apiserver: reserved_port() };
        let programs = programs();
        let minor = minor(&programs);
        Site { programs, minor, root, ports, settings }
    }

    pub(super) fn start_etcd(&self) -> Process {
        let clients = format!("http://127.0.0.1:{}", self.ports.etcd);
        // It has no peers: the address by which it calls itself is made up.
        let peers = "http://127.0.0.1:2380";
        let args = [
            "--unsafe-no-fsync".to_owned(),
            format!("--data-dir={}", self.root.join("etcd").display()),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            "--socket-reuse-port".to_owned(),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            "--log-level=warn".to_owned(),
        ];
        let mut etcd = self.launch("etcd", &args);
        etcd.wait_until("etcd is healthy", PATIENCE, || {
            let mut answer = ureq::get(format!("{clients}/health")).call().ok()?;
            answer.body_mut().read_to_string().ok()?.contains(r#""health":"true""#).then_some(())
        });
        etcd
    }

    /// The API server that makes the certificates, and how to reach it.
    pub(super) fn start_first_apiserver(&self) -> (Process, Api) {
        let mut apiserver = self.launch_apiserver();
        let certificates = self.root.join("certs/apiserver.crt");
        // The certificates are written before the key, and both before anything is served.
        let key = self.root.join("certs/apiserver.key");
        apiserver.wait_until("there are certificates", PATIENCE, || {
            read(&key).contains("END").then_some(())
        });
        let cluster = json!({
            "server": format!("https://127.0.0.1:{}", self.ports.apiserver),
            "certificate-authority": certificates,
        });
        for (user, _) in USERS {
            let path = self.root.join(format!("{user}.kubeconfig"));
            write_kubeconfig(&path, user, &cluster);
        }
        let api = self.api_as(ADMIN);
        await_apiserver(&mut apiserver, &api);
        (apiserver, api)
    }

    /// Requests to the API server as a user, once it has its certificates.
    pub(super) fn api_as(&self, user: &str) -> Api {
        Api::new(self.ports.apiserver, &read(&self.root.join("certs/apiserver.crt")), user)
    }

    /// Where the API server writes its audit log, one JSON object a line.
    pub(super) fn audit_log(&self) -> PathBuf {
        self.root.join(AUDIT_LOG)
    }

    pub(super) fn launch_apiserver(&self) -> Process {
        let at = |name: &str| self.root.join(name).display().to_string();
        let mut args = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.ports.apiserver),
            "--permit-port-sharing".to_owned(),
            // Nobody asks for the service `kubernetes`: its address is made up.
            "--advertise-address=10.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--cert-dir={}", at("certs")),
            "--service-account-issuer=https://kubernetes.test".to_owned(),
            format!("--service-account-signing-key-file={}", at("certs/apiserver.key")),
            format!("--service-account-key-file={}", at("certs/apiserver.crt")),
            format!("--token-auth-file={}", at("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--allow-privileged=true".to_owned(),
            // Without it, a server that is told to end waits a minute for its watches.
            "--shutdown-watch-termination-grace-period=1s".to_owned(),
            format!("--audit-policy-file={}", at("audit-policy.yaml")),
            format!("--audit-log-path={}", at(AUDIT_LOG)),
            // In megabytes: the judge reads one file.
            "--audit-log-maxsize=100000".to_owned(),
        ];
        if self.minor < MUTATING_POLICY_STABLE {
            let group = format!("admissionregistration.k8s.io/{}", policy_version(self.minor));
            args.push("--feature-gates=MutatingAdmissionPolicy=true".to_owned());
            args.push(format!("--runtime-config={group}=true"));
        }
        args.extend_from_slice(&self.settings.apiserver_args);
        self.launch("kube-apiserver", &args)
    }

    pub(super) fn launch_controller_manager(&self) -> Process {
        let kubeconfig = self.root.join(format!("{ADMIN}.kubeconfig"));
        let mut args = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={}", self.settings.controllers.join(",")),
            "--leader-elect=false".to_owned(),
            "--authentication-skip-lookup=true".to_owned(),
            // No process asks it anything.
            "--secure-port=0".to_owned(),
        ];
        args.extend_from_slice(&self.settings.controller_manager_args);
        self.launch("kube-controller-manager", &args)
    }

    pub(super) fn launch_kwok(&self) -> Process {
        let kubeconfig = self.root.join(format!("{ADMIN}.kubeconfig"));
        let args = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--config={}", self.root.join("stages.yaml").display()),
            "--manage-all-nodes".to_owned(),
            "--node-ip=127.0.0.1".to_owned(),
            // No process asks it anything, and it has no option that says so.
            "--server-address=127.0.0.1:0".to_owned(),
        ];
        self.launch("kwok", &args)
    }

    fn launch(&self, program: &str, args: &[String]) -> Process {
        let log = self.root.join(format!("{program}.log"));
        Process::start(program, &self.programs.join(program), args, &log)
    }
}

/// Waits until the API server says that it is ready.
pub(super) fn await_apiserver(process: &mut Process, api: &Api) {
    process.wait_until("the API server is ready", PATIENCE, || {
        (api.try_get("/readyz")?.status == 200).then_some(())
    });
}

/// Waits until kwok manages the one node.
pub(super) fn await_node(kwok: &mut Process, api: &Api) {
    kwok.wait_until("the node is ready", PATIENCE, || {
        let node = api.get("/api/v1/nodes/node").body;
        let conditions = node["status"]["conditions"].as_array()?;
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True").then_some(())
    });
}

/// Waits until the controllers of kube-controller-manager run: one of them makes the service account
/// `default`. Before that it gives up when the API server is away for ten seconds.
pub(super) fn await_controllers(process: &mut Process, api: &Api) {
    process.wait_until("the controllers run", PATIENCE, || {
        let account = api.get("/api/v1/namespaces/default/serviceaccounts/default");
        (account.status == 200).then_some(())
    });
}

/// Makes the one node.
pub(super) fn create_node(api: &Api) {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } });
    api.post("/api/v1/nodes", &node).expect(201);
}

/// In the place of a scheduler: every pod goes to the one node as it is created.
pub(super) fn bind_pods(apiserver: &mut Process, api: &Api, minor: u32) {
    let version = policy_version(minor);
    let group = format!("admissionregistration.k8s.io/{version}");
    let path = format!("/apis/{group}");
    let policy = json!({
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicy",
        "metadata": { "name": "bind-pods" },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }] },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": format!("Object{{spec: Object.spec{{nodeName: \"{NODE}\"}}}}"),
                },
            }],
        },
    });
    let binding = json!({
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": { "name": "bind-pods" },
        "spec": { "policyName": "bind-pods" },
    });
    api.post(&format!("{path}/mutatingadmissionpolicies"), &policy).expect(201);
    api.post(&format!("{path}/mutatingadmissionpolicybindings"), &binding).expect(201);
    await_binding(apiserver, api);
}

/// Waits until pods are bound, and binds those that came before.
///
/// An API server reads its policies a moment after it is ready, and a pod that a controller creates
/// in that moment would stay without a node for ever.
pub(super) fn await_binding(apiserver: &mut Process, api: &Api) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "probe" },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    });
    apiserver.wait_until("pods are bound", PATIENCE, || {
        let answer = api.post("/api/v1/namespaces/default/pods?dryRun=All", &pod);
        (answer.body["spec"]["nodeName"] == NODE).then_some(())
    });
    let unbound = api.get("/api/v1/pods?fieldSelector=spec.nodeName%3D").expect(200);
    for pod in unbound["items"].as_array().unwrap() {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap();
        let path =
            format!("/api/v1/namespaces/{}/pods/{}/binding", text("namespace"), text("name"));
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": text("name") },
            "target": { "kind": "Node", "name": NODE },
        });
        // It may be bound or deleted meanwhile.
        let status = api.post(&path, &binding).status;
        assert!(matches!(status, 201 | 404 | 409), "{path}: {status}");
    }
}

/// Writes the configuration with which a user reaches a cluster.
pub(super) fn write_kubeconfig(path: &Path, user: &str, cluster: &Value) {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": user } }],
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": user, "user": { "token": user } }],
    });
    // JSON is YAML.
    write(path, config.to_string()).unwrap();
}

/// The first Kubernetes whose mutating policies need not be asked for.
const MUTATING_POLICY_STABLE: u32 = 36;

fn policy_version(minor: u32) -> &'static str {
    match minor {
        MUTATING_POLICY_STABLE.. => "v1",
        34.. => "v1beta1",
        _ => "v1alpha1",
    }
}

/// Where the programs are; they are built first where that has not happened yet.
fn programs() -> PathBuf {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS
        .get_or_init(|| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane/build");
            let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
            assert!(output.status.success(), "there is no control plane: {}", output.status);
            PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
        })
        .clone()
}

/// `Kubernetes v1.37.1` is 37.
fn minor(programs: &Path) -> u32 {
    let output = Command::new(programs.join("kube-apiserver")).arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.unwrap_or_else(|| panic!("`{version}` is no version of Kubernetes"))
}

/// A port of loopback that belongs to this process for as long as it lives.
///
/// The kernel hands it out, and a socket that never listens keeps it: no foreign process can take it
/// before the program that it is for listens there, or while that is started again. The program
/// shares it by `SO_REUSEPORT`, which the kernel permits to processes of the same user.
fn reserved_port() -> u16 {
    static RESERVED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_reuseport(&socket, true).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddrV4::try_from(getsockname(&socket).unwrap()).unwrap();
    RESERVED.lock().unwrap().push(socket);
    address.port()
}

#[test]
fn no_foreign_process_can_take_a_reserved_port() {
    let port = reserved_port();
    let taken = std::net::TcpListener::bind(("127.0.0.1", port));
    assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    assert_ne!(reserved_port(), port);
}
