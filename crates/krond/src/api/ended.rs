//! Runs by hand that have ended, for those who wait for them.
//!
//! A history may keep so few entries that one is gone before whoever started the run by hand asks
//! how it ended. So the daemon remembers the last of them beside the histories, however few those
//! keep. The loop tells of every change before it is written, and [`EndedRuns`] picks out what it
//! needs; it has no part in anything else, and is gone with the process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use kron_core::Outcome;
use kron_state::{ActiveState, Change, ExitStatus, HistoryEntry, PeriodRef, RunId};

/// Ended runs that are remembered. Each was started by somebody who asks again several times a
/// second.
const ENDED_MAX: usize = 1_000;

/// The last runs by hand that have ended.
#[derive(Debug, Default)]
pub(crate) struct EndedRuns {
    runs: Mutex<Runs>,
}

#[derive(Debug, Default)]
struct Runs {
    /// Those on their way: as many as there are processes.
    active: HashMap<RunId, ActiveState>,
    /// Those that have ended, the latest last.
    ended: VecDeque<(Arc<str>, HistoryEntry)>,
}

impl EndedRuns {
    /// Takes notice of what is about to be recorded about a job.
    pub(crate) fn note(&self, identity: &Arc<str>, changes: &[Change]) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            runs.note(identity, change);
        }
    }

    /// How a run by hand of a job ended, if it did not long ago.
    pub(crate) fn find(&self, identity: &str, run: &RunId) -> Option<HistoryEntry> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(job, entry): &&(Arc<str>, HistoryEntry)| {
            **job == *identity && entry.run.as_ref() == Some(run)
        };
        runs.ended.iter().rfind(is_it).map(|(_, entry)| entry.clone())
    }
}

impl Runs {
    fn note(&mut self, identity: &Arc<str>, change: &Change) {
        match change {
            Change::Arm(active) if matches!(active.period, PeriodRef::Manual(_)) => {
                self.active.insert(active.run.clone(), active.clone());
            }
            Change::Disarm(run) => {
                self.active.remove(run);
            }
            Change::HandOver { run, period: period @ PeriodRef::Manual(_), chosen, reason, at } => {
                let entry = kron_state::handed_over(run, period, *chosen, reason, *at);
                self.keep(identity, entry);
            }
            Change::Finish { run, ending, status, at, output_dropped } => {
                let Some(active) = self.active.remove(run) else { return };
                let (exit_code, signal) = match status {
                    Some(ExitStatus::ExitCode(code)) => (Some(*code), None),
                    Some(ExitStatus::Signal(signal)) => (None, Some(*signal)),
                    None => (None, None),
                };
                let entry = HistoryEntry {
                    outcome: Some(Outcome::Executed),
                    chosen_time: Some(active.chosen_time),
                    completed_at: Some(*at),
                    exit_code,
                    run: Some(active.run),
                    started_at: Some(active.started_at),
                    ending: Some(*ending),
                    signal,
                    output_dropped: (*output_dropped > 0).then_some(*output_dropped),
                    ..HistoryEntry::new(active.period)
                };
                self.keep(identity, entry);
            }
            // Nothing else begins or ends a run by hand.
            _ => {}
        }
    }

    fn keep(&mut self, identity: &Arc<str>, entry: HistoryEntry) {
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((identity.clone(), entry));
    }
}

#[cfg(test)]
mod tests {
    use kron_core::UtcSecond;
    use kron_state::{Document, Ending, Process};
    use serde_json::Map;

    use super::*;

    fn at(second: i64) -> UtcSecond {
        UtcSecond::from_unix(1_772_323_200 + second).unwrap()
    }

    fn arm(bits: u64, period: PeriodRef) -> Change {
        Change::Arm(ActiveState {
            period,
            pid: 7,
            started_at: at(1),
            chosen_time: at(0),
            run: RunId::from_bits(bits),
            start_ticks: 1,
            supervisor: Process { pid: 6, start_ticks: 1 },
            boot_id: "boot".to_owned(),
            executed: false,
            unknown: Map::new(),
        })
    }

    fn by_hand(bits: u64) -> Change {
        arm(bits, PeriodRef::Manual(format!("manual/{bits}").into()))
    }

    fn finish(bits: u64, status: ExitStatus) -> Change {
        Change::Finish {
            run: RunId::from_bits(bits),
            ending: Ending::Exited,
            status: Some(status),
            at: at(9),
            output_dropped: 5,
        }
    }

    #[test]
    fn what_is_remembered_is_what_is_recorded() {
        for status in [ExitStatus::ExitCode(3), ExitStatus::Signal(9)] {
            let ended = EndedRuns::default();
            let mut document = Document::new("job");
            for change in [by_hand(1), Change::Start(RunId::from_bits(1)), finish(1, status)] {
                assert_eq!(ended.find("job", &RunId::from_bits(1)), None);
                ended.note(&"job".into(), std::slice::from_ref(&change));
                document.apply(&change, 10).unwrap();
            }
            let found = ended.find("job", &RunId::from_bits(1));
            assert_eq!(found.as_ref(), document.history.last());
            assert_eq!(ended.find("other", &RunId::from_bits(1)), None);
        }
    }

    #[test]
    fn only_the_last_and_only_those_by_hand_are_remembered() {
        let ended = EndedRuns::default();
        let count = ENDED_MAX as u64 + 1;
        for bits in 1..=count {
            let end = finish(bits, ExitStatus::ExitCode(0));
            ended.note(&"job".into(), &[by_hand(bits), end]);
        }
        assert_eq!(ended.find("job", &RunId::from_bits(1)), None);
        assert!(ended.find("job", &RunId::from_bits(2)).is_some());
        assert!(ended.find("job", &RunId::from_bits(count)).is_some());

        let period = arm(count + 1, PeriodRef::Period(at(0)));
        ended.note(&"job".into(), &[period, finish(count + 1, ExitStatus::ExitCode(0))]);
        assert_eq!(ended.find("job", &RunId::from_bits(count + 1)), None);
        let disarm = Change::Disarm(RunId::from_bits(count + 2));
        ended.note(&"job".into(), &[by_hand(count + 2), disarm]);
        assert!(ended.runs.lock().unwrap().active.is_empty(), "nothing is kept of what is over");
    }
}
