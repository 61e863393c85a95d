//! A period as people name it: by its id, or by the label of its Job.

use kron_core::UtcSecond;
use kron_operator::job;

use crate::failure::Failure;
use crate::jobs;

/// The time that is meant; now when nothing is said.
pub(super) fn time(argument: &'static str, text: Option<&str>) -> Result<UtcSecond, Failure> {
    match text.and_then(of_label) {
        Some(at) => Ok(at),
        None => jobs::time(argument, text),
    }
}

/// The period that the value of the label `kron.dev/period` names, such as `20260301T000000Z`. The
/// names of Jobs have it in small letters.
pub(super) fn of_label(text: &str) -> Option<UtcSecond> {
    job::period_of(&text.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_periods() {
        for (text, expected) in [
            ("20260301T000000Z", Some("2026-03-01T00:00:00Z")),
            ("20260301t013005z", Some("2026-03-01T01:30:05Z")),
            ("2026-03-01T00:00:00Z", None),
            ("20260231T000000Z", None),
            ("20260301T0000é", None),
            ("", None),
        ] {
            assert_eq!(of_label(text).map(|at| at.to_string()).as_deref(), expected, "{text}");
        }
    }
}
