//! How a task's command is run.

use kron_config::{DaemonSettings, HandlerTarget};
use kron_exec::{Account, Output, Plan, clean_environment};

use super::attendant::Launch;
use super::log_path;
use crate::daemon::launch::{Host, duration, limits, working_directory};

/// The plan of a run.
pub(crate) fn plan(
    launch: &Launch,
    settings: &DaemonSettings,
    host: &Host,
    account: &Account,
) -> Plan {
    let Launch { run, spool, found, handler } = launch;
    let (task, execution) = (&found.task, &handler.execution);
    let set = settings.for_job(execution);
    let argv = match &handler.target {
        HandlerTarget::Command(action) => action.to_argv(),
        // Never planned: a spool's handler is a command.
        HandlerTarget::Web { .. } => Vec::new(),
    };
    let mut variables = vec![("PATH".to_owned(), settings.path.clone())];
    variables.extend(execution.env.iter().cloned());
    let told = [
        ("KRON_IDENTITY", identity(spool)),
        ("KRON_PERIOD_ID", String::new()),
        ("KRON_SPOOL", spool.to_string()),
        ("KRON_TASK_ID", task.id.to_string()),
        ("KRON_TASK_TYPE", task.payload.task_type.clone()),
        ("KRON_ATTEMPT", (task.attempts + 1).to_string()),
        ("KRON_RUN_ID", run.to_string()),
    ];
    Plan {
        run: run.clone(),
        argv,
        env: clean_environment(account, &variables, &told),
        credentials: account.to_assume(),
        no_new_privileges: execution.no_new_privileges,
        cwd: Some(working_directory(execution.cwd.as_deref(), &account.home)),
        umask: set.umask,
        nice: execution.nice,
        limits: limits(&execution.limits, host.open_files),
        stdin: Some(task.payload.text().to_owned()),
        output: Output::Log {
            path: log_path(&host.state_dir, spool, run),
            bytes_max: set.log_bytes_max,
        },
        timeout: set.timeout.map(duration),
        grace: duration(set.grace),
        state_dir: host.state_dir.clone(),
        identity: Some(identity(spool)),
        period_id: Some(task.id.to_string()),
        log_format: host.log_format,
    }
}

/// How the identities of spools begin.
const SPOOLED: &str = "spool/";

/// What runs of a spool are called where jobs of the scheduler have an identity.
pub(crate) fn identity(spool: &str) -> String {
    format!("{SPOOLED}{spool}")
}

/// The spool whose runs are called this.
pub(crate) fn spool_of(identity: &str) -> Option<&str> {
    identity.strip_prefix(SPOOLED)
}
