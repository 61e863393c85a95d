"""What the service account and the users of a namespace may do, as the API server says it."""

import itertools

from checks import check
from plane import comes_true, wait_until

SYSTEM = "kron-system"
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
LEASE_VERBS = {"get", "watch", "update", "create"}
# (group, resource, subresource) and the verbs that are allowed where KronJobs are run. All other
# verbs on these are forbidden, and every verb on what is not here.
ALLOWED = {
    ("kron.dev", "kronjobs", ""): {"get", "list", "watch"},
    ("kron.dev", "kronjobs", "status"): {"patch"},
    ("kron.dev", "kronjobs", "finalizers"): {"update"},
    ("batch", "jobs", ""): {"get", "list", "watch", "create", "delete"},
    ("events.k8s.io", "events", ""): {"create"},
}
FORBIDDEN = [
    ("", "secrets", ""), ("", "configmaps", ""), ("", "pods", ""), ("", "pods", "exec"),
    ("", "serviceaccounts", ""), ("", "serviceaccounts", "token"), ("", "events", ""),
    ("batch", "cronjobs", ""), ("batch", "jobs", "status"), ("apps", "deployments", ""),
    ("rbac.authorization.k8s.io", "roles", ""), ("rbac.authorization.k8s.io", "clusterroles", ""),
    ("coordination.k8s.io", "leases", ""),
    ("apiextensions.k8s.io", "customresourcedefinitions", ""),
]
# Rights that a short run need not use: reading one object again after a conflict, and what is asked
# for when a Job names its owner, which is no request of its own.
SELDOM = {("kronjobs", "get"), ("jobs", "get"), ("kronjobs/finalizers", "update")}


def may(plane, user, verb, what, namespace, name="", groups=()):
    group, resource, subresource = what
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource,
                  "namespace": namespace, "name": name}
    answer = plane.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes}})
    return answer["status"]["allowed"]


def of_operator(plane, everywhere, nowhere, account="kron-operator"):
    """The whole table, in namespaces where KronJobs are run and in some where they are not."""
    user = f"system:serviceaccount:{SYSTEM}:{account}"
    lease = ("coordination.k8s.io", "leases", "")

    # An API server learns of roles and bindings in its own time. What is missing for good is named
    # below.
    def in_force():
        return (all(may(plane, user, verb, what, namespace) for namespace in everywhere
                    for what, verbs in ALLOWED.items() for verb in verbs)
                and all(may(plane, user, verb, lease, SYSTEM, account) for verb in LEASE_VERBS))
    comes_true("the operator's rights are in force", in_force)
    wrong = []
    for namespace, what, verb in itertools.product(
            everywhere + nowhere, [*ALLOWED, *FORBIDDEN], VERBS):
        expected = namespace in everywhere and verb in ALLOWED.get(what, ())
        # The lease has rules of its own, below.
        if (what[1], namespace, verb) == ("leases", SYSTEM, "create"):
            continue
        if may(plane, user, verb, what, namespace) != expected:
            wrong.append((namespace, "/".join(what), verb, "allowed" if not expected else "refused"))
    places = f"in {', '.join(everywhere)}" + (f", nothing in {', '.join(nowhere)}" if nowhere else "")
    check(f"the operator may do what it has to and nothing else {places}", not wrong, wrong)
    verbs = {verb for verb in VERBS if may(plane, user, verb, lease, SYSTEM, account)}
    check("it may use its own lease", verbs == LEASE_VERBS, verbs)
    others = {verb for verb in VERBS if may(plane, user, verb, lease, SYSTEM, "another")}
    check("it may use no other lease", others == {"create"}, others)
    nodes = [verb for verb in VERBS if may(plane, user, verb, ("", "nodes", ""), "")]
    check("it may do nothing with the cluster's own objects", not nodes, nodes)


def of_users(plane):
    """The aggregated roles reach those who have `view` and `edit`."""
    for role in ("view", "edit"):
        plane.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er",
                      "--namespace=default")
    kronjobs = ("kron.dev", "kronjobs", "")
    status = ("kron.dev", "kronjobs", "status")
    # What may be viewed reaches `edit` by way of `view`, and so later than what may be edited.
    wait_until("the roles are aggregated", lambda: may(plane, "viewer", "list", kronjobs, "default")
               and may(plane, "editer", "create", kronjobs, "default")
               and may(plane, "editer", "get", status, "default"))
    reading = {"get", "list", "watch"}
    verbs = {verb for verb in VERBS if may(plane, "viewer", verb, kronjobs, "default")}
    check("who may view may read KronJobs", verbs == reading, verbs)
    verbs = {verb for verb in VERBS if may(plane, "editer", verb, kronjobs, "default")}
    check("who may edit may edit KronJobs", verbs == set(VERBS), verbs)
    verbs = {verb for verb in VERBS if may(plane, "editer", verb, status, "default")}
    check("who may edit may not write what the operator remembers", verbs == reading, verbs)
    check("nobody gets anything in another namespace",
          not may(plane, "editer", "list", kronjobs, "elsewhere"), "list kronjobs")


def used(plane, user, objects):
    """Nothing was refused to the operator, and no right is there that it does not use."""
    mine = [event for event in plane.events() if event["user"]["username"] == user]
    refused = {(event["verb"], event["requestURI"]) for event in mine
               if event.get("responseStatus", {}).get("code") in (401, 403)}
    check("the operator was refused nothing", mine and not refused, refused or "no requests")
    exercised = set()
    for event in mine:
        what = event.get("objectRef", {})
        parts = [what.get("resource", ""), what.get("subresource", "")]
        exercised.add(("/".join(part for part in parts if part), event["verb"]))
    granted = set()
    for (kind, _, name), item in objects.items():
        if kind in ("Role", "ClusterRole") and name not in ("kron-view", "kron-edit"):
            for rule in item["rules"]:
                granted |= set(itertools.product(rule["resources"], rule["verbs"]))
    idle = granted - exercised - SELDOM
    check("it used every right it has", not idle, sorted(idle))
    print(f"        seldom used and not this time: {sorted(granted & SELDOM - exercised)}")
