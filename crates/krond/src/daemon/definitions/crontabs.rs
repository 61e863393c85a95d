//! System crontabs, run as they are.
//!
//! A bad line is told and left out, and so is a file that cannot be read or that others than root
//! and the daemon's own user could have written; nothing else is spoiled by either, at start or at
//! reload. Only a path that was given and is not there refuses the load, because it was mistyped.
//!
//! Entries without `CRON_TZ` are read in the zone of the machine's clocks, as cron reads them, or in
//! the one that was given. A machine whose zone has no name must be given one: a guess would run
//! everything at another hour.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use kron_config::files::{self, ReadError, Trust};
use kron_config::local_zone::{LocalZone, local_zone};
use kron_config::{CrontabOwner, Diagnostic, Format, Job, Loader};
use kron_core::{Finding, Zone};
use kron_exec::{AccountError, account};
use nix::unistd::geteuid;

use crate::log::Log;
use crate::machine::{Entry, Level};
use crate::options::RunOptions;

/// The crontabs the daemon was given.
#[derive(Clone, Debug)]
pub(super) struct Crontabs {
    /// Files and directories.
    paths: Vec<PathBuf>,
    /// The zone that was given.
    timezone: Option<String>,
}

impl Crontabs {
    pub(super) fn of(options: &RunOptions) -> Crontabs {
        Crontabs { paths: options.crontab.clone(), timezone: options.crontab_timezone.clone() }
    }

    /// The zone of entries without `CRON_TZ`; `None` when there are no crontabs, here or among the
    /// job files at `config`. It is found out anew by every load, and told.
    pub(super) fn zone(&self, config: &[PathBuf], log: Log) -> Result<Option<Zone>, Finding> {
        if let Some(name) = &self.timezone {
            return Zone::named(name).map(Some).map_err(|mut finding| {
                finding.message = format!("`--crontab-timezone`: {}", finding.message);
                finding
            });
        }
        let has_crontab = |path: &PathBuf| {
            let files = files::expand(path, None).unwrap_or_default();
            files.iter().any(|(_, format)| matches!(format, Format::Crontab(_)))
        };
        if self.paths.is_empty() && !config.iter().any(has_crontab) {
            return Ok(None);
        }
        let tz = std::env::var_os("TZ").map(|tz| tz.to_string_lossy().into_owned());
        let LocalZone { zone, told_by } = local_zone(tz.as_deref()).map_err(|error| {
            let message = format!("this machine's time zone is not known: {error}");
            Finding::configuration(0..0, message).help("say `--crontab-timezone ZONE`")
        })?;
        log.write(
            &Entry::new(Level::Info, "crontab_timezone")
                .with("timezone", zone.name())
                .with("told_by", told_by),
        );
        Ok(Some(zone))
    }

    /// Adds the entries of every file, each file once.
    pub(super) fn load(&self, loader: &mut Loader) -> Result<(), ReadError> {
        let trust = Trust::RootAnd(geteuid().as_raw());
        let mut read = HashSet::new();
        for path in &self.paths {
            for file in files::crontabs(path)? {
                if !read.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                    continue;
                }
                match files::read_crontab(&file, trust) {
                    Ok(source) => loader.load(&source, &Format::Crontab(CrontabOwner::System)),
                    Err(error) => loader.leave_out(&file, &error),
                }
            }
        }
        Ok(())
    }
}

/// Doubts about whom entries run as: nobody of that name, or nobody whom this daemon may become. They
/// stay, because a user may be added later, and each run that cannot start is recorded.
pub(super) fn doubt_users(jobs: &[Job]) -> Vec<Diagnostic> {
    let mut known: HashMap<&str, Option<String>> = HashMap::new();
    let entries = jobs.iter().filter(|job| job.identity().starts_with("crontab/"));
    let doubts = entries.filter_map(|job| {
        let user = job.execution.user.as_deref()?;
        let doubt = known.entry(user).or_insert_with(|| doubt_user(user)).clone()?;
        Some(Diagnostic::at(&job.origin, Finding::warning(0..0, doubt)))
    });
    doubts.collect()
}

fn doubt_user(user: &str) -> Option<String> {
    let own = geteuid();
    match account(Some(user), None) {
        Ok(account) if own.is_root() || account.credentials.uid == own.as_raw() => None,
        Ok(_) => Some(format!("krond is not root and cannot become `{user}`: this will not start")),
        Err(AccountError::NoUser(_)) => {
            Some(format!("there is no user `{user}`: this will not start"))
        }
        // Whoever knows the users may answer later.
        Err(AccountError::NoGroup(_) | AccountError::Lookup { .. }) => None,
    }
}
