//! Failures of commands and the one table of exit codes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kron_config::files::ReadError;
use kron_core::{Category, Finding};
use kron_spool::{Fault, RetryError, SpoolError, State, TaskId};
use kron_state::{LockError, Operation, StoreError};

use crate::client::ClientError;
use crate::plugin::KubectlError;

/// State is unreadable or incompatible.
const EXIT_STATE: u8 = 3;
/// A daemon holds the state directory.
const EXIT_LOCKED: u8 = 4;

/// How a command that worked ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: the answer is yes, or there was nothing to answer.
    Ok,
    /// 1: the answer is no.
    No,
    /// 2: the input was refused, and the output says why.
    Refused,
    /// 3: what is recorded cannot be used, and the output says why.
    Unusable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Ok => 0,
            Exit::No => 1,
            Exit::Refused => 2,
            Exit::Unusable => EXIT_STATE,
        })
    }
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The output could not be written.
    Output(io::Error),
    /// Something that is needed could not be made.
    NotMade {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A definition could not be read.
    Read(ReadError),
    /// Definitions have errors, which have been shown.
    Definitions,
    /// There is no such job.
    NoSuchJob {
        /// What was asked for; `None` for any job at all.
        wanted: Option<String>,
        /// What to try instead.
        hint: String,
    },
    /// There is no such thing.
    NoSuch {
        /// What it would be.
        noun: &'static str,
        /// What was asked for.
        wanted: String,
        /// What to try instead.
        hint: String,
    },
    /// A file is not what was recorded.
    Differs {
        /// Which.
        path: String,
    },
    /// What was asked is not complete.
    Unclear {
        /// What is missing.
        message: String,
        /// How to say it.
        hint: String,
    },
    /// An argument is not usable.
    Argument {
        /// The argument's name.
        name: &'static str,
        /// What is wrong with it.
        finding: Finding,
    },
    /// A cluster did not answer, or said no.
    Cluster(KubectlError),
    /// A KronJob cannot be scheduled.
    InvalidKronJob {
        /// Which.
        identity: String,
        /// What is wrong with it.
        faults: Vec<String>,
    },
    /// A daemon did not answer, or said no.
    Daemon(ClientError),
    /// What is recorded cannot be read.
    State(StoreError),
    /// What is recorded could not be changed.
    NotRecorded(StoreError),
    /// No daemon says where the spool is.
    SpoolUnknown(ClientError),
    /// The daemon has no spool at all.
    NoSpools,
    /// A spool cannot be used.
    Spool(SpoolError),
    /// A task of a spool is not tried again.
    NotRetried(RetryError),
    /// Something that is no task has the name of a task's file.
    InTheWay {
        /// The file.
        path: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The file of a task cannot be shown as it is.
    Unshown {
        /// Which.
        id: TaskId,
        /// Why.
        fault: Fault,
    },
    /// A task is completed and something else, too, so that its completion must stay.
    Doubled {
        /// Which.
        id: TaskId,
        /// What else it is.
        state: State,
    },
    /// A daemon holds the state directory.
    Locked {
        /// Its process.
        by_pid: Option<i32>,
    },
}

impl Failure {
    pub(crate) fn argument(name: &'static str) -> impl Fn(Finding) -> Failure {
        move |finding| Failure::Argument { name, finding }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        let category = match self {
            Failure::NoSuchJob { .. }
            | Failure::NoSuch { .. }
            | Failure::NoSpools
            | Failure::Doubled { .. }
            | Failure::NotRetried(RetryError::NotCompleted(_) | RetryError::Succeeded(_)) => {
                return Exit::No.into();
            }
            Failure::Daemon(error) | Failure::SpoolUnknown(error) => {
                return ExitCode::from(error.exit_code());
            }
            Failure::Cluster(error) => return ExitCode::from(error.exit_code()),
            Failure::InTheWay { .. } | Failure::InvalidKronJob { .. } => {
                return Exit::Refused.into();
            }
            Failure::Locked { .. } | Failure::Spool(SpoolError::Held { .. }) => {
                return ExitCode::from(EXIT_LOCKED);
            }
            Failure::Unshown { .. } | Failure::NotRetried(RetryError::Unfit { .. }) => {
                return ExitCode::from(EXIT_STATE);
            }
            Failure::Spool(error) | Failure::NotRetried(RetryError::Spool(error)) => {
                if is_absent(error) {
                    return Exit::No.into();
                }
                spool_category(error)
            }
            Failure::State(error) if error.category() != Category::System => {
                return ExitCode::from(EXIT_STATE);
            }
            Failure::State(error) | Failure::NotRecorded(error) => error.category(),
            Failure::Output(_) | Failure::NotMade { .. } | Failure::Differs { .. } => {
                Category::System
            }
            Failure::Read(error) => error.category(),
            Failure::Definitions | Failure::Unclear { .. } => Category::Configuration,
            Failure::Argument { finding, .. } => finding.category,
        };
        ExitCode::from(match category {
            Category::Configuration
            | Category::Validation
            | Category::Scheduling
            | Category::Constraint => 2,
            Category::IncompatibleState => EXIT_STATE,
            Category::Persistence => 5,
            Category::Execution | Category::System => 6,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Output(error) => write!(f, "error: cannot write the output: {error}"),
            Failure::NotMade { path, source } => {
                write!(f, "error: cannot make `{}`: {source}", path.display())
            }
            Failure::Read(error) => {
                write!(f, "error: {error}")?;
                match error {
                    ReadError::Io { source, .. } => write!(f, ": {source}"),
                    ReadError::UnknownFormat { path } if path == Path::new("-") => f.write_str(
                        "\nhint: say `--as toml|krontab|crontab|system-crontab`",
                    ),
                    ReadError::UnknownFormat { .. } => f.write_str(
                        "\nhint: name it `*.toml`, `*.krontab` or `*.crontab`, or say `--as toml|krontab|crontab|system-crontab`",
                    ),
                    _ => Ok(()),
                }
            }
            Failure::Definitions => f.write_str("error: the definitions above have errors"),
            Failure::NoSuchJob { wanted: Some(wanted), hint } => {
                write!(f, "error: no job `{wanted}`\nhint: {hint}")
            }
            Failure::NoSuchJob { wanted: None, hint } => {
                write!(f, "error: there is no job\nhint: {hint}")
            }
            Failure::NoSuch { noun, wanted, hint } => {
                write!(f, "error: no {noun} `{wanted}`\nhint: {hint}")
            }
            Failure::Differs { path } => write!(
                f,
                "error: `{path}` is not what was recorded when its run ended\nhint: what was \
                 fetched is not to be trusted; somebody has changed the file since"
            ),
            Failure::Unclear { message, hint } => write!(f, "error: {message}\nhint: {hint}"),
            Failure::Argument { name, finding } => {
                write!(f, "error: {name}: {}", finding.message)?;
                match &finding.help {
                    Some(help) => write!(f, "\nhint: {help}"),
                    None => Ok(()),
                }
            }
            Failure::Cluster(error) => error.fmt(f),
            Failure::InvalidKronJob { identity, faults } => {
                write!(f, "error: KronJob `{identity}` is invalid: {}", faults.join("; "))
            }
            Failure::Daemon(error) => error.fmt(f),
            Failure::State(error) | Failure::NotRecorded(error) => {
                write!(f, "error: {}", told(error))?;
                match error.hint() {
                    Some(hint) => write!(f, "\nhint: {hint}"),
                    None => Ok(()),
                }
            }
            Failure::SpoolUnknown(error) => write_unknown(f, error),
            Failure::NoSpools => f.write_str(
                "error: the daemon has no spool\nhint: a table `[spool.NAME]` in its configuration \
                 makes one; `--dir DIR` says where one is that it does not know",
            ),
            Failure::Spool(error) => write_spool(f, error),
            Failure::NotRetried(RetryError::Spool(error)) => write_spool(f, error),
            Failure::NotRetried(error) => write!(f, "error: {error}"),
            Failure::InTheWay { path, fault } => write!(
                f,
                "error: `{path}` is in the way: {fault}\nhint: the daemon that has the spool sets \
                 it aside; then put the task again"
            ),
            Failure::Unshown { id, fault } => {
                write!(f, "error: the file of task `{id}` cannot be shown: {fault}")
            }
            Failure::Doubled { id, state } => write!(
                f,
                "error: task `{id}` is completed and {state} at once, as a crash leaves it, or \
                 whoever puts it again\nhint: the daemon that has the spool puts that in order \
                 when it starts"
            ),
            Failure::Locked { by_pid } => {
                let by = by_pid.map_or(String::new(), |pid| format!(", process {pid}"));
                write!(
                    f,
                    "error: a daemon runs on this state directory{by}\nhint: `kron stop` stops it"
                )
            }
        }
    }
}

/// An error of the store with what caused it.
pub(crate) fn told(error: &StoreError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Says where a spool may be found when no daemon says so.
fn write_unknown(f: &mut fmt::Formatter<'_>, error: &ClientError) -> fmt::Result {
    let told = error.to_string();
    match error {
        ClientError::NotRunning { .. } | ClientError::Denied { .. } => {
            let first = told.lines().next().unwrap_or_default();
            write!(
                f,
                "{first}\nhint: `--dir DIR` says where the spool is, and no daemon is asked; \
                 `--state-dir DIR` or `--socket PATH` say which daemon to ask"
            )
        }
        ClientError::Connect { .. } | ClientError::Broken { .. } | ClientError::Refused { .. } => {
            f.write_str(&told)
        }
    }
}

fn write_spool(f: &mut fmt::Formatter<'_>, error: &SpoolError) -> fmt::Result {
    match error {
        SpoolError::Directory(error) => write!(f, "error: {}", told(error))?,
        SpoolError::Io { source, .. } => write!(f, "error: {error}: {source}")?,
        error => write!(f, "error: {error}")?,
    }
    if matches!(error, SpoolError::Held { .. }) {
        return f.write_str("\nhint: if a daemon has it, say `--spool NAME` and not `--dir DIR`");
    }
    if matches!(error, SpoolError::OwnerCannotRead { .. }) {
        return f.write_str(
            "\nhint: `chmod g+s` on that directory gives tasks its group, in which its owner must be",
        );
    }
    if is_denied(error) {
        return f.write_str(
            "\nhint: a spool is for root and its daemon's user alone, but for what was opened to \
             others; run this as one of them; `kron spool stats --spool NAME` asks the daemon",
        );
    }
    if is_absent(error) {
        return f.write_str(
            "\nhint: the daemon makes the directories of a spool when its configuration has a \
             table `[spool.NAME]` with `dir = \"…\"`",
        );
    }
    Ok(())
}

/// Whether somebody has no right to look into a spool.
pub(crate) fn is_denied(error: &SpoolError) -> bool {
    match error {
        SpoolError::Io { operation: Operation::OpenDirectory, source, .. }
        | SpoolError::Directory(StoreError::Io {
            operation: Operation::OpenDirectory,
            source,
            ..
        }) => source.kind() == io::ErrorKind::PermissionDenied,
        _ => false,
    }
}

/// Whether a spool is simply not there.
fn is_absent(error: &SpoolError) -> bool {
    match error {
        SpoolError::NoSpool { .. } => true,
        SpoolError::Directory(StoreError::Io { operation, source, .. }) => {
            *operation == Operation::OpenDirectory && source.kind() == io::ErrorKind::NotFound
        }
        _ => false,
    }
}

/// What could not be looked at was not the disk's failure to keep something.
fn spool_category(error: &SpoolError) -> Category {
    use Operation::{List, Lock, OpenDirectory, Read};
    match error {
        SpoolError::Io { operation: OpenDirectory | List | Read | Lock, .. }
        | SpoolError::Directory(StoreError::Io { operation: OpenDirectory, .. }) => {
            Category::System
        }
        error => error.category(),
    }
}

impl From<SpoolError> for Failure {
    fn from(error: SpoolError) -> Failure {
        Failure::Spool(error)
    }
}

impl From<KubectlError> for Failure {
    fn from(error: KubectlError) -> Failure {
        Failure::Cluster(error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Daemon(error)
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Failure {
        match error {
            LockError::Held { by_pid } => Failure::Locked { by_pid },
            LockError::Store(error) => Failure::State(error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::Output(error.into())
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure::Read(error)
    }
}
