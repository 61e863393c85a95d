//! A long life with many crashes and power cuts, in which anything happens in any order.

use kron_core::UtcSecond;
use kron_spool::{Fate, Next, Spool, State};
use kron_state::simulated::{Disk, Fault, Faulty};
use kron_testkit::chance::Seeded;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::acting::Acting;
use crate::made::{again, ended};
use crate::power_cut::judge;
use crate::promises::{Listing, Promise, Promises};

const LIVES: usize = 300;
const STEPS: usize = 30;
const OPERATIONS_MAX: usize = 500;
const EIO: i32 = 5;

#[test]
fn a_long_life_with_many_power_cuts_keeps_every_promise() {
    let mut seeded = Seeded(2026);
    let mut promises = Promises::default();
    let mut disk = Disk::new();
    disk.set_now(UtcSecond::from_unix(0).unwrap());
    let mut next = 0;
    let mut most_completed = 0;
    for life in 0..LIVES {
        let (stop_after, count) = (seeded.index_below(OPERATIONS_MAX), AtomicUsize::new(0));
        let faulty = Faulty::new(disk.clone(), move |_, _| {
            match count.fetch_add(1, Ordering::Relaxed) < stop_after {
                true => Fault::None,
                false => Fault::Errno(EIO),
            }
        });
        if let Ok(spool) = Spool::over(&faulty) {
            let mut tell = |name: &str, promise| promises.tell(name, promise);
            let mut acting = Acting { spool: &spool, tell: &mut tell };
            for _ in 0..STEPS {
                if step(&mut acting, &mut seeded, &mut next).is_none() {
                    break;
                }
            }
        }
        // Sometimes only the process dies, and the disk stays as it is.
        if seeded.index_below(3) > 0 {
            disk = disk.after_power_cut(&mut |possibilities| seeded.index_below(possibilities));
        }
        let fate = [Fate::Lost, Fate::NotStarted][seeded.index_below(2)];
        judge(&disk, &promises, fate).unwrap_or_else(|why| panic!("life {life}: {why}"));
        promises = settled(&promises, &disk);
        let ended = |promise: &&Promise| matches!(promise, Promise::Completed(_));
        most_completed = most_completed.max(promises.0.values().filter(ended).count());
    }
    assert!(next > 300 && most_completed > 5, "{next} tasks, {most_completed} completed at once");
}

/// What was tried is there from now on, or never was.
fn settled(promises: &Promises, disk: &Disk) -> Promises {
    let found = Listing::of_disk(disk).0;
    let of = |name: &String| found.iter().find(|(_, found, _)| found == name);
    let known = promises.0.iter().filter_map(|(name, promise)| {
        // A purge is never synced, so that what is gone can come back; as completed, and no other.
        if *promise == Promise::Purging {
            return Some((name.clone(), Promise::Purging));
        }
        let (directory, _, bytes) = of(name)?;
        let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        let settled = match (*directory, promise) {
            ("completed", _) => match value["result"]["exitCode"].as_i64() {
                Some(code) => Promise::Completed(i32::try_from(code).unwrap()),
                // It was lost too often.
                None => Promise::There,
            },
            (_, Promise::Tried) => Promise::There,
            (_, other) => *other,
        };
        Some((name.clone(), settled))
    });
    Promises(known.collect())
}

/// Does something; `None` once the disk has stopped.
fn step(
    acting: &mut Acting<'_, Faulty<Disk>>,
    seeded: &mut Seeded,
    next: &mut usize,
) -> Option<()> {
    let ids = |state| -> Option<Vec<String>> {
        let ids = acting.spool.ids(state).ok()?;
        Some(ids.iter().map(|id| id.as_str().to_owned()).collect())
    };
    let (pending, running) = (ids(State::Pending)?, ids(State::Running)?);
    let completed = ids(State::Completed)?;
    let mut some = |from: &[String]| -> Vec<String> {
        from.iter().filter(|_| seeded.index_below(3) == 0).take(4).cloned().collect()
    };
    let (starting, ending) = (some(&pending), some(&running));
    let repeated = some(&pending);
    let done = match seeded.index_below(8) {
        0 => {
            let new: Vec<String> =
                (0..=seeded.index_below(4)).map(|n| format!("t{}", *next + n)).collect();
            *next += new.len();
            acting.put_new(&words(&new))
        }
        1 | 2 => acting.put(&words(&repeated)),
        3 | 4 => acting.start(&words(&starting)),
        5 | 6 => {
            let ends: Vec<(&str, Next)> = words(&ending)
                .into_iter()
                .map(|id| match seeded.index_below(4) {
                    0 => (id, again(40)),
                    1 => (id, Next::Lost { error: "lost".to_owned() }),
                    2 => (id, Next::Completed(ended(1))),
                    _ => (id, Next::Completed(ended(0))),
                })
                .collect();
            acting.finish(&ends)
        }
        _ if seeded.index_below(6) == 0 => acting.purge(&words(&completed)),
        _ => {
            let failed = completed.iter().find(|id| {
                let id = crate::made::id(id);
                let read = acting.spool.read(State::Completed, &id);
                matches!(read, Ok(Some(Ok(found))) if found.task.result.as_ref()
                    .is_some_and(|result| result.exit_code == Some(1)))
            });
            failed.map_or(Ok(()), |id| acting.retry(id))
        }
    };
    done.ok()
}

fn words(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}
