//! Hooks, told by commands and by web requests.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use kron_testkit::files::read;
use kron_testkit::krond::{Krond, World};
use kron_testkit::waiting::eventually;
use serde_json::Value;

use crate::daemon::SELDOM;
use crate::new_world;

/// A job that fails at this schedule, and a hook that is notified of it.
fn failing(schedule: &str, hook: &str) -> String {
    format!(
        r#"
        [job.sad]
        schedule = "{schedule}"
        command = "exit 3"
        shell = true

        [hook.pager]
        on = ["failed"]
        {hook}
        "#
    )
}

/// A command that keeps what it reads, and then exits as told.
fn keeper(code: &str) -> String {
    format!(
        "command = [\"/bin/sh\", \"-c\", \"cat > {{dir}}/told.$KRON_DELIVERY_ID.$$; env >> {{dir}}/env; {code}\"]"
    )
}

fn told(world: &World) -> Vec<Value> {
    let entries = std::fs::read_dir(world.witness("")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let told =
        paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("told."));
    told.filter_map(|path| serde_json::from_str(&read(&path)?).ok()).collect()
}

#[test]
fn a_command_reads_what_happened() {
    let world = new_world("");
    let mut krond = world.start();
    let nominal = world.due_soon("sad", |schedule| {
        failing(&format!("{schedule} @policy(deadline=1h)"), &keeper("exit 0"))
    });
    let finished = krond.wait_for("finished");
    let notified = krond.wait_for("notified");
    assert_eq!((&notified["identity"], &notified["hook"]), (&"sad".into(), &"pager".into()));
    let told = told(&world);
    assert_eq!(told.len(), 1, "{told:?}");
    let told = &told[0];
    assert_eq!(told["event"], "failed", "{told}");
    assert_eq!(told["identity"], "sad");
    assert_eq!(told["period_id"], nominal.as_str());
    assert_eq!((&told["outcome"], &told["exit_code"]), (&"executed".into(), &3.into()));
    assert_eq!(told["run_id"], finished["run_id"]);
    assert_eq!(told["delivery_id"], notified["delivery_id"]);
    let env = read(&world.witness("env")).unwrap();
    assert!(env.contains("KRON_EVENT=failed") && !env.contains("CARGO"), "{env}");
    eventually("nothing is left to tell", || {
        world.document("sad")["Deliveries"].is_null().then_some(())
    });
    krond.stop();
    assert!(world.run_records().is_empty(), "hooks leave no records");
}

#[test]
fn what_was_not_told_is_told_by_the_next_daemon() {
    let world = new_world(&failing(SELDOM, &keeper("exit 1")));
    let mut krond = world.start();
    world.run_now("sad");
    let failed = krond.wait_for("notification_failed");
    // At once: it would be tried again after a while.
    krond.kill();
    assert!(failed["message"].as_str().unwrap().contains("exited with 1"), "{failed}");
    assert_eq!(world.document("sad")["Deliveries"][0]["Hook"], "pager");
    let mut krond = world.start();
    krond.wait_for("notification_failed");
    krond.kill();
    let told = told(&world);
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], told[1], "under the same id");
}

/// Answers so many requests with these lines and hands on what it was sent.
fn server(answers: &'static [&'static str]) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            loop {
                let length = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..length]);
                let text = String::from_utf8_lossy(&request).into_owned();
                if length == 0 || text.ends_with('}') {
                    sender.send(text).unwrap();
                    break;
                }
            }
            let _ = stream
                .write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    (url, requests)
}

#[test]
fn a_web_request_carries_what_happened_and_is_repeated() {
    // The next daemon repeats it at once.
    is_repeated(|world, krond| {
        let said = krond.stop();
        (said, world.start())
    });
}

#[test]
#[ignore = "full: waits until the daemon repeats it, ten seconds"]
fn a_web_request_is_repeated_by_the_same_daemon() {
    is_repeated(|_, krond| (Vec::new(), krond));
}

/// A web request fails, and is repeated after `meanwhile`, which returns the log of the daemon that
/// it has stopped and the daemon that goes on.
fn is_repeated(meanwhile: impl FnOnce(&World, Krond) -> (Vec<String>, Krond)) {
    let (url, requests) = server(&["500 Oops", "204 No Content"]);
    let world = new_world(&failing(
        SELDOM,
        &format!(
            "url = \"{url}\"\nheaders = {{ X-Team = \"ops\" }}\ntoken_file = \"{{dir}}/token\"\n"
        ),
    ));
    std::fs::write(world.witness("token"), "s3cret\n").unwrap();
    let mut krond = world.start();
    world.run_now("sad");
    let failed = krond.wait_for("notification_failed");
    assert!(failed["message"].as_str().unwrap().contains("500"), "{failed}");
    let (mut lines, mut krond) = meanwhile(&world, krond);
    krond.wait_for("notified");
    lines.extend(krond.stop());
    assert!(!lines.concat().contains("s3cret"), "a secret was logged");
    let (first, second) = (requests.recv().unwrap(), requests.recv().unwrap());
    for request in [&first, &second] {
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
        let lower = request.to_lowercase();
        for header in ["authorization: bearer s3cret", "x-team: ops", "x-kron-event: failed"] {
            assert!(lower.contains(header), "{header} in {request}");
        }
    }
    let body = |request: &str| request.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&first), body(&second));
}

#[test]
fn a_hook_that_takes_its_time_keeps_no_other_waiting() {
    // Whoever connects is kept waiting.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", deaf.local_addr().unwrap());
    let world = new_world(&format!(
        r#"
        [job.sad]
        schedule = "{SELDOM}"
        command = "exit 3"
        shell = true

        [hook.deaf]
        on = ["failed"]
        url = "{url}"
        timeout = "600s"

        [hook.pager]
        on = ["failed"]
        {}
        "#,
        keeper("exit 0")
    ));
    let mut krond = world.start();
    // Many more than are told at once.
    for _ in 0..8 {
        world.run_now("sad");
        let notified = krond.wait_for("notified");
        assert_eq!(notified["hook"], "pager");
    }
    let failed = krond.events("notification_failed");
    assert!(failed.is_empty(), "the other one has not been given up yet: {failed:?}");
}
