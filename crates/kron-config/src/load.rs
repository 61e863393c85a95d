//! Texts in, jobs and diagnostics out.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use kron_core::finding::excerpt;
use kron_core::{Finding, Host, NAME_BYTES_MAX, TimingParser, Zone};

use crate::daemon::DaemonSettings;
use crate::diagnostic::Diagnostic;
use crate::files::ReadError;
use crate::hook::{HOOKS_MAX, Hook};
use crate::job::{Action, Execution, Job};
use crate::queue::tables::QueueTables;
use crate::source::{Location, Source};
use crate::spool::tables::SpoolTables;
use crate::value::is_account;
use crate::{crontab, krontab, toml_file};

/// Bytes a line of a krontab or crontab may have.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;
/// Errors of native texts after which nothing more is read, and errors of crontabs that are told one
/// by one; further ones are counted, file by file.
pub(crate) const ERRORS_MAX: usize = 1_000;
/// Warnings that are kept; further ones are left out, and forbid nothing.
const WARNINGS_MAX: usize = 1_000;
/// Jobs one load may have.
const JOBS_MAX: usize = 250_000;

/// How a text is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tables `[job.NAME]`, and `[daemon]`.
    Toml,
    /// One job a line, with `name=` and other settings.
    Krontab,
    /// A crontab.
    Crontab(CrontabOwner),
}

/// Whose crontab it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrontabOwner {
    /// The system's: each entry names its user.
    System,
    /// This user's own.
    User(String),
}

impl CrontabOwner {
    /// The user of this name.
    ///
    /// # Errors
    /// A validation error when nobody can be called this.
    pub fn user(name: &str) -> Result<CrontabOwner, Finding> {
        if !is_account(name) {
            let message = format!("`{}` is not a user", excerpt(name));
            return Err(Finding::validation(0..0, message));
        }
        Ok(CrontabOwner::User(name.to_owned()))
    }
}

/// What the texts do not say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What `%H` in a salt stands for.
    pub host_name: Option<String>,
    /// What `%m` in a salt stands for.
    pub machine_id: Option<String>,
    /// The zone of crontab entries that no `CRON_TZ` or `@tz` governs; UTC when absent.
    pub crontab_zone: Option<Zone>,
}

impl Options {
    pub(crate) fn host(&self) -> Host<'_> {
        Host { name: self.host_name.as_deref(), machine_id: self.machine_id.as_deref() }
    }
}

/// Loads any number of texts into one set of jobs.
///
/// ```
/// use kron_config::{Format, Loader, Options, Source};
/// let mut loader = Loader::new(Options::default());
/// let text = "0 3 * * * @win(after,1h) name=backup command=/usr/bin/backup\n";
/// loader.load(&Source::new("jobs.krontab", text), &Format::Krontab);
/// let loaded = loader.finish();
/// assert!(loaded.diagnostics.is_empty());
/// assert_eq!(loaded.jobs[0].identity(), "backup");
/// ```
#[derive(Debug)]
pub struct Loader {
    options: Options,
    parser: TimingParser,
    jobs: Vec<Job>,
    places: HashMap<Arc<str>, Location>,
    /// How processes are set up, each way once.
    setups: HashSet<Arc<Execution>>,
    daemon: DaemonSettings,
    queue: QueueTables,
    spools: SpoolTables,
    /// Where each key of `[daemon]`, `[queue]` and `[api]` was given, sound or not.
    key_places: HashMap<(&'static str, &'static str), Location>,
    hook_places: HashMap<Box<str>, Location>,
    /// How often each crontab entry has been seen.
    crontab_entries: HashMap<String, usize>,
    /// Sound crontab entries that have no time to run at.
    entries_without_time: usize,
    diagnostics: Vec<Diagnostic>,
    warning_count: usize,
    native_error_count: usize,
    crontab_errors: ErrorCounts,
    /// Whether there were so many native errors, or jobs, that the rest was not read.
    cut_short: bool,
    refused: bool,
    in_crontab: bool,
    /// The bytes of the text at hand that no diagnostic shows.
    hidden: Vec<Range<usize>>,
}

/// How many errors crontabs have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorCounts {
    /// Those among the diagnostics.
    pub(crate) told: usize,
    /// Those that were too many.
    pub(crate) untold: usize,
}

/// What a [`Loader`] found.
#[derive(Debug)]
pub struct Loaded {
    /// The jobs, in the order of their texts.
    pub jobs: Vec<Job>,
    /// The daemon's settings, merged from all texts, with defaults for what none of them sets.
    pub daemon: DaemonSettings,
    /// Every fault and doubt, in the order of their texts; what is wrong with all of them together
    /// comes last.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether there were so many errors in native texts, or so many jobs, that the rest was not
    /// read. No number of bad crontab lines does that.
    pub cut_short: bool,
    /// Sound crontab entries that have no time to run at: `@reboot`, and those of an unknown zone.
    pub(crate) entries_without_time: usize,
    refused: bool,
}

impl Loaded {
    /// Whether the jobs may be scheduled: no native text has an error, and there are not too many
    /// jobs. Bad lines of crontab files are left out and spoil nothing else, however many they are.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        !self.refused
    }

    /// Whether anything at all is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        !self.is_usable() || self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The job of this identity.
    #[must_use]
    pub fn job(&self, identity: &str) -> Option<&Job> {
        self.jobs.iter().find(|job| job.identity() == identity)
    }
}

impl Loader {
    /// A loader without any jobs.
    #[must_use]
    pub fn new(options: Options) -> Loader {
        Loader {
            options,
            parser: TimingParser::new(),
            jobs: Vec::new(),
            places: HashMap::new(),
            setups: HashSet::new(),
            daemon: DaemonSettings::default(),
            queue: QueueTables::default(),
            spools: SpoolTables::default(),
            key_places: HashMap::new(),
            hook_places: HashMap::new(),
            crontab_entries: HashMap::new(),
            entries_without_time: 0,
            diagnostics: Vec::new(),
            warning_count: 0,
            native_error_count: 0,
            crontab_errors: ErrorCounts::default(),
            cut_short: false,
            refused: false,
            in_crontab: false,
            hidden: Vec::new(),
        }
    }

    /// Adds the jobs of one text.
    pub fn load(&mut self, source: &Source, format: &Format) {
        self.in_crontab = matches!(format, Format::Crontab(_));
        self.hide(Vec::new());
        match format {
            Format::Toml => toml_file::load(self, source),
            Format::Krontab => krontab::load(self, source),
            Format::Crontab(owner) => crontab::load(self, source, owner),
        }
    }

    /// Notes that a crontab could not be read and is left out. As with a bad line of one, nothing
    /// else is spoiled by it.
    pub fn leave_out(&mut self, path: &Path, error: &ReadError) {
        let cause =
            std::error::Error::source(error).map_or(String::new(), |why| format!(": {why}"));
        let message = format!("{error}{cause}; the file is left out");
        let mut finding = Finding::error(error.category(), 0..0, message);
        finding.help = error.hint();
        self.tell_of_file(&Source::new(&path.to_string_lossy(), ""), finding);
    }

    /// Everything that was found.
    #[must_use]
    pub fn finish(mut self) -> Loaded {
        self.finish_tables();
        Loaded {
            jobs: self.jobs,
            daemon: self.daemon,
            diagnostics: self.diagnostics,
            cut_short: self.cut_short,
            entries_without_time: self.entries_without_time,
            refused: self.refused,
        }
    }

    /// What only all texts together say about the queue, the spools and the API.
    fn finish_tables(&mut self) {
        let place = |key| self.key_places.get(&key).cloned();
        let wait = place(("queue", "backoff")).or_else(|| place(("queue", "backoff_max")));
        let (queue, mut found) = std::mem::take(&mut self.queue).finish(wait);
        if let (Some(_), None, Some(place)) =
            (self.daemon.api.listen, place(("api", "token_file")), place(("api", "listen")))
        {
            let finding = Finding::validation(0..0, "`listen` of `[api]` needs `token_file`")
                .help("whoever can connect could do anything; requests must bear a token");
            found.push((place, finding));
        }
        let (spools, found_of_spools) = std::mem::take(&mut self.spools).finish(&self.jobs);
        found.extend(found_of_spools);
        self.daemon.queue = queue;
        self.daemon.spools = spools;
        self.in_crontab = false;
        // Where the rest was not read, nobody knows what is missing.
        let found = found.into_iter().filter(|_| !self.cut_short).collect::<Vec<_>>();
        for (place, finding) in found {
            if self.admits(&finding) {
                self.diagnostics.push(Diagnostic::at(&place, finding));
            }
        }
    }

    pub(crate) fn parser(&mut self) -> &mut TimingParser {
        &mut self.parser
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn crontab_zone(&self) -> Option<Zone> {
        self.options.crontab_zone.clone()
    }

    /// The identity of a crontab entry; repeats of the same entry are told apart by a number.
    pub(crate) fn crontab_identity(&mut self, user: &str, schedule: &str, command: &str) -> String {
        let identity = format!("crontab/{user}/{}", crontab::entry_hash(schedule, command));
        let count = self.crontab_entries.entry(identity.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { identity } else { format!("{identity}#{count}") }
    }

    /// Whether reading on would only make the list of faults longer.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    pub(crate) fn report(&mut self, source: &Source, finding: Finding) {
        self.report_for_later(source, finding);
    }

    /// Reports what more may become known about: its index for [`Loader::add_to`], unless it is one
    /// of too many.
    pub(crate) fn report_for_later(&mut self, source: &Source, finding: Finding) -> Option<usize> {
        if !self.admits(&finding) {
            return None;
        }
        self.diagnostics.push(Diagnostic::hiding(source, finding, &self.hidden));
        Some(self.diagnostics.len() - 1)
    }

    /// Counts a finding; `false` when it is one of too many.
    fn admits(&mut self, finding: &Finding) -> bool {
        let (count, most) = match (finding.is_error(), self.in_crontab) {
            (false, _) => (&mut self.warning_count, WARNINGS_MAX),
            (true, true) => (&mut self.crontab_errors.told, ERRORS_MAX),
            (true, false) => {
                self.refused = true;
                self.cut_short |= self.native_error_count == ERRORS_MAX;
                (&mut self.native_error_count, ERRORS_MAX)
            }
        };
        if *count == most {
            self.crontab_errors.untold += usize::from(finding.is_error() && self.in_crontab);
            return false;
        }
        *count += 1;
        true
    }

    /// Keeps these bytes of the text at hand out of diagnostics; it is said anew for each section.
    pub(crate) fn hide(&mut self, mut hidden: Vec<Range<usize>>) {
        hidden.sort_unstable_by_key(|range| range.start);
        self.hidden = hidden;
    }

    /// Appends to the message of a diagnostic.
    pub(crate) fn add_to(&mut self, index: usize, words: &str) {
        self.diagnostics[index].message.push_str(words);
    }

    /// Reports an error about the whole of a crontab. No file has more than one such error, so they
    /// are told however many there are.
    pub(crate) fn tell_of_file(&mut self, source: &Source, finding: Finding) {
        self.diagnostics.push(Diagnostic::in_source(source, finding));
    }

    pub(crate) fn crontab_errors(&self) -> ErrorCounts {
        self.crontab_errors
    }

    /// Counts a sound crontab entry that has no time to run at.
    pub(crate) fn count_entry_without_time(&mut self) {
        self.entries_without_time += 1;
    }

    /// Reports what was found about one job, in the order of its text; `false` when any of it is
    /// an error.
    pub(crate) fn report_all(&mut self, source: &Source, mut findings: Vec<Finding>) -> bool {
        findings.sort_by_key(|finding| finding.span.start);
        let sound = !findings.iter().any(Finding::is_error);
        findings.into_iter().for_each(|finding| self.report(source, finding));
        sound
    }

    /// Notes that a key of a table stands at `place`, or says where it was given before.
    pub(crate) fn define_key(
        &mut self,
        table: &'static str,
        key: &'static str,
        place: Location,
    ) -> Result<(), Location> {
        if let Some(first) = self.key_places.get(&(table, key)) {
            return Err(first.clone());
        }
        self.key_places.insert((table, key), place);
        Ok(())
    }

    /// The daemon's settings so far.
    pub(crate) fn daemon(&mut self) -> &mut DaemonSettings {
        &mut self.daemon
    }

    /// The queue's tables so far.
    pub(crate) fn queue(&mut self) -> &mut QueueTables {
        &mut self.queue
    }

    /// The tables of spools so far.
    pub(crate) fn spools(&mut self) -> &mut SpoolTables {
        &mut self.spools
    }

    /// Takes a hook in, unless its name is taken.
    pub(crate) fn define_hook(
        &mut self,
        hook: Hook,
        place: Location,
        name_span: &Range<usize>,
    ) -> Result<(), Finding> {
        if let Some(first) = self.hook_places.get(&*hook.name) {
            let message = format!("hook `{}` is defined twice", excerpt(&hook.name));
            return Err(Finding::configuration(name_span.clone(), message)
                .help(format!("it is first defined at {first}; names are unique over all files")));
        }
        if self.daemon.hooks.len() == HOOKS_MAX {
            let message = format!("more than {HOOKS_MAX} hooks");
            return Err(Finding::validation(name_span.clone(), message));
        }
        self.hook_places.insert(hook.name.as_str().into(), place);
        self.daemon.hooks.push(hook);
        Ok(())
    }

    /// Takes a job in, unless its name is taken or it could never run.
    pub(crate) fn define(&mut self, source: &Source, job: Job, name_span: Range<usize>) {
        if let Some(first) = self.places.get(job.identity()) {
            let message = format!("job `{}` is defined twice", excerpt(job.identity()));
            let finding = Finding::configuration(name_span, message)
                .help(format!("it is first defined at {first}; names are unique over all files"));
            self.report(source, finding);
            return;
        }
        if !job.timing.can_run() {
            let message = format!(
                "job `{}` can never run: its constraints allow no second of any period",
                excerpt(job.identity())
            );
            let finding = Finding::validation(name_span, message)
                .help("`kron explain` shows what a period's window and constraints look like");
            self.report(source, finding);
            return;
        }
        if self.jobs.len() == JOBS_MAX {
            let message = format!("more than {JOBS_MAX} jobs");
            self.report(source, Finding::validation(name_span, message));
            self.cut_short = true;
            self.refused = true;
            return;
        }
        if let Action::Enqueue(enqueue) = &job.action {
            self.queue.enqueue(&enqueue.job_type, &job.origin);
        }
        self.places.insert(job.timing.placement().shared_identity(), job.origin.clone());
        self.jobs.push(job);
    }

    /// The one way of setting a process up that is like this.
    pub(crate) fn shared(&mut self, execution: Execution) -> Arc<Execution> {
        if let Some(shared) = self.setups.get(&execution) {
            return shared.clone();
        }
        let shared = Arc::new(execution);
        self.setups.insert(shared.clone());
        shared
    }
}

/// Checks the name of a job, which is its identity, or of a `what` that has a name like one.
pub(crate) fn check_name(what: &str, name: &str, span: &Range<usize>) -> Result<(), Finding> {
    let fault = if name.is_empty() {
        format!("a {what} with an empty name")
    } else if name.len() > NAME_BYTES_MAX {
        format!("a {what}'s name of more than {NAME_BYTES_MAX} bytes")
    } else if name.chars().any(char::is_control) {
        format!("the {what}'s name `{}` contains a control character", excerpt(name))
    } else {
        return Ok(());
    };
    Err(Finding::validation(span.clone(), fault))
}
