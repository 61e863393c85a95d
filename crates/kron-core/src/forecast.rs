//! The load of many jobs over a stretch of time, exactly: every start of every period is decided
//! and counted, beside the starts the same schedules would have without windows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// One job of a forecast.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// When it runs.
    pub timing: &'a Timing,
    /// How long a run takes, if the job declares it.
    pub duration: Option<Seconds>,
}

/// Starts a forecast may count.
pub const STARTS_MAX: u64 = 200_000_000;

/// Runs whose ends a forecast may have to wait for at once.
pub const ACTIVE_MAX: usize = 2_000_000;

/// The load of all `jobs` over `horizon`. Suspended jobs are only noted.
///
/// # Errors
/// A validation error when there would be more than [`STARTS_MAX`] starts, those before the horizon
/// whose runs reach into it included, or more than [`ACTIVE_MAX`] ends to wait for at once.
pub fn forecast(horizon: Horizon, jobs: &[Load<'_>]) -> Result<Forecast, Finding> {
    let running: Vec<&Load<'_>> = jobs.iter().filter(|job| !job.timing.policy.suspend).collect();
    let with_duration = running.iter().filter(|job| job.duration.is_some()).count();
    let mut forecast = Forecast {
        horizon,
        chosen: Starts::new(&horizon),
        nominal: Starts::new(&horizon),
        overlapping: None,
        overlapping_nominal: None,
        jobs: running.len(),
        jobs_with_duration: with_duration,
        suspended: jobs.len() - running.len(),
        unschedulable: 0,
    };
    for job in &running {
        count_starts(&mut forecast, job.timing)?;
    }
    if with_duration > 0 {
        let lasting = || running.iter().filter_map(|job| Some((job.timing, job.duration?)));
        forecast.overlapping = Some(overlapping(
            &horizon,
            lasting().map(|(timing, duration)| {
                let from = horizon.from.saturating_add(-duration.get_signed() - 1);
                (timing.due_after(from).filter_map(|decision| decision.chosen), duration)
            }),
        )?);
        forecast.overlapping_nominal = Some(overlapping(
            &horizon,
            lasting().map(|(timing, duration)| {
                let from = horizon.from.saturating_add(-duration.get_signed() - 1);
                (timing.schedule().after(from), duration)
            }),
        )?);
    }
    Ok(forecast)
}

/// Adds one job's starts.
fn count_starts(forecast: &mut Forecast, timing: &Timing) -> Result<(), Finding> {
    let horizon = forecast.horizon;
    let window = timing.placement().window().length().get_signed();
    for decision in timing.periods_after(horizon.from.saturating_add(-window - 1)) {
        if decision.window_start >= horizon.to && decision.nominal >= horizon.to {
            break;
        }
        forecast.nominal.add(&horizon, decision.nominal);
        match decision.chosen {
            Some(chosen) => forecast.chosen.add(&horizon, chosen),
            None if horizon.contains(decision.due()) => forecast.unschedulable += 1,
            None => {}
        }
        if forecast.nominal.total.max(forecast.chosen.total) > STARTS_MAX {
            return Err(Finding::validation(0..0, format!("more than {STARTS_MAX} starts"))
                .help("make the range shorter"));
        }
    }
    Ok(())
}

/// Seconds that are swept over at a time; what lies further ahead is not looked at yet, so that
/// memory does not grow with the horizon.
const SLICE_SECONDS: i64 = 86_400;

/// Sweeps over the starts and ends of runs, slice by slice. A run is active from its start up to,
/// not including, its end.
fn overlapping<I: Iterator<Item = UtcSecond>>(
    horizon: &Horizon,
    jobs: impl Iterator<Item = (I, Seconds)>,
) -> Result<Overlapping, Finding> {
    let (from, to) = (horizon.from.unix(), horizon.to.unix());
    let mut jobs: Vec<_> =
        jobs.map(|(starts, length)| (starts.peekable(), length.get_signed())).collect();
    let mut sweep = Sweep {
        horizon,
        most_per_bucket: vec![0; horizon.bucket_count() as usize],
        active: 0,
        ends: BinaryHeap::new(),
        busy: 0,
    };
    let mut changes = Changes::default();
    let mut starts_seen = 0;
    let mut slice = from;
    while slice < to {
        let slice_end = (slice + SLICE_SECONDS).min(to);
        changes.begin(slice);
        for (starts, length) in &mut jobs {
            while let Some(start) = starts.next_if(|start| start.unix() < slice_end) {
                let (start, end) = (start.unix().max(from), start.unix().saturating_add(*length));
                if end <= from {
                    continue;
                }
                sweep.busy += i128::from(end.min(to) - start);
                starts_seen += 1;
                if sweep.ends.len() >= ACTIVE_MAX || starts_seen > STARTS_MAX {
                    let message = "too many runs would be active at once";
                    return Err(Finding::validation(0..0, message)
                        .help("a job declares a duration far longer than its period"));
                }
                changes.add(start, 1);
                if end < slice_end {
                    changes.add(end, -1);
                } else if end < to {
                    sweep.ends.push(Reverse(end));
                }
            }
        }
        while let Some(Reverse(end)) = sweep.ends.peek().copied().filter(|end| end.0 < slice_end) {
            sweep.ends.pop();
            changes.add(end, -1);
        }
        sweep.pass(slice, slice_end, changes.in_order());
        slice = slice_end;
    }
    Ok(Overlapping {
        most_per_bucket: sweep.most_per_bucket,
        mean: sweep.busy as f64 / (to - from) as f64,
    })
}

/// The changes of one slice: a list while they are few, a count per second when they are many.
#[derive(Default)]
struct Changes {
    slice: i64,
    list: Vec<(i64, i32)>,
    per_second: Vec<i32>,
}

impl Changes {
    fn begin(&mut self, slice: i64) {
        self.slice = slice;
        self.list.clear();
        self.per_second.clear();
    }

    fn add(&mut self, t: i64, change: i32) {
        self.list.push((t, change));
        if self.list.len() > SLICE_SECONDS as usize {
            self.condense();
        }
    }

    fn condense(&mut self) {
        self.per_second.resize(SLICE_SECONDS as usize, 0);
        for (t, change) in self.list.drain(..) {
            self.per_second[(t - self.slice) as usize] += change;
        }
    }

    fn in_order(&mut self) -> &[(i64, i32)] {
        if !self.per_second.is_empty() {
            self.condense();
            let seconds = (self.slice..).zip(self.per_second.drain(..));
            self.list.extend(seconds.filter(|(_, change)| *change != 0));
        }
        self.list.sort_unstable();
        &self.list
    }
}

struct Sweep<'a> {
    horizon: &'a Horizon,
    most_per_bucket: Vec<u32>,
    active: u32,
    /// Ends of active runs in later slices.
    ends: BinaryHeap<Reverse<i64>>,
    busy: i128,
}

impl Sweep<'_> {
    /// Goes over one slice, with its starts and ends in order.
    fn pass(&mut self, slice: i64, slice_end: i64, mut changes: &[(i64, i32)]) {
        let mut t = slice;
        loop {
            let same = changes.partition_point(|&(other, _)| other == t);
            for &(_, change) in &changes[..same] {
                self.active = self.active.saturating_add_signed(change);
            }
            changes = &changes[same..];
            // This many are active up to the next change.
            let until = changes.first().map_or(slice_end, |&(next, _)| next);
            if self.active > 0 {
                let bucket = |t: i64| {
                    ((t - self.horizon.from.unix()) as u64 / self.horizon.bucket.get()) as usize
                };
                for most in &mut self.most_per_bucket[bucket(t)..=bucket(until - 1)] {
                    *most = (*most).max(self.active);
                }
            }
            if changes.is_empty() {
                return;
            }
            t = until;
        }
    }
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
        let mut expected = vec![0; 24];
        let mut timings = Vec::new();
        for index in 0..50 {
            let timing = parser
                .parse("0 23 * * * @win(around,2h)", &format!("job-{index}"), Host::default())
                .unwrap();
            for decision in timing.periods_after(t("2026-02-20T00:00:00Z")).take(20) {
                if let Some(bucket) = decision.chosen.and_then(|chosen| day.index_of(chosen)) {
                    expected[bucket] += 1;
                }
            }
            timings.push(timing);
        }
        timings
            .push(parser.parse("@hourly @policy(suspend=true)", "off", Host::default()).unwrap());
        let jobs: Vec<Load<'_>> =
            timings.iter().map(|timing| Load { timing, duration: None }).collect();
        let forecast = forecast(day, &jobs).unwrap();
        assert_eq!(forecast.chosen.per_bucket, expected);
        assert_eq!(forecast.nominal.peak(), Some((23, 50)));
        assert_eq!(forecast.nominal.total, 50);
        assert_eq!((forecast.jobs, forecast.suspended), (50, 1));
        assert_eq!(forecast.overlapping, None);
    }

    fn most(horizon: &Horizon, runs: &[(i64, u64)]) -> Overlapping {
        let start = horizon.from().unix();
        overlapping(
            horizon,
            runs.iter().map(|&(at, length)| {
                (std::iter::once(UtcSecond::from_unix(start + at).unwrap()), Seconds::new(length))
            }),
        )
        .unwrap()
    }

    #[test]
    fn runs_overlap_while_both_are_active_and_not_at_their_ends() {
        let hour = horizon("2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z", 600);
        let check = |runs: &[(i64, u64)], expected: [u32; 6]| {
            assert_eq!(most(&hour, runs).most_per_bucket, expected);
        };
        check(&[], [0; 6]);
        check(&[(0, 600), (600, 600)], [1, 1, 0, 0, 0, 0]);
        check(&[(0, 601), (600, 600)], [1, 2, 0, 0, 0, 0]);
        check(&[(-100, 4100)], [1; 6]);
        check(&[(-100, 100), (-100, 101)], [1, 0, 0, 0, 0, 0]);
        check(&[(-100, 1900), (100, 100), (150, 10), (3599, 6400)], [3, 1, 1, 0, 0, 1]);
        assert_eq!(most(&hour, &[(0, 1800), (0, 3600)]).mean, 1.5);
    }

    #[test]
    fn runs_over_many_slices_are_counted_as_a_dense_count_would() {
        let days = horizon("2026-03-01T00:00:00Z", "2026-03-05T06:00:00Z", 7_777);
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let runs: Vec<(i64, u64)> =
            (0..400).map(|_| (draw(500_000) as i64 - 100_000, 1 + draw(150_000))).collect();
        let seconds = days.to().since(days.from());
        let mut active = vec![0u32; seconds as usize];
        for &(at, length) in &runs {
            for second in at.max(0)..(at + length as i64).min(seconds) {
                active[second as usize] += 1;
            }
        }
        let expected: Vec<u32> =
            active.chunks(7_777).map(|bucket| *bucket.iter().max().unwrap()).collect();
        let found = most(&days, &runs);
        assert_eq!(found.most_per_bucket, expected);
        let mean = active.iter().map(|&n| f64::from(n)).sum::<f64>() / seconds as f64;
        assert!((found.mean - mean).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_began_before_the_horizon_counts_while_it_lasts() {
        let mut parser = TimingParser::new();
        let timing = parser.parse("0 23 * * *", "long", Host::default()).unwrap();
        let hours = horizon("2026-03-01T00:00:00Z", "2026-03-01T04:00:00Z", 3_600);
        let job = Load { timing: &timing, duration: Some(Seconds::new(2 * 3_600 + 1)) };
        let forecast = forecast(hours, &[job]).unwrap();
        assert_eq!(forecast.chosen.total, 0);
        assert_eq!(forecast.overlapping.unwrap().most_per_bucket, [1, 1, 0, 0]);
    }

    #[test]
    fn a_duration_that_piles_up_runs_without_end_is_refused() {
        let mut parser = TimingParser::new();
        let timing = parser.parse("* * * * * *", "pile", Host::default()).unwrap();
        let months = horizon("2026-03-01T00:00:00Z", "2026-05-01T00:00:00Z", 86_400);
        let pile = Load { timing: &timing, duration: Some(Seconds::new(30 * 86_400)) };
        assert!(forecast(months, &[pile]).is_err());
        let hour = horizon("2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z", 600);
        // Many changes in one slice are counted by the second.
        let job = Load { timing: &timing, duration: Some(Seconds::new(200_000)) };
        let dense = forecast(hour, &[job, job]).unwrap().overlapping.unwrap();
        assert_eq!(dense.most_per_bucket, [400_000; 6]);
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
