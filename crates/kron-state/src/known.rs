//! What is known about every job beside its own document: `known.json`.
//!
//! One file for all jobs, replaced as a whole by every load, says since when each job exists and
//! since when it has its present definition. Without it a job is new, and new jobs never run the
//! past. It is sealed like a document, and fields that nobody here knows are kept.

use std::collections::BTreeMap;

use kron_core::UtcSecond;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::{DocumentError, VERSION};
use crate::sealed;

/// What is known about all jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Known {
    /// The version of the format.
    pub version: String,
    /// The machine that wrote it; on another one the state directory is a copy.
    #[serde(rename = "MachineID")]
    pub machine_id: String,
    /// Every job that was ever loaded and not forgotten, by identity.
    pub jobs: BTreeMap<Box<str>, KnownJob>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What is known about one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct KnownJob {
    /// When it was first loaded; nothing due until then runs.
    pub created_at: UtcSecond,
    /// What decides about it, as [`kron_core::Timing::decision_hash`] sums it up.
    pub decision_hash: Box<str>,
    /// When its present definition was first loaded, if it had another one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_from: Option<UtcSecond>,
    /// Whether it was suspended when last seen.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspended: bool,
    /// What somebody asked for, over what the definition says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_override: Option<bool>,
    /// When its last suspension was lifted; nothing due until then runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<UtcSecond>,
    /// Whether no file defines it any more. When one does again the job is new, but for what was
    /// asked for by hand.
    #[serde(default, skip_serializing_if = "is_false")]
    pub removed: bool,
    /// Whether it has a state document; one that is not there is then lost, not new.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_state: bool,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The times that are known about a job, each of which keeps from running what was due until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownTime {
    /// [`KnownJob::created_at`].
    CreatedAt,
    /// [`KnownJob::effective_from`].
    EffectiveFrom,
    /// [`KnownJob::resumed_at`].
    ResumedAt,
}

impl KnownTime {
    /// Its key.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            KnownTime::CreatedAt => "CreatedAt",
            KnownTime::EffectiveFrom => "EffectiveFrom",
            KnownTime::ResumedAt => "ResumedAt",
        }
    }
}

/// A time of a job that lies in the future, where only a wrong clock can have put it. Nothing of
/// the job runs before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAhead {
    /// The job.
    pub identity: Box<str>,
    /// Which time.
    pub time: KnownTime,
    /// Where it lies.
    pub at: UtcSecond,
}

/// Fields of a newer version, at the cost of one word where there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unknown(Option<Box<Map<String, Value>>>);

impl Serialize for Unknown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().flat_map(|fields| fields.iter()))
    }
}

impl<'de> Deserialize<'de> for Unknown {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Unknown, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        Ok(Unknown((!fields.is_empty()).then(|| Box::new(fields))))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Known {
    /// Nothing known yet on this machine.
    #[must_use]
    pub fn new(machine_id: &str) -> Known {
        Known {
            version: VERSION.to_owned(),
            machine_id: machine_id.to_owned(),
            jobs: BTreeMap::new(),
            unknown: Map::new(),
        }
    }

    /// What these bytes say.
    ///
    /// # Errors
    /// When they are no JSON or not what was written, or when this version cannot use them.
    pub fn parse(bytes: &[u8]) -> Result<Known, DocumentError> {
        let (text, seal) = sealed::open(bytes).map_err(DocumentError::Unreadable)?;
        let mut known: Known = serde_json::from_str(text).map_err(|error| {
            match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => DocumentError::Incompatible(error.to_string()),
                Err(error) => DocumentError::Unreadable(error.to_string()),
            }
        })?;
        if known.version != VERSION {
            return Err(DocumentError::Incompatible(format!(
                "its version is `{}`, and this build reads `{VERSION}`",
                known.version.escape_debug()
            )));
        }
        seal.remove_from(&mut known.unknown).map_err(DocumentError::Unreadable)?;
        Ok(known)
    }

    /// Every time that lies in the future, by identity.
    #[must_use]
    pub fn ahead_of(&self, now: UtcSecond) -> Vec<KnownAhead> {
        let times = self.jobs.iter().flat_map(|(identity, job)| {
            job.times().into_iter().map(move |(time, at)| (identity, time, at))
        });
        times
            .filter(|(_, _, at)| *at > now)
            .map(|(identity, time, at)| KnownAhead { identity: identity.clone(), time, at })
            .collect()
    }

    /// The bytes to store: one line of JSON with its checksum.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        sealed::seal(self)
    }
}

impl KnownJob {
    /// Brings every time that lies in the future to the present. That never runs the past: what
    /// was due until now stays undone.
    pub(crate) fn bring_back(&mut self, now: UtcSecond) {
        self.created_at = self.created_at.min(now);
        self.effective_from = self.effective_from.map(|at| at.min(now));
        self.resumed_at = self.resumed_at.map(|at| at.min(now));
    }

    fn times(&self) -> impl IntoIterator<Item = (KnownTime, UtcSecond)> {
        [
            Some((KnownTime::CreatedAt, self.created_at)),
            self.effective_from.map(|at| (KnownTime::EffectiveFrom, at)),
            self.resumed_at.map(|at| (KnownTime::ResumedAt, at)),
        ]
        .into_iter()
        .flatten()
    }

    /// A job that is loaded for the first time.
    #[must_use]
    pub fn new(created_at: UtcSecond, decision_hash: &str) -> KnownJob {
        KnownJob {
            created_at,
            decision_hash: decision_hash.into(),
            effective_from: None,
            suspended: false,
            suspend_override: None,
            resumed_at: None,
            removed: false,
            has_state: false,
            unknown: Unknown::default(),
        }
    }
}
