//! A place to run things in: directories, plans, supervisors, and waiting for what they do.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kron_exec::{
    Held, Image, Launcher, LogFormat, Message, Output, Plan, ProcessId, Supervisor, boot_id,
};
use kron_state::{RealDirectory, RunEnd, RunId, RunRead, RunRecord, Store};
use kron_testkit::files::{copy_program, read, scratch};
pub(crate) use kron_testkit::waiting::PATIENCE;
use kron_testkit::waiting::eventually;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// Longer than any case may take: a timeout or a grace that is never over.
pub(crate) const LONG: Duration = Duration::from_secs(1_000);

/// An unprivileged user every machine has.
pub(crate) const NOBODY: u32 = 65_534;

/// Directories of one case.
pub(crate) struct Place {
    /// Anybody may look into it.
    pub(crate) root: tempfile::TempDir,
    /// Anybody may write into it.
    pub(crate) open: PathBuf,
    pub(crate) state: PathBuf,
    /// Where the state is: most cases write many records, and the disk is not what they are about.
    _memory: tempfile::TempDir,
    pub(crate) launcher: Launcher,
}

impl Place {
    pub(crate) fn new() -> Place {
        let (root, memory) = (tempfile::tempdir().expect("a temporary directory"), scratch());
        let make = |parent: &Path, name: &str, mode: u32| {
            let path = parent.join(name);
            fs::create_dir(&path).expect("a directory");
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("a mode");
            path
        };
        let open = make(root.path(), "open", 0o777);
        let state = make(memory.path(), "state", 0o700);
        make(&state, "runs", 0o700);
        fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).expect("a mode");
        Place { root, open, state, _memory: memory, launcher: Launcher::current() }
    }

    /// A place whose supervisors are started through a shell that first does what `script` says
    /// and then executes `kron-supervisor`.
    pub(crate) fn through(script: &str) -> Place {
        let mut place = Place::new();
        let bin = place.root.path().join("bin");
        fs::create_dir(&bin).expect("a directory");
        fs::set_permissions(&bin, PermissionsExt::from_mode(0o755)).expect("a mode");
        // A copy, because not everybody may go where the build directory is.
        let program = std::env::current_exe().expect("this program");
        copy_program(&program, &bin.join("kron-supervisor"));
        place.launcher.image = Image::At(bin.join("wrapper"));
        place.wrap(script);
        place
    }

    /// A fresh place that starts supervisors through the same program and another script.
    pub(crate) fn again(&self, script: &str) -> Place {
        let place = Place { launcher: self.launcher.clone(), ..Place::new() };
        place.wrap(script);
        place
    }

    fn wrap(&self, script: &str) {
        let Image::At(wrapper) = &self.launcher.image else { panic!("there is no wrapper") };
        let bin = wrapper.parent().expect("a directory").display();
        let text = format!("#!/bin/sh\nexport PATH={bin}:/usr/bin:/bin\n{script}\n");
        fs::write(wrapper, text).expect("written");
        fs::set_permissions(wrapper, PermissionsExt::from_mode(0o755)).expect("a mode");
    }

    /// Where a command leaves a trace of having been executed.
    pub(crate) fn witness(&self) -> PathBuf {
        self.open.join("witness")
    }

    /// How often a command was executed.
    pub(crate) fn executions(&self) -> usize {
        fs::read_to_string(self.witness()).map_or(0, |text| text.lines().count())
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.state.join("logs/job/run.log")
    }

    pub(crate) fn logged(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log()).expect("a log")).into_owned()
    }

    /// A plan for a shell script that runs after the witness was left.
    pub(crate) fn plan(&self, script: &str) -> Plan {
        let script = format!("echo $$ >> {}\n{script}", self.witness().display());
        Plan {
            run: RunId::from_bits(0x1234),
            argv: ["/bin/sh", "-c", &script].map(str::to_owned).into(),
            env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            credentials: None,
            no_new_privileges: false,
            cwd: None,
            umask: 0o022,
            nice: None,
            limits: Vec::new(),
            stdin: None,
            output: Output::Log { path: self.log(), bytes_max: 1 << 20 },
            timeout: None,
            grace: LONG,
            state_dir: self.state.clone(),
            identity: Some("job".to_owned()),
            period_id: Some("2026-03-01T00:00:00Z".to_owned()),
            log_format: LogFormat::Text,
        }
    }

    pub(crate) fn launch(&self, plan: &Plan) -> Supervisor {
        self.launcher.launch(plan).expect("a supervisor")
    }

    /// Launches and waits until the command is armed.
    pub(crate) fn arm(&self, plan: &Plan) -> (Supervisor, ProcessId) {
        let supervisor = self.launch(plan);
        match next(&supervisor) {
            Message::Armed { supervisor: process, command } => {
                assert_eq!(process, supervisor.process());
                (supervisor, command)
            }
            other => panic!("not armed: {other:?}"),
        }
    }

    /// Launches, releases and waits until the command is executing.
    pub(crate) fn execute(&self, plan: &Plan) -> (Supervisor, ProcessId) {
        let (supervisor, command) = self.arm(plan);
        supervisor.release().expect("released");
        assert_eq!(next(&supervisor), Message::Executing);
        (supervisor, command)
    }

    /// Runs to the end, acknowledges it, and checks that nothing is left.
    pub(crate) fn run(&self, plan: &Plan) -> RunEnd {
        let (supervisor, _) = self.execute(plan);
        self.end_of(&supervisor)
    }

    /// Waits for the end of a run that executes.
    pub(crate) fn end_of(&self, supervisor: &Supervisor) -> RunEnd {
        let end = match next(supervisor) {
            Message::Ended(end) => end,
            other => panic!("not ended: {other:?}"),
        };
        supervisor.acknowledge().expect("acknowledged");
        assert_eq!(next(supervisor), Message::Closed);
        wait_for_end(supervisor);
        assert_eq!(self.record(), None, "an acknowledged run leaves no record");
        end
    }

    /// The record a supervisor left.
    pub(crate) fn record(&self) -> Option<RunRecord> {
        let directory = RealDirectory::open_existing(&self.state).expect("a state directory");
        let store = Store::view(directory, 1).expect("a store");
        match store.run_record(&RunId::from_bits(0x1234)).expect("an answer") {
            RunRead::Missing => None,
            RunRead::Record(record) => Some(record),
            RunRead::Unreadable { cause } => panic!("an unreadable record: {cause}"),
        }
    }
}

/// The next report.
pub(crate) fn next(supervisor: &Supervisor) -> Message {
    loop {
        if let Some(message) = supervisor.receive().expect("a report") {
            return message;
        }
        assert!(wait_readable(supervisor.as_fd(), PATIENCE), "no report came");
    }
}

/// Waits until a supervisor is gone, and reaps it.
pub(crate) fn wait_for_end(supervisor: &Supervisor) {
    assert!(wait_readable(supervisor.held().as_fd(), PATIENCE), "the supervisor does not end");
    // A tracer, where there is one, is told first.
    wait_until("it is reaped", || supervisor.reap().expect("an answer"));
}

/// Waits until a process has ended.
pub(crate) fn wait_for_process(process: ProcessId) {
    if let Some(held) = hold(process) {
        assert!(wait_readable(held.as_fd(), PATIENCE), "{process:?} does not end");
    }
}

pub(crate) fn hold(process: ProcessId) -> Option<Held> {
    Held::open(&boot_id().expect("a boot id"), process).expect("an answer")
}

pub(crate) fn wait_readable(fd: BorrowedFd<'_>, patience: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::try_from(patience).expect("a time"))).expect("polled") > 0
}

/// Waits until everything this process started or adopted is gone.
pub(crate) fn wait_for_everybody() {
    wait_until("everybody is gone", || {
        matches!(
            waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG),
            Err(rustix::io::Errno::CHILD)
        )
    });
}

/// Fails if anything this process started or adopted is still running.
pub(crate) fn assert_nobody_left() {
    kron_exec::reap_children().expect("reaped");
    let left = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    assert!(matches!(left, Err(rustix::io::Errno::CHILD)), "somebody is left");
}

/// Waits for a condition that nothing can be waited on for.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, || condition().then_some(()));
}

/// Waits until a file has something in it, and says what.
#[track_caller]
pub(crate) fn wait_for_text(path: &Path) -> String {
    eventually(&format!("{} has a line", path.display()), || {
        read(path).filter(|text| text.ends_with('\n'))
    })
}
