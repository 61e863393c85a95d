"""The operator as a process, with what the kubelet would give it."""

import json
import re
import signal
import socket
import urllib.error
import urllib.request

from checks import check
from plane import PATIENCE_S, launch, wait_until


# What an installation may listen on, and what of it is taken here.
LOOPBACK = {"--listen=0.0.0.0:8080": "127.0.0.1", "--listen=[::]:8080": "[::1]"}


class Operator:
    """A replica of a Deployment; it ends when this is left."""

    def __init__(self, plane, program, pod, namespace, replica):
        self.plane, self.namespace = plane, namespace
        self.pod = f"kron-operator-{replica}"
        self.process, self.address = None, None
        self.name = pod["serviceAccountName"]
        self.account = f"system:serviceaccount:{namespace}:{self.name}"
        token = plane.kubectl("create", "token", self.name, "--namespace", namespace).strip()
        config = plane.kubeconfig(plane.root / f"{self.pod}.json", token)
        self.log = plane.root / f"{self.pod}.log"
        self.log.touch()
        known = {"POD_NAME": self.pod, "POD_NAMESPACE": namespace}
        told = {variable["name"] for variable in pod["containers"][0]["env"]}
        check("the pod is told its name and its namespace", told == set(known), told)
        arguments = []
        for argument in pod["containers"][0]["args"]:
            for key, value in known.items():
                argument = argument.replace(f"$({key})", value)
            # The port of the pod is not ours to take, nor more of the address than loopback.
            # None is lost because the machine is busy, and none is waited for.
            if argument.startswith("--lease-duration="):
                argument = "--lease-duration=300s"
            if argument.startswith("--listen="):
                self.loopback = LOOPBACK[argument]
                argument = f"--listen={self.loopback}:0"
            arguments.append(argument)
        self.arguments = [program, *arguments, f"--kubeconfig={config}"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()

    def start(self):
        self.process = launch(self.arguments, self.log, env={})

    def wait(self, what, happened):
        return wait_until(what, happened, self.process, self.log)

    def await_probes(self, container):
        """The probes of the container, on the address that is logged."""
        def address():
            found = re.search(rf'listening.*?address"?[=:]"?({re.escape(self.loopback)}:[0-9]+)',
                              self.log.read_text())
            return found and found[1]
        address = self.address = self.wait("it says where it listens", address)
        for probe in ("livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            self.wait(f"{path} is fine", lambda path=path: answer(address, path) == 200)
        metrics = answer(address, "/metrics")
        check(f"{self.pod} answers its probes and has metrics", metrics == 200, metrics)

    def page(self):
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=PATIENCE_S) as response:
            return response.read().decode()

    def await_leading(self):
        self.wait("it leads", lambda: (self.holder() or "").startswith(self.pod))
        check(f"{self.pod} holds the lease under the pod's name", True)

    def await_watching(self):
        """A standby that watches the lease; a watch is in the audit log when it has begun."""
        def watching():
            return any(event["verb"] == "watch" and event["objectRef"]["resource"] == "leases"
                       and event["user"]["username"] == self.account
                       for event in self.plane.events() if "objectRef" in event)
        self.wait("it watches the lease", watching)
        leader = self.wait("the lease has a holder", self.holder)
        check(f"{self.pod} stands by", not leader.startswith(self.pod), leader)

    def holder(self):
        path = "/apis/coordination.k8s.io/v1"
        lease = self.plane.try_get(f"{path}/namespaces/{self.namespace}/leases/{self.name}")
        return lease and lease["spec"].get("holderIdentity")

    def await_runs(self, name, namespace):
        """Jobs are made and replaced, recorded, and told as Events."""
        def executed():
            recent = self.status(name, namespace).get("recent", [])
            return len([record for record in recent if record["outcome"] == "executed"]) >= 3
        self.wait(f"three Jobs of {namespace}/{name}", executed)
        check(f"Jobs are made and recorded in {namespace}", True)

        def reasons():
            events = self.plane.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
            found = {event["reason"] for event in events["items"]
                     if event.get("regarding", {}).get("name") == name}
            return {"JobCreated", "JobReplaced"} <= found
        self.wait("Events of Jobs made and replaced", reasons)
        check(f"Events tell of it in {namespace}", True)
        # Between the end of one and the creation of the next there is none. The namespace may have
        # other KronJobs, whose times may come.
        of_this = f"labelSelector=kron.dev%2Fkronjob%3D{name}"
        jobs = self.wait("a Job", lambda: self.plane.request(
            "GET", f"/apis/batch/v1/namespaces/{namespace}/jobs?{of_this}")["items"])
        owners = {json.dumps(job["metadata"].get("ownerReferences", [{}])[0].get("name"))
                  for job in jobs}
        check("every Job belongs to its KronJob", owners == {f'"{name}"'}, owners)

    def await_more_runs(self, name, namespace):
        before = self.status(name, namespace)["lastHandledPeriod"]

        def more():
            status = self.status(name, namespace)
            return (status["last"]["outcome"] == "executed" and status["lastHandledPeriod"] > before
                    and (status.get("next") or {}).get("claimedBy", "").startswith(self.pod))
        self.wait(f"Jobs of {namespace}/{name} after the change of leader", more)
        check(f"{self.pod} makes Jobs in {namespace}", True)

    def status(self, name, namespace):
        path = f"/apis/kron.dev/v1alpha1/namespaces/{namespace}/kronjobs/{name}"
        return self.plane.request("GET", path).get("status") or {}

    def await_ready(self, name, namespace):
        def ready():
            status = self.status(name, namespace)
            conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
            return conditions.get("Ready") == "True" and "chosenTime" in status.get("next", {})
        self.wait(f"{name} is ready and knows when it runs next", ready)
        check(f"{name} is scheduled", True)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=PATIENCE_S)
        check(f"{self.pod} stops when asked", code == 0,
              f"exit code {code}: {self.log.read_text()[-1000:]}")


def has_ipv6():
    """Whether this machine could listen on `[::1]`."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return True
    except OSError:
        return False


def answer(address, path):
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
