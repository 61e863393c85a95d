//! How a job's command is run.

use std::path::Path;
use std::time::Duration;

use kron_config::{DaemonSettings, Handler, HandlerTarget};
use kron_exec::{Account, Output, Plan, clean_environment};
use kron_queue::ClaimedRun;

use super::dispatcher::Start;
use super::log_path;
use crate::daemon::launch::{Host, duration, limits, working_directory};

/// The plan of a run, whose files go to `artifacts`.
pub(crate) fn plan(
    start: &Start,
    settings: &DaemonSettings,
    host: &Host,
    account: &Account,
    artifacts: &Path,
) -> Plan {
    let Start { run, claimed, handler, .. } = start;
    let execution = &handler.execution;
    let set = settings.for_job(execution);
    let argv = match &handler.target {
        HandlerTarget::Command(action) => action.to_argv(),
        // Never planned: an endpoint has no process.
        HandlerTarget::Web { .. } => Vec::new(),
    };
    let mut variables = vec![("PATH".to_owned(), settings.path.clone())];
    variables.extend(execution.env.iter().cloned());
    Plan {
        run: run.clone(),
        argv,
        env: clean_environment(account, &variables, &told(claimed, handler, artifacts)),
        credentials: account.to_assume(),
        no_new_privileges: execution.no_new_privileges,
        cwd: Some(working_directory(execution.cwd.as_deref(), &account.home)),
        umask: set.umask,
        nice: execution.nice,
        limits: limits(&execution.limits, host.open_files),
        stdin: Some(claimed.run.params_snapshot.to_string()),
        output: Output::Log {
            path: host.state_dir.join(log_path(claimed.run.run_id)),
            bytes_max: set.log_bytes_max,
        },
        timeout: shorter(set.timeout.map(duration), start.timeout),
        grace: duration(set.grace),
        state_dir: host.state_dir.clone(),
        identity: Some(identity(&handler.job_type)),
        period_id: Some(claimed.job.job_id.to_string()),
        log_format: host.log_format,
    }
}

/// What runs of a type are called where jobs of the scheduler have an identity.
pub(crate) fn identity(job_type: &str) -> String {
    format!("queue/{job_type}")
}

/// What a command is told beside its parameters. What does not apply is there and empty.
fn told(claimed: &ClaimedRun, handler: &Handler, artifacts: &Path) -> Vec<(&'static str, String)> {
    let ClaimedRun { job, run, .. } = claimed;
    let shown = |id: Option<String>| id.unwrap_or_default();
    let identity = match job.schedule_id {
        Some(schedule) => format!("schedule/{schedule}"),
        None => identity(&handler.job_type),
    };
    vec![
        ("KRON_IDENTITY", identity),
        ("KRON_PERIOD_ID", shown(job.period_id.clone())),
        ("KRON_JOB_ID", job.job_id.to_string()),
        ("KRON_RUN_ID", run.run_id.to_string()),
        ("KRON_JOB_TYPE", job.job_type.clone()),
        ("KRON_ATTEMPT", job.attempt.to_string()),
        ("KRON_RETRY_OF", shown(job.retry_of.map(|id| id.to_string()))),
        ("KRON_GROUP_ID", shown(job.group_id.map(|id| id.to_string()))),
        ("KRON_SCHEDULE_ID", shown(job.schedule_id.map(|id| id.to_string()))),
        ("KRON_TEMPLATE_ID", shown(job.template_id.map(|id| id.to_string()))),
        ("KRON_ARTIFACTS_DIR", artifacts.display().to_string()),
    ]
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// How long an endpoint has.
pub(crate) fn patience(start: &Start, settings: &DaemonSettings) -> Duration {
    /// What an endpoint gets where nobody says: a request has no supervisor to outlive the daemon.
    const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(300);
    let usual = start.handler.execution.timeout.or(settings.timeout).map(duration);
    shorter(usual, start.timeout).unwrap_or(ENDPOINT_TIMEOUT)
}
