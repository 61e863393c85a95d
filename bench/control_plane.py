"""A Kubernetes control plane on loopback for measuring: etcd, the API server, who uses it, and what it wrote down.

The only witness is the API server's audit log. Every program is started through `setpriv --pdeathsig KILL` in a session
of its own, so that nothing outlives the script, and everything it writes is below one directory that goes with it.

The users are those of a real cluster, because the API server queues requests by user: the operator is a service
account, kube-controller-manager has its own name. Only the script itself is an administrator.
"""
import calendar
import collections
import ctypes
import functools
import http.client
import json
import multiprocessing
import os
import signal
import socket
import ssl
import subprocess
import sys
import time

from measuring import ROOT, progress

PATIENCE = 60
# A connection that was not used for so long is opened anew.
REST_MAX_S = 5
# Connections that create objects at the same time.
CREATORS = 8
PAGE = 500
SERVICE_ACCOUNTS = "system:serviceaccounts,system:serviceaccounts:kron-system"
ADMIN = "admin"
MANAGER = "manager"
# Every token, whom it stands for, and the groups. A token guards nothing here.
USERS = {
    ADMIN: ("admin", "system:masters"),
    MANAGER: ("system:kube-controller-manager", ""),
    "a": ("system:serviceaccount:kron-system:kron-operator-a", SERVICE_ACCOUNTS),
    "b": ("system:serviceaccount:kron-system:kron-operator-b", SERVICE_ACCOUNTS),
}
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "None", "nonResourceURLs": ["/readyz*", "/healthz*", "/openapi*"]}, {"level": "Metadata"}],
}
KRONJOBS = "/apis/kron.dev/v1alpha1/namespaces/{}/kronjobs"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
CRONJOBS = "/apis/batch/v1/namespaces/{}/cronjobs"

Call = collections.namedtuple("Call", "user verb what name code received at")


class Failed(Exception):
    """Something of the control plane or a contestant does not do what it must."""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait(what, holds, seconds=PATIENCE, pause=0.05, alive=()):
    """Waits until `holds()` gives something, and gives that."""
    until = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        for program in alive:
            if program.process.poll() is not None:
                raise Failed(f"{program.name} ended while waiting until {what}: {program.tail()}")
        if time.monotonic() > until:
            raise Failed(f"not within {seconds:.0f} s: {what}; " + "; ".join(program.tail() for program in alive))
        time.sleep(pause)


class Program:
    """A running program. Whoever starts it ends it."""

    def __init__(self, name, directory, *command):
        self.name = name
        self.log = os.path.join(directory, name + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *command], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)

    def send(self, number):
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def end(self, number=signal.SIGTERM):
        self.send(number)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self.process.wait()

    def tail(self):
        with open(self.log, "rb") as file:
            file.seek(max(0, os.path.getsize(self.log) - 1500))
            return f"{self.name}: {file.read().decode(errors='replace')}"

    def cpu_s(self):
        """Processor time so far."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self):
        """The most memory it had resident."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


class Plane:
    """etcd and an API server, empty but for the resource KronJob; until it is left."""

    def __init__(self, programs, operator, directory):
        self.programs, self.operator, self.directory = programs, operator, directory
        self.running = []

    def __enter__(self):
        # Even a script that is killed leaves no files: whoever holds the other end of the pipe is gone then.
        sweep = 'read -r _; sleep 1; rm -rf -- "$1"'
        self.sweeper = subprocess.Popen(["sh", "-c", sweep, "sweep", self.directory], stdin=subprocess.PIPE,
                                        start_new_session=True)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # The latest first: nobody loses the API server before it is told to end.
        for program in reversed(self.running):
            program.end(signal.SIGKILL if program.name in ("etcd", "kube-apiserver") else signal.SIGTERM)
        self.running.clear()
        self.sweeper.kill()
        self.sweeper.wait()
        self.sweeper.stdin.close()

    def at(self, name):
        return os.path.join(self.directory, name)

    def launch(self, name, *arguments, program=None, log=None):
        started = Program(log or name, self.directory, program or os.path.join(self.programs, name), *arguments)
        self.running.append(started)
        return started

    def start(self):
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.port = free_port()
        with open(self.at("audit-policy.yaml"), "w") as file:
            json.dump(AUDIT_POLICY, file)
        with open(self.at("tokens.csv"), "w") as file:
            for token, (user, groups) in USERS.items():
                file.write(f'{token},{user},{token},"{groups}"\n' if groups else f"{token},{user},{token}\n")
        self.launch("etcd", "--unsafe-no-fsync", f"--data-dir={self.at('etcd')}", f"--listen-client-urls={clients}",
                    f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}",
                    f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}", "--log-level=warn",
                    f"--quota-backend-bytes={8 << 30}")
        key = self.at("certs/apiserver.key")
        certificates = self.at("certs/apiserver.crt")
        server = self.launch(
            "kube-apiserver", f"--etcd-servers={clients}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            "--advertise-address=10.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
            f"--cert-dir={self.at('certs')}", "--service-account-issuer=https://kubernetes.test",
            f"--service-account-signing-key-file={key}", f"--service-account-key-file={certificates}",
            f"--token-auth-file={self.at('tokens.csv')}", "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount", "--allow-privileged=true",
            f"--audit-policy-file={self.at('audit-policy.yaml')}", f"--audit-log-path={self.at('audit.jsonl')}",
            "--audit-log-maxsize=100000")
        wait("there are certificates", lambda: os.path.exists(key) and "END" in open(key).read(), alive=[server])
        for token in USERS:
            self.write_kubeconfig(token, certificates)
        self.tls = ssl.create_default_context(cafile=certificates)
        self.connection, self.used = None, 0
        wait("the API server is ready", self.is_ready, alive=[server])
        subjects = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
                    for token, (user, _) in USERS.items() if token != ADMIN]
        self.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "bench"}, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}})
        for namespace in ("bench", "kron-system"):
            self.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        definition = subprocess.run([self.operator, "crd"], check=True, stdout=subprocess.PIPE).stdout
        self.kubectl("apply", "--server-side", "-f", "-", input=definition)
        wait("KronJobs are served", lambda: self.request("GET", KRONJOBS.format("bench"))[0] == 200, alive=[server])
        self.audit = Audit(self.at("audit.jsonl"))

    def write_kubeconfig(self, token, certificates):
        with open(self.at(token + ".kubeconfig"), "w") as file:
            json.dump({
                "apiVersion": "v1", "kind": "Config", "current-context": "bench",
                "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": token}}],
                "clusters": [{"name": "bench", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                           "certificate-authority": certificates}}],
                "users": [{"name": token, "user": {"token": token}}]}, file)

    def is_ready(self):
        try:
            return self.request("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            self.connection = None
            return False

    def kubectl(self, *arguments, **options):
        done = subprocess.run([os.path.join(self.programs, "kubectl"), "--kubeconfig", self.at("admin.kubeconfig"),
                               "--cache-dir", self.at("kubectl-cache"), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE, **options)
        if done.returncode != 0:
            raise Failed(f"`kubectl {arguments[0]}`: {done.stderr.decode(errors='replace')[-1000:]}")

    # ---- requests of the script

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=PATIENCE)

    def request(self, method, path, body=None):
        # The server hangs up on whoever is silent for long.
        if self.connection is None or time.monotonic() - self.used > REST_MAX_S:
            self.connection = self.connect()
        self.used = time.monotonic()
        return exchange(self.connection, method, path, body and json.dumps(body))

    def call(self, method, path, body=None):
        code, answer = self.request(method, path, body)
        if not 200 <= code < 300:
            raise Failed(f"{method} {path}: {code} {answer[:500]}")
        return json.loads(answer)

    def objects(self, path):
        """Everything of a kind, page by page."""
        more = ""
        while True:
            page = self.call("GET", f"{path}?limit={PAGE}" + (f"&continue={more}" if more else ""))
            yield from page["items"]
            more = page["metadata"].get("continue")
            if not more:
                return

    def create(self, path, count, body):
        """Creates `body(number)` for each number below `count`, over several connections; how long it took."""
        began = time.monotonic()
        context = multiprocessing.get_context("fork")
        some = lambda first: (path, range(first, count, CREATORS), body, os.getpid())
        workers = [context.Process(target=self.create_some, args=some(first), daemon=True) for first in range(CREATORS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if any(worker.exitcode for worker in workers):
            raise Failed(f"{path}: not all could be created")
        return time.monotonic() - began

    def create_some(self, path, numbers, body, parent):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        connection = self.connect()
        for number in numbers:
            code, answer = exchange(connection, "POST", path, json.dumps(body(number)))
            if code != 201:
                print(f"POST {path}: {code} {answer[:500]}", file=sys.stderr)
                os._exit(1)
        # Not by way of what the script does at its own end.
        os._exit(0)

    # ---- contestants

    def start_operator(self, token="a", *arguments):
        operator = Operator(self, token, arguments)
        self.running.append(operator)
        return operator

    def start_manager(self, *arguments):
        port = free_port()
        os.makedirs(self.at("manager-certs"), exist_ok=True)
        manager = self.launch(
            "kube-controller-manager", f"--kubeconfig={self.at(MANAGER + '.kubeconfig')}",
            "--controllers=cronjob-controller", "--leader-elect=false", "--authentication-skip-lookup=true",
            "--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={self.at('manager-certs')}", *arguments)
        wait("kube-controller-manager listens", lambda: listens(port), alive=[manager])
        return manager

    def end(self, program, number=signal.SIGTERM):
        program.end(number)
        self.running.remove(program)

    def settle(self):
        """Waits until the audit log has everything that was answered before now."""
        marker = f"marker-{time.time_ns()}"
        self.request("GET", f"/api/v1/namespaces/{marker}")
        seen = len(self.audit.calls)

        def told():
            nonlocal seen
            calls = self.audit.read()
            found = any(call.name == marker for call in calls[seen:])
            seen = len(calls)
            return found
        wait("the audit log is written", told)


def listens(port):
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


def exchange(connection, method, path, body):
    headers = {"Authorization": f"Bearer {ADMIN}", "Accept": "application/json"}
    if body:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, body and body.encode(), headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


class Operator(Program):
    """A running operator, and the events of its log."""

    def __init__(self, plane, token, arguments):
        name = f"kron-operator-{token}-{time.monotonic_ns():x}"
        self.user = USERS[token][0]
        self.token, self.arguments = token, arguments
        self.events, self.rest, self.offset = [], b"", 0
        self.began = time.time()
        super().__init__(name, plane.directory, plane.operator, "run", "--log-format", "json",
                         "--listen", "127.0.0.1:0", "--kubeconfig", plane.at(token + ".kubeconfig"),
                         "--lease-namespace", "kron-system", "--identity", token, *arguments)

    def told(self, event):
        """The events of this name so far."""
        with open(self.log, "rb") as file:
            file.seek(self.offset)
            new = file.read()
        self.offset += len(new)
        *lines, self.rest = (self.rest + new).split(b"\n")
        for line in lines:
            # Of each run there are two lines, and nobody waits for those.
            if b'"event":"decision"' in line or b'"event":"started"' in line:
                continue
            try:
                self.events.append(json.loads(line))
            except ValueError:
                progress(f"{self.name}: {line.decode(errors='replace')}")
        return [told for told in self.events if told.get("event") == event]

    def expect(self, event, seconds=PATIENCE, pause=0.02):
        return wait(f"{self.name} tells `{event}`", lambda: self.told(event), seconds, pause, alive=[self])[0]

    def complaints(self):
        """What it told that is not as it should be, by kind."""
        self.told("")
        kinds = collections.Counter()
        for told in self.events:
            if told.get("level") != "info":
                kinds[f"{told.get('event')} {told.get('operation', '')}".strip()] += 1
        return dict(kinds)


class Audit:
    """What the API server wrote down, read as it grows."""

    def __init__(self, path):
        self.path, self.offset, self.rest, self.calls = path, 0, b"", []

    def read(self):
        """Every request that was answered so far, in the order of the answers."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            while new := file.read(1 << 24):
                self.offset += len(new)
                *lines, self.rest = (self.rest + new).split(b"\n")
                self.calls.extend(map(call_of, lines))
        return self.calls

    def made(self, path_kind="jobs"):
        """The Jobs that were made."""
        return [call for call in self.calls if call.verb == "create" and call.what == path_kind and call.code == 201]


def call_of(line):
    told = json.loads(line)
    about = told.get("objectRef", {})
    what = about.get("resource", "")
    if "subresource" in about:
        what += "/" + about["subresource"]
    code = told.get("responseStatus", {}).get("code")
    return Call(told["user"]["username"], told["verb"], what, about.get("name", ""), code,
                seconds_of(told["requestReceivedTimestamp"]), seconds_of(told["stageTimestamp"]))


def seconds_of(text):
    """`2026-03-01T00:00:00.000000Z` in seconds since 1970."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return whole_second(whole) + float("0." + (fraction or "0"))


@functools.lru_cache(maxsize=1024)
def whole_second(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def control_plane_programs():
    build = os.path.join(ROOT, "crates", "kron-operator", "tests", "control-plane", "build")
    done = subprocess.run([build], text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"error: there is no control plane: `{build}` ended with {done.returncode}")
    return done.stdout.strip()
