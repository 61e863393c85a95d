//! What is to happen: jobs, a span of time, and how unkind the world is.

use kron_config::{Format, Job, Loader, Options, Source};

use crate::rng::Rng;

/// Where every simulated world begins: 2026-03-20, a week before clocks change in Europe.
pub(crate) const BEGIN_UNIX: i64 = 1_773_964_800;

/// Everything about a history that is decided before it begins.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed of everything.
    pub seed: u64,
    /// How long the world lasts, in seconds, before it is left to settle.
    pub span_s: u64,
    /// The jobs as first defined.
    pub(crate) jobs: Vec<JobPlan>,
    /// What may go wrong.
    pub(crate) unkind: Unkind,
    /// The mean distance between two faults, in seconds.
    pub(crate) fault_every_s: u64,
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

/// A job that can be edited.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    pub(crate) name: String,
    pub(crate) rhythm: Rhythm,
    pub(crate) window_s: u64,
    pub(crate) concurrency: &'static str,
    pub(crate) deadline_s: u64,
    pub(crate) suspend: bool,
    /// Seconds that a run lasts at most.
    pub(crate) duration_max_s: u64,
    pub(crate) defined: bool,
}

/// When a job's periods are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rhythm {
    /// Every so many minutes, a divisor of 60.
    Minutes(u64),
    /// Every hour at this minute.
    Hourly(u64),
    /// Every day at this time in this zone.
    Daily(u64, u64, &'static str),
    /// On this day of the month.
    Monthly(u64),
}

impl Rhythm {
    fn schedule(self) -> String {
        match self {
            Rhythm::Minutes(n) => format!("*/{n} * * * *"),
            Rhythm::Hourly(minute) => format!("{minute} * * * *"),
            Rhythm::Daily(hour, minute, zone) => format!("{minute} {hour} * * * @tz({zone})"),
            Rhythm::Monthly(day) => format!("0 4 {day} * *"),
        }
    }

    /// Seconds between two periods, at least.
    pub(crate) fn gap_s(self) -> u64 {
        match self {
            Rhythm::Minutes(n) => n * 60,
            Rhythm::Hourly(_) => 3_600,
            Rhythm::Daily(..) => 82_800,
            Rhythm::Monthly(_) => 28 * 86_400,
        }
    }

    /// The distance and the phase of its nominal times in seconds since 1970, where both are fixed.
    pub(crate) fn regular(self) -> Option<(i64, i64)> {
        match self {
            Rhythm::Minutes(n) => Some((n as i64 * 60, 0)),
            Rhythm::Hourly(minute) => Some((3_600, minute as i64 * 60)),
            Rhythm::Daily(hour, minute, "UTC") => {
                Some((86_400, (hour * 3_600 + minute * 60) as i64))
            }
            Rhythm::Daily(..) | Rhythm::Monthly(_) => None,
        }
    }
}

impl JobPlan {
    fn text(&self) -> String {
        let JobPlan { name, window_s, concurrency, deadline_s, suspend, .. } = self;
        let schedule = self.rhythm.schedule();
        format!(
            "{schedule} @win(after,{window_s}s) @policy(concurrency={concurrency},deadline={deadline_s}s,suspend={suspend}) name={name} command=/bin/true grace=5s\n"
        )
    }
}

/// The jobs that are defined now, as the loader makes them.
pub(crate) fn definitions(plans: &[JobPlan]) -> Vec<Job> {
    let text: String = plans.iter().filter(|plan| plan.defined).map(JobPlan::text).collect();
    let mut loader = Loader::new(Options::default());
    loader.load(&Source::new("simulated.krontab", &text), &Format::Krontab);
    let loaded = loader.finish();
    assert!(loaded.is_usable(), "{text}\n{:?}", loaded.diagnostics);
    loaded.jobs
}

fn rhythm(rng: &mut Rng, span_s: u64) -> Rhythm {
    let zones = ["UTC", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];
    let fits = |rhythm: Rhythm| span_s / rhythm.gap_s() <= PERIODS_MAX && span_s > rhythm.gap_s();
    loop {
        let rhythm = match rng.below(4) {
            0 => Rhythm::Minutes(*rng.pick(&[1, 5, 15, 30])),
            1 => Rhythm::Hourly(rng.below(60)),
            2 => Rhythm::Daily(rng.below(24), rng.below(60), rng.pick::<&str>(&zones)),
            _ => Rhythm::Monthly(rng.between(1, 28)),
        };
        if fits(rhythm) {
            return rhythm;
        }
    }
}

/// Periods one job may have in one history.
const PERIODS_MAX: u64 = 800;

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x5CEA_A810);
        let span_s = *rng.pick(&[7_200, 43_200, 7 * 86_400, 30 * 86_400, 366 * 86_400]);
        let count = rng.between(1, 4);
        let jobs = (0..count)
            .map(|n| {
                let rhythm = rhythm(&mut rng, span_s);
                let window_s = if rng.one_in(2) { 0 } else { rng.below(rhythm.gap_s().min(7_200)) };
                let duration_max_s = *rng.pick(&[1, 30, rhythm.gap_s() / 2, rhythm.gap_s() * 2]);
                JobPlan {
                    name: format!("job-{n}"),
                    rhythm,
                    window_s,
                    concurrency: rng.pick::<&str>(&["forbid", "allow", "replace"]),
                    deadline_s: *rng.pick(&[0, 2, 30, 600, 3_600, 90_000]),
                    suspend: false,
                    duration_max_s,
                    defined: true,
                }
            })
            .collect();
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
        let fault_every_s = (span_s / rng.between(10, 120)).max(5);
        let sabotage = Sabotage::Nothing;
        Scenario { seed, span_s, jobs, unkind, fault_every_s, sabotage }
    }

    /// Years of all jobs together.
    #[must_use]
    pub fn job_years(&self) -> f64 {
        self.jobs.len() as f64 * self.span_s as f64 / (365.25 * 86_400.0)
    }
}
