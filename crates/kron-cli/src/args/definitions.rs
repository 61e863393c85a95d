//! What people type about the queue's templates and schedules.

use clap::{ArgGroup, Args, Subcommand};

use super::queue::ParamsArgs;
use super::{DaemonArgs, OutputFormat};

#[derive(Debug, Args)]
#[command(after_help = "\
A template is what jobs and schedules of the queue have in common; a change of it does not reach
jobs that are there already. It is given by its name, by its id, or by the first or last digits of
that.

Examples:
  kron template add thumbnails --type resize --param width=300
  kron queue add --template thumbnails --param file=a.png")]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    pub(crate) command: TemplateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// Make a template
    Add(TemplateAddArgs),
    /// List templates
    Ls(DefinitionLsArgs),
    /// Show a template
    Show(TemplateShowArgs),
    /// Change a template
    Edit(TemplateEditArgs),
    /// Delete a template that no schedule uses
    Rm(TemplateShowArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The template's id is printed.

Examples:
  kron template add thumbnails --type resize --param width=300
  kron template add report --type report --params @report.json --priority 10

Exit codes: 0 made, 1 the name is taken, no daemon or no queue, 2 usage or not allowed, 6 system
error.")]
pub(crate) struct TemplateAddArgs {
    /// Its name, which no other has
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The type of its jobs
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: String,

    #[command(flatten)]
    pub(crate) params: ParamsArgs,

    /// The priority of its jobs
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i64,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 ok, 1 no daemon or no queue, 6 system error.")]
pub(crate) struct DefinitionLsArgs {
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show them; `json` is one a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 ok, 1 no such template, it is in use, no daemon or no queue, 2 more than one is meant,
6 system error.")]
pub(crate) struct TemplateShowArgs {
    /// The template
    #[arg(value_name = "TEMPLATE")]
    pub(crate) template: String,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What is not given stays as it is; parameters are replaced as a whole.

Examples:
  kron template edit thumbnails --priority -5
  kron template edit thumbnails --params '{\"width\": 600}' --name large-thumbnails

Exit codes: 0 ok, 1 no such template, the name is taken, no daemon or no queue, 2 usage or not
allowed, 6 system error.")]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(["name", "job_type", "params", "param", "priority"]))]
pub(crate) struct TemplateEditArgs {
    /// The template
    #[arg(value_name = "TEMPLATE")]
    pub(crate) template: String,

    /// Another name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Another type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,

    #[command(flatten)]
    pub(crate) params: ParamsArgs,

    /// Another priority
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A schedule enqueues a job of its template in each of its periods, once. It is given by its name, by
its id, or by the first or last digits of that. The jobs of job files, which run by themselves, are
not among these: `kron status` shows them.

Examples:
  kron schedule add nightly --template report --cron '0 3 * * * @tz(Europe/Paris) @win(after,2h)'
  kron schedule next nightly
  kron schedule disable nightly")]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    pub(crate) command: ScheduleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Make a schedule
    Add(ScheduleAddArgs),
    /// List schedules
    Ls(DefinitionLsArgs),
    /// Show a schedule
    Show(ScheduleShowArgs),
    /// Change a schedule; jobs that it has made stay as they are
    Edit(ScheduleEditArgs),
    /// Let a schedule make jobs again, from its next period on
    Enable(ScheduleShowArgs),
    /// Keep a schedule from making jobs
    Disable(ScheduleShowArgs),
    /// Delete a schedule; jobs that it has made stay
    Rm(ScheduleShowArgs),
    /// Show a schedule's next periods
    Next(ScheduleNextArgs),
    /// Show what became of a schedule's periods
    Outcomes(ScheduleOutcomesArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The schedule's id is printed. What it is decided by is that id, so that two schedules with the same
expression and a window choose different times.

Examples:
  kron schedule add nightly --template report --cron '0 3 * * * @tz(Europe/Paris) @win(after,2h)'
  kron schedule add hourly --template report --cron '0 * * * *' --timezone Asia/Tokyo --disabled

Exit codes: 0 made, 1 no such template, the name is taken, no daemon or no queue, 2 usage, or the
expression is wrong, 6 system error.")]
pub(crate) struct ScheduleAddArgs {
    /// Its name, which no other has
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The template of its jobs
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) template: String,

    /// When, with all modifiers
    #[arg(long, value_name = "EXPR")]
    pub(crate) cron: String,

    /// The zone of an expression without `@tz` [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,

    #[command(flatten)]
    pub(crate) params: ParamsArgs,

    /// Do not make jobs before `kron schedule enable`
    #[arg(long)]
    pub(crate) disabled: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 ok, 1 no such schedule, no daemon or no queue, 2 more than one is meant, 6 system
error.")]
pub(crate) struct ScheduleShowArgs {
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    pub(crate) schedule: String,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What is not given stays as it is; parameters are replaced as a whole. An edit never runs the past:
only periods after it count.

Examples:
  kron schedule edit nightly --cron '0 4 * * * @win(after,1h)'
  kron schedule edit nightly --template other-report --no-params

Exit codes: 0 ok, 1 no such schedule or template, the name is taken, no daemon or no queue, 2 usage,
or the expression is wrong, 6 system error.")]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(["name", "template", "cron", "timezone", "no_timezone", "params", "param", "no_params"]))]
pub(crate) struct ScheduleEditArgs {
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    pub(crate) schedule: String,

    /// Another name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Another template
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) template: Option<String>,

    /// Another expression
    #[arg(long, value_name = "EXPR")]
    pub(crate) cron: Option<String>,

    /// Another zone, for an expression without `@tz`
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,

    /// The zone that the expression says, or UTC
    #[arg(long, conflicts_with = "timezone")]
    pub(crate) no_timezone: bool,

    #[command(flatten)]
    pub(crate) params: ParamsArgs,

    /// The template's parameters and no others
    #[arg(long, conflicts_with_all = ["params", "param"])]
    pub(crate) no_params: bool,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kron schedule next nightly -n 20

Exit codes: 0 ok, 1 no such schedule, no further period, no daemon or no queue, 2 usage, 6 system
error.")]
pub(crate) struct ScheduleNextArgs {
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    pub(crate) schedule: String,

    /// How many periods
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) count: u32,

    /// Show periods that fall due after this time [default: now]
    #[arg(long, value_name = "T")]
    pub(crate) after: Option<String>,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show them; `json` is one a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kron schedule outcomes nightly -n 100

Exit codes: 0 ok, 1 no such schedule, no daemon or no queue, 2 usage, 6 system error.")]
pub(crate) struct ScheduleOutcomesArgs {
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    pub(crate) schedule: String,

    /// How many, the newest first
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    /// How to show them; `json` is one a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}
