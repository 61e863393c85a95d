//! Definitions from the files the daemon was given.
//!
//! Any error in them means that nothing of them is used; what is wrong is then told in full, as
//! `kron lint` tells it. Bad lines of crontab files are told and left out. A daemon that runs as root
//! also looks at who may write them (`trust`).

mod crontabs;
mod trust;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kron_config::files::{self, ReadError};
use kron_config::{DaemonSettings, Diagnostic, Execution, Job, Loader, Options};
use kron_core::{Category, Seconds, Severity};

use self::crontabs::Crontabs;
use self::trust::Trust;
use crate::log::{Log, LogFormat, told};
use crate::machine::{Entry, Level};
use crate::options::RunOptions;

/// Said when so much is wrong that the rest was not read.
const CUT_SHORT: &str = "there is more; the rest was not read";

/// Where definitions come from.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    /// Files and directories. They are read again by every reload.
    paths: Vec<PathBuf>,
    /// The system's crontabs, as they are.
    crontabs: Crontabs,
    /// What `%H` and `%m` in salts stand for.
    pub(super) options: Options,
    log: Log,
}

/// Definitions without errors.
#[derive(Debug)]
pub(super) struct Definitions {
    pub(super) jobs: Vec<Job>,
    pub(super) settings: DaemonSettings,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub(super) enum DefinitionsError {
    /// They have errors.
    #[error("the definitions have errors")]
    Invalid {
        /// All of them.
        diagnostics: Vec<Diagnostic>,
        /// Whether there are even more.
        cut_short: bool,
    },
    /// A file could not be read.
    #[error("{}", told(error))]
    Read {
        /// Which, and why; told in full, so that it is no source of its own.
        error: ReadError,
    },
}

impl DefinitionsError {
    pub(super) fn category(&self) -> Category {
        match self {
            DefinitionsError::Invalid { .. } => Category::Configuration,
            DefinitionsError::Read { error } => error.category(),
        }
    }
}

impl Sources {
    /// What the daemon was told.
    pub(super) fn of(options: &RunOptions, log: Log) -> Sources {
        let crontabs = Crontabs::of(options);
        Sources { paths: options.config.clone(), crontabs, options: host_options(), log }
    }

    /// Reads everything.
    pub(super) fn load(&self) -> Result<Definitions, DefinitionsError> {
        let read = |error| DefinitionsError::Read { error };
        let crontab_zone = self.crontabs.zone(&self.paths, self.log).map_err(|finding| {
            let diagnostics = vec![Diagnostic::without_place(finding)];
            DefinitionsError::Invalid { diagnostics, cut_short: false }
        })?;
        let mut loader = Loader::new(Options { crontab_zone, ..self.options.clone() });
        let mut trust = Trust::new();
        for path in &self.paths {
            trust.look_at_source(path);
            for (file, format) in files::expand(path, None).map_err(read)? {
                if trust.admits(&file) {
                    loader.load(&files::read(&file).map_err(read)?, &format);
                }
            }
        }
        self.crontabs.load(&mut loader).map_err(read)?;
        let loaded = loader.finish();
        let is_usable = loaded.is_usable() && !trust.has_refused();
        let mut diagnostics = trust.diagnostics;
        diagnostics.extend(loaded.diagnostics);
        if !is_usable {
            let cut_short = loaded.cut_short;
            return Err(DefinitionsError::Invalid { diagnostics, cut_short });
        }
        let mut jobs = loaded.jobs;
        diagnostics.extend(crontabs::doubt_users(&jobs));
        fill_in_grace(&mut jobs, loaded.daemon.grace);
        Ok(Definitions { jobs, settings: loaded.daemon, diagnostics })
    }
}

/// Says what the daemon's usual grace is wherever a job does not: the machine waits for what is
/// being ended as long as its supervisor does. Jobs that are set up alike still share that.
fn fill_in_grace(jobs: &mut [Job], grace: Seconds) {
    let mut filled: HashMap<Arc<Execution>, Arc<Execution>> = HashMap::new();
    for job in jobs.iter_mut().filter(|job| job.execution.grace.is_none()) {
        let shared = filled.entry(job.execution.clone()).or_insert_with(|| {
            Arc::new(Execution { grace: Some(grace), ..(*job.execution).clone() })
        });
        job.execution = shared.clone();
    }
}

/// Diagnostics as `kron lint` shows them.
pub(super) fn rendered<'a>(
    diagnostics: impl IntoIterator<Item = &'a Diagnostic>,
    cut_short: bool,
) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{diagnostic}\n\n");
    }
    if cut_short {
        let _ = write!(text, "{CUT_SHORT}\n\n");
    }
    text
}

/// Shows diagnostics where the log goes: for people with their source lines; or one entry each
/// where only JSON may stand, and where there is no line to show.
pub(super) fn show(log: Log, diagnostics: &[Diagnostic], cut_short: bool) {
    let is_text = log.format() == LogFormat::Text;
    let (plain, entries): (Vec<_>, Vec<_>) =
        diagnostics.iter().partition(|it| is_text && it.location.is_some());
    for diagnostic in entries {
        let level = match diagnostic.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warn,
        };
        let mut entry =
            Entry::new(level, "diagnostic").error(diagnostic.category, "load", &diagnostic.message);
        if let Some(location) = &diagnostic.location {
            entry = entry
                .with("file", &*location.file)
                .with("line", location.line)
                .with("column", location.column);
        }
        if let Some(help) = &diagnostic.help {
            entry = entry.with("help", help.as_str());
        }
        log.write(&entry);
    }
    if is_text {
        log.write_plain(&rendered(plain, cut_short));
    } else if cut_short {
        log.write(&Entry::new(Level::Error, "diagnostic").error(
            Category::Configuration,
            "load",
            CUT_SHORT,
        ));
    }
}

/// What a salt may name: the host's name and the machine's id.
fn host_options() -> Options {
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Options {
        host_name: Some(host_name),
        machine_id: machine_id(Path::new("/etc/machine-id")),
        crontab_zone: None,
    }
}

/// The id in the file, if there is one that has been set.
fn machine_id(path: &Path) -> Option<String> {
    let text = files::read(path).ok()?;
    let id = text.text().trim();
    // A machine that boots for the first time says `uninitialized`, and would be another one later.
    (!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_that_was_set_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine-id");
        assert_eq!(machine_id(&path), None);
        let rows = [
            ("0123456789abcdef0123456789abcdef\n", Some("0123456789abcdef0123456789abcdef")),
            ("uninitialized\n", None),
            ("", None),
        ];
        for (text, id) in rows {
            std::fs::write(&path, text).unwrap();
            assert_eq!(machine_id(&path).as_deref(), id, "{text:?}");
        }
    }
}
