//! The operator against a real control plane, which this starts on loopback.
//!
//! | module | what it is |
//! |---|---|
//! | [`control_plane`] | etcd, kube-apiserver, kube-controller-manager and kwok |
//! | [`operator`] | the operator's binary, its log and its signals |
//! | [`proxy`] | faults between the two |
//! | [`pulse`] | how slow the machine is meanwhile |
//! | [`audit`], [`judge`] | what happened, from the API server's audit log alone |
//! | [`judging`] | the judge notices what is wrong |
//! | [`harness`] | all of the above do what they say |
//! | [`scene`] | what the scenarios share |
//! | [`service`] | control planes for the tests of several processes |
//! | [`outcomes`], [`edits`], [`upkeep`], [`refusals`] | what becomes of periods, definitions and Jobs |
//! | [`specs`] | bad specs, and how `kubectl` sees good ones |
//! | [`calls`] | how many requests a run takes, and in which order |
//! | [`access`], [`pages`] | rights, namespaces, health and metrics |
//! | [`failover`] | leaders that die, and servers that fail |
//!
//! `scripts/test tests` runs these with the tests of all crates, in a process each; see [`service`]
//! for how the processes share control planes. It leaves them out where there is no Go to build a
//! control plane with. `cargo test` for the workspace includes them and needs Go.
//! `cargo test -p kron-operator --test cluster -- --test-threads=16` runs them alone; most of them
//! wait most of the time, hence the threads. `scripts/test points` runs the ignored tests of
//! [`upkeep`] and [`failover`], which take minutes. `KRON_KEEP_CONTROL_PLANE=1` keeps the control
//! plane's logs and prints their directory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod audit;
mod calls;
mod control_plane;
mod edits;
mod failover;
mod harness;
mod judge;
mod judging;
mod operator;
mod outcomes;
mod pages;
mod process;
mod proxy;
mod pulse;
mod refusals;
mod scene;
mod service;
mod specs;
mod upkeep;
