//! What people type about the queue and its jobs.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::{DaemonArgs, OutputFormat};

#[derive(Debug, Args)]
#[command(after_help = "\
A job, run or group is given by its id, or by the first or the last digits of it (four or more) as
long as no other has the same; tables show the last ones. A job's parameters are a JSON object.

Examples:
  kron queue add resize --param width=300 --param file=a.png
  kron queue ls --state failed
  kron queue show 5f21c09a
  kron queue pause --type resize --reason 'disk is full'

The daemon has a queue when its configuration has a table `[queue]`:
  [queue]
  workers = 2
  [queue.handler.resize]
  command = [\"/usr/local/bin/resize\"]")]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Put a job into the queue
    Add(QueueAddArgs),
    /// List jobs
    Ls(QueueLsArgs),
    /// Show everything about a job: its run, its retries, and what comes next
    Show(QueueShowArgs),
    /// Give a queued job another place among those of its priority
    Move(QueueMoveArgs),
    /// Give a queued job another priority
    Prio(QueuePrioArgs),
    /// Change the parameters of a queued job, or when it may start
    Edit(QueueEditArgs),
    /// Cancel jobs, queued or running
    Cancel(QueueCancelArgs),
    /// Repeat a job that has ended
    Retry(QueueJobArgs),
    /// Start no more jobs, or none of a type, until resumed
    Pause(QueuePauseArgs),
    /// Start jobs again after a pause
    Resume(QueueResumeArgs),
    /// Run a job at once, past the queue, and show its output
    Direct(QueueDirectArgs),
    /// Show the output of a job
    Logs(QueueLogsArgs),
    /// List or fetch the files that a job produced
    Artifacts(QueueArtifactsArgs),
    /// Show how much there is of what, and what is paused
    Stats(QueueStatsArgs),
    /// Watch the queue live
    Top(QueueTopArgs),
    /// Jobs that belong together
    Group(QueueGroupArgs),
}

/// What a job is told.
#[derive(Debug, Default, Args)]
pub(crate) struct ParamsArgs {
    /// The parameters: a JSON object, `@FILE` for the one in a file, `-` for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) params: Option<String>,

    /// One parameter; the value is JSON if it can be read so, else a text; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) param: Vec<String>,
}

/// When a job may start.
#[derive(Debug, Default, Args)]
pub(crate) struct StartArgs {
    /// Do not start it before this long from now, such as 90s, 15m or 2h
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    pub(crate) delay: Option<String>,

    /// Do not start it before this time, such as 2026-03-01T00:00:00Z
    #[arg(long, value_name = "T")]
    pub(crate) at: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The job's id is printed once the job is on disk: what was acknowledged survives a crash.
With --key, repeating the command gives the same job again instead of another.
With --stdin-jobs, each line is an object with `job_type` or `template_id`, and optionally
`params`, `priority`, `not_before` and `idempotency_key`. Lines are sent in batches of up to 1000,
each taken as a whole or not at all; the ids of a batch are printed when it was taken.

Examples:
  kron queue add resize --param width=300 --param file=a.png
  kron queue add report --params @report.json --priority 10 --key report-2026-03
  kron queue add mail --params '{\"to\":\"a@example.org\"}' --delay 15m
  kron queue add --template nightly --wait
  jq -c '{job_type: \"resize\", params: {file: .}}' files.json | kron queue add --stdin-jobs

Exit codes: 0 enqueued (with --wait: it completed), 1 refused, no daemon or no queue (with --wait:
it ended otherwise), 2 usage or not allowed, 6 system error.")]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["job_type", "template", "stdin_jobs"]))]
pub(crate) struct QueueAddArgs {
    /// The type of the job, which decides what handles it; the template's by default
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: Option<String>,

    #[command(flatten)]
    pub(crate) params: ParamsArgs,

    /// Higher ones go first [default: the template's, or 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,

    #[command(flatten)]
    pub(crate) start: StartArgs,

    /// A key under which the job is enqueued once, however often this is repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,

    /// The template to make it from: its name, or its id
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) template: Option<String>,

    /// Read jobs from standard input, one JSON object a line
    #[arg(long, conflicts_with_all = ["job_type", "params", "param", "priority", "delay", "at", "key", "template", "wait"])]
    pub(crate) stdin_jobs: bool,

    /// Wait for its end, and for those of its retries
    #[arg(long)]
    pub(crate) wait: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result; `json` is one job a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateWord {
    /// Its turn may come
    Queued,
    /// Its time has not come
    Delayed,
    /// Its group's turn has not come
    Blocked,
    /// It runs
    Running,
    /// It ended well
    Completed,
    /// It ended badly
    Failed,
    /// There was nothing to do
    Skipped,
    /// Somebody cancelled it
    Cancelled,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The newest come first; queued ones of --state queued, and those of --order, in the order in which
they start.

Examples:
  kron queue ls
  kron queue ls --order
  kron queue ls --state failed --type resize --all --format json

Exit codes: 0 ok, 1 no daemon or no queue, 2 usage, 6 system error.")]
pub(crate) struct QueueLsArgs {
    /// Only jobs in this state
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) state: Option<StateWord>,

    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,

    /// What waits, in the order in which it starts
    #[arg(long, conflicts_with_all = ["state", "job_type"])]
    pub(crate) order: bool,

    /// How many at most
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with = "all")]
    pub(crate) limit: u32,

    /// However many there are
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show them; `json` is one job a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kron queue show 5f21c09a
  kron queue show 0198c5d1-7a10-7000-8c3f-5f215f21c09a --format json

Exit codes: 0 ok, 1 no such job, no daemon or no queue, 2 more than one is meant, 6 system error.")]
pub(crate) struct QueueShowArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A job is moved among those of its own priority; `kron queue prio` changes that.

Examples:
  kron queue move 5f21c09a --top
  kron queue move 5f21c09a --before 77b1e402

Exit codes: 0 moved, 1 no such job, it is not queued, the other has another priority, no daemon,
2 usage, 6 system error.")]
#[command(group = ArgGroup::new("place").required(true).args(["top", "bottom", "before", "after"]))]
pub(crate) struct QueueMoveArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// To the beginning
    #[arg(long)]
    pub(crate) top: bool,

    /// To the end
    #[arg(long)]
    pub(crate) bottom: bool,

    /// Before this job
    #[arg(long, value_name = "JOB")]
    pub(crate) before: Option<String>,

    /// After this job
    #[arg(long, value_name = "JOB")]
    pub(crate) after: Option<String>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Higher priorities go first. The job goes to the end of those that have the same.

Examples:
  kron queue prio 5f21c09a 100
  kron queue prio 5f21c09a -1

Exit codes: 0 ok, 1 no such job, it is not queued, no daemon, 2 usage or not allowed, 6 system
error.")]
pub(crate) struct QueuePrioArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// The priority
    #[arg(value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: i64,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Parameters are replaced as a whole. A job that has started is not changed any more.

Examples:
  kron queue edit 5f21c09a --params '{\"width\": 600}'
  kron queue edit 5f21c09a --now

Exit codes: 0 ok, 1 no such job, it is not queued, no daemon, 2 usage or not allowed, 6 system
error.")]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(["params", "param", "delay", "at", "now"]))]
pub(crate) struct QueueEditArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    #[command(flatten)]
    pub(crate) params: ParamsArgs,

    #[command(flatten)]
    pub(crate) start: StartArgs,

    /// Do not wait for a time any more
    #[arg(long, conflicts_with_all = ["delay", "at"])]
    pub(crate) now: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A queued job is cancelled at once; the process of a running one is ended, and the job is cancelled
when that has gone. A cancelled job is not retried.

Examples:
  kron queue cancel 5f21c09a
  kron queue cancel 5f21c09a 77b1e402 --format json

Exit codes: 0 all cancelled or to be ended, 1 one or more were not, no daemon, 2 usage, 6 system
error.")]
pub(crate) struct QueueCancelArgs {
    /// The jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result; `json` is one job a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The repetition is a job of its own, linked to this one, whose id is printed. Only the last job of a
chain can be repeated, and always: the limit on retries is for those that nobody asked for.

Examples:
  kron queue retry 5f21c09a

Exit codes: 0 enqueued, 1 no such job, it has not ended or has been repeated, no daemon, 6 system
error.")]
pub(crate) struct QueueJobArgs {
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
What runs goes on; what is queued waits and keeps its place. A pause survives a restart.

Examples:
  kron queue pause --reason 'moving the database'
  kron queue pause --type resize --reason 'disk is full'

Exit codes: 0 paused, 1 no daemon or no queue, 2 usage, 6 system error.")]
pub(crate) struct QueuePauseArgs {
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,

    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --type the pause of the whole queue is lifted; types that are paused stay so.

Examples:
  kron queue resume
  kron queue resume --type resize

Exit codes: 0 resumed, 1 it was not paused, no daemon or no queue, 6 system error.")]
pub(crate) struct QueueResumeArgs {
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The next free slot is reserved for it; nothing that runs is disturbed, and the queue keeps its
order. Its output goes to standard output, and how it ended to standard error. It is not retried.

Examples:
  kron queue direct thumbnail --param file=a.png
  kron queue direct report --params @report.json --wait 5m --timeout 1h

Exit codes: 0 completed, 1 failed, skipped, cancelled or busy, no daemon or no queue, 2 usage, or
nothing handles the type, 6 system error.")]
pub(crate) struct QueueDirectArgs {
    /// The type of the job
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: String,

    #[command(flatten)]
    pub(crate) params: ParamsArgs,

    /// How long to wait for a free slot, up to 1h
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub(crate) wait: String,

    /// How long it may take, up to 1d [default: the handler's limit]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result; `json` is the job and its run, without the output
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The output is written as it is. With --follow a job that has not started is waited for.

Examples:
  kron queue logs 5f21c09a
  kron queue logs 5f21c09a --follow

Exit codes: 0 ok, 1 no such job, run or output, no daemon, 2 more than one is meant, 6 system
error.")]
pub(crate) struct QueueLogsArgs {
    /// The job, or a run
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// Go on until the run has ended
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A file that is fetched is compared with the SHA-256 that was recorded when the run ended.

Examples:
  kron queue artifacts 5f21c09a
  kron queue artifacts 5f21c09a --get out/report.pdf -o report.pdf

Exit codes: 0 ok, 1 no such job, run or file, no daemon, 2 more than one is meant, 6 system error,
or the file is not what was recorded.")]
pub(crate) struct QueueArtifactsArgs {
    /// The job, or a run
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// Fetch this one
    #[arg(long, value_name = "PATH")]
    pub(crate) get: Option<String>,

    /// Write it there instead of to standard output
    #[arg(long, short = 'o', value_name = "FILE", requires = "get")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the list; `json` is one file a line
    #[arg(long, value_enum, default_value_t, conflicts_with = "get")]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kron queue stats
  kron queue stats --format json

Exit codes: 0 ok, 1 no daemon or no queue, 6 system error.")]
pub(crate) struct QueueStatsArgs {
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Keys: p pauses the queue and resumes it; up and down show other jobs; q quits.

Examples:
  kron queue top
  kron queue top --state-dir ./kron-data

Exit codes: 0 ok, 2 usage, or no terminal, 6 system error.")]
pub(crate) struct QueueTopArgs {
    /// Keep to ASCII
    #[arg(long)]
    pub(crate) ascii: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct QueueGroupArgs {
    #[command(subcommand)]
    pub(crate) command: QueueGroupCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueGroupCommand {
    /// Put a group of jobs into the queue
    Add(GroupAddArgs),
    /// List groups
    Ls(GroupLsArgs),
    /// Show a group and its jobs
    Show(GroupShowArgs),
    /// Cancel what of a group has not ended
    Cancel(GroupShowArgs),
}

/// Whether members wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupModeWord {
    /// Each waits for the one before
    Sequential,
    /// They do not wait for each other
    Parallel,
}

/// What the failure of a member means for those that have not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailureWord {
    /// They are cancelled
    Stop,
    /// Nothing
    Continue,
    /// They are recorded as skipped
    Skip,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a job as for `kron queue add --stdin-jobs`; up to 1000 are taken as a whole or not at
all. The group's id is printed.

Examples:
  kron queue group add --mode sequential --on-failure stop release.jsonl
  kron queue group add --mode parallel --name resize-all - < jobs.jsonl

Exit codes: 0 enqueued, 1 refused, no daemon or no queue, 2 usage or not allowed, 6 system error.")]
pub(crate) struct GroupAddArgs {
    /// Whether jobs wait for each other
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: GroupModeWord,

    /// What a failure means for jobs that have not started
    #[arg(long, value_enum, value_name = "WHAT", default_value = "stop")]
    pub(crate) on_failure: OnFailureWord,

    /// What it is called
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The jobs, one JSON object a line; `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 ok, 1 no daemon or no queue, 2 usage, 6 system error.")]
pub(crate) struct GroupLsArgs {
    /// How many at most, the newest first
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show them; `json` is one group a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 ok, 1 no such group, no daemon or no queue, 2 more than one is meant, 6 system error.")]
pub(crate) struct GroupShowArgs {
    /// The group
    #[arg(value_name = "GROUP")]
    pub(crate) group: String,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}
