//! Who may use a spool through the daemon, and what is seen of it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use kron_testkit::krond::{Krond, World};
use kron_testkit::waiting::eventually;
use serde_json::json;

use crate::spool::site::{Site as _, handler, logs, metrics, spool, world};

fn request(method: &str, path: &str, header: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{header}Content-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn over_tcp(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(request.replace("Host: localhost", &format!("Host: {address}")).as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

fn over_socket(world: &World, request: &str) -> String {
    let mut stream = UnixStream::connect(world.state_dir().join("krond.sock")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn what_cannot_be_done_is_a_problem_that_says_so() {
    let world = world("retries = 0", &(handler("ok", "true") + &handler("bad", "false")));
    let krond = world.start();
    for id in ["ok", "bad"] {
        world.put(id, id);
        world.completed(id);
    }
    let spools = "/api/v1/spools";
    for (path, body, status, words) in [
        ("none/purge", r#"{"older_than_s":1}"#, 404, "no spool `none`"),
        ("none/tasks/ok/retry", "", 404, "no spool `none`"),
        ("s/tasks/none/retry", "", 404, "task `none` is not completed"),
        ("s/tasks/ok/retry", "", 409, "task `ok` has succeeded"),
        ("s/tasks/..%2f..%2fx/retry", "", 400, "`../../x`"),
        ("s/tasks/%20/retry", "", 400, "` `"),
        ("s/purge", "", 400, "older_than_s"),
        ("s/purge", r#"{"older_than_s":-1}"#, 400, "`-1`"),
        ("s/purge", r#"{"older_than_s":1,"all":true}"#, 400, "all"),
        ("s/purge", "no json", 400, "expected"),
    ] {
        let answer = over_socket(&world, &request("POST", &format!("{spools}/{path}"), "", body));
        let told: u16 = answer.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(told, status, "{path}: {answer}");
        assert!(answer.contains("application/problem+json"), "{path}: {answer}");
        assert!(answer.contains(words), "{path}: {answer}");
    }
    assert_eq!(world.ask("DELETE", spools, "").0, 405);
    assert_eq!(world.ask("GET", &format!("{spools}/s/tasks/bad/retry"), "").0, 405);
    krond.stop();
}

#[test]
fn over_a_network_nothing_of_a_spool_is_seen_or_done_without_the_token() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "0123456789abcdef-token\n").unwrap();
    let tables = handler("t", "false") + &format!("[api]\ntoken_file = {:?}\n", file.path());
    let world = world("retries = 0", &tables);
    let mut krond = Krond::spawn(world.command().args(["--listen", "127.0.0.1:0"]));
    let address = krond.wait_for("listening")["address"].as_str().unwrap().to_owned();
    krond.wait_for("ready");
    world.put("t", "t");
    world.completed("t");
    let bearer = "Authorization: Bearer 0123456789abcdef-token\r\n";
    for (method, path, body) in [
        ("GET", "/api/v1/spools", ""),
        ("POST", "/api/v1/spools/s/tasks/t/retry", ""),
        ("POST", "/api/v1/spools/s/purge", r#"{"older_than_s":100}"#),
    ] {
        let wrong = bearer.replace("token", "wrong");
        for header in ["", wrong.as_str()] {
            let (status, answer) = over_tcp(&address, &request(method, path, header, body));
            assert_eq!(status, 401, "{method} {path}: {answer}");
            assert!(!answer.contains("spool\\\"") && !answer.contains("witness"), "{answer}");
        }
        let (status, answer) = over_tcp(&address, &request(method, path, bearer, body));
        assert_eq!(status, 200, "{method} {path}: {answer}");
    }
}

#[test]
fn what_happens_is_counted() {
    let tables = [
        handler("ok", "true"),
        handler("skip", "exit 3"),
        "skip_codes = [3]\n".to_owned(),
        handler("bad", "false"),
        "retries = 1\n".to_owned(),
        handler("long", "while [ ! -e {dir}/go ]; do sleep 0.01; done"),
    ];
    let world = world("workers = 4", &tables.concat());
    let krond = world.start();
    for id in ["ok", "skip", "bad"] {
        world.put(id, id);
        world.completed(id);
    }
    world.put("no task", "ok");
    world.rejected("no task.json");
    world.put("waits", "unknown");
    world.put("long", "long");
    let wanted = [
        "kron_spool_tasks{spool=\"s\",state=\"running\"} 1",
        "kron_spool_tasks{spool=\"s\",state=\"unhandled\"} 1",
        "kron_spool_wait_seconds_count{spool=\"s\"} 5",
        "kron_spool_up{spool=\"s\"} 1",
        "kron_spool_tasks{spool=\"s\",state=\"ready\"} 0",
        "kron_spool_tasks{spool=\"s\",state=\"delayed\"} 0",
        "kron_spool_ended_total{spool=\"s\",outcome=\"succeeded\"} 1",
        "kron_spool_ended_total{spool=\"s\",outcome=\"skipped\"} 1",
        "kron_spool_ended_total{spool=\"s\",outcome=\"failed\"} 1",
        "kron_spool_retries_total{spool=\"s\"} 1",
        "kron_spool_lost_total{spool=\"s\"} 0",
        "kron_spool_rejected_total{spool=\"s\"} 1",
        "kron_spool_run_seconds_count{spool=\"s\"} 4",
    ];
    // What happens is counted a moment after it has happened.
    eventually("all is counted", || {
        let text = metrics(&world);
        wanted.iter().all(|line| text.lines().any(|found| found == *line)).then_some(())
    });
    let view = json!({
        "name": "s", "dir": world.spool_path("").to_str().unwrap().trim_end_matches('/'),
        "workers_max": 4, "pending": 1, "delayed": 0, "unhandled": 1, "running": 1, "error": null
    });
    eventually("all is shown", || (world.view() == view).then_some(()));
    world.permit("go");
    world.completed("long");
    krond.stop();
}

#[test]
fn what_is_old_goes_and_what_runs_keeps_its_log() {
    let line = "echo begun; while [ ! -e {dir}/go ]; do sleep 0.01; done; echo done";
    let handlers = handler("t", "true") + &handler("long", line);
    let world = world("keep = \"1s\"", &handlers);
    let krond = world.start();
    world.put("old", "t");
    world.completed("old");
    let wait = |path: &str| {
        // As old as it claims to be.
        let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let file = fs::File::open(world.spool_path(path)).unwrap();
        file.set_modified(then).unwrap();
    };
    wait("tasks/completed/old.json");
    krond.stop();
    // A daemon that starts tidies up.
    let krond = world.start();
    eventually("it is gone", || world.names("tasks/completed").is_empty().then_some(()));
    // What follows is for the requests to remove.
    world.configure(&spool("keep = \"1h\"", &handlers));
    world.reload();

    world.put("kept", "t");
    world.completed("kept");
    world.drop_in("bad id.json", "{}");
    world.rejected("bad id.json");
    world.put("long", "long");
    eventually("its log is written", || {
        logs(&world).iter().any(|log| log == "begun\n").then_some(())
    });
    let purge = |body: &str| world.ask("POST", "/api/v1/spools/s/purge", body);
    let (status, answer) = purge(r#"{"older_than_s":1000}"#);
    assert_eq!(status, 200);
    assert_eq!(answer, json!({ "completed": 0, "rejected": 0, "temporary": 0 }));
    // Its log claims to be old; it is still written.
    for directory in fs::read_dir(world.state_dir().join("spool")).unwrap() {
        for log in fs::read_dir(directory.unwrap().path()).unwrap() {
            let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
            fs::File::open(log.unwrap().path()).unwrap().set_modified(then).unwrap();
        }
    }
    wait("tasks/completed/kept.json");
    let (_, answer) = purge(r#"{"older_than_s":1000}"#);
    assert_eq!(answer, json!({ "completed": 1, "rejected": 0, "temporary": 0 }));
    assert_eq!(world.names("rejected").len(), 2);
    wait("rejected/bad id.json.report");
    let (_, answer) = purge(r#"{"older_than_s":1000,"rejected":true}"#);
    assert_eq!(answer, json!({ "completed": 0, "rejected": 1, "temporary": 0 }));
    assert!(world.names("rejected").is_empty());
    world.permit("go");
    assert_eq!(world.completed("long")["result"]["output"], "begun\ndone\n");
    krond.stop();
}
