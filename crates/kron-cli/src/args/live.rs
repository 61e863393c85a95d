//! What people type to run a daemon in front of them, or to watch one.

use std::path::PathBuf;

use clap::Args;
use krond::log::LogFormat;

use super::DaemonArgs;
use crate::live::Sort;

/// The state directory of whoever names no other to `kron up`.
pub(crate) const UP_STATE_DIR: &str = "kron-data";

#[derive(Debug, Args)]
#[command(after_help = "\
Without --config the jobs are those of ./kron.toml; if there is no such file, a sample is made.
On a terminal the jobs are shown live, and the log goes to krond.log in the state directory.

Ctrl-C stops starting jobs and waits for those that run; a second one ends them. SIGHUP reads the
definitions again; SIGTERM leaves at once, and what runs goes on under its supervisors.

Examples:
  kron up
  kron up --config jobs.toml --state-dir ./state
  kron up --plain --log-format json

Exit codes: 0 stopped as asked, 2 usage or configuration, 3 state unreadable or incompatible,
4 another daemon holds the lock, 5 state could not be written, 6 other system error.")]
pub(crate) struct UpArgs {
    /// A job file, or a directory of them; may be repeated [default: ./kron.toml]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(crate) config: Vec<PathBuf>,

    /// Where the past is recorded; one daemon per directory
    #[arg(long, value_name = "DIR", default_value = UP_STATE_DIR)]
    pub(crate) state_dir: PathBuf,

    /// The control socket [default: krond.sock in the state directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// How log lines are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,

    /// Show the log on standard error instead of the jobs
    #[arg(long)]
    pub(crate) plain: bool,

    /// Keep to ASCII
    #[arg(long)]
    pub(crate) ascii: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Keys: n, l and a sort by what is next, what was last, and name; up and down show other jobs; q quits.

Examples:
  kron top
  kron top --state-dir ./kron-data --sort name

Exit codes: 0 ok, 2 usage, or no terminal, 6 system error.")]
pub(crate) struct TopArgs {
    /// What comes first
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: Sort,

    /// Keep to ASCII
    #[arg(long)]
    pub(crate) ascii: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
}
