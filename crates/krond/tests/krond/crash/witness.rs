//! What commands themselves leave behind.
//!
//! The first thing a command does is to create a file that nobody else creates, named after its
//! job, its period and its process, with the kernel's word on when that process was forked. The
//! last thing it does is to create another one. Then it exits with a code that tells its period.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kron_testkit::files;
use nix::time::{ClockId, clock_gettime};

use crate::crash::civil;

/// What the shell does before the body of a command. `{dir}` is where witnesses are left.
const ARRIVE: &str = "set -C; w={dir}/$KRON_IDENTITY@$KRON_PERIOD_ID@$$; \
                      read -r s < /proc/$$/stat; echo $s > $w";
/// What it does after it: the code is 40 more than the second of the minute.
const LEAVE: &str = ": > $w@end; p=${KRON_PERIOD_ID%Z}; exit $((1${p##*:} - 60))";

/// Ticks of the kernel's clock for people, per second: the same on every Linux.
const TICKS: u64 = 100;

/// What two clocks show is compared when they were read within this time: a small part of the
/// difference that the checker allows.
const READINGS_APART: Duration = Duration::from_millis(1);

/// The text of a command that leaves witnesses and does `body` in between.
pub(crate) fn command(body: &str) -> String {
    match body {
        "" => format!("{ARRIVE}; {LEAVE}"),
        body => format!("{ARRIVE}; {body}; {LEAVE}"),
    }
}

/// What one execution left.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    pub(crate) identity: String,
    pub(crate) period: i64,
    pub(crate) pid: i32,
    /// When its process was forked; unknown when it was killed before it could say so.
    pub(crate) forked_since_boot: Option<Duration>,
    /// When it had done everything; unknown when it never came to that.
    pub(crate) ended_since_boot: Option<Duration>,
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Witness { period, pid, forked_since_boot, .. } = self;
        write!(f, "{} in process {pid}, forked at {forked_since_boot:?}", civil::format(*period))
    }
}

/// Every execution that left something in this directory.
pub(crate) fn read_all(directory: &Path) -> Vec<Witness> {
    let boot = boot();
    let entries = fs::read_dir(directory).expect("a directory of witnesses");
    let paths = entries.map(|entry| entry.expect("a directory entry").path());
    paths.filter_map(|path| read(&path, boot)).collect()
}

/// `None` for files that are no witness, such as the one at the end.
fn read(path: &Path, boot: Duration) -> Option<Witness> {
    let name = path.file_name()?.to_str()?;
    let parts: Vec<&str> = name.split('@').collect();
    let [identity, period, pid] = parts[..] else { return None };
    // Field 22, counted from 3 after the name of the program.
    let text = files::read(path).unwrap_or_default();
    let ticks = text
        .rsplit_once(") ")
        .and_then(|(_, fields)| fields.split(' ').nth(19)?.trim().parse::<u64>().ok());
    let end = fs::metadata(path.with_file_name(format!("{name}@end"))).ok();
    let ended = end.and_then(|end| end.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    Some(Witness {
        identity: identity.to_owned(),
        period: civil::parse(period)?,
        pid: pid.parse().ok()?,
        forked_since_boot: ticks.map(|ticks| Duration::from_millis(ticks * 1_000 / TICKS)),
        ended_since_boot: ended.map(|ended| ended.saturating_sub(boot)),
    })
}

/// The wall clock, since 1970.
#[expect(clippy::disallowed_methods, reason = "tests of real time ask for it")]
pub(crate) fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970")
}

/// The beginning of the next tick, once it has come. Start times of processes are told in ticks,
/// so it divides those that were forked before this call from those that are forked after it.
pub(crate) fn next_tick() -> Duration {
    let tick = Duration::from_millis(1_000 / TICKS).as_nanos();
    let next = Duration::from_nanos((since_boot().as_nanos().div_ceil(tick) * tick) as u64);
    std::thread::sleep(next.saturating_sub(since_boot()));
    next
}

/// When the machine was booted, by the wall clock. Both clocks are read until nothing kept this
/// thread for long in between.
fn boot() -> Duration {
    loop {
        let before = since_boot();
        let wall = wall();
        if since_boot() - before < READINGS_APART {
            return wall - before;
        }
    }
}

/// The clock that start times of processes are told in.
pub(crate) fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).expect("a clock").into()
}
