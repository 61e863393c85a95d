//! What an earlier daemon left in the queue, judged by proof and never by time.
//!
//! A run is alive when its supervisor or its command is: the very process, by boot, number and start
//! time. One whose processes are gone has ended; if its supervisor has left a record of the end, that
//! counts as if it had just been told, else the run is lost. A run whose process was never recorded
//! was never let go.

use std::collections::BTreeMap;
use std::io;

use kron_exec::Held;
use kron_queue::{JobRun, Liveness, ProcessIdentity, Queue, Recover, Recovered, RunError, RunId};
use kron_state::{Process, RealDirectory, RunRead, RunRecord, Store};

use super::dispatcher::Moment;
use super::supervised;

/// How long the reservation of an adopted direct run lasts from now; while it runs it does not end.
const RESERVATION_MS: i64 = 600_000;

/// Puts in order what was left. The caller holds the lock of the state directory, so no other
/// daemon lives that could have made a reservation.
///
/// # Errors
/// When the database fails.
pub(crate) fn recover(
    queue: &Queue,
    open: &[JobRun],
    store: &Store<RealDirectory>,
    now: Moment,
) -> Result<Recovered, RunError> {
    let runs: BTreeMap<RunId, Liveness> =
        open.iter().map(|run| (run.run_id, judge(run, store))).collect();
    queue.call(Recover {
        runs,
        reservation_owner: Liveness::Dead,
        reservation_lasts_ms: RESERVATION_MS,
        now: now.wall,
    })
}

fn judge(run: &JobRun, store: &Store<RealDirectory>) -> Liveness {
    let Some(supervisor) = &run.process else { return Liveness::Dead };
    let alive = [Some(supervisor), run.command.as_ref()]
        .into_iter()
        .flatten()
        .map(|process| match local(process) {
            Some(known) => is_alive(&process.boot_id, known),
            None => Ok(false),
        })
        .collect::<io::Result<Vec<bool>>>();
    match alive {
        Err(_) => Liveness::Unknown,
        #[cfg(kron_canary)]
        Ok(alive)
            if alive.contains(&true) && kron_canary::Canary::QueueAdoptsNothing.is_active() =>
        {
            Liveness::Dead
        }
        Ok(alive) if alive.contains(&true) => Liveness::Alive,
        Ok(_) => match store.run_record(&supervised(run.run_id)) {
            // It ended while no daemon was there: whoever adopts it finds the record.
            Ok(RunRead::Record(RunRecord::Ended(_))) => Liveness::Alive,
            // Not executed, or nobody knows.
            Ok(_) => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        },
    }
}

/// Whether the very process of that boot is alive.
pub(crate) fn is_alive(boot_id: &str, process: Process) -> io::Result<bool> {
    match Held::open(boot_id, process)? {
        Some(held) => Ok(!held.has_ended()?),
        None => Ok(false),
    }
}

/// A recorded process as the system knows it; none has numbers beyond the system's.
pub(crate) fn local(process: &ProcessIdentity) -> Option<Process> {
    Some(Process {
        pid: i32::try_from(process.pid).ok()?,
        start_ticks: u64::try_from(process.start_ticks).ok()?,
    })
}
