//! How slow the machine is while a test measures time.
//!
//! A promise such as "another leads within the lease and two seconds" holds for a machine that runs
//! what is ready to run. Where a test checks it, a [`Pulse`] beats beside it: a write to the API
//! server, a question of the operator's user, who waits in the API server's queues as the operator
//! does, and a short sleep, over and over. The longest beat is what the machine adds to a request
//! and a timer at that time, some milliseconds when it is idle and seconds when it is not. A bound
//! in seconds plus a few of these is about the operator, and not about what else runs beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kron_testkit::waiting::{eventually, now};
use serde_json::json;

use crate::control_plane::{ControlPlane, OPERATOR};

const PAUSE: Duration = Duration::from_millis(50);
const QUESTIONS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Beats from its start until it is asked for its longest beat.
#[derive(Debug)]
pub(crate) struct Pulse {
    ended: Arc<AtomicBool>,
    beats: JoinHandle<Duration>,
}

impl Pulse {
    /// Begins to write to an object of its own in this namespace.
    pub(crate) fn start(plane: &ControlPlane, namespace: &str) -> Pulse {
        let api = plane.api().clone();
        let operator = plane.api_as(OPERATOR);
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } },
        });
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "pulse-" },
        });
        let made = api.post(&path, &object).expect(201);
        let path = format!("{path}/{}", made["metadata"]["name"].as_str().unwrap());
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let beats = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            let mut count = 0;
            while !end.load(Ordering::Relaxed) {
                let begun = now();
                count += 1;
                // A request that is put off, or that times out, is a part of a long beat.
                let beat = json!({ "data": { "beat": count.to_string() } });
                eventually("a beat", || (api.patch(&path, &beat).status == 200).then_some(()));
                eventually("a beat", || {
                    (operator.post(QUESTIONS, &question).status == 201).then_some(())
                });
                thread::sleep(PAUSE);
                longest = longest.max(begun.elapsed().saturating_sub(PAUSE));
            }
            longest
        });
        Pulse { ended, beats }
    }

    /// Ends it: the longest beat.
    pub(crate) fn longest_beat(self) -> Duration {
        self.ended.store(true, Ordering::Relaxed);
        self.beats.join().unwrap()
    }
}
