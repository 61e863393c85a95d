"""The files of `examples/kubernetes/monitoring`: whether what they ask for is there.

An alert on a metric that nobody has never fires, and a path that leads nowhere gives no series; both
look like a quiet cluster. So every name, label and path is looked up where it comes from: in the page
of a running operator, in the definition of the resource, and in the other file.
"""

import pathlib
import re

import charts
from checks import Failure, check

FILES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kubernetes" / "monitoring"
ALERTS, STATE = FILES / "alerts.yaml", FILES / "kube-state-metrics.yaml"
# What every object has, whatever its definition says.
OF_EVERY_OBJECT = {("metadata", "name"), ("metadata", "namespace"), ("metadata", "creationTimestamp")}


def of_definition(plane):
    """Everything that needs the definition of the resource and no operator."""
    definition = plane.get("crd", "kronjobs.kron.dev", "default")["spec"]
    config = charts.read_yaml(plane.bins, STATE)
    [resource] = config["spec"]["resources"]
    [version] = definition["versions"]
    expected = {"group": definition["group"], "version": version["name"],
                "kind": definition["names"]["kind"]}
    check("kube-state-metrics looks at KronJobs", resource["groupVersionKind"] == expected,
          resource["groupVersionKind"])
    schema = version["schema"]["openAPIV3Schema"]
    lost = [path for path in paths(resource) if path not in OF_EVERY_OBJECT and not field(schema, path)]
    check("every field of kube-state-metrics.yaml is in the definition", not lost, lost)
    states = {metric["name"]: metric["each"]["stateSet"] for metric in resource["metrics"]
              if metric["each"]["type"] == "StateSet"}
    outcomes = field(schema, states["kronjob_status_last_outcome"]["path"])["enum"]
    check("kube-state-metrics.yaml knows every outcome",
          states["kronjob_status_last_outcome"]["list"] == outcomes, outcomes)
    offered = {f"{resource['metricNamePrefix']}_{metric['name']}": labels(resource, metric)
               for metric in resource["metrics"]}
    asked = [(name, wanted) for name, wanted in selectors(plane.bins) if name.startswith("kube_")]
    wrong = [(name, wanted) for name, wanted in asked
             if not {key for key, _, _ in wanted} <= offered.get(name, set())]
    check("the alerts ask kube-state-metrics for what it has", asked and not wrong, wrong)
    try:
        plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", ALERTS)
        found = ""
    except Failure as failure:
        found = str(failure)
    check("the alerts are an object of the Prometheus operator", not found, found)


def of_page(bins, page, guide):
    """The names in the alerts and in the guide are names of a page of metrics, labels and all."""
    series = [line for line in page.splitlines() if line and not line.startswith("#")]

    def there(name, wanted):
        equal = [f'{key}="{value}"' for key, sign, value in wanted if sign == "="]
        keys = [f'{key}="' for key, _, _ in wanted]
        return any(re.match(rf"{name}[{{ ]", line) and all(one in line for one in equal + keys)
                   for line in series)
    asked = [(name, wanted) for name, wanted in selectors(bins) if name.startswith("kron_")]
    wrong = [(name, wanted) for name, wanted in asked if not there(name, wanted)]
    check("the alerts ask the operator for what it has", asked and not wrong, wrong)
    named = set(re.findall(r"\bkron_[a-z_]+\b", guide))
    typed = set(re.findall(r"^# TYPE (\S+)", page, re.M))
    check("the guide names the metrics there are", named == typed, named ^ typed)


def selectors(bins):
    """The metrics in the alerts, each with the labels that are asked for: name, sign, value."""
    groups = charts.read_yaml(bins, ALERTS)["spec"]["groups"]
    for rule in [rule for group in groups for rule in group["rules"]]:
        for name, inner in re.findall(r"\b((?:kron|kube)_\w+)(?:{(.*?)})?", rule["expr"]):
            yield name, re.findall(r'(\w+)(=~|!~|!=|=)"(.*?)"', inner)


def labels(resource, metric):
    kind = metric["each"]["type"]
    each = metric["each"][kind[0].lower() + kind[1:]]
    return {*resource["labelsFromPath"], *each.get("labelsFromPath", {}),
            *([each["labelName"]] if "labelName" in each else [])}


def paths(resource):
    """Every path of a field that the configuration names."""
    yield from map(tuple, resource["labelsFromPath"].values())
    for metric in resource["metrics"]:
        kind = metric["each"]["type"]
        each = metric["each"][kind[0].lower() + kind[1:]]
        base = each.get("path", [])
        if base:
            yield tuple(base)
        for inner in [each.get("valueFrom"), *each.get("labelsFromPath", {}).values()]:
            if inner:
                yield (*base, *inner)


def field(schema, path):
    """The schema of a field; of a list, of what is in it."""
    for part in path:
        schema = schema.get("items", schema).get("properties", {}).get(part)
        if schema is None:
            return None
    return schema
