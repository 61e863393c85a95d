//! Hooks, told by commands and by web requests.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use kron_testkit::files::read;
use kron_testkit::krond::{Krond, World, seldom, wait_for_permit};
use kron_testkit::waiting::eventually;
use serde_json::Value;

use crate::new_world;

/// A job that fails at this schedule, and a hook that is notified of it. An attempt to notify it has
/// as much time as a hook may have, so that no attempt fails because the machine is slow.
fn failing(schedule: &str, hook: &str) -> String {
    format!(
        r#"
        [job.sad]
        schedule = "{schedule}"
        command = "exit 3"
        shell = true

        [hook.pager]
        on = ["failed"]
        timeout = "600s"
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

/// A [`keeper`] that fails. It keeps what it reads in the first attempt of this daemon only; each
/// further one waits until the test is over, so that it does not matter when the daemon tries again.
fn failing_keeper(daemon: &str) -> String {
    let wait = wait_for_permit("never");
    let first = format!("mkdir {{dir}}/attempt-of-{daemon} || {{ {wait}; exit 1; }}; cat >");
    keeper("exit 1").replacen("cat >", &first, 1)
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
    let world = new_world(&failing(seldom(), &failing_keeper("first")));
    let mut krond = world.start();
    world.run_now("sad");
    let failed = krond.wait_for("notification_failed");
    krond.kill();
    assert!(failed["message"].as_str().unwrap().contains("exited with 1"), "{failed}");
    assert_eq!(world.document("sad")["Deliveries"][0]["Hook"], "pager");
    world.configure(&failing(seldom(), &failing_keeper("second")));
    let mut krond = world.start();
    krond.wait_for("notification_failed");
    krond.kill();
    let told = told(&world);
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], told[1], "under the same id");
}

/// Answers every request with an error until it is switched to a success, by the flag, and hands on
/// what it was sent.
fn server() -> (String, Arc<AtomicBool>, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let succeeds = Arc::new(AtomicBool::new(false));
    let (sender, requests) = mpsc::channel();
    let flag = succeeds.clone();
    thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let Some(request) = read_request(&mut stream) else { continue };
            if sender.send(request).is_err() {
                return;
            }
            let is_success = flag.load(Ordering::SeqCst);
            let answer = if is_success { "204 No Content" } else { "500 Oops" };
            let _ = stream
                .write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    (url, succeeds, requests)
}

/// A whole request; `None` if its daemon was stopped before it had sent all of it.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer).ok().filter(|length| *length > 0)?;
        request.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&request);
        if text.ends_with('}') {
            return Some(text.into_owned());
        }
    }
}

#[test]
fn a_web_request_carries_what_happened_and_is_repeated() {
    // The next daemon repeats it at once.
    is_repeated(|world, krond, succeeds| {
        let said = krond.stop();
        succeeds.store(true, Ordering::SeqCst);
        (said, world.start())
    });
}

#[test]
#[ignore = "full: waits until the daemon repeats it, ten seconds"]
fn a_web_request_is_repeated_by_the_same_daemon() {
    is_repeated(|_, krond, succeeds| {
        succeeds.store(true, Ordering::SeqCst);
        (Vec::new(), krond)
    });
}

/// A web request fails, and is repeated after `meanwhile`, which lets the requests that follow
/// succeed, and returns the log of the daemon that it has stopped and the daemon that goes on.
fn is_repeated(meanwhile: impl FnOnce(&World, Krond, &AtomicBool) -> (Vec<String>, Krond)) {
    let (url, succeeds, requests) = server();
    let world = new_world(&failing(
        seldom(),
        &format!(
            "url = \"{url}\"\nheaders = {{ X-Team = \"ops\" }}\ntoken_file = \"{{dir}}/token\"\n"
        ),
    ));
    std::fs::write(world.witness("token"), "s3cret\n").unwrap();
    let mut krond = world.start();
    world.run_now("sad");
    let failed = krond.wait_for("notification_failed");
    assert!(failed["message"].as_str().unwrap().contains("500"), "{failed}");
    let (mut lines, mut krond) = meanwhile(&world, krond, &succeeds);
    krond.wait_for("notified");
    lines.extend(krond.stop());
    assert!(!lines.concat().contains("s3cret"), "a secret was logged");
    // One that failed, one that succeeded; between them as many as there was time for.
    let requests: Vec<String> = requests.try_iter().collect();
    assert!(requests.len() >= 2, "{requests:?}");
    for request in &requests {
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
        let lower = request.to_lowercase();
        for header in ["authorization: bearer s3cret", "x-team: ops", "x-kron-event: failed"] {
            assert!(lower.contains(header), "{header} in {request}");
        }
    }
    let body = |request: &str| request.split_once("\r\n\r\n").unwrap().1.to_owned();
    for repeated in &requests[1..] {
        assert_eq!(body(&requests[0]), body(repeated));
    }
}

#[test]
fn a_hook_that_takes_its_time_keeps_no_other_waiting() {
    // Whoever connects is kept waiting.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", deaf.local_addr().unwrap());
    let seldom = seldom();
    let world = new_world(&format!(
        r#"
        [job.sad]
        schedule = "{seldom}"
        command = "exit 3"
        shell = true

        [hook.deaf]
        on = ["failed"]
        url = "{url}"
        timeout = "600s"

        [hook.pager]
        on = ["failed"]
        timeout = "600s"
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
