//! `kubectl kron`: what people type.
//!
//! The flags that say which cluster are kubectl's own, under their own names, and are handed to it as
//! they are. Where people are used to another name from kubectl, such as `-o`, that is taken, too.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{HorizonArgs, OutputFormat};

/// Looks at KronJobs: when they run, why then, what became of it; and turns CronJobs into them.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-kron",
    bin_name = "kubectl kron",
    version,
    term_width = 100,
    arg_required_else_help = true,
    after_help = "\
The cluster is asked through `kubectl`, and nothing in it is ever changed.

Examples:
  kubectl kron next -A
  kubectl kron explain backup -n prod
  kubectl kron why backup 2026-03-01T00:00:00Z
  kubectl kron forecast -A --for 7d
  kubectl kron run backup | kubectl create -f -
  kubectl kron migrate backup --window 30m --diff

Exit codes: 0 ok, 1 negative answer, 2 usage or configuration, 6 system error."
)]
pub(crate) struct PluginCli {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    #[command(subcommand)]
    pub(crate) command: PluginCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Show the coming runs of KronJobs, in order of time
    Next(PluginNextArgs),
    /// Explain how a period's second is chosen, with a plot of its window
    Explain(PluginExplainArgs),
    /// Tell why a period of a KronJob ran or did not
    Why(PluginWhyArgs),
    /// Count the starts of all KronJobs over time, beside the same schedules without windows
    Forecast(PluginForecastArgs),
    /// Write a Job of a KronJob for `kubectl create` to make at once, beside its periods
    Run(PluginRunArgs),
    /// Turn CronJobs into KronJobs, and say what differs
    Migrate(MigrateArgs),
}

/// Which cluster, and as whom.
#[derive(Debug, Default, Args)]
pub(crate) struct ClusterArgs {
    /// The namespace [default: that of kubectl's context]
    #[arg(long, short, value_name = "NAME", global = true, help_heading = "Cluster")]
    pub(crate) namespace: Option<String>,

    /// The kubeconfig file
    #[arg(long, value_name = "PATH", global = true, help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<String>,

    /// The context of the kubeconfig file
    #[arg(long, value_name = "NAME", global = true, help_heading = "Cluster")]
    pub(crate) context: Option<String>,

    /// The cluster of the kubeconfig file
    #[arg(long, value_name = "NAME", global = true, help_heading = "Cluster")]
    pub(crate) cluster: Option<String>,

    /// The user of the kubeconfig file
    #[arg(long, value_name = "NAME", global = true, help_heading = "Cluster")]
    pub(crate) user: Option<String>,

    /// Whom to impersonate
    #[arg(long = "as", value_name = "NAME", global = true, help_heading = "Cluster")]
    pub(crate) impersonate: Option<String>,

    /// A group to impersonate; may be repeated
    #[arg(long = "as-group", value_name = "NAME", global = true, help_heading = "Cluster")]
    pub(crate) groups: Vec<String>,

    /// The UID to impersonate
    #[arg(long, value_name = "UID", global = true, help_heading = "Cluster")]
    pub(crate) as_uid: Option<String>,

    /// The address of the API server
    #[arg(long, short, value_name = "URL", global = true, help_heading = "Cluster")]
    pub(crate) server: Option<String>,

    /// A bearer token for the API server; as with kubectl, the list of processes shows it
    #[arg(long, value_name = "TOKEN", global = true, help_heading = "Cluster")]
    pub(crate) token: Option<Token>,

    /// How long a request may take, such as 5s
    #[arg(long, value_name = "DURATION", global = true, help_heading = "Cluster")]
    pub(crate) request_timeout: Option<String>,
}

/// A bearer token, which is told to nobody but kubectl.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// The flag of kubectl that says it.
    pub(crate) fn flag(&self) -> String {
        format!("--token={}", self.0)
    }
}

impl From<String> for Token {
    fn from(text: String) -> Token {
        Token(text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Which objects, where a list is asked for.
#[derive(Debug, Args)]
pub(crate) struct ChoiceArgs {
    /// Those of all namespaces, whatever `--namespace` says
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,

    /// Those with these labels, such as `app=shop`; as kubectl takes it
    #[arg(long, short = 'l', value_name = "QUERY")]
    pub(crate) selector: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Times are computed from the specs, as the operator computes them; where its status says something
else, or it has not seen a spec yet, that is told.

Examples:
  kubectl kron next
  kubectl kron next -A --format json
  kubectl kron next backup report --count 3 --after 2026-03-01T00:00:00Z

Exit codes: 0 ok, 1 no such KronJob or no period, 2 a KronJob that was named is invalid, 6 system
error.")]
pub(crate) struct PluginNextArgs {
    /// The KronJobs; all of the namespace by default
    #[arg(value_name = "NAME", conflicts_with_all = ["all_namespaces", "selector"])]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,

    /// How many runs of each KronJob [default: 5 of a single one that is named, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: Option<u32>,

    /// Show runs after this time [default: now]
    #[arg(long, value_name = "T")]
    pub(crate) after: Option<String>,

    /// How to show them; `json` is one run a line
    #[arg(long, short = 'o', visible_alias = "output", value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl kron explain backup
  kubectl kron explain backup --period 2026-03-01T00:00:00Z --format json

Exit codes: 0 ok, 1 no such KronJob or no period, 2 the KronJob is invalid, 6 system error.")]
pub(crate) struct PluginExplainArgs {
    /// The KronJob
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Explain the period with this id, or the one whose window contains this time, or else the next
    /// one; also as in the label `kron.dev/period` [default: now]
    #[arg(long, value_name = "ID")]
    pub(crate) period: Option<String>,

    /// How to show it
    #[arg(long, short = 'o', visible_alias = "output", value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl kron why backup
  kubectl kron why backup 2026-03-01T00:00:00Z
  kubectl kron why backup 20260301T000000Z --format json

Exit codes: 0 ok, 1 no such KronJob, or nothing is known of that period, 6 system error.")]
pub(crate) struct PluginWhyArgs {
    /// The KronJob
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The period's id, as in the status or as in the label `kron.dev/period`, or any time: then the
    /// period that was current [default: now]
    #[arg(value_name = "PERIOD")]
    pub(crate) period: Option<String>,

    /// How to show it
    #[arg(long, short = 'o', visible_alias = "output", value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Times are RFC 3339, such as 2026-03-01T00:00:00Z; durations are such as 90s, 15m, 1h30m or 7d.
KronJobs that are invalid are told and left out.

Examples:
  kubectl kron forecast
  kubectl kron forecast -A --for 7d --bucket 15m --timezone Europe/Paris")]
pub(crate) struct PluginForecastArgs {
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,

    #[command(flatten)]
    pub(crate) horizon: HorizonArgs,

    /// The zone times are shown in
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) timezone: String,

    /// How to show it
    #[arg(long, short = 'o', visible_alias = "output", value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is made here: `kubectl create` makes the Job, of what is in the KronJob's `jobTemplate`. Its
name is the API server's to choose, so that `kubectl apply` does not take it. The Job is the
KronJob's, and no period's: while it is active, `forbid` skips periods and `replace` removes it.

Examples:
  kubectl kron run backup | kubectl create -f -
  kubectl kron run backup -n prod -o json

Exit codes: 0 ok, 1 no such KronJob, 2 it has no template, 6 system error.")]
pub(crate) struct PluginRunArgs {
    /// The KronJob
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// How to write the Job
    #[arg(long, short = 'o', visible_alias = "output", value_enum, default_value_t)]
    pub(crate) format: ManifestFormat,
}

/// How manifests are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManifestFormat {
    /// One document an object, with what there is to know about it as comments
    #[default]
    Yaml,
    /// One object, or a list of them
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing in the cluster is changed: the manifests go to standard output or to files, with the
commands to run, in their order, above each that is alone in its file. What differs goes to standard
error too. A KronJob has the name of its CronJob. A CronJob without an equal, such as `@every 7m`,
is left out and told.

A window of `5m` or `after,5m` begins at the time of the CronJob, `around,5m` and `before,5m` lie
otherwise; without one, KronJobs run at the times of their CronJobs, but for some where clocks are
changed, which are told.

Examples:
  kubectl kron migrate --diff
  kubectl kron migrate backup --window 30m > backup.yaml
  kubectl kron migrate -A --window 10m --distribution skewEarly,shape=3 --output-dir kronjobs
  kubectl kron migrate -f cronjobs.yaml

Exit codes: 0 all are taken over, 1 there was none, or some were left out, or their files were there
already, 2 usage or configuration, 6 system error.")]
pub(crate) struct MigrateArgs {
    /// The CronJobs; all of the namespace by default
    #[arg(value_name = "NAME", conflicts_with_all = ["all_namespaces", "selector"])]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,

    /// Read CronJobs from a file of YAML or JSON, or `-` for standard input, instead of the cluster;
    /// may be repeated
    #[arg(long = "filename", short = 'f', value_name = "FILE", conflicts_with_all = ["names", "all_namespaces", "selector"])]
    pub(crate) files: Vec<PathBuf>,

    /// Spread runs over a window of this length; where periods are closer, over less
    #[arg(long, value_name = "[MODE,]DURATION")]
    pub(crate) window: Option<String>,

    /// How runs are spread over the window, such as `skewEarly,shape=3` [default: uniform]
    #[arg(long, value_name = "NAME[,K=V,...]", requires = "window")]
    pub(crate) distribution: Option<String>,

    /// The zone of CronJobs that say none, which is that of their controller [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,

    /// Show what becomes of each manifest and of its next runs, instead of the manifests
    #[arg(long, conflicts_with_all = ["output_dir", "format"])]
    pub(crate) diff: bool,

    /// Write one file per KronJob into this directory; those that are there already are left alone
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,

    /// When it is taken to be done [default: now]
    #[arg(long, value_name = "T")]
    pub(crate) at: Option<String>,

    /// How to write manifests
    #[arg(long, short = 'o', visible_alias = "output", value_enum, default_value_t)]
    pub(crate) format: ManifestFormat,
}
