//! Rights: the operator works with those of `deploy/manifests`, and with those of one namespace it
//! looks at nothing else.

use serde_json::{Value, json};

use crate::control_plane::{LODGER, NOBODY, OPERATOR};
use crate::operator::{HOME, await_rights, rbac_for};
use crate::scene::{Scene, endless_spec, spec};

#[test]
fn the_rights_of_the_manifests_are_enough_and_not_more_than_that() {
    // The shared operator has them and nothing else; see `scene`.
    let scene = Scene::shared("rights");
    scene.create("full", &endless_spec("*/2 * * * * *", "replace"));
    scene.await_outcomes("full", "executed", 2);
    scene.await_event("full", "JobReplaced");
    scene.await_event("full", "JobCreated");
    // Its lists and watches of all namespaces came before this test.
    let calls =
        ["create jobs", "delete jobs", "patch kronjobs/status", "create events", "update leases"];
    scene.await_that("it has asked for everything", || {
        let requests = scene.plane.all_requests();
        // Other scenes have quotas, which are refused with the same code.
        let here = |namespace: &str| [scene.namespace.as_str(), HOME, ""].contains(&namespace);
        let ours = || {
            let ours = requests.iter().filter(|request| request.user == OPERATOR);
            ours.filter(|request| here(&request.namespace))
        };
        ours().for_each(|request| assert_ne!(request.code, 403, "{request:#?}"));
        let is_asked = |call: &&str| {
            ours().any(|request| format!("{} {}", request.verb, request.resource) == **call)
        };
        calls.iter().all(is_asked).then_some(())
    });
    // What a user with these rights must not be able to do.
    let can = |verb: &str, resource: &str| {
        let args = ["auth", "can-i", verb, resource, "-n", scene.namespace.as_str()];
        let review = scene.plane.kubectl_as(OPERATOR, &args, "");
        String::from_utf8(review.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(can("create", "jobs.batch"), "yes");
    assert_eq!(can("get", "secrets"), "no");
    assert_eq!(can("update", "kronjobs.kron.dev"), "no");
    assert_eq!(can("create", "pods"), "no");
}

#[test]
fn an_operator_for_one_namespace_needs_no_rights_elsewhere_and_looks_nowhere_else() {
    let here = Scene::quiet("here");
    let elsewhere = Scene::quiet("elsewhere");
    // The list of rules stays a ClusterRole; without its binding it grants nothing.
    assert!(rbac_for("kron:lodgers").contains("kind: ClusterRole"));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": "kron-operator" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "kron-operator",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "kron:lodgers",
        }],
    });
    let path =
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings", here.namespace);
    here.plane.api().post(&path, &binding).expect(201);
    elsewhere.create("foreign", &spec("* * * * * *"));
    here.create("own", &endless_spec("*/2 * * * * *", "replace"));
    // From here on nothing that it asks for may be refused.
    await_rights(here.plane, LODGER, &here.namespace, &here.namespace);
    let mut operator = here.start_operator_as(LODGER);
    here.await_outcomes("own", "executed", 2);
    here.await_event("own", "JobReplaced");
    assert_eq!(elsewhere.kronjob("foreign")["status"], Value::Null, "nobody looked at it");
    assert!(operator.stop().success());
    let requests = here.plane.requests_of(LODGER);
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(request.namespace, here.namespace, "{request:#?}");
        assert_ne!(request.code, 403, "{request:#?}");
    }
}

#[test]
fn an_operator_without_rights_says_so_and_goes_on_when_it_has_them() {
    let scene = Scene::quiet("rightless");
    scene.create("blocked", &spec("* * * * * *"));
    let mut operator = scene.start_operator_as(NOBODY);
    scene.await_that("it says what it may not do", || {
        operator.log_text().contains("forbidden").then_some(())
    });
    assert_eq!(operator.page("/readyz").unwrap().0, 503, "it has read nothing");
    assert!(operator.events("leading").is_empty(), "who has read nothing does not want to lead");
    assert_eq!(operator.page("/healthz").unwrap().0, 200, "starting it again would not help");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": "late" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "kron-operator",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "kron:nobodies",
        }],
    });
    let path =
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings", scene.namespace);
    scene.plane.api().post(&path, &binding).expect(201);
    scene.await_outcome("blocked", "executed");
    assert_eq!(operator.page("/readyz").unwrap().0, 200);
    assert!(operator.stop().success());
}
