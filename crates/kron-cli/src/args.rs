//! What people type: commands, arguments, and the words that explain them.

mod daemon;
mod definitions;
mod import;
mod live;
mod plugin;
mod queue;
mod spool;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::daemon::{
    ClockArgs, ClockCommand, DaemonArgs, DoctorArgs, HistoryArgs, JobCommandArgs, LogsArgs,
    ReloadArgs, RunArgs, StateArgs, StateCommand, StateLsArgs, StateResetArgs, StateShowArgs,
    StatusArgs, StopArgs, WhyArgs,
};
pub(crate) use self::definitions::{
    DefinitionLsArgs, ScheduleAddArgs, ScheduleArgs, ScheduleCommand, ScheduleEditArgs,
    ScheduleNextArgs, ScheduleOutcomesArgs, ScheduleShowArgs, TemplateAddArgs, TemplateArgs,
    TemplateCommand, TemplateEditArgs, TemplateShowArgs,
};
pub(crate) use self::import::ImportArgs;
pub(crate) use self::live::{TopArgs, UP_STATE_DIR, UpArgs};
pub(crate) use self::plugin::{
    ChoiceArgs, ClusterArgs, ManifestFormat, MigrateArgs, PluginCli, PluginCommand,
    PluginExplainArgs, PluginForecastArgs, PluginNextArgs, PluginRunArgs, PluginWhyArgs, Token,
};
pub(crate) use self::queue::{
    GroupAddArgs, GroupLsArgs, GroupModeWord, GroupShowArgs, OnFailureWord, ParamsArgs,
    QueueAddArgs, QueueArgs, QueueArtifactsArgs, QueueCancelArgs, QueueCommand, QueueDirectArgs,
    QueueEditArgs, QueueGroupArgs, QueueGroupCommand, QueueJobArgs, QueueLogsArgs, QueueLsArgs,
    QueueMoveArgs, QueuePauseArgs, QueuePrioArgs, QueueResumeArgs, QueueShowArgs, QueueStatsArgs,
    QueueTopArgs, StartArgs, StateWord,
};
pub(crate) use self::spool::{
    SpoolArgs, SpoolCommand, SpoolLsArgs, SpoolPlaceArgs, SpoolPurgeArgs, SpoolPutArgs,
    SpoolRetryArgs, SpoolShowArgs, SpoolStatsArgs, TaskStateWord,
};

/// Kron decides when work runs, deterministically and explainably.
#[derive(Debug, Parser)]
#[command(
    name = "kron",
    version,
    term_width = 100,
    arg_required_else_help = true,
    after_help = "\
Examples:
  kron up
  kron next --schedule '0 3 * * * @win(after,2h)' --identity db-backup
  kron lint jobs.toml
  kron explain db-backup --config jobs.toml --at 2026-03-01T03:00:00Z
  kron forecast jobs.toml --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z
  kron diff jobs.toml jobs.new.toml --max-peak 20
  kron status
  kron why db-backup
  kron logs db-backup --follow
  kron queue add resize --param file=a.png

Exit codes: 0 ok, 1 negative answer, 2 usage or configuration, 3 state unreadable or incompatible,
4 a daemon runs, 5 state could not be written, 6 system error."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a daemon here and now, and watch its jobs; the first one to try
    Up(UpArgs),
    /// Check job files: every error and doubt at once, each with its place
    Lint(LintArgs),
    /// Show a job's next runs: nominal time, window and chosen time
    Next(NextArgs),
    /// Answer decision requests: one JSON object a line in, one a line out
    Decide(DecideArgs),
    /// Explain one decision step by step, with a plot of its window
    Explain(ExplainArgs),
    /// Count the starts of all jobs over time, beside the same schedules without windows
    Forecast(ForecastArgs),
    /// Show what an edit changes: periods that move, appear or vanish, and the peak
    Diff(DiffArgs),
    /// Compute every decision of a log again and report the first that differs
    Replay(ReplayArgs),
    /// Turn a crontab into a job file, and say what differs, line by line
    Import(ImportArgs),
    /// Show the daemon and its jobs: what runs next, what ran last, what runs now
    Status(StatusArgs),
    /// Watch the daemon and its jobs live
    Top(TopArgs),
    /// Show what became of a job's periods and runs
    History(HistoryArgs),
    /// Tell why a period of a job ran or did not
    Why(WhyArgs),
    /// Show the output of a run
    Logs(LogsArgs),
    /// Run a job now
    Run(RunArgs),
    /// Stop starting a job until it is resumed
    Suspend(JobCommandArgs),
    /// Start a suspended job again when it next falls due
    Resume(JobCommandArgs),
    /// Make the daemon read its job files again
    Reload(ReloadArgs),
    /// Stop the daemon
    Stop(StopArgs),
    /// Tell the daemon about the clock
    Clock(ClockArgs),
    /// Look for what might go wrong on this machine: clock, disk, state, service, deadlines
    Doctor(DoctorArgs),
    /// Look at and mend what the daemon has recorded
    State(StateArgs),
    /// Put jobs into the daemon's queue, look at them, and change what becomes of them
    Queue(QueueArgs),
    /// What jobs and schedules of the queue have in common
    Template(TemplateArgs),
    /// Enqueue jobs by the clock
    Schedule(ScheduleArgs),
    /// Put tasks into directories of tasks, look at them, and start them anew
    Spool(SpoolArgs),
    /// Write a shell's completions to standard output
    Completions(CompletionsArgs),
    /// Write a manual page to standard output, or all of them to a directory
    Man(ManArgs),
}

/// How results are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// Tables `[job.NAME]`
    Toml,
    /// One job a line, with `name=` and other settings
    Krontab,
    /// A user's crontab: five fields and a command
    Crontab,
    /// A system crontab: five fields, a user and a command
    SystemCrontab,
}

#[derive(Debug, Default, Args)]
pub(crate) struct ReadArgs {
    /// How the files are written, when their names do not tell
    #[arg(long = "as", value_name = "FORMAT", help_heading = "Reading files")]
    pub(crate) file_format: Option<FileFormat>,

    /// Whose crontab it is; by default the file's name
    #[arg(long, value_name = "NAME", help_heading = "Reading files")]
    pub(crate) crontab_user: Option<String>,

    /// The zone of crontab entries without `CRON_TZ` or `@tz`
    #[arg(long, value_name = "ZONE", default_value = "UTC", help_heading = "Reading files")]
    pub(crate) crontab_timezone: String,

    /// What `%H` in a salt stands for
    #[arg(long, value_name = "NAME", help_heading = "Reading files")]
    pub(crate) host: Option<String>,

    /// What `%m` in a salt stands for
    #[arg(long, value_name = "ID", help_heading = "Reading files")]
    pub(crate) machine_id: Option<String>,
}

/// A job of a file, or a schedule on its own.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// The job's name; not needed when the files define only one
    #[arg(value_name = "JOB", conflicts_with = "schedule")]
    pub(crate) job: Option<String>,

    /// A job file, or a directory of them; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "schedule")]
    pub(crate) config: Vec<PathBuf>,

    /// A schedule with its modifiers, instead of a file
    #[arg(long, value_name = "EXPR")]
    pub(crate) schedule: Option<String>,

    /// The identity that --schedule is decided for
    #[arg(long, value_name = "ID", conflicts_with_all = ["job", "config"])]
    pub(crate) identity: Option<String>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kron lint /etc/kron
  crontab -l | kron lint - --as crontab
  kron lint jobs.toml --format json --strict

Exit codes: 0 no errors, 2 errors (with --strict also warnings), 6 unreadable.")]
pub(crate) struct LintArgs {
    /// Job files, directories of them, or `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,

    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) strict: bool,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "kron next [OPTIONS] [JOB] --config <PATH>...\n       kron next [OPTIONS] --schedule <EXPR> [--identity <ID>]",
    after_help = "\
Times are RFC 3339, such as 2026-03-01T00:00:00Z or 2026-03-01T01:00:00+01:00.

Examples:
  kron next db-backup --config /etc/kron -n 10
  kron next --schedule '0 3 * * * @tz(Europe/Paris) @win(after,2h)' --identity db-backup
  kron next db-backup --config jobs.toml --after 2026-03-01T00:00:00Z --format json

Exit codes: 0 ok, 1 no such job or no period, 2 usage or configuration, 6 system error."
)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// Show periods that fall due after this time [default: now]
    #[arg(long, value_name = "T")]
    pub(crate) after: Option<String>,

    /// How many periods
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,

    /// How to show them; `json` is one decision a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

/// How decisions are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecideFormat {
    /// The decision as one JSON object
    #[default]
    Json,
    /// The decision as a log's `decision` event, without its time: what `kron replay` reads
    Log,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A request has `identity` and `nominal_time`; `timezone`, `window_mode`, `window_duration`,
`distribution {name, params}`, `seed_strategy`, `salt` and `constraints {only, avoid}` are optional:
  echo '{\"identity\":\"a\",\"nominal_time\":\"2026-03-01T00:00:00Z\",\"window_duration\":\"3h\"}' | kron decide
A bad request is answered with {\"error\":{\"category\",\"message\"}} on its line.

Exit codes: 0 ok, 2 any request was bad, 6 system error.")]
pub(crate) struct DecideArgs {
    /// Where requests come from; `-` for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,

    /// How to write decisions
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: DecideFormat,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "kron explain [OPTIONS] [JOB] --config <PATH>...\n       kron explain [OPTIONS] --schedule <EXPR> [--identity <ID>]",
    after_help = "\
Times are RFC 3339, such as 2026-03-01T00:00:00Z or 2026-03-01T01:00:00+01:00.

Examples:
  kron explain db-backup --config jobs.toml --at 2026-03-01T03:00:00Z
  kron explain --schedule '30 2 * * * @tz(Europe/Paris)' --at 2026-03-29T01:30:00Z

Exit codes: 0 ok, 1 no such job or no period, 2 usage or configuration, 6 system error."
)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// Explain the period with this nominal time, or whose window contains it, or else the next
    /// one [default: now]
    #[arg(long, value_name = "T")]
    pub(crate) at: Option<String>,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct HorizonArgs {
    /// The first second looked at [default: the start of this hour]
    #[arg(long, value_name = "T")]
    pub(crate) from: Option<String>,

    /// The first second no longer looked at
    #[arg(long, value_name = "T", conflicts_with = "for_duration")]
    pub(crate) to: Option<String>,

    /// How long to look ahead, instead of --to [default: 1d; 7d for diff]
    #[arg(long = "for", value_name = "DURATION", id = "for_duration")]
    pub(crate) for_duration: Option<String>,

    /// Count starts per this length of time
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub(crate) bucket: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Times are RFC 3339, such as 2026-03-01T00:00:00Z; durations are such as 90s, 15m, 1h30m or 7d.
Runs at once are counted for jobs that declare `duration`.

Examples:
  kron forecast jobs.toml --from 2026-03-01T00:00:00Z --for 7d
  kron forecast /etc/kron --bucket 5m --timezone Europe/Paris
  crontab -l | kron forecast - --as crontab --format json")]
pub(crate) struct ForecastArgs {
    /// Job files, directories of them, or `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) horizon: HorizonArgs,

    /// The zone times are shown in
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) timezone: String,

    #[command(flatten)]
    pub(crate) read: ReadArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Times are RFC 3339, such as 2026-03-01T00:00:00Z; durations are such as 90s, 15m, 1h30m or 7d.

Examples:
  kron diff jobs.toml jobs.new.toml --from 2026-03-01T00:00:00Z --for 14d
  kron diff main/jobs branch/jobs --bucket 5m --max-peak 20

Exit codes: 0 ok, 1 beyond --max-peak, or a change with --exit-code, 2 usage or configuration,
6 system error.")]
pub(crate) struct DiffArgs {
    /// The file or directory as it is
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,

    /// The file or directory as it would be
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    #[command(flatten)]
    pub(crate) horizon: HorizonArgs,

    /// Exit with 1 when more than N runs of NEW start in one bucket
    #[arg(long, value_name = "N")]
    pub(crate) max_peak: Option<u32>,

    /// Exit with 1 when a job or a period comes, goes or moves
    #[arg(long)]
    pub(crate) exit_code: bool,

    /// Show every changed period, not only the first three of each job
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Lines that are no `decision` event are passed over.

Examples:
  journalctl -u krond -o cat | kron replay -
  kron decide --format log requests.jsonl | kron replay -

Exit codes: 0 all as recorded, 1 a difference, or no decision at all, 2 an event that cannot be
read, 6 system error.")]
pub(crate) struct ReplayArgs {
    /// The log, in text or JSON lines; `-` for standard input
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command, such as `next`, `state reset` or `kubectl-kron next`; `kron` itself by default
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Vec<String>,

    /// Write every page into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
