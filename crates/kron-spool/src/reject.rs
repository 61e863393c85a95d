//! What cannot be a task is set aside, with a report beside it. Nothing is ever deleted for being
//! wrong.
//!
//! Many are set aside together: all reports are written and synced before the first thing is moved,
//! and they share the syncs of the directories.

use std::ffi::CString;
use std::io;

use kron_core::Timestamp;
use kron_state::{Moves, Operation, RealDirectory, write_all};
use serde::{Deserialize, Serialize};

use crate::error::{Fault, SpoolError};
use crate::open::{Spool, file_error};
use crate::steps::TOGETHER_MAX;
use crate::task::State;

/// What a report's name ends in.
pub(crate) const REPORT: &str = ".report";
/// Bytes of a report that are read.
const REPORT_BYTES_MAX: u64 = 64 * 1024;
/// Names that are tried for something that is set aside.
const NAMES_MAX: u32 = 100_000;
/// Bytes of a name that are kept, so that a number and `.report` have room.
const NAME_BYTES_MAX: usize = 230;

/// Something that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// What it was called.
    pub name: String,
    /// Where it is now; a file of this name and `.report` says why.
    pub path: String,
    /// Why it is no task.
    pub fault: Fault,
}

/// What a report says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What it was called.
    pub name: String,
    /// Where it was.
    pub directory: String,
    /// When it was set aside.
    pub rejected_at: Timestamp,
    /// Why it is no task.
    pub reason: String,
}

/// Something to be set aside: what reports call it, and why.
pub(crate) struct Aside<'a> {
    pub(crate) name: &'a str,
    pub(crate) fault: &'a Fault,
}

impl<D: Moves> Spool<D> {
    /// Moves what is called `name` in the directory of `state` to `rejected/`.
    ///
    /// # Errors
    /// When that cannot be done; it is then where it was.
    pub fn set_aside(
        &self,
        state: State,
        name: &str,
        fault: &Fault,
        now: Timestamp,
    ) -> Result<SetAside, SpoolError> {
        self.set_aside_called(state, name, name, fault, now)
    }

    /// Moves many things from the directory of `state` to `rejected/`, each for its own fault. They
    /// share their syncs; what fails is where it was.
    pub fn set_aside_all(
        &self,
        state: State,
        things: &[(String, Fault)],
        now: Timestamp,
    ) -> Vec<Result<SetAside, SpoolError>> {
        let asides: Vec<Aside<'_>> =
            things.iter().map(|(name, fault)| Aside { name, fault }).collect();
        self.set_aside_by(state, &asides, now, |number, source, rejected, to| {
            source.move_to(&things[number].0, rejected, to)
        })
    }

    /// Sets aside what is called `name` now, and has another name for people.
    pub(crate) fn set_aside_called(
        &self,
        state: State,
        name: &str,
        shown: &str,
        fault: &Fault,
        now: Timestamp,
    ) -> Result<SetAside, SpoolError> {
        let aside = [Aside { name: shown, fault }];
        let mut done = self.set_aside_by(state, &aside, now, |_, source, rejected, to| {
            source.move_to(name, rejected, to)
        });
        let broken = || SpoolError::Broken { path: self.pending.describe("..") };
        done.pop().unwrap_or_else(|| Err(broken()))
    }

    /// Sets things aside; `move_to` moves the one of a number from the first directory to the
    /// second.
    fn set_aside_by(
        &self,
        state: State,
        asides: &[Aside<'_>],
        now: Timestamp,
        move_to: impl Fn(usize, &D, &D, &str) -> io::Result<()>,
    ) -> Vec<Result<SetAside, SpoolError>> {
        let opened = self
            .check()
            .and_then(|()| self.directory(state))
            .and_then(|source| Ok((source, self.rejected()?)));
        let (source, rejected) = match opened {
            Ok(pair) => pair,
            Err(error) => return asides.iter().map(|_| Err(error.again())).collect(),
        };
        let at = |operation, name: &str| SpoolError::at(operation, source.describe(name));
        let withdraw = |to: &str| drop(rejected.remove(&format!("{to}{REPORT}")));
        // The reports come first and hold the names; one whose file never comes does no harm.
        let mut reported: Vec<Result<String, SpoolError>> = asides
            .chunks(TOGETHER_MAX)
            .flat_map(|asides| write_reports(source, rejected, state, asides, now))
            .collect();
        if reported.iter().any(Result::is_ok)
            && let Err(error) = self.sync(rejected)
        {
            for to in reported.iter_mut().filter(|reported| reported.is_ok()) {
                if let Ok(to) = std::mem::replace(to, Err(error.again())) {
                    withdraw(&to);
                }
            }
        }
        let moved: Vec<Result<String, SpoolError>> = reported
            .into_iter()
            .zip(asides)
            .enumerate()
            .map(|(number, (to, aside))| {
                let to = to?;
                move_to(number, source, rejected, &to).map_err(|error| {
                    withdraw(&to);
                    at(Operation::Rename, aside.name)(error)
                })?;
                #[cfg(kron_canary)]
                if kron_canary::Canary::SpoolDeletesWhatIsWrong.is_active() {
                    let _ = rejected.remove(&to);
                }
                Ok(to)
            })
            .collect();
        let durable = match moved.iter().any(Result::is_ok) {
            true => self.sync(rejected).and_then(|()| self.sync(source)),
            false => Ok(()),
        };
        let told = moved.into_iter().zip(asides).map(|(to, Aside { name, fault })| {
            let path = rejected.describe(&to?);
            durable.as_ref().map_err(SpoolError::again)?;
            Ok(SetAside { name: (*name).to_owned(), path, fault: (*fault).clone() })
        });
        told.collect()
    }

    /// The names of what was set aside, in order.
    ///
    /// # Errors
    /// When `rejected/` cannot be listed.
    pub fn rejected_names(&self) -> Result<Vec<String>, SpoolError> {
        let rejected = self.rejected()?;
        let at = SpoolError::at(Operation::List, rejected.describe(""));
        let mut names = rejected.names().map_err(at)?;
        names.retain(|name| !name.starts_with('.') && !name.ends_with(REPORT));
        names.sort_unstable();
        Ok(names)
    }

    /// The report about what is called `name` in `rejected/`; `None` when there is none, the inner
    /// error says why it is no report.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn report(&self, name: &str) -> Result<Option<Result<Report, String>>, SpoolError> {
        let rejected = self.rejected()?;
        let name = format!("{name}{REPORT}");
        let at = |error| file_error(Operation::Read, rejected.describe(&name), error);
        let contents = rejected.read(&name, REPORT_BYTES_MAX).map_err(at)?;
        let parsed = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|it| it.to_string());
        Ok(contents.map(|contents| parsed(&contents.bytes)))
    }

    /// Where something is that was set aside.
    ///
    /// # Errors
    /// When `rejected/` may not be looked into.
    pub fn rejected_path(&self, name: &str) -> Result<String, SpoolError> {
        Ok(self.rejected()?.describe(name))
    }
}

impl Spool<RealDirectory> {
    /// Sets aside whatever in `pending/` has a name that is no text.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn set_aside_no_texts(
        &self,
        now: Timestamp,
    ) -> Result<Vec<Result<SetAside, SpoolError>>, SpoolError> {
        let at = SpoolError::at(Operation::List, self.pending.path().display().to_string());
        let mut names: Vec<CString> = self.pending.names_that_are_no_text().map_err(at)?;
        // What begins with a dot is nobody's business here either.
        names.retain(|name| !name.to_bytes().starts_with(b"."));
        let shown: Vec<String> = names
            .iter()
            .map(|raw| raw.to_bytes().escape_ascii().to_string().replace('/', "_"))
            .collect();
        let asides: Vec<Aside<'_>> =
            shown.iter().map(|name| Aside { name, fault: &Fault::NameNotText }).collect();
        Ok(self.set_aside_by(State::Pending, &asides, now, |number, source, rejected, to| {
            source.move_no_text(&names[number], rejected, to)
        }))
    }
}

/// Writes and syncs reports; each tells the name that it holds.
fn write_reports<D: Moves>(
    source: &D,
    rejected: &D,
    state: State,
    asides: &[Aside<'_>],
    now: Timestamp,
) -> Vec<Result<String, SpoolError>> {
    let at = |operation, name: &str| SpoolError::at(operation, source.describe(name));
    let mut files = Vec::new();
    let written: Vec<Result<String, SpoolError>> = asides
        .iter()
        .map(|Aside { name, fault }| {
            let report = Report {
                name: (*name).to_owned(),
                directory: state.directory().to_owned(),
                rejected_at: now,
                reason: fault.to_string(),
            };
            let (to, mut file) = reserve(rejected, name).map_err(at(Operation::Create, name))?;
            let text = serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
            match write_all(rejected, &mut file, text.as_bytes()) {
                Ok(()) => {
                    files.push(file);
                    Ok(to)
                }
                Err(error) => {
                    let _ = rejected.remove(&format!("{to}{REPORT}"));
                    Err(at(Operation::Write, name)(error))
                }
            }
        })
        .collect();
    let mut synced = rejected.sync_files(&files).into_iter();
    let synced = written.into_iter().zip(asides).map(|(written, Aside { name, .. })| {
        let to = written?;
        match synced.next().unwrap_or(Ok(())) {
            Ok(()) => Ok(to),
            Err(error) => {
                let _ = rejected.remove(&format!("{to}{REPORT}"));
                Err(at(Operation::Write, name)(error))
            }
        }
    });
    synced.collect()
}

/// A new, empty report, and the name that it holds.
fn reserve<D: Moves>(rejected: &D, name: &str) -> io::Result<(String, D::File)> {
    let base = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
    for number in 0..NAMES_MAX {
        // What is itself called like a report must not be taken for one.
        let as_it_is = number == 0 && !base.ends_with(REPORT);
        let to = if as_it_is { base.to_owned() } else { format!("{base}.{number}") };
        if rejected.version(&to)?.is_some() {
            continue;
        }
        match rejected.create(&format!("{to}{REPORT}")) {
            Ok(file) => return Ok((to, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many of this name were set aside"))
}
