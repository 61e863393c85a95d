//! A world and its [`Story`], which is written down while things happen.

use std::collections::HashMap;

use kron_testkit::files::read;
use kron_testkit::krond::{Krond, World};
use kron_testkit::process;
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::crash::checker::{Fault, Job, Life, Story, check};
use crate::crash::witness::{self, Witness};
use crate::new_world;

/// A world whose story is being written.
pub(crate) struct Chronicle {
    pub(crate) world: World,
    pub(crate) story: Story,
}

impl Chronicle {
    pub(crate) fn new(jobs: Vec<Job>, config: &str) -> Chronicle {
        Chronicle { world: new_world(config), story: Story { jobs, ..Story::default() } }
    }

    /// Starts the next daemon and waits until it is ready.
    pub(crate) fn start(&mut self) -> Krond {
        self.note_life();
        self.world.start()
    }

    /// Notes what the next daemon will find. No daemon may be running.
    pub(crate) fn note_life(&mut self) {
        // Witnesses first: one that comes later may be of a command recorded later.
        let witnessed = self.witnesses();
        self.story.lives.push(Life {
            found: self.documents(),
            witnessed: witnessed.into_iter().map(|w| (w.identity, w.period)).collect(),
            wall: witness::wall().as_secs() as i64,
            since_boot: witness::next_tick(),
        });
    }

    pub(crate) fn witnesses(&self) -> Vec<Witness> {
        witness::read_all(&self.world.witness(""))
    }

    fn documents(&self) -> HashMap<String, Value> {
        let identities = self.story.jobs.iter().map(|job| job.identity.clone());
        identities.map(|identity| (identity.clone(), self.world.document(&identity))).collect()
    }

    /// Kills a supervisor, if it is one, and notes whose it was.
    pub(crate) fn kill_supervisor(&mut self, pid: i32) {
        if let Some(run) = process::run_of(pid) {
            self.story.killed_supervisors.insert(run);
            process::signal(pid, Signal::SIGKILL);
        }
    }

    /// Kills a command's process and notes it.
    pub(crate) fn kill_command(&mut self, pid: i32) {
        self.story.killed_commands.insert(pid);
        process::signal(pid, Signal::SIGKILL);
    }

    /// Kills these supervisors and the commands below them, and waits until they are gone.
    pub(crate) fn kill_runs(&mut self, supervisors: &[i32]) {
        let commands: Vec<i32> =
            supervisors.iter().flat_map(|pid| process::children(*pid)).collect();
        for pid in supervisors {
            self.kill_supervisor(*pid);
        }
        for pid in &commands {
            self.kill_command(*pid);
        }
        eventually("what was killed is gone", || {
            supervisors.iter().chain(&commands).all(|pid| process::has_ended(*pid)).then_some(())
        });
    }

    /// What is wrong with the story, now that it is over: every period up to `until` should have
    /// its outcome.
    pub(crate) fn judge(&mut self, until: i64) -> Vec<Fault> {
        self.story.documents = self.documents();
        self.story.witnesses = self.witnesses();
        let known = read(&self.world.state_dir().join("known.json")).unwrap_or_default();
        self.story.known = serde_json::from_str(&known).unwrap_or(Value::Null);
        self.story.until = until;
        check(&self.story)
    }
}
