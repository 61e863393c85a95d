//! What people type about spools and their tasks.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::{DaemonArgs, OutputFormat};

#[derive(Debug, Args)]
#[command(after_help = "\
A spool is a directory of tasks, each a JSON file: `tasks/pending`, `tasks/running`,
`tasks/completed`, and `rejected` for what could not be a task. The daemon says where its spools
are; with --dir none is asked. Without --spool and --dir, the daemon's only spool is meant.

Examples:
  kron spool put --type EMAIL_SEND --data '{\"to\":\"a@example.org\"}'
  kron spool ls --state completed
  kron spool show 0198c5d1-7a10-7000-8c3f-5f215f21c09a
  kron spool stats --dir /var/spool/kron/mail

The daemon has a spool when its configuration has a table `[spool.NAME]`:
  [spool.mail]
  dir = \"/var/spool/kron/mail\"
  [spool.mail.handler.EMAIL_SEND]
  command = [\"/usr/local/bin/send-mail\"]")]
pub(crate) struct SpoolArgs {
    #[command(subcommand)]
    pub(crate) command: SpoolCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// Put tasks into a spool
    Put(SpoolPutArgs),
    /// List tasks, or what was set aside
    Ls(SpoolLsArgs),
    /// Show everything about a task
    Show(SpoolShowArgs),
    /// Start tasks anew that have ended without success
    Retry(SpoolRetryArgs),
    /// Remove old completed tasks, or what was set aside
    Purge(SpoolPurgeArgs),
    /// Show how much there is of what
    Stats(SpoolStatsArgs),
}

/// Which spool is meant.
#[derive(Debug, Args)]
pub(crate) struct SpoolPlaceArgs {
    /// The spool's name in the daemon's configuration; not needed when it has only one
    #[arg(long, value_name = "NAME", help_heading = "Which spool")]
    pub(crate) spool: Option<String>,

    /// The spool's directory, without asking a daemon
    #[arg(long, value_name = "DIR", conflicts_with_all = ["spool", "state_dir", "socket"], help_heading = "Which spool")]
    pub(crate) dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The task's id is printed once the task is on disk: what was acknowledged survives a crash. With
--id, repeating the command puts the task once; it says so when the task is there already, and
warns when that has another payload.

With --stdin each line is a task: its data when --type is given, else an object with `type` and
optionally `data`, `id` and `notBefore`. Lines that have arrived together share their syncs, 64 at
most; ids are printed in the order of the lines. A bad line is told on standard error with its
number, and the others go on.

Any other program may put a task, too: it writes a file elsewhere on the same file system, syncs
it, and renames it to `tasks/pending/ID.json`.

Examples:
  kron spool put --type EMAIL_SEND --data '{\"to\":\"a@example.org\"}'
  kron spool put --type REPORT --id report-2026-03 --not-before 2026-04-01T06:00:00Z
  kron spool put --type REPORT --not-before 15m
  jq -c '{to: .}' addresses.json | kron spool put --stdin --type EMAIL_SEND

Exit codes: 0 all are there, 1 no such spool or no daemon, 2 usage, any line was bad, or something
that is no task has the name of its file, 5 it could not be written, 6 system error.")]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["task_type", "stdin"]))]
pub(crate) struct SpoolPutArgs {
    /// The type of the task, which decides what handles it
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) task_type: Option<String>,

    /// What the handler is told: any JSON, or `-` for one value on standard input [default: {}]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) data: Option<String>,

    /// The task's id, under which it is put once, however often this is repeated
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Do not start it before this time, such as 2026-03-01T00:00:00Z, or this long from now, such
    /// as 15m
    #[arg(long, value_name = "T|DURATION")]
    pub(crate) not_before: Option<String>,

    /// Read tasks from standard input, one a line
    #[arg(long, conflicts_with_all = ["data", "id", "not_before"])]
    pub(crate) stdin: bool,

    #[command(flatten)]
    pub(crate) place: SpoolPlaceArgs,

    /// How to show the result; `json` is one task a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskStateWord {
    /// It waits
    Pending,
    /// It runs
    Running,
    /// It has ended for good
    Completed,
    /// It could not be a task and was set aside
    Rejected,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --state, what runs and what waits is listed, each in the order of the ids.

Examples:
  kron spool ls
  kron spool ls --state completed --type EMAIL_SEND --limit 1000
  kron spool ls --state rejected --dir /var/spool/kron/mail --format json

Exit codes: 0 ok, 1 no such spool or no daemon, 2 usage, 6 system error.")]
pub(crate) struct SpoolLsArgs {
    /// Only tasks in this state
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) state: Option<TaskStateWord>,

    /// Only tasks of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) task_type: Option<String>,

    /// How many at most
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) place: SpoolPlaceArgs,

    /// How to show them; `json` is one task a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What was set aside is found by its name, too.

Examples:
  kron spool show report-2026-03
  kron spool show report-2026-03 --format json | jq .payload

Exit codes: 0 ok, 1 no such task, no such spool or no daemon, 2 usage, 3 its file cannot be shown,
6 system error.")]
pub(crate) struct SpoolShowArgs {
    /// The task
    #[arg(value_name = "TASK")]
    pub(crate) task: String,

    #[command(flatten)]
    pub(crate) place: SpoolPlaceArgs,

    /// How to show it; `json` is its file as it is
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A task that is completed without success waits again as if it had never been started. The daemon
that has the spool does this; with --dir there must be none.

Examples:
  kron spool retry report-2026-03
  kron spool ls --state completed --format json | jq -r 'select(.outcome==\"failed\").task_id' |
    xargs kron spool retry

Exit codes: 0 they wait again, 1 no such task, it is not completed or has succeeded, no daemon,
2 usage, 3 its file cannot be used, 4 a daemon has the directory, 5 it could not be written,
6 system error.")]
pub(crate) struct SpoolRetryArgs {
    /// The tasks
    #[arg(value_name = "TASK", required = true)]
    pub(crate) tasks: Vec<String>,

    #[command(flatten)]
    pub(crate) place: SpoolPlaceArgs,

    /// How to show the result; `json` is one task a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The daemon removes completed tasks by itself after the spool's `keep`; what was set aside it never
removes. Without --older-than this command removes what is older than 30 days, whatever `keep`
says. Directories that were set aside go when they are empty. An id that was removed can be used
again. With --dir there must be no daemon that has the
spool.

Examples:
  kron spool purge --older-than 7d
  kron spool purge --rejected --older-than 0s

Exit codes: 0 ok, 1 no such spool, no daemon, or a crash has left something to be put in order,
2 usage, 4 a daemon has the directory, 5 it could not be written, 6 system error.")]
pub(crate) struct SpoolPurgeArgs {
    /// How long ago they have ended at least, such as 12h or 7d
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub(crate) older_than: String,

    /// Remove what was set aside, and not completed tasks
    #[arg(long)]
    pub(crate) rejected: bool,

    #[command(flatten)]
    pub(crate) place: SpoolPlaceArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Who may ask the daemon but not look into the spool is shown what the daemon says.

Examples:
  kron spool stats
  kron spool stats --dir /var/spool/kron/mail --format json

Exit codes: 0 ok, 1 no such spool or no daemon, 2 usage, 6 system error.")]
pub(crate) struct SpoolStatsArgs {
    #[command(flatten)]
    pub(crate) place: SpoolPlaceArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}
