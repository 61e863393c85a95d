//! A world with a spool in it, as producers and people see it: directories and files.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use kron_testkit::files::read;
use kron_testkit::krond::World;
use kron_testkit::waiting::eventually;
use serde_json::{Value, json};

use crate::new_world;

/// A world with one spool `s` that has these keys and handlers.
pub(crate) fn world(keys: &str, handlers: &str) -> World {
    new_world(&spool(keys, handlers))
}

/// The table of the spool `s`.
pub(crate) fn spool(keys: &str, handlers: &str) -> String {
    format!(
        "[spool.s]\ndir = \"{{dir}}/spool\"\nbackoff = \"1s\"\nstop_grace = \"0s\"\n\
         {keys}\n{handlers}"
    )
}

/// A handler that runs this line of shell.
pub(crate) fn handler(task_type: &str, line: &str) -> String {
    format!("[spool.s.handler.{task_type}]\ncommand = [\"/bin/sh\", \"-c\", {line:?}]\n")
}

/// A handler that says its task's id when it begins, holds a file that only one run can make,
/// waits for a word and ends with this code. Two runs at once would say `twice`.
pub(crate) fn alone(task_type: &str, code: u8) -> String {
    let line = format!(
        "set -C; : > {{dir}}/lock.$KRON_TASK_ID || echo $KRON_TASK_ID >> {{dir}}/twice; \
         echo $KRON_TASK_ID >> {{dir}}/began; \
         while [ ! -e {{dir}}/go ]; do sleep 0.01; done; \
         rm {{dir}}/lock.$KRON_TASK_ID; echo $KRON_TASK_ID >> {{dir}}/ended; exit {code}"
    );
    handler(task_type, &line)
}

/// A task as its producer writes it.
pub(crate) fn text(id: &str, task_type: &str, data: &Value) -> String {
    json!({
        "taskId": id, "state": "PENDING", "createdAt": "2026-01-06T10:15:30Z",
        "payload": { "type": task_type, "data": data },
    })
    .to_string()
}

pub(crate) trait Site {
    /// Something in the spool's directory.
    fn spool_path(&self, path: &str) -> PathBuf;
    /// Something in `pending/`.
    fn pending(&self, name: &str) -> PathBuf;
    /// Makes `pending/` before there is a daemon.
    fn make_pending(&self);
    /// Puts a file there as any program does: written elsewhere, and renamed.
    fn drop_in(&self, name: &str, text: &str);
    /// Puts a task there.
    fn put(&self, id: &str, task_type: &str);
    /// A task of a state.
    fn task(&self, state: &str, id: &str) -> Option<Value>;
    /// The names in a directory, but for those that begin with a dot.
    fn names(&self, directory: &str) -> Vec<String>;
    /// Waits until a task has ended for good.
    fn completed(&self, id: &str) -> Value;
    /// Waits until something was set aside: why.
    fn rejected(&self, name: &str) -> String;
    /// Waits until a witness has this many lines.
    fn says(&self, witness: &str, lines: usize) -> Vec<String>;
    /// The spool as the daemon tells it.
    fn view(&self) -> Value;
    fn reload(&self);
}

impl Site for World {
    fn spool_path(&self, path: &str) -> PathBuf {
        self.witness("spool").join(path)
    }

    fn pending(&self, name: &str) -> PathBuf {
        self.spool_path("tasks/pending").join(name)
    }

    fn make_pending(&self) {
        fs::create_dir_all(self.spool_path("tasks/pending")).unwrap();
    }

    fn drop_in(&self, name: &str, text: &str) {
        let draft = self.witness(&format!("draft-{}", name.replace('/', "_")));
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.pending(name)).unwrap();
    }

    fn put(&self, id: &str, task_type: &str) {
        self.drop_in(&format!("{id}.json"), &text(id, task_type, &Value::Null));
    }

    fn task(&self, state: &str, id: &str) -> Option<Value> {
        let text = read(&self.spool_path(&format!("tasks/{state}/{id}.json")))?;
        Some(serde_json::from_str(&text).unwrap())
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.spool_path(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    fn completed(&self, id: &str) -> Value {
        let task = eventually(&format!("{id} has ended"), || self.task("completed", id));
        eventually(&format!("{id} is in one place"), || {
            (self.task("running", id).is_none()).then_some(())
        });
        task
    }

    fn rejected(&self, name: &str) -> String {
        let report = self.spool_path(&format!("rejected/{name}.report"));
        let file = self.spool_path(&format!("rejected/{name}"));
        let report: Value = eventually(&format!("{name} is set aside"), || {
            fs::symlink_metadata(&file).ok()?;
            serde_json::from_str(&read(&report)?).ok()
        });
        assert_eq!(report["directory"], "pending");
        assert!(report["rejectedAt"].is_string(), "{report}");
        assert!(fs::symlink_metadata(self.pending(name)).is_err(), "it is gone from there");
        report["reason"].as_str().unwrap().to_owned()
    }

    fn says(&self, witness: &str, lines: usize) -> Vec<String> {
        eventually(&format!("{lines} lines of {witness}"), || {
            let said = self.testimony(witness);
            (said.len() >= lines).then_some(said)
        })
    }

    fn view(&self) -> Value {
        let (status, answer) = self.ask("GET", "/api/v1/spools", "");
        assert_eq!(status, 200, "{answer}");
        answer["spools"][0].clone()
    }

    fn reload(&self) {
        let (status, answer) = self.ask("POST", "/api/v1/reload", "{}");
        assert_eq!(status, 200, "{answer}");
    }
}

/// What the daemon counts.
pub(crate) fn metrics(world: &World) -> String {
    let mut stream = UnixStream::connect(world.state_dir().join("krond.sock")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: k\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// What the logs of the spool's runs hold. A log goes when all of it is in the result.
pub(crate) fn logs(world: &World) -> Vec<String> {
    let mut logs = Vec::new();
    for directory in fs::read_dir(world.state_dir().join("spool")).unwrap() {
        for file in fs::read_dir(directory.unwrap().path()).unwrap() {
            let Ok(mut file) = fs::File::open(file.unwrap().path()) else { continue };
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            logs.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    logs
}
