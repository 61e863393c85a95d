//! The load of many jobs over a stretch of time, exactly: every start of every period is decided
//! and counted, beside the starts the same schedules would have without windows.

use crate::duration::Seconds;
use crate::finding::Finding;
use crate::time::UtcSecond;
use crate::timing::Timing;

/// Buckets a forecast may have.
pub const BUCKETS_MAX: u64 = 1_000_000;

/// A stretch of time cut into buckets of equal length; the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    from: UtcSecond,
    to: UtcSecond,
    bucket: Seconds,
}

impl Horizon {
    /// The time from `from` up to, not including, `to`.
    ///
    /// # Errors
    /// A validation error when it is empty, the bucket has no length, or there would be more than
    /// [`BUCKETS_MAX`] buckets.
    pub fn new(from: UtcSecond, to: UtcSecond, bucket: Seconds) -> Result<Horizon, Finding> {
        if to <= from {
            return Err(Finding::validation(0..0, format!("nothing lies between {from} and {to}")));
        }
        if bucket == Seconds::ZERO {
            return Err(Finding::validation(0..0, "a bucket needs a length"));
        }
        let horizon = Horizon { from, to, bucket };
        if horizon.bucket_count() > BUCKETS_MAX {
            return Err(Finding::validation(
                0..0,
                format!("{} buckets are too many", horizon.bucket_count()),
            )
            .help(format!(
                "at most {BUCKETS_MAX} fit; make the buckets longer or the range shorter"
            )));
        }
        Ok(horizon)
    }

    /// First second.
    #[must_use]
    pub fn from(&self) -> UtcSecond {
        self.from
    }

    /// First second after it.
    #[must_use]
    pub fn to(&self) -> UtcSecond {
        self.to
    }

    /// The length of a bucket.
    #[must_use]
    pub fn bucket(&self) -> Seconds {
        self.bucket
    }

    /// How many buckets there are.
    #[must_use]
    pub fn bucket_count(&self) -> u64 {
        (self.to.since(self.from) as u64).div_ceil(self.bucket.get())
    }

    /// Whether `t` lies in it.
    #[must_use]
    pub fn contains(&self, t: UtcSecond) -> bool {
        self.from <= t && t < self.to
    }

    /// The bucket `t` lies in.
    #[must_use]
    pub fn index_of(&self, t: UtcSecond) -> Option<usize> {
        self.contains(t).then(|| (t.since(self.from) as u64 / self.bucket.get()) as usize)
    }

    /// First second of bucket `index`.
    #[must_use]
    pub fn bucket_start(&self, index: usize) -> UtcSecond {
        self.from.saturating_add((index as u64).saturating_mul(self.bucket.get()) as i64)
    }

    /// First second after bucket `index`.
    #[must_use]
    pub fn bucket_end(&self, index: usize) -> UtcSecond {
        self.bucket_start(index).saturating_add(self.bucket.get_signed()).min(self.to)
    }
}

/// Starts per bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starts {
    /// How many runs start in each bucket.
    pub per_bucket: Vec<u32>,
    /// All of them together.
    pub total: u64,
}

impl Starts {
    fn new(horizon: &Horizon) -> Starts {
        Starts { per_bucket: vec![0; horizon.bucket_count() as usize], total: 0 }
    }

    fn add(&mut self, horizon: &Horizon, t: UtcSecond) {
        if let Some(index) = horizon.index_of(t) {
            self.per_bucket[index] += 1;
            self.total += 1;
        }
    }

    /// The first bucket with the most starts, and how many; `None` when nothing starts.
    #[must_use]
    pub fn peak(&self) -> Option<(usize, u32)> {
        first_greatest(&self.per_bucket)
    }
}

/// Index and value of the first greatest number, if it is not zero.
fn first_greatest(values: &[u32]) -> Option<(usize, u32)> {
    let greatest = *values.iter().max()?;
    let index = values.iter().position(|&value| value == greatest)?;
    (greatest > 0).then_some((index, greatest))
}

/// Runs active at once, of the jobs that declare how long they take.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlapping {
    /// The most at once in each bucket.
    pub most_per_bucket: Vec<u32>,
    /// The average number over the whole horizon.
    pub mean: f64,
}

impl Overlapping {
    /// The first bucket with the most at once, and how many; `None` when nothing runs.
    #[must_use]
    pub fn peak(&self) -> Option<(usize, u32)> {
        first_greatest(&self.most_per_bucket)
    }
}

/// The finished forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// What it covers.
    pub horizon: Horizon,
    /// Starts at chosen times.
    pub chosen: Starts,
    /// Starts at nominal times: the same schedules without windows and constraints.
    pub nominal: Starts,
    /// Runs at once from chosen times; `None` when no job declares a duration.
    pub overlapping: Option<Overlapping>,
    /// Runs at once from nominal times; `None` when no job declares a duration.
    pub overlapping_nominal: Option<Overlapping>,
    /// Jobs counted.
    pub jobs: usize,
    /// Jobs counted that declare a duration.
    pub jobs_with_duration: usize,
    /// Jobs left out because they are suspended.
    pub suspended: usize,
    /// Periods in the horizon for which no time is allowed.
    pub unschedulable: u64,
}

/// A forecast in the making: add jobs, then finish.
#[derive(Clone, Debug)]
pub struct Forecaster {
    horizon: Horizon,
    chosen: Starts,
    nominal: Starts,
    runs: Vec<(i64, i64)>,
    runs_nominal: Vec<(i64, i64)>,
    jobs: usize,
    jobs_with_duration: usize,
    suspended: usize,
    unschedulable: u64,
}

impl Forecaster {
    /// An empty forecast.
    #[must_use]
    pub fn new(horizon: Horizon) -> Forecaster {
        Forecaster {
            horizon,
            chosen: Starts::new(&horizon),
            nominal: Starts::new(&horizon),
            runs: Vec::new(),
            runs_nominal: Vec::new(),
            jobs: 0,
            jobs_with_duration: 0,
            suspended: 0,
            unschedulable: 0,
        }
    }

    /// Counts a job that takes `duration`, if it declares one. A suspended job is only noted.
    pub fn add(&mut self, timing: &Timing, duration: Option<Seconds>) {
        if timing.policy.suspend {
            self.suspended += 1;
            return;
        }
        self.jobs += 1;
        self.jobs_with_duration += usize::from(duration.is_some());
        let Horizon { from, to, .. } = self.horizon;
        let lasting = duration.map_or(0, Seconds::get_signed);
        let window = timing.placement().window().length().get_signed();
        for decision in timing.periods_after(from.saturating_add(-window - lasting - 1)) {
            if decision.window_start >= to && decision.nominal >= to {
                break;
            }
            self.nominal.add(&self.horizon, decision.nominal);
            match decision.chosen {
                Some(chosen) => self.chosen.add(&self.horizon, chosen),
                None if self.horizon.contains(decision.nominal) => self.unschedulable += 1,
                None => {}
            }
            if duration.is_some() {
                let note = |runs: &mut Vec<(i64, i64)>, start: UtcSecond| {
                    let end = start.unix().saturating_add(lasting);
                    if start < to && end > from.unix() {
                        runs.push((start.unix(), end));
                    }
                };
                note(&mut self.runs_nominal, decision.nominal);
                if let Some(chosen) = decision.chosen {
                    note(&mut self.runs, chosen);
                }
            }
        }
    }

    /// The forecast of everything added.
    #[must_use]
    pub fn finish(self) -> Forecast {
        let declared = self.jobs_with_duration > 0;
        let horizon = self.horizon;
        Forecast {
            horizon,
            chosen: self.chosen,
            nominal: self.nominal,
            overlapping: declared.then(|| overlapping(&horizon, self.runs)),
            overlapping_nominal: declared.then(|| overlapping(&horizon, self.runs_nominal)),
            jobs: self.jobs,
            jobs_with_duration: self.jobs_with_duration,
            suspended: self.suspended,
            unschedulable: self.unschedulable,
        }
    }
}

/// Sweeps over starts and ends in order. A run is active from its start up to, not including, its
/// end.
fn overlapping(horizon: &Horizon, runs: Vec<(i64, i64)>) -> Overlapping {
    let (from, to) = (horizon.from.unix(), horizon.to.unix());
    let mut busy: i128 = 0;
    let mut changes: Vec<(i64, i32)> = Vec::with_capacity(runs.len() * 2);
    for (start, end) in runs {
        let (start, end) = (start.max(from), end.min(to));
        busy += i128::from(end - start);
        changes.push((start, 1));
        changes.push((end, -1));
    }
    changes.sort_unstable();
    let mut most_per_bucket = vec![0u32; horizon.bucket_count() as usize];
    let bucket_of = |t: i64| ((t - from) as u64 / horizon.bucket.get()) as usize;
    let mut active: u32 = 0;
    let mut rest = changes.as_slice();
    while let Some(&(t, _)) = rest.first() {
        let same = rest.partition_point(|&(other, _)| other == t);
        for &(_, change) in &rest[..same] {
            active = active.saturating_add_signed(change);
        }
        rest = &rest[same..];
        // This many are active up to the next change.
        let until = rest.first().map_or(to, |&(next, _)| next);
        if active > 0 && until > t {
            for most in &mut most_per_bucket[bucket_of(t)..=bucket_of(until - 1)] {
                *most = (*most).max(active);
            }
        }
    }
    Overlapping { most_per_bucket, mean: busy as f64 / (to - from) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, TimingParser};

    fn t(text: &str) -> UtcSecond {
        text.parse().unwrap()
    }

    fn horizon(from: &str, to: &str, bucket: u64) -> Horizon {
        Horizon::new(t(from), t(to), Seconds::new(bucket)).unwrap()
    }

    #[test]
    fn starts_are_counted_in_the_bucket_of_their_chosen_time() {
        let mut parser = TimingParser::new();
        let day = horizon("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", 3_600);
        let mut forecaster = Forecaster::new(day);
        let mut expected = vec![0; 24];
        for index in 0..50 {
            let timing = parser
                .parse("0 23 * * * @win(around,2h)", &format!("job-{index}"), Host::default())
                .unwrap();
            for decision in timing.periods_after(t("2026-02-20T00:00:00Z")).take(20) {
                if let Some(bucket) = decision.chosen.and_then(|chosen| day.index_of(chosen)) {
                    expected[bucket] += 1;
                }
            }
            forecaster.add(&timing, None);
        }
        let suspended = "@hourly @policy(suspend=true)";
        forecaster.add(&parser.parse(suspended, "off", Host::default()).unwrap(), None);
        let forecast = forecaster.finish();
        assert_eq!(forecast.chosen.per_bucket, expected);
        assert_eq!(forecast.nominal.peak(), Some((23, 50)));
        assert_eq!(forecast.nominal.total, 50);
        assert_eq!((forecast.jobs, forecast.suspended), (50, 1));
        assert_eq!(forecast.overlapping, None);
    }

    #[test]
    fn runs_overlap_while_both_are_active_and_not_at_their_ends() {
        let hour = horizon("2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z", 600);
        let start = hour.from().unix();
        let check = |runs: &[(i64, i64)], expected: [u32; 6]| {
            let runs = runs.iter().map(|&(a, b)| (start + a, start + b)).collect();
            assert_eq!(overlapping(&hour, runs).most_per_bucket, expected);
        };
        check(&[], [0; 6]);
        check(&[(0, 600), (600, 1200)], [1, 1, 0, 0, 0, 0]);
        check(&[(0, 601), (600, 1200)], [1, 2, 0, 0, 0, 0]);
        check(&[(-100, 4000)], [1; 6]);
        check(&[(-100, 1800), (100, 200), (150, 160), (3599, 9999)], [3, 1, 1, 0, 0, 1]);
        let two = overlapping(&hour, vec![(start, start + 1800), (start, start + 3600)]);
        assert_eq!(two.mean, 1.5);
    }

    #[test]
    fn a_run_that_began_before_the_horizon_counts_while_it_lasts() {
        let mut parser = TimingParser::new();
        let timing = parser.parse("0 23 * * *", "long", Host::default()).unwrap();
        let mut forecaster =
            Forecaster::new(horizon("2026-03-01T00:00:00Z", "2026-03-01T04:00:00Z", 3_600));
        forecaster.add(&timing, Some(Seconds::new(2 * 3_600 + 1)));
        let forecast = forecaster.finish();
        assert_eq!(forecast.chosen.total, 0);
        assert_eq!(forecast.overlapping.unwrap().most_per_bucket, [1, 1, 0, 0]);
    }

    #[test]
    fn horizons_are_bounded() {
        let (from, to) = (t("2026-01-01T00:00:00Z"), t("2027-01-01T00:00:00Z"));
        assert!(Horizon::new(to, from, Seconds::new(1)).is_err());
        assert!(Horizon::new(from, to, Seconds::ZERO).is_err());
        assert!(Horizon::new(from, to, Seconds::new(1)).is_err());
        assert_eq!(Horizon::new(from, to, Seconds::new(86_400)).unwrap().bucket_count(), 365);
        let odd = horizon("2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z", 3_600);
        assert_eq!(odd.bucket_count(), 2);
        assert_eq!(odd.bucket_end(1), odd.to());
    }
}
