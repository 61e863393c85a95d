//! `kron doctor`: what might go wrong on this machine, before it does.
//!
//! It looks at the clock, the disk, the state directory, the service's settings, and at jobs that a
//! restart would make miss a run. It changes nothing but a small file of its own, which it writes
//! and removes to see how long the disk takes. What it cannot look at it says.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kron_state::{Holder, KnownRead, RealDirectory, Store};
use krond::api::STATE_DIR_DEFAULT;
use krond::api::view::{JobsView, StatusView};
use nix::time::{ClockId, clock_gettime};
use rustix::fs::{Mode, OFlags, statfs, statvfs};
use serde::Serialize;

use crate::args::{DoctorArgs, OutputFormat};
use crate::client::{Client, ClientError};
use crate::clock;
use crate::failure::{Exit, Failure, told};
use crate::text::{count, write_json};

/// How often the disk is tried; the slowest but one counts.
const TRIES: usize = 8;
/// A durable write beyond this delays every start noticeably.
const SYNC_SLOW: Duration = Duration::from_millis(50);
/// Room that should be left on the disk: every job's document is written anew for each run.
const ROOM_BYTES: u64 = 100 * 1024 * 1024;
/// Jobs named one by one.
const NAMED_MAX: usize = 5;
/// What a deadline should be at least, so that a restart misses nothing.
const DEADLINE_SUGGESTED_S: u64 = 60;
/// The file that is written to try the disk.
const TRIAL: &str = ".kron-doctor.tmp";

/// What is said about one thing.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    verdict: Verdict,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    /// It could not be looked at.
    Unknown,
    Warning,
    Problem,
}

impl Verdict {
    const fn as_str(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Unknown => "?",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        }
    }
}

fn finding(what: &'static str, verdict: Verdict, message: impl Into<String>) -> Finding {
    Finding { what, verdict, message: message.into(), hint: None }
}

impl Finding {
    fn hint(mut self, hint: impl Into<String>) -> Finding {
        self.hint = Some(hint.into());
        self
    }
}

pub(crate) fn run(args: &DoctorArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let state_dir = args.daemon.state_dir.clone().unwrap_or_else(|| STATE_DIR_DEFAULT.into());
    let mut findings = vec![clock_finding()];
    findings.extend(daemon(&args.daemon, &state_dir));
    findings.extend(lock(&state_dir));
    findings.extend(disk(&state_dir));
    findings.extend(recorded(&state_dir));
    findings.extend(service(&state_dir));
    let worst = findings.iter().map(|finding| finding.verdict).max();
    match args.format {
        OutputFormat::Json => {
            for finding in &findings {
                write_json(out, finding)?;
            }
        }
        OutputFormat::Text => {
            for Finding { what, verdict, message, hint } in &findings {
                writeln!(out, "{:<8} {what}: {message}", verdict.as_str())?;
                if let Some(hint) = hint {
                    writeln!(out, "{:<8} = {hint}", "")?;
                }
            }
        }
    }
    Ok(if worst >= Some(Verdict::Warning) { Exit::No } else { Exit::Ok })
}

fn clock_finding() -> Finding {
    if kron_exec::clock_is_synchronised() {
        return finding("clock", Verdict::Ok, "the kernel says that it is synchronised");
    }
    finding("clock", Verdict::Warning, "the kernel does not say that it is synchronised")
        .hint("install and start chrony or systemd-timesyncd: what is due is judged by this clock")
}

/// Whether a daemon runs, and what its jobs risk.
fn daemon(args: &crate::args::DaemonArgs, state_dir: &Path) -> Vec<Finding> {
    let client = Client::of(args);
    let status: StatusView = match client.get("status") {
        Ok(status) => status,
        Err(error) => {
            let socket = client.socket().display();
            let finding = match error {
                ClientError::NotRunning { .. } => {
                    finding("daemon", Verdict::Warning, format!("nobody listens on `{socket}`"))
                        .hint(not_listening(state_dir))
                }
                ClientError::Denied { .. } => {
                    finding("daemon", Verdict::Unknown, format!("`{socket}` may not be used"))
                        .hint("run this as root, or as the daemon's user")
                }
                other => finding("daemon", Verdict::Problem, Failure::from(other).to_string()),
            };
            return vec![finding];
        }
    };
    let message = format!(
        "krond {}, process {}, {}",
        status.version,
        status.pid,
        count(status.job_count, "job")
    );
    let mut findings = vec![finding("daemon", Verdict::Ok, message)];
    if let Some(since) = status.clock_held_since {
        let message = format!("the clock leapt at {since} and is not believed: nothing is started");
        let hint = "`kron clock accept`, if it is right";
        findings.push(finding("daemon", Verdict::Problem, message).hint(hint));
    }
    match client.get::<JobsView>("scheduler/jobs") {
        Ok(JobsView { jobs }) => findings.push(deadlines(&jobs)),
        Err(error) => {
            let message = Failure::from(error).to_string();
            findings.push(finding("deadlines", Verdict::Unknown, message));
        }
    }
    findings
}

/// What to do when nobody listens, which depends on whether a daemon runs.
fn not_listening(state_dir: &Path) -> String {
    match kron_state::holder(state_dir) {
        Ok(Holder::Somebody(_)) => "a daemon runs, so name its socket: `--socket PATH`".to_owned(),
        _ if state_dir == Path::new(STATE_DIR_DEFAULT) => {
            "start it: `systemctl start krond`, or `krond run --config /etc/kron`".to_owned()
        }
        _ => format!("start it: `krond run --config JOBS --state-dir {}`", state_dir.display()),
    }
}

/// Who holds the state directory.
fn lock(state_dir: &Path) -> Option<Finding> {
    if !state_dir.is_dir() {
        return None;
    }
    let message = match kron_state::holder(state_dir) {
        Ok(Holder::Nobody) => "nobody holds the state directory".to_owned(),
        Ok(Holder::Somebody(Some(pid))) => format!("process {pid} holds the state directory"),
        Ok(Holder::Somebody(None)) => "somebody holds the state directory".to_owned(),
        Err(error) => return Some(finding("lock", Verdict::Unknown, told(&error))),
    };
    Some(finding("lock", Verdict::Ok, message))
}

/// Jobs that miss a run when the daemon is restarted at the wrong second.
fn deadlines(jobs: &[krond::api::view::JobView]) -> Finding {
    let strict: Vec<&str> = jobs
        .iter()
        .filter(|job| job.definition.as_ref().is_some_and(|it| it.deadline_seconds == 0))
        .map(|job| job.identity.as_str())
        .collect();
    if strict.is_empty() {
        return finding("deadlines", Verdict::Ok, "a restart makes no job miss a run");
    }
    let named = strict.iter().take(NAMED_MAX).map(|name| format!("`{name}`"));
    let mut names = named.collect::<Vec<_>>().join(", ");
    if strict.len() > NAMED_MAX {
        names.push_str(", …");
    }
    let message = format!(
        "{} with `deadline=0s` would miss a run that falls due during a restart: {names}",
        count(strict.len() as u64, "job")
    );
    finding("deadlines", Verdict::Warning, message).hint(format!(
        "`@policy(deadline={DEADLINE_SUGGESTED_S}s)` lets them start up to a minute late"
    ))
}

/// What the state directory's disk is like.
fn disk(state_dir: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(place) = existing(state_dir) else {
        return vec![finding("disk", Verdict::Unknown, "there is no such directory")];
    };
    let shown = place.display();
    match statfs(&place) {
        Err(errno) => findings.push(finding("file system", Verdict::Unknown, errno.to_string())),
        Ok(stat) => findings.push(match file_system(kind_of(&stat)) {
            Some((name, why)) => {
                finding("file system", Verdict::Warning, format!("`{shown}` is on {name}: {why}"))
                    .hint("choose a `--state-dir` on a local disk")
            }
            None => finding("file system", Verdict::Ok, format!("`{shown}` is on a local disk")),
        }),
    }
    if let Ok(stat) = statvfs(&place) {
        let bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        let message = format!("{} MiB and {} files are free", bytes >> 20, stat.f_favail);
        // Some file systems do not count files.
        let short = bytes < ROOM_BYTES || (stat.f_files > 0 && stat.f_favail < 1_000);
        findings.push(if short {
            finding("space", Verdict::Problem, message)
                .hint("a daemon that cannot write leaves, with exit code 5")
        } else {
            finding("space", Verdict::Ok, message)
        });
    }
    findings.push(match sync_time(state_dir) {
        Ok(took) => {
            let message = format!("a durable write takes {:.1} ms", took.as_secs_f64() * 1e3);
            if took > SYNC_SLOW {
                finding("disk", Verdict::Warning, message)
                    .hint("every start waits for one; a faster disk for the state directory helps")
            } else {
                finding("disk", Verdict::Ok, message)
            }
        }
        Err(error) => finding("disk", Verdict::Unknown, format!("it could not be tried: {error}")),
    });
    findings
}

/// The directory, or the nearest of its parents that is there.
fn existing(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find(|place| place.is_dir()).map(Path::to_owned)
}

#[expect(clippy::useless_conversion, reason = "its width differs between machines")]
fn kind_of(stat: &rustix::fs::StatFs) -> i64 {
    i64::from(stat.f_type)
}

/// File systems on which a durable write is not one, or locks are not.
fn file_system(magic: i64) -> Option<(&'static str, &'static str)> {
    const RAM: &str = "what is recorded is gone after a reboot";
    const REMOTE: &str = "locks and durable writes are the server's";
    match magic {
        0x0102_1994 => Some(("tmpfs", RAM)),
        0x858458f6 => Some(("ramfs", RAM)),
        0x6969 => Some(("NFS", REMOTE)),
        0xff53_4d42 | 0xfe53_4d42 => Some(("SMB", REMOTE)),
        0x6573_5546 => Some(("FUSE", "whether a durable write is one depends on who serves it")),
        0x794c_7630 => Some(("an overlay", "what is recorded goes with the container")),
        _ => None,
    }
}

/// How long a durable replacement of a small file takes, the slowest but one of a few.
fn sync_time(state_dir: &Path) -> std::io::Result<Duration> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let directory = rustix::fs::open(state_dir, flags, Mode::empty())?;
    let mut times = Vec::with_capacity(TRIES);
    for _ in 0..TRIES {
        let began = monotonic();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, TRIAL, flags, Mode::RUSR | Mode::WUSR)?;
        let result = rustix::io::write(&file, &[b'x'; 700])
            .and_then(|_| rustix::fs::fsync(&file))
            .and_then(|()| rustix::fs::fsync(&directory));
        let took = monotonic().saturating_sub(began);
        rustix::fs::unlinkat(&directory, TRIAL, rustix::fs::AtFlags::empty())?;
        result?;
        times.push(took);
    }
    times.sort_unstable();
    Ok(times[TRIES - 2])
}

fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// Marks and the like that lie in the future.
fn recorded(state_dir: &Path) -> Vec<Finding> {
    let directory = match RealDirectory::open_existing(state_dir) {
        Ok(directory) => directory,
        Err(error) => return vec![finding("state", Verdict::Unknown, told(&error))],
    };
    let store = Store::view_without_runs(directory);
    let now = clock::now();
    let mut ahead = Vec::new();
    match store.scan() {
        Ok(scan) => {
            let marks = scan.documents.iter().filter(|document| {
                document.last_handled.is_some_and(|mark| mark > now)
                    && document.last_chosen.is_none_or(|chosen| chosen > now)
            });
            ahead.extend(marks.map(|document| document.identity.clone()));
        }
        Err(error) => {
            let hint = "`kron state check` says more";
            return vec![finding("state", Verdict::Problem, told(&error)).hint(hint)];
        }
    }
    if let Ok(KnownRead::Known(known)) = store.known() {
        ahead.extend(known.ahead_of(now).into_iter().map(|ahead| ahead.identity.to_string()));
    }
    ahead.sort_unstable();
    ahead.dedup();
    if ahead.is_empty() {
        return vec![finding("state", Verdict::Ok, "nothing that is recorded lies in the future")];
    }
    let message = format!(
        "{} recorded in the future, as `{}`: they do not run before then",
        count(ahead.len() as u64, "job"),
        ahead[0]
    );
    let hint = "`kron state reset --all-future`, with the daemon stopped";
    vec![finding("state", Verdict::Problem, message).hint(hint)]
}

/// Whether the service manager would end runs with the daemon.
fn service(state_dir: &Path) -> Vec<Finding> {
    if state_dir != Path::new(STATE_DIR_DEFAULT) || !Path::new("/run/systemd/system").is_dir() {
        return Vec::new();
    }
    let wanted = [
        ("KillMode", "process", "a restart of the daemon would end what runs"),
        ("Delegate", "yes", "the service manager may move what runs"),
        ("OOMPolicy", "continue", "a job that uses up the memory would end the daemon"),
        ("TasksMax", "infinity", "a burst of jobs could find no room"),
    ];
    let output = Command::new("systemctl")
        .args([
            "show",
            "krond.service",
            "--property=LoadState,KillMode,Delegate,OOMPolicy,TasksMax",
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else {
        return vec![finding("service", Verdict::Unknown, "systemctl could not be asked")];
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().to_owned()
    };
    if value("LoadState") != "loaded" {
        let message = "there is no unit `krond.service`";
        return vec![finding("service", Verdict::Unknown, message)];
    }
    let wrong: Vec<Finding> = wanted
        .into_iter()
        .filter(|(key, wanted, _)| {
            let found = value(key);
            // The system's own name for no limit differs between versions.
            found != *wanted && !(*key == "TasksMax" && found == u64::MAX.to_string())
        })
        .map(|(key, wanted, why)| {
            let message = format!("`{key}={}` in `krond.service`: {why}", value(key));
            finding("service", Verdict::Warning, message)
                .hint(format!("`systemctl edit krond`, and set `{key}={wanted}`"))
        })
        .collect();
    if wrong.is_empty() {
        return vec![finding(
            "service",
            Verdict::Ok,
            "`krond.service` lets runs outlive the daemon",
        )];
    }
    wrong
}
