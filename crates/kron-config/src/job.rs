//! A job: when it runs, what it runs, and as whom.

use std::fmt;
use std::sync::Arc;

use kron_core::{Seconds, Timing};

use crate::limit::Limit;
use crate::queue::EnqueueSettings;
use crate::source::Location;
use crate::spool::SpoolDrop;

/// A complete job definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// When it runs; [`kron_core::Placement::identity`] is the job's identity.
    pub timing: Timing,
    /// What it does.
    pub action: Action,
    /// How its process is set up; jobs that are set up alike share it.
    pub execution: Arc<Execution>,
    /// How long a run usually takes, for forecasts.
    pub duration: Option<Seconds>,
    /// What it is for, in the owner's words.
    pub description: Option<Box<str>>,
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
    Program(Argv),
    /// Hands a line to a shell, because that was asked for.
    Shell {
        /// The shell.
        shell: Box<str>,
        /// The line.
        line: Box<str>,
    },
    /// Puts a job into the queue; nothing is run here.
    Enqueue(Box<EnqueueSettings>),
    /// Drops a task into a spool; nothing is run here.
    Spool(Box<SpoolDrop>),
}

impl Action {
    /// Whether it has no command of its own: what is to be done is handed over to the queue or a
    /// spool.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        matches!(self, Action::Enqueue(_) | Action::Spool(_))
    }

    /// What is executed: the program and its arguments, or the shell and its own;
    /// nothing for a job that hands over.
    #[must_use]
    pub fn to_argv(&self) -> Vec<String> {
        match self {
            Action::Program(argv) => argv.to_vec(),
            Action::Shell { shell, line } => {
                vec![shell.to_string(), "-c".to_owned(), line.to_string()]
            }
            Action::Enqueue(_) | Action::Spool(_) => Vec::new(),
        }
    }
}

/// The words of a command, one at least, none of which has a NUL.
///
/// They are kept as one text: there may be very many jobs, and a word is mostly short.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Argv(Box<str>);

impl Argv {
    /// The words, the program first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split('\0')
    }

    /// The words, each by itself.
    #[must_use]
    pub fn to_vec(&self) -> Vec<String> {
        self.iter().map(str::to_owned).collect()
    }
}

impl From<Vec<String>> for Argv {
    fn from(words: Vec<String>) -> Argv {
        Argv(words.join("\0").into())
    }
}

impl fmt::Debug for Argv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
