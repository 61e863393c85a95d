//! `kron import`: what people type.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    override_usage = "kron import [OPTIONS] <FILE>\n       kron import [OPTIONS] --user <NAME> [FILE]",
    after_help = "\
The job file goes to standard output, with each line of the crontab above what it has become; what
differs goes to standard error too, line by line. Lines without an equal, such as `@reboot`, and bad
ones are left out and told.

Files named `crontab` and files in a directory `cron.d` are system crontabs; `*.crontab` and files
in a directory `crontabs` are those of the user they are named after.

Examples:
  crontab -l | kron import - --user \"$USER\" --output jobs.toml
  kron import --user ann --output /etc/kron
  kron import /etc/crontab
  kron import /etc/cron.d --output /etc/kron

Exit codes: 0 all lines are taken over, 1 some were left out, 2 usage, 6 system error."
)]
pub(crate) struct ImportArgs {
    /// The crontab, a directory of system crontabs, or `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "user")]
    pub(crate) file: Option<PathBuf>,

    /// Whose crontab it is; without FILE, the one that cron keeps for this user
    #[arg(long, value_name = "NAME", conflicts_with = "system")]
    pub(crate) user: Option<String>,

    /// It is a system crontab: each entry names its user
    #[arg(long)]
    pub(crate) system: bool,

    /// Write a private file here, or one per crontab into this directory; nothing is overwritten
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,

    /// The zone of entries without `CRON_TZ` or `@tz` [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    pub(crate) crontab_timezone: Option<String>,

    /// What `%H` in a salt stands for
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,

    /// What `%m` in a salt stands for
    #[arg(long, value_name = "ID")]
    pub(crate) machine_id: Option<String>,
}
