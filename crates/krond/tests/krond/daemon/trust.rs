//! Definitions that others could have written, for a daemon that runs everything as root. A daemon
//! of another user trusts them all.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use kron_testkit::krond::Krond;
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::new_world;

const OLD: &str =
    "[job.old]\nschedule = \"* * * * * *\"\ncommand = \"echo >> {dir}/old\"\nshell = true\n";
const NEW: &str =
    "[job.new]\nschedule = \"* * * * * *\"\ncommand = \"echo >> {dir}/new\"\nshell = true\n";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// What was said about the definitions.
fn diagnostics(krond: &mut Krond, level: &str) -> Vec<Value> {
    let said = krond.events("diagnostic");
    said.into_iter().filter(|line| line["level"] == level).collect()
}

#[test]
fn a_file_that_everybody_may_write_refuses_the_start() {
    if left_out("definitions that others could have written", &[Need::Root]) {
        return;
    }
    // What is refused is not even read: nothing is said about what stands in it.
    let world = new_world(&format!("{OLD}bogus = 1\n"));
    set_mode(&world.config_path(), 0o666);
    let mut krond = Krond::spawn(&mut world.command());
    assert_eq!(krond.wait().code(), Some(2), "{}", krond.said.join("\n"));
    assert_eq!(krond.events("refused_to_start")[0]["error_type"], "ConfigurationError");
    let said = diagnostics(&mut krond, "error");
    assert_eq!(said.len(), 1, "{said:?}");
    let path = world.config_path().display().to_string();
    assert_eq!(
        said[0]["message"],
        format!("everybody may write `{path}`: its mode is 0666").as_str()
    );
    assert!(said[0]["help"].as_str().unwrap().contains(&format!("`chmod o-w {path}`")), "{said:?}");
    assert!(world.testimony("old").is_empty());

    world.configure(OLD);
    set_mode(&world.config_path(), 0o644);
    let mut krond = world.start();
    assert_eq!(diagnostics(&mut krond, "warn"), [Value::Null; 0]);
    krond.wait_for_job("finished", "old");
    krond.stop();
}

#[test]
fn a_directory_that_everybody_may_write_refuses_the_start() {
    if left_out("definitions that others could have written", &[Need::Root]) {
        return;
    }
    let world = new_world(OLD);
    let directory = world.config_path().with_file_name("kron.d");
    fs::create_dir(&directory).unwrap();
    fs::rename(world.config_path(), directory.join("jobs.toml")).unwrap();
    set_mode(&directory, 0o777);
    let krond = || {
        let mut command = Command::new(crate::KROND);
        command.args(["run", "--log-format", "json", "--config"]).arg(&directory);
        Krond::spawn(command.arg("--state-dir").arg(world.state_dir()))
    };
    let mut refused = krond();
    assert_eq!(refused.wait().code(), Some(2), "{}", refused.said.join("\n"));
    let said = diagnostics(&mut refused, "error");
    let expected = format!("everybody may write `{}`: its mode is 0777", directory.display());
    assert_eq!(said.iter().map(|line| &line["message"]).collect::<Vec<_>>(), [&expected]);

    set_mode(&directory, 0o755);
    let mut started = krond();
    started.wait_for("ready");
    started.stop();
}

#[test]
fn a_reload_of_a_file_that_everybody_may_write_changes_nothing() {
    if left_out("definitions that others could have written", &[Need::Root]) {
        return;
    }
    let world = new_world(OLD);
    let mut krond = world.start();
    world.configure(NEW);
    set_mode(&world.config_path(), 0o666);
    krond.signal(Signal::SIGHUP);
    assert_eq!(krond.wait_for("reload_failed")["error_type"], "ConfigurationError");
    let (status, answer) = world.ask("POST", "/api/v1/reload", "");
    assert_eq!(status, 422, "{answer}");
    let details = answer["details"].as_str().unwrap();
    assert!(details.contains("its mode is 0666") && details.contains("chmod o-w"), "{details}");
    krond.wait_for_job("finished", "old");
    assert!(world.testimony("new").is_empty(), "nothing of it runs");

    set_mode(&world.config_path(), 0o644);
    krond.signal(Signal::SIGHUP);
    krond.wait_for_job("finished", "new");
    krond.stop();
}

#[test]
fn what_a_group_may_write_and_what_others_own_is_told() {
    if left_out("definitions that others could have written", &[Need::Root]) {
        return;
    }
    let world = new_world(OLD);
    set_mode(&world.config_path(), 0o664);
    std::os::unix::fs::chown(world.config_path(), Some(65_534), Some(1)).unwrap();
    let path = world.config_path().display().to_string();
    let expected = [
        format!("`{path}` belongs to user 65534, not to root"),
        format!("group 1 may write `{path}`: its mode is 0664"),
    ];
    let mut krond = world.start();
    let said = diagnostics(&mut krond, "warn");
    assert_eq!(said.iter().map(|line| &line["message"]).collect::<Vec<_>>(), expected.each_ref());
    krond.stop();

    // A line of the log in either form, because there is no source to show.
    let mut krond = Krond::spawn(&mut world.command_logging("text"));
    let socket = world.state_dir().join("krond.sock");
    eventually("it listens", || UnixStream::connect(&socket).ok());
    krond.signal(Signal::SIGTERM);
    krond.wait();
    let lines: Vec<&String> = krond.said.iter().filter(|line| line.contains(&path)).collect();
    assert_eq!(lines.len(), 2, "{:?}", krond.said);
    for (line, message) in lines.into_iter().zip(expected) {
        assert!(line.contains(" level=warn component=krond event=diagnostic "), "{line}");
        assert!(line.contains(&message), "{line}");
    }
}
