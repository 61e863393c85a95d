//! A job: when it runs, what it runs, and as whom.

use std::sync::Arc;

use kron_core::{Seconds, Timing};

use crate::limit::Limit;
use crate::source::Location;

/// A complete job definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// When it runs; [`kron_core::Placement::identity`] is the job's identity.
    pub timing: Timing,
    /// What it does.
    pub action: Action,
    /// How its process is set up.
    pub execution: Execution,
    /// How long a run usually takes, for forecasts.
    pub duration: Option<Seconds>,
    /// What it is for, in the owner's words.
    pub description: Option<String>,
    /// Where it is defined.
    pub origin: Location,
}

impl Job {
    /// The job's identity: its name, or `crontab/<user>/<hash>` for an entry of a crontab.
    #[must_use]
    pub fn identity(&self) -> &str {
        self.timing.placement().identity()
    }
}

/// What a job does when its time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Runs a program with arguments, without any shell.
    Program(Vec<String>),
    /// Hands a line to a shell, because that was asked for.
    Shell {
        /// The shell.
        shell: String,
        /// The line.
        line: String,
    },
}

/// Where the output of a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// To a log file of the run, up to a size.
    Log,
    /// To where the daemon's own goes.
    Inherit,
    /// Nowhere.
    Discard,
    /// To the system's log.
    Syslog,
}

impl Output {
    /// Every output.
    pub const ALL: [Output; 4] = [Output::Log, Output::Inherit, Output::Discard, Output::Syslog];

    /// As it is written in a job file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Output::Log => "log",
            Output::Inherit => "inherit",
            Output::Discard => "discard",
            Output::Syslog => "syslog",
        }
    }
}

/// How a job's process is set up; what is absent is left to the daemon's defaults, which
/// [`crate::DaemonSettings::for_job`] fills in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// The user it runs as.
    pub user: Option<String>,
    /// The group it runs as, where it is not the user's own.
    pub group: Option<String>,
    /// The directory it starts in.
    pub cwd: Option<String>,
    /// Variables of its environment, in order; entries of one crontab share theirs.
    pub env: Arc<[(String, String)]>,
    /// The file mode mask.
    pub umask: Option<u32>,
    /// The scheduling priority, −20 to 19.
    pub nice: Option<i8>,
    /// How long it may run before it is ended.
    pub timeout: Option<Seconds>,
    /// How long it has between being asked to end and being killed.
    pub grace: Option<Seconds>,
    /// What it reads on standard input; nothing when absent.
    pub stdin: Option<String>,
    /// Where its output goes.
    pub output: Option<Output>,
    /// The bytes of one run's log.
    pub log_bytes_max: Option<u64>,
    /// Limits on what it may use, each resource at most once, in the order of [`crate::Resource`].
    pub limits: Box<[Limit]>,
    /// Whether it and its children can never gain privileges, as by a set-user-id program.
    pub no_new_privileges: bool,
}
