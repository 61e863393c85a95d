//! Operators side by side, each with a proxy and a user of its own, so that the audit log tells
//! which of them sent a request.

use std::thread;
use std::time::Duration;

use kron_testkit::waiting::PATIENCE;
use serde_json::json;

use crate::control_plane::{ControlPlane, NOBODY, OPERATOR};
use crate::operator::Operator;
use crate::process::wait_until;
use crate::proxy::Proxy;

/// The duration of the lease.
pub(super) const LEASE: Duration = Duration::from_secs(3);
const LEASE_ARGUMENT: &str = "3s";
/// Longer than [`PATIENCE`].
const LONG_LEASE_ARGUMENT: &str = "300s";

/// How often long logs are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The users of a pair.
const USERS: [&str; 2] = [OPERATOR, NOBODY];

/// An operator behind a proxy.
pub(super) struct Replica<'a> {
    pub(super) proxy: Proxy<'a>,
    pub(super) operator: Operator,
    /// The user as which it asks. What it claims begins with this name, too.
    pub(super) user: &'static str,
    namespace: String,
    /// The duration of the lease.
    lease: &'static str,
    lives: u32,
}

/// Two replicas that look at one namespace and have a lease there.
pub(super) fn pair<'a>(plane: &'a ControlPlane, namespace: &str) -> [Replica<'a>; 2] {
    allow_everything(plane, namespace);
    USERS.map(|user| Replica::new(plane, user, namespace, LEASE_ARGUMENT))
}

/// The same with a lease that lasts longer than any wait of a test: a replica that leads after
/// another did was given the lease, and has not waited for its end. They start one after the other,
/// because a replica that was second to ask for the lease may not ask again for a while, which is a
/// share of the lease.
pub(super) fn pair_with_long_lease<'a>(
    plane: &'a ControlPlane,
    namespace: &str,
) -> [Replica<'a>; 2] {
    allow_everything(plane, namespace);
    USERS.map(|user| {
        let replica = Replica::new(plane, user, namespace, LONG_LEASE_ARGUMENT);
        wait_until("one of them leads", PATIENCE, || holder(plane, namespace));
        replica
    })
}

fn allow_everything(plane: &ControlPlane, namespace: &str) {
    for user in USERS {
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "RoleBinding",
            "metadata": { "name": user },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
        });
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/rolebindings");
        plane.api().post(&path, &binding).expect(201);
    }
}

fn start(proxy: &Proxy<'_>, user: &str, namespace: &str, lease: &str, lives: u32) -> Operator {
    let identity = format!("{user}-{lives}");
    let args = [
        ["--namespace", namespace],
        ["--lease-namespace", namespace],
        ["--lease-duration", lease],
        ["--identity", &identity],
    ];
    Operator::start(&proxy.kubeconfig(user), args.as_flattened())
}

impl<'a> Replica<'a> {
    fn new(
        plane: &'a ControlPlane,
        user: &'static str,
        namespace: &str,
        lease: &'static str,
    ) -> Replica<'a> {
        let proxy = Proxy::start(plane);
        let operator = start(&proxy, user, namespace, lease, 1);
        Replica { proxy, operator, user, namespace: namespace.to_owned(), lease, lives: 1 }
    }

    /// Begins a new life after the operator ended.
    pub(super) fn restart(&mut self) {
        self.lives += 1;
        self.operator = start(&self.proxy, self.user, &self.namespace, self.lease, self.lives);
    }

    /// How often it has logged an event in this life.
    pub(super) fn count(&self, event: &str) -> usize {
        self.operator.log_text().matches(&format!(r#""event":"{event}""#)).count()
    }
}

/// Which of a pair holds the lease; `None` where nobody does or the API server does not answer.
pub(super) fn leader(plane: &ControlPlane, pair: &[Replica<'_>; 2]) -> Option<usize> {
    let holder = holder(plane, &pair[0].namespace)?;
    // `operator-3_0a1b2c3d`
    let of_this_life = |replica: &Replica<'_>| {
        holder
            .rsplit_once('_')
            .is_some_and(|(name, _)| name == format!("{}-{}", replica.user, replica.lives))
    };
    pair.iter().position(of_this_life)
}

/// The name of the replica that holds the lease, with something random behind it.
fn holder(plane: &ControlPlane, namespace: &str) -> Option<String> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kron-operator");
    let lease = plane.api().try_get(&path)?.body;
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    (!holder.is_empty()).then(|| holder.to_owned())
}

/// Waits until one of a pair holds the lease.
pub(super) fn await_leader(plane: &ControlPlane, pair: &[Replica<'_>; 2]) -> usize {
    wait_until("one of them leads", PATIENCE, || leader(plane, pair))
}

/// Waits until Jobs are made from now on.
pub(super) fn await_starts(pair: &[Replica<'_>; 2]) {
    let before = pair.each_ref().map(|replica| replica.count("started"));
    wait_until("Jobs are made", PATIENCE, || {
        thread::sleep(LOOK);
        let mut now = pair.iter().zip(before);
        now.any(|(replica, before)| replica.count("started") > before).then_some(())
    });
}
