//! The daemon's own settings: table `[daemon]` of a TOML job file.
//!
//! What is not written has its default, so every [`DaemonSettings`] is complete. The files of a
//! set are merged key by key, and no key is given twice; that is the loader's to see. Nothing is
//! looked up here: whether the group exists is found out where the socket is made.

use std::ops::{Range, RangeInclusive};

use kron_core::finding::excerpt;
use kron_core::{Finding, Seconds};

use crate::hook::Hook;
use crate::job::{Execution, Output};
use crate::queue::{ApiSettings, QueueSettings};
use crate::spool::SpoolSettings;
use crate::value::{self, Value};

/// The keys of table `[daemon]`.
pub(crate) const KEYS: [&str; 10] = [
    "history",
    "log_runs",
    "log_age",
    "log_size",
    "output",
    "timeout",
    "grace",
    "umask",
    "path",
    "socket_group",
];

/// How many entries of a job's history may be kept.
const HISTORY_ENTRIES: RangeInclusive<u32> = 1..=10_000;
/// How many log files of a job may be kept.
const LOG_RUNS: RangeInclusive<u32> = 1..=10_000;

/// What the daemon keeps, and what holds for jobs that do not say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSettings {
    /// `history`: the entries kept per job, 1 to 10,000.
    pub history_entries_max: u32,
    /// `log_runs`: the log files kept per job, 1 to 10,000.
    pub log_runs_max: u32,
    /// `log_age`: how old a log file may become.
    pub log_age_max: Seconds,
    /// `log_size`: the bytes of one run's log, 4 KiB to 1 GiB, for jobs without their own.
    pub log_bytes_max: u64,
    /// `output`: where the output of jobs goes that do not say.
    pub output: Output,
    /// `timeout`: how long a run may take, for jobs without their own; for ever when absent.
    pub timeout: Option<Seconds>,
    /// `grace`: how long a run has between being asked to end and being killed, for jobs without
    /// their own.
    pub grace: Seconds,
    /// `umask`: the file mode mask, for jobs without their own.
    pub umask: u32,
    /// `path`: the `PATH` of a clean environment; absolute directories with `:` between.
    pub path: String,
    /// `socket_group`: the group that may read over the control socket.
    pub socket_group: String,
    /// Who is told what became of jobs: tables `[hook.NAME]`, in the order of their texts.
    pub hooks: Vec<Hook>,
    /// The queue, where any file has one of its tables.
    pub queue: Option<QueueSettings>,
    /// Table `[api]`.
    pub api: ApiSettings,
    /// Tables `[spool.NAME]`, in the order of their names.
    pub spools: Vec<SpoolSettings>,
}

impl Default for DaemonSettings {
    fn default() -> DaemonSettings {
        DaemonSettings {
            history_entries_max: 100,
            log_runs_max: 20,
            log_age_max: Seconds::new(30 * 86_400),
            log_bytes_max: 10 * 1024 * 1024,
            output: Output::Log,
            timeout: None,
            grace: Seconds::new(10),
            umask: 0o022,
            path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            socket_group: "kron".to_owned(),
            hooks: Vec::new(),
            queue: None,
            api: ApiSettings::default(),
            spools: Vec::new(),
        }
    }
}

/// How a job's runs are set up, with nothing left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSettings {
    /// Where its output goes.
    pub output: Output,
    /// The bytes of one run's log.
    pub log_bytes_max: u64,
    /// How long a run may take; for ever when absent.
    pub timeout: Option<Seconds>,
    /// How long it has between being asked to end and being killed.
    pub grace: Seconds,
    /// The file mode mask.
    pub umask: u32,
}

impl DaemonSettings {
    /// What a job says, and the daemon's defaults for what it does not.
    ///
    /// ```
    /// use kron_config::{DaemonSettings, Execution, Output};
    /// let daemon = DaemonSettings::default();
    /// let quiet = Execution { output: Some(Output::Discard), ..Execution::default() };
    /// assert_eq!(daemon.for_job(&quiet).output, Output::Discard);
    /// assert_eq!(daemon.for_job(&Execution::default()).output, Output::Log);
    /// ```
    #[must_use]
    pub fn for_job(&self, execution: &Execution) -> RunSettings {
        RunSettings {
            output: execution.output.unwrap_or(self.output),
            log_bytes_max: execution.log_bytes_max.unwrap_or(self.log_bytes_max),
            timeout: execution.timeout.or(self.timeout),
            grace: execution.grace.unwrap_or(self.grace),
            umask: execution.umask.unwrap_or(self.umask),
        }
    }

    /// Applies `key = value`; the key is one of [`KEYS`].
    pub(crate) fn set(
        &mut self,
        key: &str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Finding> {
        match key {
            "history" => {
                self.history_entries_max = value::count(key, value, span, &HISTORY_ENTRIES)?;
            }
            "log_runs" => self.log_runs_max = value::count(key, value, span, &LOG_RUNS)?,
            "log_age" => self.log_age_max = value::positive(value, span)?,
            "log_size" => self.log_bytes_max = value::log_bytes(value, span)?,
            "output" => self.output = value::output(value, span)?,
            "timeout" => self.timeout = Some(value::positive(value, span)?),
            "grace" => self.grace = value::duration(value, span)?,
            "umask" => self.umask = value::umask(value, span)?,
            "path" => self.path = search_path(value, span)?,
            _ => self.socket_group = value::account(value, span)?,
        }
        Ok(())
    }
}

/// Directories with `:` between. A relative one, or an empty one, which means the current
/// directory, would let whoever can write there choose what a job runs.
fn search_path(value: &Value<'_>, span: &Range<usize>) -> Result<String, Finding> {
    let path = value::text(value, span)?;
    match path.split(':').find(|directory| !directory.starts_with('/')) {
        None => Ok(path.to_owned()),
        Some(directory) => {
            let message = format!("`{}` in `path` is not an absolute path", excerpt(directory));
            Err(Finding::validation(span.clone(), message)
                .help("expected absolute directories with `:` between, as in `/usr/bin:/bin`"))
        }
    }
}
