//! What the files of a set say about spools, gathered text by text.
//!
//! The keys of a spool are merged over all files, as those of `[queue]` are; its handlers are whole
//! tables. Whether it has a directory, what its handlers leave to it, and whether jobs drop tasks into
//! spools that are not there, is known when every file is read: [`SpoolTables::finish`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use kron_core::Finding;
use kron_core::finding::excerpt;

use super::{SpoolDrop, SpoolSettings};
use crate::import::toml_text::key as toml_key;
use crate::job::{Action, Job};
use crate::queue::Handler;
use crate::queue::handler::{OwnRetry, Owner};
use crate::queue::tables::{HANDLERS_MAX, take_name, too_long};
use crate::source::Location;
use crate::value::Value;

/// Spools that a set of files may have.
const SPOOLS_MAX: usize = 64;
/// Jobs that drop tasks in vain and are told, of each kind; no more are ever shown.
const IN_VAIN_MAX: usize = 1_001;

/// The tables of spools so far.
#[derive(Debug, Default)]
pub(crate) struct SpoolTables {
    /// Those that are there, sound or not.
    spools: BTreeMap<String, Spool>,
    /// Those of which something could not be read; of the one without a name, `[spool]`, all.
    unread: HashSet<Box<str>>,
}

/// One spool so far.
#[derive(Debug)]
struct Spool {
    /// Where it is first spoken of.
    place: Location,
    settings: SpoolSettings,
    /// Where each of its keys was given, sound or not.
    key_places: HashMap<&'static str, Location>,
    handlers: BTreeMap<String, (Handler, OwnRetry)>,
    /// Where each handler was defined, sound or not.
    handler_places: HashMap<Box<str>, Location>,
}

impl SpoolTables {
    /// Notes that a table of a spool could not be read, so that nobody is told to add what may be
    /// there.
    pub(crate) fn note_unread(&mut self, name: &str) {
        self.unread.insert(name.into());
    }

    /// Begins a spool, or goes on with it, unless there are too many.
    pub(crate) fn open(
        &mut self,
        name: &str,
        place: Location,
        name_span: &Range<usize>,
    ) -> Result<(), Finding> {
        if self.spools.contains_key(name) {
            return Ok(());
        }
        if self.spools.len() == SPOOLS_MAX {
            self.note_unread(name);
            let message = format!("more than {SPOOLS_MAX} spools");
            return Err(Finding::validation(name_span.clone(), message));
        }
        let spool = Spool {
            place,
            settings: SpoolSettings::new(name),
            key_places: HashMap::new(),
            handlers: BTreeMap::new(),
            handler_places: HashMap::new(),
        };
        self.spools.insert(name.to_owned(), spool);
        Ok(())
    }

    /// Notes that a key of an open spool stands at `place`, or says where it was given before.
    pub(crate) fn define_key(
        &mut self,
        name: &str,
        key: &'static str,
        place: Location,
    ) -> Result<(), Location> {
        let Some(spool) = self.spools.get_mut(name) else { return Ok(()) };
        match spool.key_places.get(key) {
            Some(first) => Err(first.clone()),
            None => {
                spool.key_places.insert(key, place);
                Ok(())
            }
        }
    }

    /// Applies `key = value` to an open spool.
    pub(crate) fn set(
        &mut self,
        name: &str,
        key: &'static str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Vec<Finding>> {
        let Some(spool) = self.spools.get_mut(name) else { return Ok(()) };
        spool.settings.set(key, value, span)?;
        if key != "dir" {
            return Ok(());
        }
        self.check_apart(name, span).map_err(|finding| {
            // What is refused is nobody's, so that others are not compared with it.
            if let Some(spool) = self.spools.get_mut(name) {
                spool.settings.dir.clear();
            }
            vec![finding]
        })
    }

    /// Checks that the directory of a spool, which is written at `span`, is apart from all others:
    /// two spools would take each other's files for their own.
    fn check_apart(&self, name: &str, span: &Range<usize>) -> Result<(), Finding> {
        let Some(dir) = self.spools.get(name).map(|spool| spool.settings.dir.as_str()) else {
            return Ok(());
        };
        let others = self.spools.iter().filter(|(other, _)| *other != name);
        for (other, spool) in others {
            let relation = match spool.settings.dir.as_str() {
                "" => continue,
                same if same == dir => "is",
                outer if is_inside(dir, outer) => "is inside",
                inner if is_inside(inner, dir) => "contains",
                _ => continue,
            };
            let message = format!(
                "the directory of spool `{}` {relation} that of spool `{}`",
                excerpt(name),
                excerpt(other)
            );
            let place = spool.key_places.get("dir").unwrap_or(&spool.place);
            return Err(Finding::validation(span.clone(), message)
                .help(format!("that one is given at {place}; each spool has its own")));
        }
        Ok(())
    }

    /// Takes the name of a handler of an open spool, unless it is taken or there are too many.
    pub(crate) fn name_handler(
        &mut self,
        name: &str,
        task_type: &str,
        place: Location,
        type_span: &Range<usize>,
    ) -> Result<(), Finding> {
        let Some(spool) = self.spools.get_mut(name) else { return Ok(()) };
        let places = &mut spool.handler_places;
        take_name(places, HANDLERS_MAX, "handler", task_type, place, type_span)
    }

    /// Adds a handler to an open spool.
    pub(crate) fn add_handler(&mut self, name: &str, handler: Handler, retry: OwnRetry) {
        if let Some(spool) = self.spools.get_mut(name) {
            spool.handlers.insert(handler.job_type.clone(), (handler, retry));
        }
    }

    /// The spools, and what is wrong with all of them and the jobs together.
    pub(crate) fn finish(self, jobs: &[Job]) -> (Vec<SpoolSettings>, Vec<(Location, Finding)>) {
        let mut found = self.in_vain(jobs);
        let mut spools = Vec::with_capacity(self.spools.len());
        for (name, spool) in self.spools {
            if !spool.key_places.contains_key("dir") && !is_unread(&self.unread, &name) {
                let message = format!("spool `{}` has no `dir`", excerpt(&name));
                let finding = Finding::configuration(0..0, message)
                    .help("as in `dir = \"/var/spool/kron/mail\"`");
                found.push((spool.place.clone(), finding));
            }
            spools.push(spool.finish(&mut found));
        }
        (spools, found)
    }

    /// Jobs that drop tasks where there is no spool, an error, or no handler, a warning: of each
    /// spool and type the first.
    fn in_vain(&self, jobs: &[Job]) -> Vec<(Location, Finding)> {
        let drops = || {
            jobs.iter().filter_map(|job| match &job.action {
                Action::Spool(drop) if !is_unread(&self.unread, &drop.spool) => {
                    Some((&**drop, &job.origin))
                }
                _ => None,
            })
        };
        let mut told = HashSet::new();
        let absent = drops()
            .filter(|(drop, _)| !self.spools.contains_key(&*drop.spool))
            .filter(|(drop, _)| told.insert(&*drop.spool))
            .take(IN_VAIN_MAX)
            .map(|(drop, place)| (place.clone(), self.no_spool(drop)));
        let mut found: Vec<_> = absent.collect();
        let mut told = HashSet::new();
        let unhandled = drops()
            .filter(|(drop, _)| {
                let spool = self.spools.get(&*drop.spool);
                spool.is_some_and(|spool| !spool.handler_places.contains_key(&*drop.task_type))
            })
            .filter(|(drop, _)| told.insert((&*drop.spool, &*drop.task_type)))
            .take(IN_VAIN_MAX)
            .map(|(drop, place)| (place.clone(), no_handler(drop)));
        found.extend(unhandled);
        found
    }

    fn no_spool(&self, drop: &SpoolDrop) -> Finding {
        let message =
            format!("this job names spool `{}`, and there is no such spool", excerpt(&drop.spool));
        let add = format!("add a table `[spool.{}]` to any of the files", shown_key(&drop.spool));
        let known = self.spools.keys().map(String::as_str);
        Finding::configuration(0..0, message).nearest(&drop.spool, known, add)
    }
}

impl Spool {
    /// The spool with its handlers.
    fn finish(self, found: &mut Vec<(Location, Finding)>) -> SpoolSettings {
        let mut settings = self.settings;
        let key = shown_key(&settings.name);
        let places = &self.key_places;
        let wait = places.get("backoff").or_else(|| places.get("backoff_max"));
        let mut check = |retry, table: &str, place: Option<&Location>| {
            let fault = too_long(retry, table, Owner::Spool);
            found.extend(place.cloned().zip(fault));
        };
        check(settings.retry, &format!("[spool.{key}]"), wait);
        for (mut handler, retry) in self.handlers.into_values() {
            handler.retry = retry.over(settings.retry);
            if retry.has_backoff() {
                let table = format!("[spool.{key}.handler.{}]", toml_key(&handler.job_type));
                let place = self.handler_places.get(handler.job_type.as_str());
                check(handler.retry, &table, place);
            }
            settings.handlers.push(handler);
        }
        settings
    }
}

fn no_handler(drop: &SpoolDrop) -> Finding {
    let message = format!(
        "this job drops `{}` into spool `{}`, which has no handler for it",
        drop.task_type,
        excerpt(&drop.spool)
    );
    let (spool, task_type) = (shown_key(&drop.spool), toml_key(&drop.task_type));
    Finding::warning(0..0, message)
        .help(format!("its tasks wait until there is `[spool.{spool}.handler.{task_type}]`"))
}

/// Whether there may be more of a spool than was read.
fn is_unread(unread: &HashSet<Box<str>>, name: &str) -> bool {
    unread.contains(name) || unread.contains("")
}

/// Whether one plain path lies inside another.
fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// A spool's name as a header has it, short.
fn shown_key(name: &str) -> String {
    toml_key(&excerpt(name))
}
