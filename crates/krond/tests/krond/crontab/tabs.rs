//! A directory of crontabs, and the daemon that runs them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use kron_testkit::files::read;
use kron_testkit::krond::{Krond, World};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::new_world;

/// Crontabs in a directory of their own, beside an empty native file.
pub(crate) struct Tabs {
    pub(crate) world: World,
}

impl Tabs {
    /// One file, `tab`, with this text.
    pub(crate) fn new(text: &str) -> Tabs {
        let tabs = Tabs { world: new_world("") };
        fs::create_dir(tabs.dir()).unwrap();
        tabs.write("tab", text);
        tabs
    }

    /// The directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.world.state_dir().with_file_name("cron.d")
    }

    /// Writes a file as a package would.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir().join(name);
        fs::write(&path, text).unwrap();
        set_mode(&path, 0o644);
        path
    }

    /// The command that runs a daemon with the directory, and nothing else.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(crate::KROND);
        command
            .args(["run", "--log-format", "json", "--sync-threads", "1", "--state-dir"])
            .arg(self.world.state_dir())
            .arg("--crontab")
            .arg(self.dir())
            .env_remove("TZ");
        command
    }

    /// Starts a daemon and waits until it is ready.
    pub(crate) fn start(&self) -> Krond {
        let mut krond = Krond::spawn(&mut self.command());
        krond.wait_for("ready");
        krond
    }

    /// Runs an entry by hand, to its end: what it wrote.
    pub(crate) fn run(&self, krond: &mut Krond, identity: &str) -> String {
        let (status, answer) = self.world.ask("POST", &path_of(identity, "/run"), "{}");
        assert_eq!(status, 200, "{answer}");
        let finished = krond.wait_for_job("finished", identity);
        assert_eq!(finished["run_id"], answer["run_id"]);
        let run = answer["run_id"].as_str().unwrap();
        let logs = self.world.logs(identity);
        let log = logs.iter().find(|log| log.to_str().unwrap().contains(run));
        read(log.unwrap_or_else(|| panic!("no log of {run} in {logs:?}"))).unwrap()
    }

    /// What the daemon says about an entry.
    pub(crate) fn job(&self, identity: &str) -> Value {
        let (status, answer) = self.world.ask("GET", &path_of(identity, ""), "");
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// The identities of all entries. A list has no length beforehand, so it is asked for in the
    /// way of old, in which it ends when the connection does.
    pub(crate) fn identities(&self) -> Vec<String> {
        let mut stream = UnixStream::connect(self.world.state_dir().join("krond.sock")).unwrap();
        stream.write_all(b"GET /api/v1/scheduler/jobs HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let answer: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
        let jobs = answer["jobs"].as_array().unwrap().iter();
        jobs.map(|job| job["identity"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The path of a job in the API.
pub(crate) fn path_of(identity: &str, what: &str) -> String {
    let encoded = identity.replace('/', "%2F").replace('#', "%23");
    format!("/api/v1/scheduler/jobs/{encoded}{what}")
}

/// The identity of an entry, from what is written in the file.
pub(crate) fn identity(user: &str, schedule: &str, command: &str) -> String {
    let digest = Sha256::digest(format!("{schedule}\n{command}"));
    let hash: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("crontab/{user}/{hash}")
}

/// What the daemon has complained about so far, as `file:line message`, files without directories.
pub(crate) fn complaints(krond: &mut Krond) -> Vec<String> {
    let told = krond.events("diagnostic");
    let told = told.iter().map(|line| {
        let file = line["file"].as_str().unwrap_or("none").rsplit('/').next().unwrap();
        let message = line["message"].as_str().unwrap();
        // Messages name the whole path of a test's own directory.
        let message: Vec<&str> = message.split('`').collect();
        let message: Vec<&str> =
            message.iter().map(|part| part.rsplit("/cron.d/").next().unwrap()).collect();
        format!("{file}:{} {}", line["line"], message.join("`"))
    });
    told.collect()
}
