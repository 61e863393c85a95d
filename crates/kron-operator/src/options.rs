//! The command line of `kron-operator`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use kron_core::Seconds;

use crate::log::LogFormat;
use crate::plan::JOB_AGE_S_MIN;

/// Makes Jobs of KronJobs: one per period, at a reproducible second of its window.
#[derive(Debug, Parser)]
#[command(name = "kron-operator", version, about, max_term_width = 100)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch KronJobs and make their Jobs
    Run(Box<Run>),
    /// Print the definition of the resource KronJob, to be given to `kubectl apply -f -`
    Crd,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A namespace to look at; may be repeated. All, if none is given
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Vec<String>,
    /// The namespace of the lease [default: the one this process runs in, else `default`]
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) lease_namespace: Option<String>,
    /// The name of the lease
    #[arg(long, value_name = "NAME", default_value = "kron-operator")]
    pub(crate) lease_name: String,
    /// How long the others wait for a leader that gives no sign of life
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) lease_duration: Duration,
    /// How old a Job must be before it may be removed. The default is safe; with less than 150s,
    /// a request that was held up can create a removed Job again, and the period runs twice
    #[arg(
        long,
        value_name = "DURATION",
        default_value_t = Seconds::new(JOB_AGE_S_MIN.unsigned_abs()),
        value_parser = seconds,
    )]
    pub(crate) minimum_job_age: Seconds,
    /// The name of this replica; something random is added to it [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) identity: Option<String>,
    /// Where health, readiness and metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub(crate) listen: SocketAddr,
    /// How log lines are written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// A kubeconfig file [default: the service account of the pod, else as kubectl]
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig file
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_secs(seconds(text)?.get()))
}

fn seconds(text: &str) -> Result<Seconds, String> {
    Seconds::parse(text).map_err(|finding| finding.message)
}
