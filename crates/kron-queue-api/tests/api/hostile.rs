//! Input that means harm, or nothing: each gets an answer below 500 that says why.

use axum::body::Bytes;
use axum::http::Request;
use http_body_util::Full;
use kron_queue::limits::{PARAMS_BYTES_MAX, PARAMS_DEPTH_MAX};
use kron_queue_api::PREFIX;
use kron_queue_api::limits::{BATCH_BYTES_MAX, BODY_BYTES_MAX, BODY_DRAINED_BYTES_MAX};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::World;

fn nested(depth: usize) -> String {
    let inner = (1..depth).fold("{}".to_owned(), |inner, _| format!("{{\"a\":{inner}}}"));
    format!("{{\"job_type\":\"story\",\"params\":{inner}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_cannot_be_read_or_are_not_allowed() {
    let world = World::new().await;
    let rows: Vec<(Vec<u8>, u16, &str)> = vec![
        (b"".to_vec(), 400, "bad-json"),
        (b"{".to_vec(), 400, "bad-json"),
        (b"\0".to_vec(), 400, "bad-json"),
        (b"{\"job_type\":\"\xff\"}".to_vec(), 400, "not-utf-8"),
        (b"{\"job_type\":\"\\ud800\"}".to_vec(), 400, "bad-json"),
        (b"{\"job_type\":\"a\",\"job_type\":\"b\"}".to_vec(), 400, "bad-json"),
        (b"{\"job_type\":\"a\",\"params\":{\"x\":{\"y\":1,\"y\":1}}}".to_vec(), 400, "bad-json"),
        (b"{\"job_type\":\"a\"} x".to_vec(), 400, "bad-json"),
        (b"{\"job_type\":\"a\",\"priority\":1e999}".to_vec(), 400, "bad-json"),
        (
            b"{\"job_type\":\"a\",\"params\":{\"n\":123456789012345678901234567890}}".to_vec(),
            400,
            "number-too-large",
        ),
        (b"{\"job_type\":\"a\",\"priority\":1.5}".to_vec(), 422, "wrong-kind"),
        (b"{\"job_type\":\"a\",\"priority\":18446744073709551615}".to_vec(), 422, "wrong-kind"),
        (b"{\"job_type\":\"a\",\"priority\":9223372036854775807}".to_vec(), 422, "out-of-range"),
        (b"{\"job_type\":\"a\\u0000b\"}".to_vec(), 422, "bad-characters"),
        (b"{\"job_type\":\"\"}".to_vec(), 422, "empty"),
        (b"{\"job_type\":7}".to_vec(), 422, "wrong-kind"),
        (b"{\"job_type\":\"a\",\"params\":[]}".to_vec(), 422, "wrong-kind"),
        (
            b"{\"job_type\":\"a\",\"not_before\":\"10000-01-01T00:00:00Z\"}".to_vec(),
            422,
            "wrong-kind",
        ),
        (
            b"{\"job_type\":\"a\",\"not_before\":\"9999-12-31T23:59:59-23:59\"}".to_vec(),
            422,
            "wrong-kind",
        ),
        (
            b"{\"job_type\":\"a\",\"not_before\":\"0000-01-01T00:00:00Z\"}".to_vec(),
            422,
            "wrong-kind",
        ),
        (b"{\"job_type\":\"a\",\"template_id\":\"7\"}".to_vec(), 422, "wrong-kind"),
        (
            b"{\"job_type\":\"a\",\"template_id\":\"{01900000-0000-7000-8000-000000000000}\"}"
                .to_vec(),
            422,
            "wrong-kind",
        ),
        (b"{}".to_vec(), 422, "missing"),
        (b"[]".to_vec(), 422, "not-an-object"),
        (b"null".to_vec(), 422, "not-an-object"),
        (nested(PARAMS_DEPTH_MAX + 1).into_bytes(), 422, "too-deep"),
        (nested(PARAMS_DEPTH_MAX + 9).into_bytes(), 400, "bad-json"),
        (nested(20_000).into_bytes(), 400, "bad-json"),
        (vec![b'['; BODY_BYTES_MAX], 400, "bad-json"),
    ];
    for (body, status, code) in rows {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let got = world.raw("POST", "/jobs", body).await;
        assert_eq!(got.status, status, "{shown}: {got:?}");
        got.problem(status, code);
    }
    world.raw("POST", "/jobs", nested(PARAMS_DEPTH_MAX)).await.expect(201);
    let dated = json!({"job_type": "a", "not_before": "9999-12-31T23:59:59.999Z"});
    world.post("/jobs", dated).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_too_large_or_of_another_kind() {
    let world = World::new().await;
    let text = "x".repeat(PARAMS_BYTES_MAX);
    let body = json!({"job_type": "story", "params": {"text": text}});
    world.post("/jobs", body).await.problem(422, "too-long");
    world.raw("POST", "/jobs", vec![b' '; BODY_BYTES_MAX + 1]).await.problem(413, "too-large");
    world
        .raw("POST", "/jobs/batch", vec![b' '; BATCH_BYTES_MAX + 1])
        .await
        .problem(413, "too-large");
    for kind in [
        None,
        Some("text/plain"),
        Some("application/json; charset=utf-16"),
        Some("multipart/form-data; boundary=x"),
    ] {
        let mut request = Request::post(format!("{PREFIX}/jobs"));
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let request = request.body(Full::new(Bytes::from("{}"))).unwrap();
        world.send(request).await.problem(415, "not-json");
    }
}

/// Sends bytes as they are and reads the whole answer.
async fn wire(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // The server may close before it has read everything.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_announced_length_is_bounded_too() {
    let world = World::new().await;
    let head = format!(
        "POST {PREFIX}/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    let chunk = vec![b' '; 0x1000];
    for _ in 0..BODY_BYTES_MAX / chunk.len() + 2 {
        bytes.extend_from_slice(b"1000\r\n");
        bytes.extend_from_slice(&chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    let answer = wire(&world, &bytes).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("too-large"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_any_announced_length_is_refused_unread() {
    let world = World::new().await;
    for length in [BODY_DRAINED_BYTES_MAX as u64 + 1, 1 << 40] {
        let head = format!(
            "POST {PREFIX}/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        let answer = wire(&world, head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{length}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_queries_that_mean_nothing() {
    let world = World::new().await;
    for (path, code) in [
        ("/jobs/7", "bad-id"),
        ("/jobs/%00", "bad-id"),
        ("/jobs/%ff", "bad-path"),
        ("/jobs/01900000000070008000000000000000", "bad-id"),
        ("/job-runs/x/log", "bad-id"),
        ("/job-runs/x/artifacts/y", "bad-id"),
        ("/schedules/x/next", "bad-id"),
        ("/jobs?state=done", "unknown-word"),
        ("/jobs?stat=queued", "unknown-query"),
        ("/jobs?limit=0", "out-of-range"),
        ("/jobs?limit=1001", "out-of-range"),
        ("/jobs?limit=99999999999999999999999", "out-of-range"),
        ("/jobs?limit=+5", "out-of-range"),
        ("/jobs?limit=", "out-of-range"),
        ("/jobs?limit=1&limit=2", "query-twice"),
        ("/jobs?group_id=x", "bad-id"),
        ("/jobs?job_type=%ff", "bad-query"),
        ("/jobs?job_type=%4", "bad-query"),
        ("/jobs?job_type=%00", "bad-type"),
        ("/jobs?job_type=", "bad-type"),
        ("/jobs?job_type='%20OR%201=1", "bad-type"),
        ("/job-runs?job_type=a/b", "bad-type"),
        ("/jobs?order=queue&state=queued", "order-and-filter"),
        ("/jobs?order=random", "unknown-word"),
        ("/job-runs?status=completed", "unknown-word"),
        ("/job-groups?limit=101", "out-of-range"),
    ] {
        let got = world.get(path).await;
        assert_eq!(got.status, 400, "{path}: {got:?}");
        got.problem(400, code);
    }
    let near = world.get("/jobs?stat=queued").await.json();
    assert!(near["detail"].as_str().unwrap().contains("`state`"), "{near}");
}
