//! What became of runs that an earlier daemon began, judged by proof and never by time.

use kron_spool::{Fate, Task};
use kron_state::{Process, RealDirectory, RunRead, RunRecord, Store};

use crate::queue::recovery::is_alive;

/// What became of the run of a task that was found running.
pub(crate) fn judge(task: &Task, store: &Store<RealDirectory>) -> Fate {
    // Not one of ours: nothing of it can be alive.
    let Some(run) = &task.run else { return Fate::Lost };
    let alive = |process: Process| is_alive(&run.boot_id, process);
    let alive = alive(run.supervisor).and_then(|supervisor| Ok(supervisor || alive(run.command)?));
    match alive {
        Err(_) => Fate::Unknown,
        #[cfg(kron_canary)]
        Ok(true) if kron_canary::Canary::SpoolAdoptsNothing.is_active() => Fate::Lost,
        Ok(true) => Fate::Alive,
        Ok(false) => match store.run_record(&run.run_id) {
            // It ended while no daemon was there: whoever adopts it finds the record.
            Ok(RunRead::Record(RunRecord::Ended(_) | RunRecord::ExecFailed { .. })) => Fate::Alive,
            Ok(RunRead::Record(RunRecord::NotReleased)) => Fate::NotStarted,
            Ok(_) => Fate::Lost,
            Err(_) => Fate::Unknown,
        },
    }
}
