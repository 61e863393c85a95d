//! Candidates against an API server that is a few lines long and does as it is told.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use futures_util::stream;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::log::LogFormat;

/// The time of these tests is not the real one, so that a busy machine changes nothing.
const DURATION: Duration = Duration::from_millis(1_500);
/// Long enough for a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Answers,
    /// Takes what is sent, and never answers.
    Hangs,
    /// Carries out what is sent, and never answers.
    LosesAnswers,
    Fails,
}

/// One lease and those who watch it.
#[derive(Clone)]
struct Server {
    state: Arc<Mutex<(Mood, Option<Value>, u64)>>,
    events: broadcast::Sender<String>,
    watches: bool,
}

impl Server {
    fn new(watches: bool) -> Server {
        let state = Arc::new(Mutex::new((Mood::Answers, None, 0)));
        Server { state, events: broadcast::channel(1_000).0, watches }
    }

    fn set(&self, mood: Mood) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = mood;
    }

    fn lease(&self) -> Option<Value> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn holder(&self) -> Option<String> {
        let lease = self.lease()?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }

    fn answer(&self, method: &Method, watch: bool, sent: &[u8]) -> Option<Response<Body>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mood = state.0;
        match mood {
            Mood::Hangs => return None,
            Mood::Fails => return Some(status(500)),
            Mood::Answers | Mood::LosesAnswers => {}
        }
        if watch {
            return Some(if self.watches { self.watch() } else { status(500) });
        }
        let answer = match (method, state.1.as_ref()) {
            (&Method::GET, Some(lease)) => reply(200, lease),
            (&Method::GET | &Method::PUT, None) => status(404),
            (&Method::POST, Some(_)) => status(409),
            (_, before) => {
                let mut lease: Value = serde_json::from_slice(sent).unwrap();
                let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
                if before.is_some_and(|before| version(before) != version(&lease)) {
                    status(409)
                } else {
                    state.2 += 1;
                    lease["metadata"]["resourceVersion"] = state.2.to_string().into();
                    state.1 = Some(lease.clone());
                    let event = json!({ "type": "MODIFIED", "object": lease });
                    let _ = self.events.send(format!("{event}\n"));
                    reply(if method == Method::POST { 201 } else { 200 }, &lease)
                }
            }
        };
        (mood == Mood::Answers).then_some(answer)
    }

    fn watch(&self) -> Response<Body> {
        let events = self.events.subscribe();
        let lines = stream::unfold(events, async |mut events| {
            let line = events.recv().await.ok()?;
            Some((Ok::<_, Infallible>(line), events))
        });
        Response::new(Body::from_stream(lines))
    }
}

fn reply(code: u16, value: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(value.to_string().into_bytes())).unwrap()
}

fn status(code: u16) -> Response<Body> {
    let status = json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no" });
    reply(code, &status)
}

impl tower::Service<Request<kube::client::Body>> for Server {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
            let sent = body.collect_bytes().await.unwrap();
            match server.answer(&parts.method, watch, &sent) {
                Some(answer) => Ok(answer),
                None => future::pending().await,
            }
        })
    }
}

struct Running {
    leadership: Leadership,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

fn run(server: &Server, identity: &str) -> Running {
    let options = LeaseOptions {
        namespace: "kron".to_owned(),
        name: "kron-operator".to_owned(),
        identity: identity.to_owned(),
        duration: DURATION,
    };
    let client = kube::Client::new(server.clone(), "kron");
    let log = Log::new(LogFormat::Text).unwrap();
    let (candidate, leadership) = Candidate::new(client, options, log, Arc::default()).unwrap();
    let (stop, stopped) = watch::channel(false);
    Running { leadership, stop, task: tokio::spawn(candidate.run(stopped)) }
}

impl Running {
    /// Waits until it leads; its claimant.
    async fn leads(&mut self) -> String {
        let until_leading = async {
            loop {
                if let Some(tenure) = self.leadership.tenure() {
                    break tenure.claimant.to_string();
                }
                self.leadership.changed().await;
            }
        };
        timeout(PATIENCE, until_leading).await.expect("it leads")
    }

    async fn stop(self) {
        self.stop.send(true).unwrap();
        timeout(PATIENCE, self.task).await.expect("it stops").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_a_release_is_seen_at_once() {
    let server = Server::new(true);
    let mut first = run(&server, "a");
    assert_eq!(first.leads().await, "a/0");
    let mut second = run(&server, "b");
    // Longer than a tenure without renewals.
    sleep(DURATION).await;
    assert_eq!(first.leads().await, "a/0");
    assert_eq!(second.leadership.tenure(), None);
    let stopped = Instant::now();
    first.stop().await;
    assert_eq!(second.leads().await, "b/1");
    // Sooner than reading alone would see it.
    assert!(stopped.elapsed() < Pace::of(DURATION).retry, "{:?}", stopped.elapsed());
    second.stop().await;
    assert_eq!(server.holder().as_deref(), Some(""));
    assert_eq!(server.lease().unwrap()["spec"]["leaseDurationSeconds"], 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_leads_here_once_the_lease_is_being_given_back() {
    let server = Server::new(true);
    let mut only = run(&server, "a");
    only.leads().await;
    // It is given back, and nothing says so.
    server.set(Mood::LosesAnswers);
    let stopped = Instant::now();
    only.stop.send(true).unwrap();
    timeout(PATIENCE, only.leadership.changed()).await.expect("the tenure ends");
    assert_eq!(only.leadership.tenure(), None);
    assert_eq!(stopped.elapsed(), Duration::ZERO, "before the request");
    only.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_tenure_is_over_when_the_wall_clock_has_run_ahead() {
    let now = Instant::now();
    let leads = |ahead: Duration| {
        let renewed = (now, wall() - ahead);
        let tenure = Tenure { claimant: "a/0".into(), until: now + DURATION, renewed };
        Leadership { tenure: watch::channel(Some(tenure)).1 }.tenure().is_some()
    };
    assert!(leads(AHEAD_MAX));
    assert!(!leads(AHEAD_MAX + Duration::from_millis(1)));
}

#[tokio::test(start_paused = true)]
async fn without_a_watch_the_lease_is_read_and_a_dead_leader_replaced() {
    let server = Server::new(false);
    let mut first = run(&server, "a");
    first.leads().await;
    let mut second = run(&server, "b");
    sleep(DURATION).await;
    assert_eq!(second.leadership.tenure(), None);
    first.task.abort();
    let died = Instant::now();
    assert_eq!(second.leads().await, "b/1");
    assert!(died.elapsed() >= Duration::from_secs(1), "{:?}", died.elapsed());
    assert!(died.elapsed() <= Duration::from_secs(2 + 2), "{:?}", died.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_ends_the_tenure_in_time() {
    for mood in [Mood::Hangs, Mood::LosesAnswers, Mood::Fails] {
        let server = Server::new(true);
        let mut only = run(&server, "a");
        only.leads().await;
        server.set(mood);
        let set = Instant::now();
        let renew_deadline = Pace::of(DURATION).renew_deadline;
        // It is told, and not only found by who asks.
        timeout(PATIENCE, only.leadership.changed()).await.expect("the tenure ends");
        assert_eq!(only.leadership.tenure(), None, "{mood:?}");
        assert!(set.elapsed() < renew_deadline + DURATION / 5, "{mood:?} {:?}", set.elapsed());
        server.set(Mood::Answers);
        // Its own lease is taken back at once, as another tenure.
        assert_eq!(only.leads().await, "a/1", "{mood:?}");
        only.stop().await;
        assert_eq!(server.holder().as_deref(), Some(""), "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_has_taken_is_not_released() {
    let server = Server::new(true);
    let mut only = run(&server, "a");
    only.leads().await;
    let mut lease = server.lease().unwrap();
    lease["spec"]["holderIdentity"] = "thief".into();
    lease["metadata"]["labels"] = json!({ "of": "others" });
    let put = server.answer(&Method::PUT, false, lease.to_string().as_bytes()).unwrap();
    assert!(put.status().is_success());
    only.stop().await;
    assert_eq!(server.holder().as_deref(), Some("thief"));
    // When it is taken over, what others put there stays.
    let mut next = run(&server, "b");
    assert_eq!(next.leads().await, "b/1");
    assert_eq!(server.lease().unwrap()["metadata"]["labels"]["of"], "others");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let refused = |identity: &str, duration| {
        let (namespace, name) = ("kron".to_owned(), "kron-operator".to_owned());
        let options = LeaseOptions { namespace, name, identity: identity.to_owned(), duration };
        let client = kube::Client::new(Server::new(true), "kron");
        let log = Log::new(LogFormat::Text).unwrap();
        Candidate::new(client, options, log, Arc::default()).err()
    };
    for seconds in [0.0, 0.999, 3_600.001] {
        let duration = Duration::from_secs_f64(seconds);
        assert_eq!(refused("a", duration), Some(LeaseError::Duration(duration)));
    }
    assert_eq!(refused("", DURATION), Some(LeaseError::Identity));
    assert_eq!(refused("a", DURATION_MIN), None);
}
