//! Jobs that an endpoint handles.

use std::fs;

use kron_testkit::files::read;
use kron_testkit::waiting::PATIENCE;
use serde_json::{Value, json};

use crate::queue::site::{Site as _, world};
use crate::queue::web::Receiver;

#[test]
fn an_endpoints_answer_is_the_end_of_the_run() {
    let receiver = Receiver::new(|at| {
        [
            "200 OK",
            "200 OK\r\nKron-Outcome: skipped",
            "500 Oops",
            "302 Found\r\nLocation: http://127.0.0.1/",
        ][at.min(3)]
        .to_owned()
    });
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "a-secret-of-some-length\n").unwrap();
    let world = world(&format!(
        "[queue.handler.web]\nurl = \"http://{}/work\"\nallow_private = true\nretries = 0\n\
         headers = {{ X-Own = \"yes\" }}\ntoken_file = {:?}\n",
        receiver.address,
        secret.path()
    ));
    let _krond = world.start();
    let done = world.add("web", json!({ "a": 1 }));
    let run = world.reaches(&done, "completed");
    let request = receiver.requests.recv_timeout(PATIENCE).unwrap();
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body["job"]["job_id"], done.as_str());
    assert_eq!(body["job"]["params"], json!({ "a": 1 }));
    assert_eq!(body["run_id"], run["run_id"]);
    assert_eq!(request.headers["x-own"], "yes");
    assert_eq!(request.headers["authorization"], "Bearer a-secret-of-some-length");
    assert_eq!(request.headers["x-kron-job"], done);
    let log = read(&world.state_dir().join(run["log_path"].as_str().unwrap()));
    assert_eq!(log.unwrap(), "the answer");

    let skipped = world.add("web", json!({}));
    world.reaches(&skipped, "skipped");
    let failed = world.add("web", json!({}));
    let run = world.reaches(&failed, "failed");
    assert!(run["error"].as_str().unwrap().contains("500"), "{run}");
    let moved = world.add("web", json!({}));
    let run = world.reaches(&moved, "failed");
    assert!(run["error"].as_str().unwrap().contains("302"), "not followed: {run}");
}

#[test]
fn an_endpoint_on_this_machine_is_refused_unless_it_is_allowed() {
    let receiver = Receiver::new(|_| "200 OK".to_owned());
    let port = receiver.address.port();
    let world =
        world(&format!("[queue.handler.web]\nurl = \"http://localhost:{port}/\"\nretries = 0\n"));
    let _krond = world.start();
    let id = world.add("web", json!({}));
    let run = world.reaches(&id, "failed");
    assert!(run["error"].as_str().unwrap().contains("not a public address"), "{run}");
    assert!(receiver.requests.try_recv().is_err(), "nobody was asked");
}
