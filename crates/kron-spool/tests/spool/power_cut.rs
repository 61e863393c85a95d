//! The spool on a disk that loses its power at every step, in every way.
//!
//! Each script is run up to each of its operations; there the power goes, every disk that this could
//! leave is recovered, and every promise that was made must be kept. The canaries are disks that
//! leave out a step of the procedure: the same check must find them out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kron_core::UtcSecond;
use kron_spool::{Fate, Look, Next, Spool, SpoolError, State};
use kron_state::simulated::{Disk, Fault, Faulty};
use kron_state::{Directory as _, Operation};
use kron_testkit::chance::Seeded;

use crate::acting::{Acting, file};
use crate::made::{again, ended, far_future, id, recover, text, text_of_put};
use crate::promises::{Listing, Promise, Promises};

const EIO: i32 = 5;
/// Disks that are recovered for one moment; where there are more, so many are drawn.
const SURVIVORS_MAX: usize = 300;

/// What a power cut is to be survived by: what there was, what is done, and what a cheating disk
/// must be caught at.
struct Script {
    name: &'static str,
    before: fn(&Disk, &mut Acting<'_, Disk>) -> Result<(), SpoolError>,
    act: fn(&mut Acting<'_, Faulty<Disk>>) -> Result<(), SpoolError>,
    caught: &'static [Cheat],
}

/// What a disk does that cheats.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cheat {
    Nothing,
    NoFileSync,
    NoDirectorySync,
    /// The first of two directories is never synced: what was there is deleted before what takes
    /// its place is durable.
    DeletionFirst,
}

use Cheat::{DeletionFirst, NoDirectorySync, NoFileSync};

fn directory(disk: &Disk, state: &str) -> Disk {
    disk.subdirectory("tasks").unwrap().subdirectory(state).unwrap()
}

/// A producer that renames and syncs nothing.
fn drop_in(disk: &Disk, name: &str, text: &str) {
    let pending = directory(disk, "pending");
    let mut file = pending.create(".upload").unwrap();
    pending.write(&mut file, text.as_bytes()).unwrap();
    pending.rename(".upload", name).unwrap();
}

fn completed(code: i32) -> Next {
    Next::Completed(ended(code))
}

const SCRIPTS: &[Script] = &[
    Script {
        name: "a put",
        before: |_, _| Ok(()),
        act: |it| it.put_new(&["a"]),
        caught: &[NoFileSync, NoDirectorySync, DeletionFirst],
    },
    Script {
        name: "a batch with an id twice",
        before: |_, _| Ok(()),
        act: |it| it.put_new(&["a", "b", "a", "c"]),
        caught: &[NoFileSync, NoDirectorySync, DeletionFirst],
    },
    Script {
        name: "a put of what another has left there without a sync",
        before: |disk, it| {
            (it.tell)("a.json", Promise::Foreign);
            drop_in(disk, "a.json", &text("a", "PENDING", ""));
            Ok(())
        },
        act: |it| it.put(&["a"]),
        caught: &[NoFileSync, NoDirectorySync, DeletionFirst],
    },
    Script {
        name: "starts",
        before: |_, it| it.put_new(&["a", "b"]),
        act: |it| it.start(&["a", "b"]),
        caught: &[NoFileSync, DeletionFirst],
    },
    Script {
        name: "the start of what another has left there without a sync, put meanwhile",
        before: |disk, it| {
            (it.tell)("a.json", Promise::Foreign);
            drop_in(disk, "a.json", &text("a", "PENDING", ""));
            Ok(())
        },
        act: |it| {
            it.start(&["a"])?;
            it.put(&["a"])
        },
        caught: &[NoFileSync, NoDirectorySync, DeletionFirst],
    },
    Script {
        name: "completions",
        before: |_, it| {
            it.put_new(&["a", "b", "c"])?;
            it.start(&["a", "b", "c"])
        },
        act: |it| it.finish(&[("a", completed(0)), ("b", completed(1)), ("c", again(40))]),
        caught: &[NoFileSync, NoDirectorySync, DeletionFirst],
    },
    Script {
        name: "a failure, tried again",
        before: |_, it| {
            it.put_new(&["a"])?;
            it.start(&["a"])
        },
        act: |it| it.finish(&[("a", again(40))]),
        caught: &[NoFileSync, DeletionFirst],
    },
    Script {
        name: "a loss",
        before: |_, it| {
            it.put_new(&["a"])?;
            it.start(&["a"])
        },
        act: |it| it.finish(&[("a", Next::Lost { error: "lost".to_owned() })]),
        caught: &[NoFileSync, DeletionFirst],
    },
    Script {
        name: "a retry by hand",
        before: |_, it| {
            it.put_new(&["a"])?;
            it.start(&["a"])?;
            it.finish(&[("a", completed(1))])
        },
        act: |it| it.retry("a"),
        // The second of its syncs is that of where it goes, so `DeletionFirst` has nothing to skip.
        caught: &[NoFileSync, NoDirectorySync],
    },
    Script {
        name: "a retry by hand, and its success",
        before: |_, it| {
            it.put_new(&["a"])?;
            it.start(&["a"])?;
            it.finish(&[("a", completed(1))])
        },
        act: |it| {
            it.retry("a")?;
            it.start(&["a"])?;
            it.finish(&[("a", completed(0))])
        },
        caught: &[NoFileSync, NoDirectorySync],
    },
    Script {
        name: "a purge",
        before: |_, it| {
            it.put_new(&["a", "b"])?;
            it.start(&["a", "b"])?;
            it.finish(&[("a", completed(0)), ("b", again(40))])?;
            it.start(&["b"])?;
            it.finish(&[("b", completed(0))])
        },
        act: |it| it.purge(&["a", "b"]),
        caught: &[NoDirectorySync],
    },
    Script {
        name: "something set aside",
        before: |disk, it| {
            (it.tell)("bad.json", Promise::Bad);
            directory(disk, "pending").put("bad.json", b"{\"no\":\"task\"}");
            it.put_new(&["a"])
        },
        act: |it| it.set_aside("bad.json"),
        caught: &[NoFileSync, NoDirectorySync],
    },
    Script {
        name: "a repeat dropped",
        before: |disk, it| {
            it.put_new(&["a"])?;
            it.start(&["a"])?;
            directory(disk, "pending").put("a.json", text_of_put("a").as_bytes());
            Ok(())
        },
        act: |it| it.drop_repeat("a"),
        caught: &[],
    },
    Script {
        name: "a failure of what a producer has put again",
        before: |disk, it| {
            it.put_new(&["a"])?;
            it.start(&["a"])?;
            directory(disk, "pending").put("a.json", text_of_put("a").as_bytes());
            Ok(())
        },
        act: |it| it.finish(&[("a", again(40))]),
        caught: &[NoFileSync, DeletionFirst],
    },
    Script {
        name: "a whole life",
        before: |_, _| Ok(()),
        act: |it| {
            it.put_new(&["a", "b", "c"])?;
            it.start(&["a", "b"])?;
            it.put_new(&["d"])?;
            it.finish(&[("a", again(40)), ("b", completed(0))])?;
            it.start(&["a", "c"])?;
            it.finish(&[("a", completed(0)), ("c", completed(1))])?;
            it.retry("c")?;
            it.purge(&["a", "b"])
        },
        caught: &[NoFileSync, NoDirectorySync, DeletionFirst],
    },
];

/// A disk that stops after so many operations, and counts them.
fn stopping(disk: &Disk, stop_after: usize, cheat: Cheat) -> (Faulty<Disk>, Arc<AtomicUsize>) {
    let (count, syncs) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let faulty = Faulty::new(disk.clone(), move |operation, _| {
        if counter.fetch_add(1, Ordering::Relaxed) >= stop_after {
            return Fault::Errno(EIO);
        }
        match (operation, cheat) {
            (Operation::SyncFile, NoFileSync) | (Operation::SyncDirectory, NoDirectorySync) => {
                Fault::Swallowed
            }
            (Operation::SyncDirectory, DeletionFirst)
                if syncs.fetch_add(1, Ordering::Relaxed) % 2 == 0 =>
            {
                Fault::Swallowed
            }
            _ => Fault::None,
        }
    });
    (faulty, count)
}

/// Runs a script up to an operation; says what is on the disk then, what was promised, and whether
/// there was such an operation.
fn act_until(script: &Script, stop_after: usize, cheat: Cheat) -> (Disk, Promises, bool) {
    let disk = Disk::new();
    disk.set_now(UtcSecond::from_unix(0).unwrap());
    let mut promises = Promises::default();
    let plain = Spool::over(&disk).unwrap();
    let mut tell = |name: &str, promise| promises.tell(name, promise);
    (script.before)(&disk, &mut Acting { spool: &plain, tell: &mut tell }).unwrap();
    let (faulty, count) = stopping(&disk, stop_after, cheat);
    let acted = Spool::over(&faulty)
        .and_then(|spool| (script.act)(&mut Acting { spool: &spool, tell: &mut tell }));
    let stopped = count.load(Ordering::Relaxed) > stop_after;
    assert!(acted.is_ok() || stopped, "{}: failed by itself: {acted:?}", script.name);
    (disk, promises, stopped)
}

/// Runs a script up to every operation and recovers every disk that a power cut there could leave.
/// Returns how many there were.
fn survive(script: &Script, cheat: Cheat) -> Result<usize, String> {
    let mut recovered = 0;
    for stop_after in 0.. {
        let (disk, promises, stopped) = act_until(script, stop_after, cheat);
        recovered += judge_all(&disk, &promises).map_err(|why| {
            format!("{}, stopped after {stop_after} operations: {why}", script.name)
        })?;
        if !stopped {
            return Ok(recovered);
        }
    }
    unreachable!("every script ends")
}

/// Recovers every disk that a power cut could leave, with every judge.
fn judge_all(disk: &Disk, promises: &Promises) -> Result<usize, String> {
    let survivors = survivors(disk);
    for survivor in &survivors {
        for fate in [Fate::Lost, Fate::NotStarted, Fate::Alive, Fate::Unknown] {
            // What survives has nothing that is not synced, so this is a copy.
            let copy = survivor.after_power_cut(&mut |_| 0);
            judge(&copy, promises, fate).map_err(|why| format!("{fate:?}: {why}"))?;
        }
    }
    Ok(survivors.len())
}

/// Recovers one disk and checks what is there then.
pub(crate) fn judge(disk: &Disk, promises: &Promises, fate: Fate) -> Result<(), String> {
    let spool = Spool::over(disk).unwrap();
    let recovered = recover(&spool, fate).map_err(|error| format!("{error:?}"))?;
    if !recovered.failed.is_empty() {
        return Err(format!("not put in order: {:?}", recovered.failed));
    }
    let listing = Listing::of_disk(disk);
    // A run that lives on keeps its file although it is completed; every other rule holds.
    match fate {
        Fate::Alive | Fate::Unknown => {}
        Fate::Lost | Fate::NotStarted => promises.check(&listing)?,
    }
    for name in spool.pending_names().unwrap() {
        match (spool.look(&name, far_future()).unwrap(), promises.0.get(&name)) {
            (Look::Task(_) | Look::Ignored, _) => {}
            (Look::Unfit(_), Some(Promise::Bad | Promise::Foreign)) => {}
            // What a producer never synced comes back as nothing, beside a run that lives on.
            (Look::Unfit(_), _) if matches!(fate, Fate::Alive | Fate::Unknown) => {}
            (other, _) => return Err(format!("pending/{name}: {other:?}")),
        }
    }
    Ok(())
}

/// Every disk that a power cut could leave, or as many as can be looked at.
pub(crate) fn survivors(disk: &Disk) -> Vec<Disk> {
    let mut seeded = Seeded(7);
    disk.survivors(SURVIVORS_MAX, &mut |possibilities| seeded.index_below(possibilities))
}

/// One that was never let go is as it was, also when its file in `running/` would come back.
#[test]
fn a_run_that_was_never_let_go_is_not_taken_for_lost_after_a_power_cut() {
    let disk = Disk::new();
    let spool = Spool::over(&disk).unwrap();
    let mut tell = |_: &str, _| {};
    let mut it = Acting { spool: &spool, tell: &mut tell };
    it.put_new(&["a", "b"]).unwrap();
    it.start(&["a", "b"]).unwrap();
    it.finish(&[("a", Next::NotStarted), ("b", again(40))]).unwrap();
    for survivor in survivors(&disk) {
        let spool = Spool::over(&survivor).unwrap();
        recover(&spool, Fate::Lost).unwrap();
        for (name, attempts) in [("a", 0), ("b", 1)] {
            let task = spool.read(State::Pending, &id(name)).unwrap().unwrap().unwrap().task;
            assert_eq!((task.attempts, task.lost_attempts), (attempts, 0), "{name}");
        }
    }
}

#[test]
fn every_promise_is_kept_through_a_power_cut_at_any_moment() {
    for script in SCRIPTS {
        let recovered = survive(script, Cheat::Nothing).unwrap();
        // Every script has at least a name that is in doubt at some moment.
        assert!(recovered > 8, "{}: only {recovered} disks", script.name);
    }
}

#[test]
fn a_disk_that_leaves_out_a_step_is_caught() {
    for script in SCRIPTS {
        for cheat in script.caught {
            let caught = survive(script, *cheat);
            assert!(caught.is_err(), "{}, {cheat:?}: {caught:?}", script.name);
        }
    }
}

/// What a crash can have left: every pair of places, and everything that is no task.
fn left_by_a_crash() -> (Disk, Promises) {
    let disk = Disk::new();
    disk.set_now(UtcSecond::from_unix(0).unwrap());
    Spool::over(&disk).unwrap();
    let mut promises = Promises::default();
    let mut put = |id: &str, directories: &[(&str, u32)], promise| {
        promises.tell(&file(id), promise);
        for (state, attempts) in directories {
            let more = match *state {
                "completed" => format!(
                    r#""attempts":{attempts},"result":{{"outcome":"SUCCEEDED","exitCode":0}},"#
                ),
                _ => format!(r#""attempts":{attempts},"#),
            };
            let text = text(id, &state.to_uppercase(), &more);
            directory(&disk, state).put(&file(id), text.as_bytes());
        }
    };
    put("started", &[("pending", 0), ("running", 1)], Promise::There);
    put("returned", &[("pending", 1), ("running", 1)], Promise::There);
    put("ended", &[("running", 1), ("completed", 1)], Promise::Completed(0));
    put("come-back", &[("pending", 0), ("completed", 1)], Promise::Completed(0));
    put("all", &[("pending", 0), ("running", 1), ("completed", 1)], Promise::Completed(0));
    put("running", &[("running", 2)], Promise::There);
    put("waiting", &[("pending", 0)], Promise::There);
    promises.tell("bad.json", Promise::Aside);
    directory(&disk, "running").put("bad.json", b"{}");
    directory(&disk, "running").put(".tmp-x.json", b"{");
    directory(&disk, "completed").put(".tmp-x.json", b"{");
    (disk, promises)
}

/// The recovery itself is stopped at every operation, and then the next one at every operation.
#[test]
fn a_recovery_that_was_begun_before_is_finished() {
    let mut stops = 0;
    for first_stop in 0.. {
        let (disk, promises) = left_by_a_crash();
        let (faulty, count) = stopping(&disk, first_stop, Cheat::Nothing);
        let recovered = Spool::over(&faulty).and_then(|spool| recover(&spool, Fate::Lost));
        let stopped = count.load(Ordering::Relaxed) > first_stop;
        assert!(stopped || recovered.unwrap().failed.is_empty());
        for survivor in survivors(&disk) {
            judge(&survivor, &promises, Fate::Lost)
                .unwrap_or_else(|why| panic!("stopped after {first_stop}: {why}"));
        }
        // Only the process dies, and what it has not synced is still there; the next one dies,
        // too, and then the power goes.
        for second_stop in (0..).step_by(7) {
            let (disk, promises) = left_by_a_crash();
            let (faulty, _) = stopping(&disk, first_stop, Cheat::Nothing);
            let _ = Spool::over(&faulty).and_then(|spool| recover(&spool, Fate::Lost));
            let (faulty, second) = stopping(&disk, second_stop, Cheat::Nothing);
            let _ = Spool::over(&faulty).and_then(|spool| recover(&spool, Fate::NotStarted));
            for survivor in survivors(&disk).iter().step_by(9) {
                judge(survivor, &promises, Fate::NotStarted).unwrap_or_else(|why| {
                    panic!("stopped after {first_stop}, then after {second_stop}: {why}")
                });
            }
            stops += 1;
            if second.load(Ordering::Relaxed) <= second_stop {
                break;
            }
        }
        if !stopped {
            break;
        }
    }
    assert!(stops > 50, "only {stops} stops");
}

/// A process dies at any operation, and the power goes at any moment of the recovery after it: what
/// is deleted there must not be all that was durable.
#[test]
fn a_power_cut_during_the_recovery_from_a_crash_breaks_no_promise() {
    cut_during_recovery(9);
}

#[test]
#[ignore = "full: every disk"]
fn a_power_cut_during_the_recovery_from_a_crash_breaks_no_promise_on_any_disk() {
    cut_during_recovery(1);
}

/// Of the disks that a power cut can leave, every so many is looked at.
fn cut_during_recovery(every: usize) {
    let transitions = ["starts", "completions", "a failure, tried again", "a retry by hand"];
    for script in SCRIPTS.iter().filter(|script| transitions.contains(&script.name)) {
        for first_stop in 0.. {
            for second_stop in 0.. {
                let (disk, promises, stopped) = act_until(script, first_stop, Cheat::Nothing);
                if !stopped {
                    break;
                }
                let (faulty, second) = stopping(&disk, second_stop, Cheat::Nothing);
                let _ = Spool::over(&faulty).and_then(|spool| recover(&spool, Fate::Lost));
                for survivor in survivors(&disk).iter().step_by(every) {
                    judge(survivor, &promises, Fate::Lost).unwrap_or_else(|why| {
                        let name = script.name;
                        panic!("{name}, stopped after {first_stop}, then {second_stop}: {why}")
                    });
                }
                if second.load(Ordering::Relaxed) <= second_stop {
                    break;
                }
            }
            if !act_until(script, first_stop, Cheat::Nothing).2 {
                break;
            }
        }
    }
}

/// A foreign file with more attempts wins over one that runs, and is made durable before that goes.
#[test]
fn what_a_producer_has_not_synced_is_synced_before_anything_is_deleted_for_it() {
    let disk = Disk::new();
    Spool::over(&disk).unwrap();
    let mut promises = Promises::default();
    promises.tell("a.json", Promise::There);
    directory(&disk, "running").put("a.json", text("a", "RUNNING", r#""attempts":1,"#).as_bytes());
    drop_in(&disk, "a.json", &text("a", "PENDING", r#""attempts":5,"#));
    let spool = Spool::over(&disk).unwrap();
    let recovered = recover(&spool, Fate::Lost).unwrap();
    assert_eq!(recovered.removed, [(id("a"), State::Running)]);
    judge_all(&disk, &promises).unwrap();
}

/// The file of its last run, which has more attempts, does not come back.
#[test]
fn what_is_tried_again_by_hand_begins_at_nothing_after_any_power_cut() {
    let disk = Disk::new();
    let spool = Spool::over(&disk).unwrap();
    let mut it = Acting { spool: &spool, tell: &mut |_, _| {} };
    it.put_new(&["a"]).unwrap();
    it.start(&["a"]).unwrap();
    it.finish(&[("a", completed(1))]).unwrap();
    it.retry("a").unwrap();
    for survivor in survivors(&disk) {
        let spool = Spool::over(&survivor).unwrap();
        recover(&spool, Fate::Lost).unwrap();
        let waits = spool.read(State::Pending, &id("a")).unwrap().unwrap().unwrap();
        assert_eq!((waits.task.attempts, waits.task.lost_attempts), (0, 0));
    }
}
