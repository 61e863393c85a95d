//! Server-sent events.

use axum::http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kron_queue::{Enqueue, NewJob};
use kron_queue_api::limits::{CHANGES_WAITING_MAX, SUBSCRIBERS_MAX};
use kron_queue_api::{Clock as _, PREFIX};
use kron_testkit::waiting::PATIENCE;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::executor::Machine;
use crate::world::World;

/// A stream that is being read.
struct Stream {
    body: Incoming,
    text: String,
}

impl Stream {
    async fn open(world: &World) -> Stream {
        let stream = TcpStream::connect(world.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request =
            Request::get(format!("{PREFIX}/events")).body(Empty::<axum::body::Bytes>::new());
        let response = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut stream = Stream { body: response.into_body(), text: String::new() };
        stream.until("retry: 2000").await;
        stream
    }

    /// Reads until `what` has been seen.
    async fn until(&mut self, what: &str) {
        let reading = async {
            let mut is_seen = self.text.contains(what);
            while !is_seen {
                let frame = self.body.frame().await.expect("the stream has ended").unwrap();
                let data = frame.into_data().unwrap();
                // Only what is new is searched, and what may have begun before it: a flood comes in
                // many pieces.
                let from = self.text.len().saturating_sub(what.len());
                self.text.push_str(std::str::from_utf8(&data).unwrap());
                let mut places = self.text.as_bytes()[from..].windows(what.len());
                is_seen = places.any(|place| place == what.as_bytes());
            }
        };
        let in_time = timeout(PATIENCE, reading).await;
        in_time.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_in_order() {
    let world = World::new().await;
    let mut stream = Stream::open(&world).await;
    let id = world.add(json!({"job_type": "story"})).await;
    let run = world.claim().await;
    let run_id = run.run.run_id;
    world.finish(run).await;
    stream.until("event: finished").await;
    let expected = [
        format!("event: enqueued\ndata: {{\"change\":\"enqueued\",\"job_id\":\"{id}\"}}\n\n"),
        format!(
            "event: started\ndata: {{\"change\":\"started\",\"job_id\":\"{id}\",\"run_id\":\"{run_id}\"}}\n\n"
        ),
        "event: finished\n".to_owned(),
    ];
    let places: Vec<usize> =
        expected.iter().map(|event| stream.text.find(event).expect(event)).collect();
    assert!(places.is_sorted(), "{}", stream.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_told_and_holds_nobody_up() {
    let world = World::new().await;
    let mut stream = Stream::open(&world).await;
    // Far more than the buffers of the connection and of the stream hold together.
    let queue = world.queue.clone();
    let flood = move || {
        for _ in 0..CHANGES_WAITING_MAX / 1_000 + 60 {
            let jobs = vec![NewJob::of_type("story", json!({})); 1_000];
            queue.call(Enqueue { jobs, now: Machine.now() }).unwrap();
        }
    };
    tokio::task::spawn_blocking(flood).await.unwrap();
    stream.until("event: lagged").await;
    assert!(stream.text.contains("\"missed\":"), "{}", stream.text);
    let last = world.add(json!({"job_type": "story"})).await;
    stream.until(&last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_and_seats_come_back() {
    let world = World::new().await;
    let mut streams = Vec::new();
    for _ in 0..SUBSCRIBERS_MAX {
        streams.push(Stream::open(&world).await);
    }
    // One that is let in would never end.
    let got = timeout(PATIENCE, world.get("/events")).await.expect("one too many");
    assert!(got.headers.contains_key("retry-after"));
    got.problem(429, "too-many-streams");
    drop(streams.pop());
    // The server sees that the reader has gone when it next writes.
    let until_seated = async {
        loop {
            world.add(json!({"job_type": "story"})).await;
            let stream = TcpStream::connect(world.address).await.unwrap();
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let request =
                Request::get(format!("{PREFIX}/events")).body(Empty::<axum::body::Bytes>::new());
            if sender.send_request(request.unwrap()).await.unwrap().status() == 200 {
                break;
            }
        }
    };
    timeout(PATIENCE, until_seated).await.expect("the seat comes back");
}
