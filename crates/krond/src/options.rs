//! What krond is told on its command line; `kron up` takes the same.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::api;
use crate::log::LogFormat;

/// Runs jobs at the times Kron decides, at most once each, whatever crashes.
#[derive(Debug, Parser)]
#[command(
    name = "krond",
    version,
    term_width = 100,
    arg_required_else_help = true,
    after_help = "\
Examples:
  krond run --config /etc/kron
  krond run --config jobs.toml --state-dir ./state --log-format json
  krond run --crontab /etc/crontab --crontab /etc/cron.d

Exit codes: 0 stopped as asked, 2 usage or configuration, 3 state unreadable or incompatible,
4 another daemon holds the lock, 5 state could not be written, 6 other system error."
)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What krond can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon in the foreground
    Run(RunOptions),
}

/// How to run the daemon.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Signals: SIGHUP reads the definitions again; SIGTERM stops and leaves running jobs to their
supervisors; SIGINT stops starting jobs and waits for those that run, a second one ends them.

Exit codes: 0 stopped as asked, 2 usage or configuration, 3 state unreadable or incompatible,
4 another daemon holds the lock, 5 state could not be written, 6 other system error.")]
pub struct RunOptions {
    /// A job file, or a directory of them; may be repeated
    #[arg(long, value_name = "PATH", required_unless_present = "crontab", num_args = 1..)]
    pub config: Vec<PathBuf>,

    /// A system crontab, or a directory of them, run as it is; may be repeated
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub crontab: Vec<PathBuf>,

    /// The zone of crontab entries without `CRON_TZ` or `@tz` [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    pub crontab_timezone: Option<String>,

    /// Where the past is recorded; one daemon per directory
    #[arg(long, value_name = "DIR", default_value = api::STATE_DIR_DEFAULT)]
    pub state_dir: PathBuf,

    /// The control socket [default: /run/krond/krond.sock, or krond.sock in another state directory]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Also serve the API on this address, such as 127.0.0.1:8620: without the token of `[api]` only metrics and what the scheduler does
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<std::net::SocketAddr>,

    /// How log lines are written to standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// The program that supervises each run, such as the package's small one [default: krond itself]
    #[arg(long, value_name = "PATH")]
    pub supervisor: Option<PathBuf>,

    /// How many threads write state; one makes the order of writes repeatable
    #[arg(long, value_name = "N", hide = true, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub sync_threads: u8,

    /// How many jobs due in one second are brought to their gates ahead; 0 brings none
    #[arg(long, value_name = "N", hide = true, default_value_t = 16)]
    pub burst: u16,
}
