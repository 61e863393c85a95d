//! Failures of commands and the one table of exit codes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kron_config::files::ReadError;
use kron_core::{Category, Finding};
use kron_state::{LockError, StoreError};

use crate::client::ClientError;

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
    /// A daemon did not answer, or said no.
    Daemon(ClientError),
    /// What is recorded cannot be read.
    State(StoreError),
    /// What is recorded could not be changed.
    NotRecorded(StoreError),
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
            Failure::NoSuchJob { .. } | Failure::NoSuch { .. } => return Exit::No.into(),
            Failure::Daemon(error) => return ExitCode::from(error.exit_code()),
            Failure::Locked { .. } => return ExitCode::from(EXIT_LOCKED),
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
            Failure::Daemon(error) => error.fmt(f),
            Failure::State(error) | Failure::NotRecorded(error) => {
                write!(f, "error: {}", told(error))?;
                match error.hint() {
                    Some(hint) => write!(f, "\nhint: {hint}"),
                    None => Ok(()),
                }
            }
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
