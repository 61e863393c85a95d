//! What happened to periods and runs, in a few words.

use krond::api::view::OutcomeView;

use crate::text::duration;

/// What happened, such as `exited 0` or `missed: superseded`.
pub(crate) fn words(outcome: &OutcomeView) -> String {
    let Some(word) = outcome.outcome.as_deref() else {
        return outcome.reason.clone().unwrap_or_else(|| "unknown".to_owned());
    };
    if word != "executed" {
        return match &outcome.reason {
            Some(reason) => format!("{word}: {reason}"),
            None => word.to_owned(),
        };
    }
    let status = match (outcome.exit_code, outcome.signal) {
        (Some(code), _) => format!(" {code}"),
        (None, Some(signal)) => format!(" by signal {signal}"),
        (None, None) => String::new(),
    };
    match outcome.ending.as_deref() {
        None if outcome.completed_at.is_none() => "running".to_owned(),
        None => format!("ended{status}"),
        Some("exited") => format!("exited{status}"),
        Some("signalled") => format!("killed{status}"),
        Some(ending) => ending.to_owned(),
    }
}

/// When a run started and ended; nothing for what did not run.
pub(crate) fn times(outcome: &OutcomeView) -> Option<String> {
    let started = outcome.started_at?;
    Some(match outcome.completed_at {
        Some(ended) => {
            format!("from {started} to {ended}, {}", duration(ended.since(started)))
        }
        None => format!("since {started}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_words() {
        let executed = OutcomeView { outcome: Some("executed".into()), ..OutcomeView::default() };
        let ended = |ending: &str, exit_code, signal| OutcomeView {
            ending: Some(ending.to_owned()),
            exit_code,
            signal,
            completed_at: Some(kron_core::UtcSecond::MIN),
            ..executed.clone()
        };
        let missed = OutcomeView {
            outcome: Some("missed".into()),
            reason: Some("superseded".into()),
            ..OutcomeView::default()
        };
        let moved = OutcomeView { reason: Some("mark reset".into()), ..OutcomeView::default() };
        for (outcome, expected) in [
            (executed.clone(), "running"),
            (ended("exited", Some(3), None), "exited 3"),
            (ended("signalled", None, Some(9)), "killed by signal 9"),
            (ended("timed out", None, Some(15)), "timed out"),
            (ended("lost", None, None), "lost"),
            (missed, "missed: superseded"),
            (moved, "mark reset"),
        ] {
            assert_eq!(words(&outcome), expected);
        }
    }
}
