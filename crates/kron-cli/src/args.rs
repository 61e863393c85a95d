//! What people type: commands, arguments, and the words that explain them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Kron decides when work runs, deterministically and explainably.
#[derive(Debug, Parser)]
#[command(
    name = "kron",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "\
Examples:
  kron next --schedule '0 3 * * * @win(after,2h)' --identity db-backup
  kron lint jobs.toml
  kron explain db-backup --config jobs.toml --at 2026-03-01T03:00:00Z
  kron forecast jobs.toml --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z
  kron diff jobs.toml jobs.new.toml --max-peak 20

Exit codes: 0 ok, 1 negative answer, 2 usage or configuration, 6 system error."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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
    #[arg(
        long,
        value_name = "PATH",
        required_unless_present = "schedule",
        conflicts_with = "schedule"
    )]
    pub(crate) config: Vec<PathBuf>,

    /// A schedule with its modifiers, instead of a file
    #[arg(long, value_name = "EXPR")]
    pub(crate) schedule: Option<String>,

    /// The identity that --schedule is decided for
    #[arg(long, value_name = "ID", requires = "schedule")]
    pub(crate) identity: Option<String>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Debug, Args)]
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
  echo '{\"identity\":\"prod/db-backup\",\"nominal_time\":\"2026-03-01T00:00:00Z\",\"window_duration\":\"3h\",\"salt\":\"backup\"}' | kron decide
A bad request is answered with {\"error\":{\"category\",\"message\"}} on its line, and exit code 2 at the end.")]
pub(crate) struct DecideArgs {
    /// Where requests come from; standard input by default
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,

    /// How to write decisions
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: DecideFormat,
}

#[derive(Debug, Args)]
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
    /// First second [default: this hour]
    #[arg(long, value_name = "T")]
    pub(crate) from: Option<String>,

    /// First second after it
    #[arg(long, value_name = "T", conflicts_with = "for_duration")]
    pub(crate) to: Option<String>,

    /// How long after --from, instead of --to [default: 1d for forecast, 7d for diff]
    #[arg(long = "for", value_name = "DURATION", id = "for_duration")]
    pub(crate) for_duration: Option<String>,

    /// The length of a bucket
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub(crate) bucket: String,
}

#[derive(Debug, Args)]
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
pub(crate) struct DiffArgs {
    /// The file or directory as it is
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,

    /// The file or directory as it would be
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    #[command(flatten)]
    pub(crate) horizon: HorizonArgs,

    /// Answer 1 when more than N runs would start in one bucket
    #[arg(long, value_name = "N")]
    pub(crate) max_peak: Option<u32>,

    /// Answer 1 when anything changes
    #[arg(long)]
    pub(crate) exit_code: bool,

    /// Show every changed period, not the first of each job
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,

    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
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
    /// The command; `kron` itself by default
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Option<String>,

    /// Write every page into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
