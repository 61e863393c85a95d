"""The chart: linted, compared with the plain manifests, and rendered with many values."""

import copy
import json
import pathlib
import subprocess
import tempfile

from checks import Failure, check

CHART = pathlib.Path(__file__).resolve().parents[1] / "helm" / "kron-operator"

# Stand-ins for the Prometheus operator's resources, which take any spec.
MONITORS = [("PodMonitor", "podmonitors"), ("ServiceMonitor", "servicemonitors"),
            ("PrometheusRule", "prometheusrules")]
# The chart has none of its own; this is the placeholder of the plain manifests.
IMAGE = "kron-operator"
WITH_IMAGE = ("--set", f"image.repository={IMAGE}")

EVERYTHING = {
    "replicas": 5,
    "image": {"repository": "example.com/kron/kron-operator", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "serviceAccount": {"name": "other", "annotations": {"example.com/role": "kron"}},
    "leaseDuration": "30s",
    "logFormat": "json",
    "listen": "[::]:9090",
    "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": 2000},
    "securityContext": {"privileged": False},
    "resources": {"requests": {"cpu": 1, "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
    "podAnnotations": {"example.com/scrape": "true"},
    "podLabels": {"team": "platform"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "control-plane", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}]}}},
    "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "kron-operator"}}}],
    "priorityClassName": "system-cluster-critical",
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "15s"},
    "serviceMonitor": {"enabled": True},
    "flowSchema": {"enabled": True, "nominalConcurrencyShares": 50, "matchingPrecedence": 500},
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
        "egress": [{"ports": [{"port": 443, "protocol": "TCP"}]}]},
}
# Each is accepted by the API server; then the kinds it must have and must not have.
VALUES = {
    "everything": (EVERYTHING, {"PodMonitor", "ServiceMonitor", "FlowSchema", "NetworkPolicy",
                                "PriorityLevelConfiguration", "ClusterRole"}, set()),
    "namespaces": ({"namespaces": ["default", "elsewhere"], "rbac": {"userRoles": False}},
                   {"Role", "RoleBinding"}, {"ClusterRole", "ClusterRoleBinding"}),
    "one replica": ({"replicas": 1}, {"Deployment"}, {"PodDisruptionBudget"}),
    "a digest": ({"image": {"digest": "sha256:" + "0" * 64}}, {"Deployment"}, set()),
    "nothing but the Deployment": (
        {"crds": {"install": False}, "rbac": {"create": False, "userRoles": False},
         "serviceAccount": {"create": False, "name": "mine"},
         "podDisruptionBudget": {"enabled": False}},
        {"Deployment"}, {"CustomResourceDefinition", "ClusterRole", "Role", "ServiceAccount"}),
    "an open network policy": ({"networkPolicy": {"enabled": True}}, {"NetworkPolicy"}, set()),
}
BAD = {
    "an unknown value": {"replica": 2},
    "no replicas": {"replicas": 0},
    "an unknown log format": {"logFormat": "xml"},
    "a lease without a unit": {"leaseDuration": "15"},
    "an address without a port": {"listen": "0.0.0.0"},
    "an IPv6 address without brackets": {"listen": ":::8080"},
    "any port": {"listen": "0.0.0.0:0"},
    "more arguments": {"extraArgs": ["--namespace=default"]},
    "a namespace that is none": {"namespaces": ["No"]},
    "the same namespace twice": {"namespaces": ["a", "a"]},
    "a digest that is none": {"image": {"digest": "latest"}},
    "no service account": {"serviceAccount": {"create": False}},
}


# Names that YAML would take for a number or a truth, were they not quoted.
ODD_RELEASE, ODD_NAMESPACE, ODD_WATCHED = "123", "456", "789"
ODD = {
    **EVERYTHING, "namespaces": [ODD_WATCHED], "fullnameOverride": "true", "nameOverride": "1e3",
    "priorityClassName": "0", "serviceAccount": {"name": "0777"},
}


def helm(bins, *arguments, values=None):
    with tempfile.TemporaryDirectory() as home:
        given = []
        if values is not None:
            file = pathlib.Path(home) / "values.json"
            file.write_text(json.dumps(values))
            given = ["--values", str(file)]
        done = subprocess.run([str(bins["helm"]), *map(str, arguments), *given], text=True,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={"HOME": home, "PATH": "/usr/bin:/bin"})
    if done.returncode:
        raise Failure(done.stderr.strip() + done.stdout.strip())
    return done.stdout


def template(bins, namespace, values=None, release="kron-operator", image=WITH_IMAGE):
    # What `--set` says goes before what is in a file, so a file that names an image is taken alone.
    image = () if (values or {}).get("image", {}).get("repository") else image
    return helm(bins, "template", release, CHART, "--namespace", namespace, *image, values=values)


def refusal(bins, values, **more):
    try:
        template(bins, "kron-system", values, **more)
        return None
    except Failure as failure:
        return str(failure)


def read_yaml(bins, file):
    """A file of YAML that is no object; Helm reads it as values of a chart that prints them."""
    with tempfile.TemporaryDirectory() as chart:
        root = pathlib.Path(chart)
        (root / "templates").mkdir()
        (root / "Chart.yaml").write_text("{apiVersion: v2, name: reader, version: 0.0.0}")
        (root / "templates" / "values.yaml").write_text("{{ toJson .Values }}")
        return json.loads(helm(bins, "template", "reader", root, "--values", file).splitlines()[-1])


def lint(bins):
    for name, (values, _, _) in {"the defaults": ({}, set(), set()), **VALUES}.items():
        try:
            helm(bins, "lint", "--strict", CHART, *WITH_IMAGE, values=values)
            found = ""
        except Failure as failure:
            found = str(failure)
        check(f"helm lint likes {name}", not found, found)


def refuse_bad_values(bins):
    for name, values in BAD.items():
        found = refusal(bins, values)
        check(f"the chart refuses {name}", found is not None, "it was rendered")
    found = refusal(bins, {}, image=())
    check("without an image the chart says where to put its name",
          found and "image.repository says where your image is: docs/operator.md, Installing" in found,
          found or "it was rendered")


def compare(chart, manifests):
    """With its default values the chart is the plain manifests, but for Helm's own marks."""
    chart = {name: unmarked(item) for name, item in chart.items()}
    manifests = {name: unmarked(item) for name, item in manifests.items()
                 if item["kind"] != "Namespace"}
    differing = [name for name in sorted(set(chart) | set(manifests))
                 if chart.get(name) != manifests.get(name)]
    check("the chart is the plain manifests", not differing, differing)


def unmarked(item):
    item = copy.deepcopy(item)
    marks = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version",
             "app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy"}

    def strip(value):
        if isinstance(value, dict):
            stripped = {key: strip(inner) for key, inner in value.items() if key not in marks}
            return {key: inner for key, inner in stripped.items()
                    if not (key in ("labels", "annotations") and inner == {})}
        return [strip(inner) for inner in value] if isinstance(value, list) else value

    item = strip(item)
    if item["kind"] == "Deployment":
        # The chart says what is the default for a tag that is not `latest`.
        container = item["spec"]["template"]["spec"]["containers"][0]
        container.setdefault("imagePullPolicy", "IfNotPresent")
    return item


def apply_many_values(plane):
    for kind, plural in MONITORS:
        plane.apply({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
                     "names": {"kind": kind, "plural": plural},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {
                         "openAPIV3Schema": {"type": "object",
                                             "x-kubernetes-preserve-unknown-fields": True}}}]}})
        plane.await_definition(f"{plural}.monitoring.coreos.com")
    for name, (values, there, absent) in VALUES.items():
        text = template(plane.bins, "kron-system", values, release="second")
        kinds = {kind for kind, _, _ in plane.read_text(text)}
        check(f"{name}: the right kinds", there <= kinds and not absent & kinds, kinds)
        check_accepted(plane, name, text)
    pod = pod_of(plane, VALUES["a digest"][0])
    image = pod["containers"][0]["image"]
    check("a digest takes the place of the tag", image == f"{IMAGE}@sha256:{'0' * 64}", image)
    pod = pod_of(plane, EVERYTHING)
    container = pod["containers"][0]
    check("it listens where it is told", "--listen=[::]:9090" in container["args"], container["args"])
    check("the pod's port is that of the address",
          container["ports"] == [{"name": "http", "containerPort": 9090}], container["ports"])
    expected = {"runAsNonRoot": True, "fsGroup": 2000, "seccompProfile": {"type": "RuntimeDefault"}}
    check("the user and the group can be taken away", pod["securityContext"] == expected,
          pod["securityContext"])
    expected = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]}, "privileged": False}
    check("the container's security context can be added to",
          container["securityContext"] == expected, container["securityContext"])
    as_documented = helm(plane.bins, "template", "kron-operator", CHART, *WITH_IMAGE,
                         "--set", "listen=[::]:8080", "--set",
                         "podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null")
    pod = only_pod(plane.read_text(as_documented))
    check("and as the guide says it with --set",
          "--listen=[::]:8080" in pod["containers"][0]["args"]
          and set(pod["securityContext"]) == {"runAsNonRoot", "seccompProfile"}, pod)


def check_accepted(plane, name, text):
    try:
        plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
        found = ""
    except Failure as failure:
        found = str(failure)
    check(f"{name}: the API server accepts it", not found, found)


def apply_odd_names(plane):
    """Names that look like something else stay names."""
    for namespace in (ODD_NAMESPACE, ODD_WATCHED):
        plane.kubectl("create", "namespace", namespace)
    for name, values in (("with odd names", ODD),
                         ("with odd names and all namespaces", ODD | {"namespaces": []})):
        text = template(plane.bins, ODD_NAMESPACE, values, release=ODD_RELEASE)
        check_accepted(plane, name, text)


def pod_of(plane, values):
    return only_pod(plane.read_text(template(plane.bins, "kron-system", values)))


def only_pod(objects):
    [found] = [item for (kind, _, _), item in objects.items() if kind == "Deployment"]
    return found["spec"]["template"]["spec"]
