//! Starts that are refused, and what is told about it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use kron_config::{Format, Loader, Options, Source};
use kron_testkit::files::{read, write_private};
use kron_testkit::krond::{Krond, World, seldom};
use kron_testkit::waiting::{PATIENCE, eventually};
use serde_json::Value;

use crate::new_world;

fn harmless() -> String {
    format!("[job.a]\nschedule = \"{}\"\ncommand = [\"/bin/true\"]\n", seldom())
}

/// The line that says why the start was refused.
fn refusal(said: &str) -> Value {
    let parsed = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut lines = parsed.filter(|line| line["event"] == "refused_to_start");
    lines.next().unwrap_or_else(|| panic!("nothing was said about it: {said}"))
}

#[test]
fn a_second_daemon_leaves_the_first_alone() {
    let world = new_world(&harmless());
    let krond = world.start();
    let (code, said) = world.run_to_end();
    assert_eq!(code, 4, "{said}");
    let line = refusal(&said);
    assert_eq!(line["error_type"], "SystemError");
    assert!(line["message"].as_str().unwrap().contains(&krond.pid().to_string()), "{line}");
    assert_eq!(world.ask("GET", "/api/v1/status", "").0, 200, "the first still answers");
    krond.stop();
}

#[test]
fn invalid_definitions_are_shown_as_lint_shows_them() {
    let text = "[job.a]\nschedule = \"61 * * * *\"\ncommand = [\"/bin/true\"]\nbogus = 1\n";
    let world = new_world(text);
    let mut loader = Loader::new(Options::default());
    let path = world.config_path();
    loader.load(&Source::new(path.to_str().unwrap(), text), &Format::Toml);
    let expected: Vec<String> =
        loader.finish().diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(expected.len(), 2);

    let output = Command::new(crate::KROND)
        .args(["run", "--config"])
        .arg(&path)
        .arg("--state-dir")
        .arg(world.state_dir())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for diagnostic in &expected {
        assert!(said.contains(diagnostic), "{diagnostic}\n---\n{said}");
    }

    let (code, said) = world.run_to_end();
    assert_eq!(code, 2);
    let lines: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("only JSON")).collect();
    let diagnostics: Vec<&Value> =
        lines.iter().filter(|line| line["event"] == "diagnostic").collect();
    assert_eq!(diagnostics.len(), 2, "{said}");
    assert_eq!(diagnostics[0]["line"], 2);
    assert_eq!(refusal(&said)["error_type"], "ConfigurationError");
}

#[test]
fn state_that_cannot_be_trusted_or_used_refuses_the_start() {
    type Spoil = fn(&World);
    let rows: [(&str, Spoil); 6] = [
        ("an unknown version", |world| {
            let document = world.document("busy").to_string();
            let text = document.replace(r#""Version":"1""#, r#""Version":"99""#);
            assert_ne!(text, document);
            world.write_document("busy", &without_checksum(&text));
        }),
        ("a missing field", |world| {
            let mut document = world.document("busy");
            document.as_object_mut().unwrap().remove("LastOutcome");
            world.write_document("busy", &without_checksum(&document.to_string()));
        }),
        ("another identity", |world| {
            let text = world.document("busy").to_string();
            world.write_document("other", &without_checksum(&text));
        }),
        ("a readable state directory", |world| {
            fs::set_permissions(world.state_dir(), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("a readable known.json", |world| {
            let path = world.state_dir().join("known.json");
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        }),
        ("a symbolic link", |world| {
            let path = world.state_dir().join("known.json");
            let elsewhere = world.witness("known.json");
            write_private(&elsewhere, &read(&path).unwrap());
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(elsewhere, path).unwrap();
        }),
    ];
    std::thread::scope(|scope| {
        for (what, spoil) in rows {
            scope.spawn(move || refuses(what, spoil));
        }
    });
}

fn refuses(what: &str, spoil: fn(&World)) {
    let busy = |schedule: &str| {
        format!(
            "[job.busy]\nschedule = \"{schedule}\"\ncommand = \"echo >> {{dir}}/ran\"\nshell = true\n"
        )
    };
    let world = new_world(&busy(seldom()));
    let mut krond = world.start();
    world.run_now("busy");
    krond.wait_for("finished");
    krond.stop();
    // The daemon that is refused has something to run.
    world.configure(&busy("* * * * * *"));
    let before = world.testimony("ran").len();
    spoil(&world);
    let (code, said) = world.run_to_end();
    assert_eq!(code, 3, "{what}: {said}");
    let line = refusal(&said);
    assert!(line["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}");
    assert!(line["hint"].is_string(), "{what}: {line}");
    assert_eq!(world.testimony("ran").len(), before, "{what}: nothing ran");
}

/// The document without its checksum, which a document may lack.
fn without_checksum(text: &str) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    document.as_object_mut().unwrap().remove("Checksum");
    document.to_string()
}

#[test]
fn what_is_missing_on_the_command_line_is_named() {
    let krond = |arguments: &[&str]| {
        let output = Command::new(crate::KROND).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let (code, text) = krond(&["run"]);
    assert_eq!(code, 2);
    assert!(text.contains("--config <PATH>"), "{text}");
    let (code, text) = krond(&["--version"]);
    assert_eq!((code, text.as_str()), (0, concat!("krond ", env!("CARGO_PKG_VERSION"), "\n")));
    let (code, text) = krond(&["run", "--config", "x", "--listen", "nowhere"]);
    assert_eq!(code, 2, "{text}");
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().join("state");
    let (code, text) =
        krond(&["run", "--config", "/no/such/file.toml", "--state-dir", dir.to_str().unwrap()]);
    assert_eq!(code, 2, "{text}");
    assert_eq!(text.matches("/no/such/file.toml").count(), 1, "{text}");
    assert!(!dir.exists(), "a start that is refused for that leaves nothing behind");
}

#[test]
fn the_service_manager_is_told() {
    let world = new_world(&harmless());
    let path = world.witness("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let krond = Krond::spawn(world.command().env("NOTIFY_SOCKET", &path));
    assert_eq!(told(), "READY=1");
    krond.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn a_damaged_document_is_set_aside_and_its_past_does_not_run_again() {
    let world = new_world("");
    let mut krond = world.start();
    let nominal = world.due_soon("once", |schedule| {
        format!(
            r#"
            [job.once]
            schedule = "{schedule} @policy(deadline=1h)"
            command = "echo $KRON_PERIOD_ID >> {{dir}}/ran"
            shell = true
            "#
        )
    });
    krond.wait_for("finished");
    krond.stop();
    world.write_document("once", "{\"Version\":\"1\",\"Ident");
    let mut krond = world.start();
    let events = krond.events("state_unreadable");
    assert_eq!(events.len(), 1, "{events:?}");
    let document = eventually("the document is replaced", || {
        world.readable_document("once").filter(|document| document["LastOutcome"] == "missed")
    });
    assert_eq!(document["LastHandledPeriodID"], nominal.as_str());
    let aside = fs::read_dir(world.state_dir()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_str().unwrap().contains(".json.corrupt.")
    });
    assert_eq!(aside.count(), 1);
    assert_eq!(world.testimony("ran"), [nominal]);
}
