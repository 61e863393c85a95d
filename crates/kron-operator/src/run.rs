//! What the command does: puts the parts together, and takes them apart in good order.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::controller::{self, Setup};
use crate::lease::{Candidate, LeaseOptions};
use crate::log::{Failure, Log};
use crate::metrics::Metrics;
use crate::options::{Command, Options, Run};
use crate::plan::CREATE_UNDER_WAY_S_MAX;
use crate::resource::crd;
use crate::serve::{Health, serve};

/// Usage, configuration or validation.
const EXIT_USAGE: u8 = 2;
/// Anything of the system.
const EXIT_SYSTEM: u8 = 6;
/// The loop that does not come round for so long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How long it takes to connect, at most.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// A connection on which nothing comes for so long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Threads that send and receive; the controller is one task of them.
const THREADS: usize = 2;

/// Why the operator cannot run.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("cannot read the kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[error("no cluster: {0}")]
    Infer(#[from] kube::config::InferConfigError),
    #[error("cannot make a client: {0}")]
    Client(#[from] kube::Error),
    #[error("{0}")]
    Lease(#[from] crate::lease::LeaseError),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: std::net::SocketAddr, error: io::Error },
    #[error("{0}")]
    System(#[from] io::Error),
}

impl RunError {
    fn code(&self) -> u8 {
        match self {
            RunError::Kubeconfig(_) | RunError::Infer(_) | RunError::Lease(_) => EXIT_USAGE,
            RunError::Client(_) | RunError::Listen { .. } | RunError::System(_) => EXIT_SYSTEM,
        }
    }

    fn kind(&self) -> &'static str {
        match self.code() {
            EXIT_USAGE => "ConfigurationError",
            _ => "SystemError",
        }
    }
}

/// Runs the command with these arguments, the program's name first.
#[must_use]
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(error) => {
            // Help and version come this way, too. A closed terminal is no reason to fail.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    match options.command {
        Command::Crd => print_crd(),
        Command::Run(run) => operate(*run),
    }
}

fn print_crd() -> ExitCode {
    let mut out = io::stdout().lock();
    let written = match crd_yaml() {
        Ok(text) => out.write_all(text.as_bytes()).and_then(|()| out.flush()),
        Err(error) => Err(error),
    };
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_SYSTEM) }
}

/// The definition of the resource as YAML.
///
/// # Errors
/// When it cannot be written, which plain data always can.
pub fn crd_yaml() -> io::Result<String> {
    // By way of a value, so that absent fields are left out and keys have one order.
    let crd = serde_json::to_value(crd()).map_err(io::Error::other)?;
    serde_saphyr::to_string(&crd).map_err(io::Error::other)
}

fn operate(options: Run) -> ExitCode {
    let Ok(log) = Log::new(options.log_format) else { return ExitCode::from(EXIT_SYSTEM) };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(work(options, &log)),
        Err(error) => Err(error.into()),
    };
    let code = match ended {
        Ok(()) => {
            log.info("stopped", &[]);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let message = error.to_string();
            let failure = Failure {
                error_type: error.kind(),
                operation: "run",
                message: &message,
                identity: None,
                period_id: None,
            };
            log.error("failed", &failure, &[]);
            ExitCode::from(error.code())
        }
    };
    log.flush();
    code
}

async fn work(options: Run, log: &Log) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let config = cluster(&options).await?;
    let lease_namespace =
        options.lease_namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let identity = identity(options.identity.as_deref())?;
    let metrics = Arc::new(Metrics::default());
    let health = Arc::new(Health::new(STUCK_AFTER));
    let address = options.listen;
    let unusable = |error| RunError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let bound = listener.local_addr().map_err(unusable)?;
    let lease = LeaseOptions {
        namespace: lease_namespace,
        name: options.lease_name,
        identity: identity.clone(),
        duration: options.lease_duration,
    };
    // The lease has a connection of its own: a burst of Jobs must not stand before its renewal.
    let lease_client = kube::Client::try_from(config.clone())?;
    let (candidate, leadership) =
        Candidate::new(lease_client, lease, log.clone(), Arc::clone(&metrics))?;
    let fields = [
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("identity", identity.clone().into()),
        ("address", bound.to_string().into()),
    ];
    log.info("listening", &fields);
    let job_age_s_min = options.minimum_job_age.get_signed();
    if job_age_s_min < CREATE_UNDER_WAY_S_MAX {
        // Named by what may happen, so that the line explains itself.
        let fields = [
            ("minimum_job_age_s", job_age_s_min.into()),
            ("safe_from_s", CREATE_UNDER_WAY_S_MAX.into()),
        ];
        log.warn("removed_jobs_may_run_again", &fields);
    }
    let (stop_work, work_stopped) = watch::channel(false);
    let (stop_rest, rest_stopped) = watch::channel(false);
    let served = tokio::spawn(serve(
        listener,
        Arc::clone(&health),
        Arc::clone(&metrics),
        rest_stopped.clone(),
    ));
    // Whoever has not read the cluster does not want to lead: others may have.
    let filled = Arc::new(Notify::new());
    let ready = Arc::clone(&filled);
    let mut given_up = rest_stopped.clone();
    let mut campaign = tokio::spawn(async move {
        tokio::select! {
            () = ready.notified() => candidate.run(rest_stopped).await,
            _ = given_up.changed() => {}
        }
    });
    let setup = Setup {
        client: kube::Client::try_from(config)?,
        namespaces: options.namespace,
        job_age_s_min,
        leadership,
        instance: identity.into(),
        log: log.clone(),
        metrics,
        health,
        filled,
    };
    let mut controller = tokio::spawn(controller::run(setup, work_stopped));
    let ended = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        ended = &mut controller => Some(ended),
        // Without it nobody here would ever lead again.
        ended = &mut campaign => {
            ended.map_err(io::Error::other)?;
            return Err(io::Error::other("the campaign for the lease has ended").into());
        }
    };
    // First nothing is begun any more and what was begun is answered, then the lease is let go.
    let _ = stop_work.send(true);
    let ended = match ended {
        Some(ended) => ended,
        None => controller.await,
    };
    let _ = stop_rest.send(true);
    let _ = campaign.await;
    let last_words = ended.map_err(io::Error::other)??;
    last_words.tell().await;
    let _ = served.await;
    Ok(())
}

async fn cluster(options: &Run) -> Result<kube::Config, RunError> {
    let mut config = if options.kubeconfig.is_some() || options.context.is_some() {
        let kubeconfig = match &options.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)?,
            None => Kubeconfig::read()?,
        };
        let chosen = KubeConfigOptions { context: options.context.clone(), ..Default::default() };
        kube::Config::from_custom_kubeconfig(kubeconfig, &chosen).await?
    } else {
        kube::Config::infer().await?
    };
    // Whoever sends a request knows how long it may take and whether it may be repeated.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_PATIENCE);
    // A watch hears a bookmark about every minute; one that hears nothing is dead.
    config.read_timeout = Some(SILENCE_MAX);
    config.reset_reader_on_write = true;
    Ok(config)
}

/// The name of this process: no two have the same, not even one after the other in one pod.
fn identity(given: Option<&str>) -> io::Result<String> {
    let mut random = [0; 4];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let random = u32::from_ne_bytes(random);
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    Ok(format!("{}_{random:08x}", given.unwrap_or(&host)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the file is what is tested")]
    fn the_manifests_have_the_present_definition() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        let fresh = crd_yaml().unwrap();
        for copy in ["manifests/crd.yaml", "helm/kron-operator/files/crd.yaml"] {
            let text = std::fs::read_to_string(deploy.join(copy)).unwrap();
            // The first line says where it comes from.
            let (first, rest) = text.split_once('\n').unwrap();
            assert!(first.starts_with("# Written by `deploy/generate`"), "{copy}: {first}");
            let same = rest == fresh;
            assert!(same, "deploy/{copy} is stale: run `deploy/generate`");
        }
    }
}
