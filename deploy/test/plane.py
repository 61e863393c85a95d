"""An API server with what it needs, on loopback, and ways to ask it things.

etcd, kube-apiserver and a kube-controller-manager that only collects garbage and aggregates roles. No
node and no pods: what is looked at is what the API server accepts, allows and records. Everything
ends with the process that started it.
"""

import ctypes
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

from checks import Failure

HERE = pathlib.Path(__file__).resolve().parent
CONTROL_PLANE = HERE.parents[1] / "crates" / "kron-operator" / "tests" / "control-plane" / "build"
# After how long a condition that does not hold counts as a hang; it bounds nothing else.
PATIENCE_S = 180
PAUSE_S = 0.05
PR_SET_PDEATHSIG = 1
# By which etcd calls itself; it has no peers that could ask for it.
PEERS = "http://127.0.0.1:2380"

AUDIT = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def programs():
    """The paths of all programs, built if they are not there yet."""
    bins = os.environ.get("KRON_CONTROL_PLANE")
    if not bins:
        built = subprocess.run([CONTROL_PLANE], check=False, text=True, stdout=subprocess.PIPE)
        if built.returncode:
            sys.exit(built.returncode)
        bins = built.stdout.strip()
    found = {name: pathlib.Path(bins) / name
             for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")}
    return found | {"helm": pathlib.Path(os.environ.get("KRON_HELM") or build_helm())}


def build_helm():
    """Helm, as committed in `helm/go.mod` and `helm/go.sum`, built once."""
    module = HERE / "helm"
    key = hashlib.sha256(b"".join((module / name).read_bytes() for name in ("go.mod", "go.sum")))
    cache = pathlib.Path(os.environ.get("KRON_CACHE") or
                         pathlib.Path(os.environ.get("XDG_CACHE_HOME") or
                                      pathlib.Path.home() / ".cache") / "kron")
    finished = cache / f"helm-{key.hexdigest()[:12]}"
    if finished.exists():
        return finished
    if not shutil.which("go"):
        print("error: there is no Go to build Helm with; install Go from https://go.dev/dl",
              file=sys.stderr)
        sys.exit(3)
    print("building helm (about four minutes)", file=sys.stderr)
    cache.mkdir(parents=True, exist_ok=True)
    building = cache / f"helm-building.{os.getpid()}"
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off",
                                "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath"}
    try:
        subprocess.run(["go", "build", "-ldflags", "-s -w", "-o", building,
                        "helm.sh/helm/v4/cmd/helm"], cwd=module, env=environment, check=True)
        building.rename(finished)
    finally:
        building.unlink(missing_ok=True)
    return finished


def launch(arguments, log, **more):
    """A process that is killed when this one ends, however that happens."""
    def before_exec():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with open(log, "ab") as output:
        return subprocess.Popen([str(argument) for argument in arguments], stdout=output,
                                stderr=output, stdin=subprocess.DEVNULL, preexec_fn=before_exec,
                                **more)


def wait_until(what, happened, process=None, log=None):
    """What `happened` returns, once that is something."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = happened()
        if found:
            return found
        if process and process.poll() is not None:
            break
        time.sleep(PAUSE_S)
    tail = pathlib.Path(log).read_text(errors="replace")[-2000:] if log else ""
    raise Failure(f"waited in vain: {what}\n{tail}")


def comes_true(what, happened):
    """Whether something happens, for a check that reports what it finds instead."""
    try:
        return bool(wait_until(what, happened))
    except Failure:
        return False


def is_healthy(store):
    """Whether etcd says that it is."""
    try:
        with urllib.request.urlopen(f"{store}/health", timeout=PATIENCE_S) as answer:
            return json.load(answer)["health"] == "true"
    except OSError:
        return False


# The sockets that keep ports for this process.
reserved = []


def reserved_port():
    """A port of loopback that belongs to this process for as long as it lives. The kernel hands it
    out, and a socket that never listens keeps it: no foreign process can take it before the program
    that it is for listens there. The program shares it by SO_REUSEPORT, which the kernel permits to
    processes of the same user. `tests/cluster/control_plane/start.rs` does the same."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    reserved.append(holder)
    return holder.getsockname()[1]


class ControlPlane:
    """An API server that is there while this is entered."""

    def __init__(self, bins, root):
        self.bins, self.root = bins, root
        self.processes = []

    def __enter__(self):
        try:
            self.start(self.root / "plane")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.processes.clear()

    def start(self, root):
        root.mkdir()
        self.port, etcd = reserved_port(), reserved_port()
        self.audit = root / "audit.jsonl"
        (root / "audit.yaml").write_text(json.dumps(AUDIT))
        (root / "tokens.csv").write_text('admin,admin,admin,"system:masters"\n')
        store = f"http://127.0.0.1:{etcd}"
        store_process = self.begin(root, "etcd", [
            "--unsafe-no-fsync", f"--data-dir={root}/etcd", "--log-level=warn", "--socket-reuse-port",
            f"--listen-client-urls={store}", f"--advertise-client-urls={store}",
            "--listen-peer-urls=http://127.0.0.1:0", f"--initial-advertise-peer-urls={PEERS}",
            f"--initial-cluster=default={PEERS}"])
        wait_until("etcd is healthy", lambda: is_healthy(store), store_process, root / "etcd.log")
        apiserver = self.begin(root, "kube-apiserver", [
            f"--etcd-servers={store}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            "--permit-port-sharing",
            "--advertise-address=10.0.0.1", "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24", f"--cert-dir={root}/certs",
            "--service-account-issuer=https://kubernetes.test",
            f"--service-account-signing-key-file={root}/certs/apiserver.key",
            f"--service-account-key-file={root}/certs/apiserver.crt",
            f"--token-auth-file={root}/tokens.csv", "--authorization-mode=RBAC",
            # The one asks for a token that nobody here makes, the other is what the right to
            # update finalizers is for.
            "--disable-admission-plugins=ServiceAccount",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            f"--audit-policy-file={root}/audit.yaml", f"--audit-log-path={self.audit}"])
        self.certificate = root / "certs" / "apiserver.crt"
        key, log = root / "certs" / "apiserver.key", root / "kube-apiserver.log"
        wait_until("there are certificates", lambda: key.exists() and "END" in key.read_text(),
                   apiserver, log)
        self.config = self.kubeconfig(root / "admin.json", "admin")
        wait_until("the API server is ready", self.is_ready, apiserver, log)
        wait_until("there is the namespace `default`",
                   lambda: self.try_get("/api/v1/namespaces/default"), apiserver, log)
        self.begin(root, "kube-controller-manager", [
            f"--kubeconfig={self.config}", "--leader-elect=false",
            # No process asks it anything.
            "--authentication-skip-lookup=true", "--secure-port=0",
            "--controllers=clusterrole-aggregation-controller,garbage-collector-controller"])

    def begin(self, root, name, arguments):
        process = launch([self.bins[name], *arguments], root / f"{name}.log")
        self.processes.append(process)
        return process

    def kubeconfig(self, path, token):
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": f"https://127.0.0.1:{self.port}",
                "certificate-authority": str(self.certificate)}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}))
        return path

    def is_ready(self):
        try:
            return self.request("GET", "/readyz", text=True) == "ok"
        except (OSError, Failure):
            return False

    def request(self, method, path, body=None, text=False):
        trust = ssl.create_default_context(cafile=self.certificate)
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer admin", "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, context=trust, timeout=PATIENCE_S) as answer:
                content = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise Failure(f"{method} {path}: {error.code} {error.read().decode()}") from error
        return content if text else json.loads(content)

    def try_get(self, path):
        try:
            return self.request("GET", path)
        except Failure:
            return None

    def kubectl(self, *arguments, stdin=None):
        return self.tool("kubectl", arguments, stdin)

    def helm(self, *arguments):
        return self.tool("helm", arguments, None)

    def tool(self, name, arguments, stdin):
        # Nothing of the user's own: no configuration, no caches, no plugins.
        environment = {"KUBECONFIG": str(self.config), "HOME": str(self.root), "PATH": "/usr/bin:/bin"}
        done = subprocess.run([str(self.bins[name]), *map(str, arguments)], input=stdin, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                              check=False)
        if done.returncode:
            raise Failure(f"{name} {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, item):
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(item))

    def trial(self, item):
        """Whether the API server would accept an object, and why not."""
        try:
            return True, self.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(item))
        except Failure as failure:
            return False, str(failure)

    def get(self, kind, name, namespace):
        return json.loads(self.kubectl("get", kind, name, "--namespace", namespace, "-o", "json"))

    def names(self, kind, namespace):
        listed = self.kubectl("get", kind, "--namespace", namespace, "-o", "name")
        return [line.split("/")[1] for line in listed.split()]

    def versions(self, objects):
        """The generations of stored objects; where there is none, the version."""
        found = {}
        for kind, namespace, name in objects:
            metadata = self.get(kind, name, namespace or "default")["metadata"]
            found[kind, namespace, name] = metadata.get("generation", metadata["resourceVersion"])
        return found

    def read(self, *files):
        """The objects in files, by kind, namespace and name."""
        return self.read_text("\n---\n".join(file.read_text() for file in files))

    def render(self, *arguments):
        return self.read_text(self.kubectl(*arguments))

    def read_text(self, text):
        done = self.kubectl("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-",
                            stdin=text)
        decoder, objects, place = json.JSONDecoder(), {}, 0
        while place < len(done):
            item, place = decoder.raw_decode(done, place)
            for one in item["items"] if item["kind"] == "List" else [item]:
                metadata = one["metadata"]
                objects[one["kind"], metadata.get("namespace", ""), metadata["name"]] = one
            while place < len(done) and done[place].isspace():
                place += 1
        return objects

    def await_definition(self, name="kronjobs.kron.dev"):
        # `kubectl wait` fails at once when there are no conditions yet.
        def established():
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            conditions = self.request("GET", path).get("status", {}).get("conditions") or []
            return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
        wait_until(f"the definition of {name} is established", established)

    def events(self):
        """What the audit log has so far."""
        lines = self.audit.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def flows(self):
        """The flow schemas that requests have matched so far, with their priority levels."""
        text = self.request("GET", "/metrics", text=True)
        lines = re.findall(r"^apiserver_flowcontrol_dispatched_requests_total{(.*)} [1-9]", text, re.M)
        labels = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]
        return {(label["flow_schema"], label["priority_level"]) for label in labels}
