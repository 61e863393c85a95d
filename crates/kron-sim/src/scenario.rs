//! What is to happen: jobs, a span of time, and how unkind the world is.
//!
//! There are two kinds of worlds. A *busy* one lasts from hours to a year, and its jobs have up to
//! [`PERIODS_BUSY_MAX`] periods each, so that runs, reports and writes overlap all the time. A
//! *long* one lasts for years, with many jobs that run once a day, a week, a month or a year, over
//! every change of clocks; it passes quickly, because nothing happens in between. There, and in
//! half of the busy ones, faults follow what happens, or most of them would find everybody asleep.

use krond::machine::Preparation;

use crate::plan::{JobPlan, Rhythm, Window};
use crate::rng::Rng;

/// Where every busy world begins: 2026-03-20, a week before clocks change in Europe.
const BUSY_BEGIN_UNIX: i64 = 1_773_964_800;
/// Where long worlds begin at the earliest: 2010-01-01.
const LONG_BEGIN_UNIX: i64 = 1_262_304_000;
/// Years after that in which they begin.
const LONG_BEGIN_YEARS: u64 = 80;
const DAY_S: u64 = 86_400;
const YEAR_S: u64 = 31_557_600;
/// Periods that one job may have in one busy history.
const PERIODS_BUSY_MAX: u64 = 800;
/// Periods that all jobs together may have in one long history.
const PERIODS_LONG_MAX: u64 = 6_000;
/// How many entries the histories of a world may keep: few, so that they are cut short all the
/// time, but more than a job ever has runs at once.
const HISTORIES_MAX: [usize; 3] = [10, 10, 14];
/// What the machine does for each period, about: a launch and three records.
const DEEDS_PER_PERIOD: u64 = 4;

/// Everything about a history that is decided before it begins.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed of everything.
    pub seed: u64,
    /// How long the world lasts, in seconds, before it is left to settle.
    pub span_s: u64,
    /// What the clock shows at the beginning.
    pub(crate) begin_unix: i64,
    /// The jobs as first defined.
    pub(crate) jobs: Vec<JobPlan>,
    /// What may go wrong.
    pub(crate) unkind: Unkind,
    /// When it does.
    pub(crate) pace: Pace,
    /// The mean distance between two faults, in seconds.
    pub(crate) fault_every_s: u64,
    /// Entries that a job's history keeps.
    pub(crate) history_max: usize,
    /// One in so many messages and writes takes long, up to a minute and a half.
    pub(crate) slow_one_in: u64,
    /// Whether runs are brought to their gates before they fall due, and how many.
    pub(crate) preparation: Option<Preparation>,
    /// What is broken on purpose.
    pub sabotage: Sabotage,
}

/// A guarantee that is broken on purpose, to see that the checker notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing is.
    #[default]
    Nothing,
    /// Directories are never synced.
    SkipDirectorySync,
    /// Files are never synced.
    SkipFileSync,
    /// A command is let go before its record is durable.
    ReleaseBeforeRecord,
    /// A new daemon is told that nothing was handled.
    ForgetMarks,
    /// A supervisor that loses its daemon lets the command go instead of ending it.
    OpenGate,
    /// What supervisors leave behind is not read.
    IgnoreRunRecords,
    /// Outcomes of periods that do not run are not written.
    DropOutcomes,
    /// The machine is told a time that has yet to come.
    HastyClock,
    /// Jobs in Germany are told that there is no summer.
    NoSummer,
    /// Jobs are told that their windows are wider.
    WideWindow,
    /// Supervisors hear late that they may let a command go.
    SlowGate,
    /// A daemon is never told that a run has ended.
    DeafToEnds,
    /// The disk brings back a document that was replaced.
    StaleDocument,
    /// Something is left to chance that no seed decides.
    Whim,
}

/// What may go wrong in a history; what does not may be judged more strictly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unkind {
    pub(crate) clock: bool,
    pub(crate) power: bool,
    pub(crate) edits: bool,
    pub(crate) suspends: bool,
    pub(crate) corruption: bool,
    pub(crate) disk_errors: bool,
    pub(crate) start_failures: bool,
    pub(crate) manual: bool,
}

/// When faults come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// At any time.
    Steady,
    /// After one in so many launches and records, soon or late.
    AfterDeeds(u64),
}

impl Scenario {
    /// The scenario of a seed: half of them are busy, the others long.
    #[must_use]
    pub fn new(seed: u64) -> Scenario {
        if seed.is_multiple_of(2) { Scenario::busy(seed) } else { Scenario::long(seed) }
    }

    /// A busy world.
    #[must_use]
    pub fn busy(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x5CEA_A810);
        let span_s = *rng.pick(&[7_200, 43_200, 7 * DAY_S, 30 * DAY_S, 366 * DAY_S]);
        let rhythms: Vec<Rhythm> =
            (0..rng.between(1, 4)).map(|_| busy_rhythm(&mut rng, span_s)).collect();
        let fault_every_s = (span_s / rng.between(10, 120)).max(5);
        let deeds = DEEDS_PER_PERIOD * periods_of(&rhythms, span_s);
        let pace = if rng.one_in(2) {
            Pace::Steady
        } else {
            Pace::AfterDeeds((deeds * fault_every_s / span_s).max(1))
        };
        let begin_unix = BUSY_BEGIN_UNIX;
        Scenario::with(rng, seed, Frame { begin_unix, span_s, rhythms, pace, fault_every_s })
    }

    /// A long world.
    #[must_use]
    pub fn long(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x1096_0DA1);
        let begin_unix = LONG_BEGIN_UNIX + rng.below(LONG_BEGIN_YEARS * YEAR_S) as i64;
        let count = rng.of_any_size(1, 40);
        let rhythms: Vec<Rhythm> = (0..count).map(|_| Rhythm::rare(&mut rng)).collect();
        let wanted_s = *rng.pick(&[1, 2, 4, 8, 12]) * YEAR_S;
        let wanted = periods_of(&rhythms, wanted_s);
        let span_s = (wanted_s * PERIODS_LONG_MAX / wanted.max(PERIODS_LONG_MAX)).max(30 * DAY_S);
        let deeds = DEEDS_PER_PERIOD * periods_of(&rhythms, span_s).max(1);
        let one_in = *rng.pick(&[8, 24, 80, 240]);
        let fault_every_s = (span_s * one_in / deeds).clamp(60, span_s);
        let pace = Pace::AfterDeeds(one_in);
        Scenario::with(rng, seed, Frame { begin_unix, span_s, rhythms, pace, fault_every_s })
    }

    fn with(mut rng: Rng, seed: u64, frame: Frame) -> Scenario {
        let Frame { begin_unix, span_s, rhythms, pace, fault_every_s } = frame;
        let jobs = rhythms.into_iter().enumerate().map(|(n, rhythm)| job(&mut rng, n, rhythm));
        let jobs = jobs.collect();
        let kind = rng.one_in(3);
        let mut may = |chance| !kind && rng.one_in(chance);
        let unkind = Unkind {
            clock: may(3),
            power: may(2),
            edits: may(2),
            suspends: may(2),
            corruption: may(4),
            disk_errors: may(2),
            start_failures: may(2),
            manual: may(2),
        };
        let history_max = *rng.pick(&HISTORIES_MAX);
        let slow_one_in = *rng.pick(&[25, 200, 1_000]);
        // Even a single run is a burst here, so that most of them stand ready.
        let runs_max = *rng.pick(&[1, 3, 100]);
        let preparation = rng.one_in(2).then_some(Preparation { burst_min: 1, runs_max });
        let sabotage = Sabotage::Nothing;
        Scenario {
            seed,
            span_s,
            begin_unix,
            jobs,
            unkind,
            pace,
            fault_every_s,
            history_max,
            slow_one_in,
            preparation,
            sabotage,
        }
    }

    /// Whether the power is cut in it.
    #[must_use]
    pub fn loses_power(&self) -> bool {
        self.unkind.power
    }

    /// Years of all jobs together.
    #[must_use]
    pub fn job_years(&self) -> f64 {
        self.jobs.len() as f64 * self.span_s as f64 / YEAR_S as f64
    }
}

/// What the two kinds of worlds differ in.
struct Frame {
    begin_unix: i64,
    span_s: u64,
    rhythms: Vec<Rhythm>,
    pace: Pace,
    fault_every_s: u64,
}

/// About how many periods these have in that time.
fn periods_of(rhythms: &[Rhythm], span_s: u64) -> u64 {
    rhythms.iter().map(|rhythm| span_s / rhythm.gap_s()).sum()
}

fn busy_rhythm(rng: &mut Rng, span_s: u64) -> Rhythm {
    let fits =
        |rhythm: Rhythm| span_s / rhythm.gap_s() <= PERIODS_BUSY_MAX && span_s > rhythm.gap_s();
    loop {
        let rhythm = match rng.below(4) {
            0 => Rhythm::Minutes(*rng.pick(&[1, 5, 15, 30])),
            1 => Rhythm::Hours(1, rng.below(60)),
            _ => Rhythm::rare(rng),
        };
        if fits(rhythm) {
            return rhythm;
        }
    }
}

fn job(rng: &mut Rng, n: usize, rhythm: Rhythm) -> JobPlan {
    let gap_s = rhythm.gap_s();
    let concurrency = rng.pick::<&str>(&["forbid", "allow", "replace"]);
    // A run that lasts for weeks tells no more than one that lasts for days.
    let long_s = if gap_s > 2 * DAY_S { 2 * DAY_S } else { 2 * gap_s };
    JobPlan {
        name: format!("job-{n}"),
        rhythm,
        window: Window::new(rng, gap_s, concurrency),
        concurrency,
        deadline_s: *rng.pick(&[0, 2, 30, 600, 3_600, 90_000, 10 * DAY_S]),
        suspend: false,
        duration_max_s: *rng.pick(&[1, 30, long_s / 4, long_s]),
        defined: true,
    }
}
