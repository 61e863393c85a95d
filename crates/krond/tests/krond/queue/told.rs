//! Webhooks.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};

use hmac::{Hmac, KeyInit as _, Mac as _};
use kron_testkit::waiting::{PATIENCE, eventually};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::queue::site::{Site as _, handler, world};
use crate::queue::web::Receiver;

fn webhook(name: &str, address: std::net::SocketAddr, more: &str) -> String {
    // Long enough for a busy machine. After a crash a delivery that was under way waits for as long
    // and a minute more, which is still less than a test waits.
    format!("[queue.webhook.{name}]\nurl = \"http://{address}/\"\ntimeout = \"60s\"\n{more}\n")
}

#[test]
fn a_webhook_is_told_in_the_apis_words_and_signed() {
    let receiver = Receiver::new(|_| "204 No Content".to_owned());
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "the secret\n").unwrap();
    let more = format!(
        "allow_private = true\non = [\"job.completed\"]\nsecret_file = {:?}",
        secret.path()
    );
    let world = world(&(handler("a", "true") + &webhook("w", receiver.address, &more)));
    let _krond = world.start();
    let id = world.add("a", json!({ "x": 1 }));
    let request = receiver.requests.recv_timeout(PATIENCE).unwrap();
    let told: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(told["event"], "job.completed");
    assert_eq!(told["job"], world.job(&id), "the same as the API's");
    assert_eq!(told["run"], world.run(&id));
    let signature = &request.headers["x-kron-signature"];
    let (time, mac) = signature.split_once(",v1=").unwrap();
    let mut expected = Hmac::<Sha256>::new_from_slice(b"the secret").unwrap();
    expected.update(time.strip_prefix("t=").unwrap().as_bytes());
    expected.update(b".");
    expected.update(request.body.as_bytes());
    let expected: String =
        expected.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(mac, expected);
    eventually("it is delivered", || {
        let deliveries = world.get("/api/v1/webhook-deliveries");
        (deliveries["items"][0]["status"] == "delivered").then_some(())
    });
}

#[test]
fn a_webhook_that_fails_is_told_again_over_a_crash_and_keeps_nobody_waiting() {
    let receiver = Receiver::new(|at| if at == 0 { "500 Oops" } else { "200 OK" }.to_owned());
    // A port that stays taken, and that nothing listens at.
    let silent = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&silent, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let gone = getsockname(&silent).unwrap().try_into().unwrap();
    let on = "allow_private = true\non = [\"job.completed\"]";
    let tables = handler("a", "true")
        + &webhook("good", receiver.address, on)
        + &webhook("gone", gone, on)
        + &webhook("private", receiver.address, "on = [\"job.completed\"]");
    let world = world(&tables);
    let krond = world.start();
    let id = world.add("a", json!({}));
    world.reaches(&id, "completed");
    receiver.requests.recv_timeout(PATIENCE).unwrap();
    let records = eventually("three first tries", || {
        let deliveries =
            world.get("/api/v1/webhook-deliveries")["items"].as_array().unwrap().clone();
        let tried = deliveries.iter().all(|one| !one["log"].as_array().unwrap().is_empty());
        (deliveries.len() == 3 && tried).then_some(deliveries)
    });
    let of = |target: &str| {
        records.iter().find(|one| one["target"] == target).unwrap()["log"][0].clone()
    };
    assert_eq!(of("good")["http_status"], 500);
    assert!(
        of("gone")["error"].as_str().unwrap().to_lowercase().contains("refused"),
        "{records:?}"
    );
    assert!(of("private")["error"].as_str().unwrap().contains("not a public address"));
    krond.kill();
    let krond = world.start();
    let again =
        receiver.requests.recv_timeout(PATIENCE).expect("the second try, after its backoff");
    let told: Value = serde_json::from_str(&again.body).unwrap();
    assert_eq!(told["job"]["job_id"], id.as_str());
    assert_eq!(again.headers["x-kron-attempt"], "2");
    krond.stop();
}
