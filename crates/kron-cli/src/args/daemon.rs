//! What people type to talk to a running daemon, or about what it recorded.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::OutputFormat;

/// Which daemon is meant.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// The daemon's state directory [default: /var/lib/krond]
    #[arg(long, value_name = "DIR", conflicts_with = "socket", help_heading = "Which daemon")]
    pub(crate) state_dir: Option<PathBuf>,

    /// The daemon's control socket [default: /run/krond/krond.sock, or krond.sock in DIR]
    #[arg(long, value_name = "PATH", help_heading = "Which daemon")]
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kron status
  kron status db-backup
  kron status --state-dir ./state --format json

Recent runs and periods, the newest at the right: + succeeded, x failed, T timed out, ? lost,
R replaced, S stopped, - missed, . skipped, ! unschedulable; without --ascii a tick, a cross, a
dash and a dot where the terminal can show them.

Exit codes: 0 ok, 1 no such job or no daemon, 6 system error.")]
pub(crate) struct StatusArgs {
    /// Show everything about this job
    #[arg(value_name = "JOB")]
    pub(crate) job: Option<String>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// Keep to ASCII
    #[arg(long)]
    pub(crate) ascii: bool,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A job that is not defined any more still has its history.

Examples:
  kron history db-backup
  kron history db-backup -n 100 --format json

Exit codes: 0 ok, 1 no such job or no daemon, 6 system error.")]
pub(crate) struct HistoryArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// How many entries
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kron why db-backup
  kron why db-backup --at 2026-03-01T03:00:00Z
  kron why db-backup --at manual/2026-03-01T10:00:00Z-1f0c2d3e

Exit codes: 0 ok, 1 no such job or no daemon, 2 usage, 6 system error.")]
pub(crate) struct WhyArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// The id of a period or of a run by hand, or a time: then the period that had last fallen due
    /// [default: now]
    #[arg(long, value_name = "T")]
    pub(crate) at: Option<String>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The output is written as it is.

Examples:
  kron logs db-backup
  kron logs db-backup --follow
  kron logs db-backup --run 1f0c2d3e4a5b6978

Exit codes: 0 ok, 1 no such job, run or output, or no daemon, 6 system error.")]
pub(crate) struct LogsArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// The run; the latest by default
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,

    /// Go on until the run has ended
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A run by hand counts as active and touches no period; it is allowed while the job is suspended.

Examples:
  kron run db-backup
  kron run db-backup --wait && echo done

Exit codes: 0 started (with --wait: it exited with 0), 1 refused because a run is active, no such
job, no daemon (with --wait: it ended otherwise), 6 it could not be started, system error.")]
pub(crate) struct RunArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// Run it although a run is active and the job's policy forbids another
    #[arg(long)]
    pub(crate) force: bool,

    /// Wait for its end
    #[arg(long)]
    pub(crate) wait: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 ok, 1 no such job, nothing to do, or no daemon, 6 system error.")]
pub(crate) struct JobCommandArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
When the new definitions have an error, the old ones stay in force. Running jobs are not disturbed.

Exit codes: 0 ok, 1 no daemon, 2 the definitions have errors, 6 system error.")]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
By default the daemon starts nothing more, waits for what runs, and leaves; this command returns
when it is gone.

Exit codes: 0 it is gone, 1 no daemon, 6 system error.")]
pub(crate) struct StopArgs {
    /// Leave at once; what runs goes on under its supervisors, and the next daemon adopts it
    #[arg(long, conflicts_with = "kill")]
    pub(crate) now: bool,

    /// End what runs, then leave
    #[arg(long)]
    pub(crate) kill: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct ClockArgs {
    #[command(subcommand)]
    pub(crate) command: ClockCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClockCommand {
    /// Believe the clock although it leapt ahead by more than a day
    #[command(after_help = "\
Exit codes: 0 ok, 1 the clock is believed already, or no daemon, 6 system error.")]
    Accept(ClockAcceptArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all is well, 1 something deserves a look, 6 system error.")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ClockAcceptArgs {
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "\
These work on the files of a state directory. Reading needs no daemon and disturbs none; `reset` is
refused while a daemon runs.

Exit codes: 0 ok, 1 no such job, or something to mend, 2 usage, 3 state unreadable or incompatible,
4 a daemon runs, 5 it could not be written, 6 system error."
)]
pub(crate) struct StateArgs {
    #[command(subcommand)]
    pub(crate) command: StateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// List what is recorded about every job
    Ls(StateLsArgs),
    /// Show a job's document
    Show(StateShowArgs),
    /// Look for what a daemon would stumble over
    Check(StateLsArgs),
    /// Move a job's mark of what was handled, when a wrong clock left it in the future
    #[command(after_help = "\
Without --to the mark goes back to the latest period of the history that is not in the future, or to
the present when there is none; what fell due until then does not run. Each reset is recorded.

Examples:
  kron state reset db-backup
  kron state reset db-backup --to 2026-03-01T03:00:00Z
  kron state reset --all-future --state-dir ./state

Exit codes: 0 ok, 1 no such job, 2 usage, 3 state unreadable or incompatible, 4 a daemon runs,
5 it could not be written, 6 system error.")]
    Reset(StateResetArgs),
}

/// Which state directory is meant.
#[derive(Debug, Args)]
pub(crate) struct StateDirArgs {
    /// The state directory
    #[arg(long, value_name = "DIR", default_value = "/var/lib/krond")]
    pub(crate) state_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StateLsArgs {
    #[command(flatten)]
    pub(crate) dir: StateDirArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct StateShowArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    #[command(flatten)]
    pub(crate) dir: StateDirArgs,

    /// How to show it; `json` is the document on one line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct StateResetArgs {
    /// The job
    #[arg(value_name = "JOB", required_unless_present = "all_future")]
    pub(crate) job: Option<String>,

    /// Put the mark on this period
    #[arg(long, value_name = "PERIOD", conflicts_with = "all_future")]
    pub(crate) to: Option<String>,

    /// Reset every job whose mark lies in the future
    #[arg(long, conflicts_with = "job")]
    pub(crate) all_future: bool,

    #[command(flatten)]
    pub(crate) dir: StateDirArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}
