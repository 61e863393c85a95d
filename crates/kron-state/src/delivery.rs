//! Who has still to be told what became of a period.
//!
//! What is to be told is written together with the outcome it is about, and removed when it has
//! been told: so whoever is to be told is told at least once, whatever crashes in between.

use std::fmt;

use kron_core::UtcSecond;
use serde::{Deserialize, Serialize};

use crate::document::HistoryEntry;

/// Names one delivery of one job: 16 lower-case hex digits. It is the same at every attempt, so
/// that whoever is told twice can notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeliveryId(u64);

impl DeliveryId {
    /// The id with these bits.
    #[must_use]
    pub fn from_bits(bits: u64) -> DeliveryId {
        DeliveryId(bits)
    }
}

impl TryFrom<String> for DeliveryId {
    type Error = String;

    fn try_from(text: String) -> Result<DeliveryId, String> {
        let hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let bits = u64::from_str_radix(&text, 16).ok().filter(|_| hex && text.len() == 16);
        bits.map(DeliveryId).ok_or("a delivery's id is 16 lower-case hex digits".to_owned())
    }
}

impl From<DeliveryId> for String {
    fn from(id: DeliveryId) -> String {
        id.to_string()
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Something that a hook has still to be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Delivery {
    /// Its name.
    #[serde(rename = "ID")]
    pub id: DeliveryId,
    /// The hook.
    pub hook: Box<str>,
    /// What it is told, such as `missed`.
    pub event: Box<str>,
    /// Since when.
    pub since: UtcSecond,
    /// What happened.
    pub entry: HistoryEntry,
}
