//! Jobs that can be edited, and what the loader makes of them.

use kron_config::{Format, Job, Loader, Options, Source};

use crate::calendar::{Days, Periods, Zone};
use crate::rng::Rng;
use crate::scenario::Sabotage;

const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 86_400;

/// Whether a period may fall due in the very second of the one that it replaces.
const SAME_SECOND_REPLACED: bool = false;

/// A job that can be edited.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    pub(crate) name: String,
    pub(crate) rhythm: Rhythm,
    pub(crate) window: Window,
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
    /// Every so many hours, a divisor of 24, at this minute.
    Hours(u64, u64),
    /// On these days, at this hour and minute in this zone.
    Days(Days, u64, u64, Zone),
}

/// How far a run may stray from its nominal time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    mode: &'static str,
    length_s: u64,
}

impl Window {
    /// One for a job whose periods are at least `gap_s` apart.
    pub(crate) fn new(rng: &mut Rng, gap_s: u64, concurrency: &str) -> Window {
        let shared = concurrency != "replace" || SAME_SECOND_REPLACED;
        let longest_s = if shared { gap_s } else { gap_s - 1 };
        let mode = rng.pick::<&str>(&["after", "after", "around", "before"]);
        let length_s = match rng.below(8) {
            0..=3 => 0,
            4 | 5 => rng.below(longest_s.min(2 * HOUR_S)),
            6 => rng.below(longest_s),
            // Neighbouring windows touch, and two periods may fall due in the same second.
            _ => longest_s,
        };
        Window { mode, length_s }
    }

    /// Seconds that it begins before and ends after the nominal time.
    pub(crate) fn reach_s(self) -> (i64, i64) {
        let length_s = self.length_s as i64;
        match self.mode {
            "after" => (0, length_s),
            "before" => (length_s, 0),
            _ => (length_s - length_s / 2, length_s / 2),
        }
    }
}

impl Rhythm {
    /// One with few periods.
    pub(crate) fn rare(rng: &mut Rng) -> Rhythm {
        let zones = [
            Zone::Utc,
            Zone::Utc,
            Zone::Kathmandu,
            Zone::Berlin,
            Zone::Berlin,
            Zone::NewYork,
            Zone::LordHowe,
        ];
        let days = match rng.below(80) {
            0 => return Rhythm::Hours(*rng.pick(&[1, 2, 3]), rng.below(60)),
            1..=4 => return Rhythm::Hours(*rng.pick(&[6, 8, 12]), rng.below(60)),
            5..=22 => Days::Every,
            23..=42 => Days::OfWeek(rng.below(7) as i64),
            43..=60 => Days::OfMonth { day: rng.between(1, 31) as i64, month: 1, every: 1 },
            61..=70 => Days::OfMonth {
                day: rng.between(1, 28) as i64,
                month: rng.between(1, 3) as i64,
                every: 3,
            },
            71..=78 => Days::OfMonth {
                day: rng.between(1, 28) as i64,
                month: rng.between(1, 12) as i64,
                every: 12,
            },
            _ => Days::OfMonth { day: 29, month: 2, every: 12 },
        };
        // Half of them at a time of night at which clocks are changed somewhere.
        let hour = if rng.one_in(2) { rng.between(1, 3) } else { rng.below(24) };
        Rhythm::Days(days, hour, rng.below(60), *rng.pick(&zones))
    }

    fn schedule(self, sabotage: Sabotage) -> String {
        match self {
            Rhythm::Minutes(n) => format!("*/{n} * * * *"),
            Rhythm::Hours(n, minute) => format!("{minute} */{n} * * *"),
            Rhythm::Days(days, hour, minute, zone) => {
                let (day, month, weekday) = match days {
                    Days::Every => ("*".to_owned(), "*".to_owned(), "*".to_owned()),
                    Days::OfWeek(day) => ("*".to_owned(), "*".to_owned(), day.to_string()),
                    Days::OfMonth { day, month, every } => {
                        let months: Vec<String> = (month..=12)
                            .step_by(usize::try_from(every).unwrap_or(12))
                            .map(|month| month.to_string())
                            .collect();
                        (day.to_string(), months.join(","), "*".to_owned())
                    }
                };
                let winter = zone == Zone::Berlin && sabotage == Sabotage::NoSummer;
                let zone = if winter { "Africa/Lagos" } else { zone.name() };
                format!("{minute} {hour} {day} {month} {weekday} @tz({zone})")
            }
        }
    }

    /// Seconds between two periods, at least.
    pub(crate) fn gap_s(self) -> u64 {
        // Where clocks are put forward a day has an hour less.
        let summer_s = HOUR_S;
        match self {
            Rhythm::Minutes(n) => n * 60,
            Rhythm::Hours(n, _) => n * HOUR_S,
            Rhythm::Days(Days::Every, ..) => DAY_S - summer_s,
            Rhythm::Days(Days::OfWeek(_), ..) => 7 * DAY_S - summer_s,
            Rhythm::Days(Days::OfMonth { every: 1, .. }, ..) => 28 * DAY_S - summer_s,
            Rhythm::Days(Days::OfMonth { every: 2..=3, .. }, ..) => 89 * DAY_S - summer_s,
            Rhythm::Days(Days::OfMonth { .. }, ..) => 365 * DAY_S - summer_s,
        }
    }

    /// Its nominal times, as the judge knows them.
    pub(crate) fn periods(self) -> Periods {
        match self {
            Rhythm::Minutes(n) => Periods::Every { distance_s: n as i64 * 60, phase_s: 0 },
            Rhythm::Hours(n, minute) => {
                Periods::Every { distance_s: n as i64 * 3_600, phase_s: minute as i64 * 60 }
            }
            Rhythm::Days(days, hour, minute, zone) => {
                Periods::On { days, second: (hour * 3_600 + minute * 60) as i64, zone }
            }
        }
    }
}

impl JobPlan {
    fn text(&self, sabotage: Sabotage) -> String {
        let JobPlan { name, concurrency, deadline_s, suspend, .. } = self;
        let Window { mode, mut length_s } = self.window;
        if sabotage == Sabotage::WideWindow {
            length_s = self.rhythm.gap_s() - 1;
        }
        let schedule = self.rhythm.schedule(sabotage);
        format!(
            "{schedule} @win({mode},{length_s}s) @policy(concurrency={concurrency},deadline={deadline_s}s,suspend={suspend}) name={name} command=/bin/true grace=5s\n"
        )
    }
}

/// The jobs that are defined now, as the loader makes them.
pub(crate) fn definitions(plans: &[JobPlan], sabotage: Sabotage) -> Vec<Job> {
    let defined = plans.iter().filter(|plan| plan.defined);
    let text: String = defined.map(|plan| plan.text(sabotage)).collect();
    let mut loader = Loader::new(Options::default());
    loader.load(&Source::new("simulated.krontab", &text), &Format::Krontab);
    let loaded = loader.finish();
    assert!(loaded.is_usable(), "{text}\n{:?}", loaded.diagnostics);
    loaded.jobs
}
