//! `kron forecast`: the load of all jobs over time.

use std::io::Write;

use kron_config::Loaded;
use kron_core::{Forecast, Horizon, Load, Seconds, Timing, UtcSecond, Wall, Zone};
use serde::Serialize;

use crate::args::{ForecastArgs, OutputFormat};
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::plot::bar;
use crate::text::{count, weekday, write_wrapped};

/// Rows a histogram has at most; more buckets share rows.
const ROWS_MAX: usize = 48;
/// Columns of a bar.
const BAR_COLUMNS: usize = 40;
/// Runs of a peak that are listed in JSON.
const RUNS_MAX: usize = 1_000;
/// Jobs of the peak that are named in text.
const NAMED_MAX: usize = 12;

pub(crate) fn run(args: &ForecastArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let horizon = jobs::horizon(&args.horizon, Seconds::new(86_400))?;
    let zone = Zone::named(&args.timezone).map_err(Failure::argument("--timezone"))?;
    let loaded = jobs::load_usable(&args.files, &args.read)?;
    show(out, &loads(&loaded), horizon, &zone, args.format)
}

/// Computes and writes the forecast of these jobs.
pub(crate) fn show(
    out: &mut dyn Write,
    loads: &[Load<'_>],
    horizon: Horizon,
    zone: &Zone,
    format: OutputFormat,
) -> Result<Exit, Failure> {
    let forecast = forecast(loads, horizon)?;
    match format {
        OutputFormat::Text => write_text(out, loads, &forecast, zone)?,
        OutputFormat::Json => {
            serde_json::to_writer(&mut *out, &record(loads, &forecast))?;
            writeln!(out)?;
        }
    }
    Ok(Exit::Ok)
}

/// What each job of a file adds.
pub(crate) fn loads(loaded: &Loaded) -> Vec<Load<'_>> {
    let jobs = loaded.jobs.iter();
    jobs.map(|job| Load { timing: &job.timing, duration: job.duration }).collect()
}

/// The forecast of all jobs.
pub(crate) fn forecast(loads: &[Load<'_>], horizon: Horizon) -> Result<Forecast, Failure> {
    kron_core::forecast(horizon, loads).map_err(Failure::argument("--to"))
}

/// The runs that start in one bucket.
struct Members<'a> {
    /// The first of them, in order.
    runs: Vec<(UtcSecond, &'a Timing)>,
    /// Runs after those.
    runs_left_out: u64,
    /// Jobs that have any.
    jobs: usize,
}

impl<'a> Members<'a> {
    /// The members of bucket `index`, by their chosen or by their nominal times.
    fn of(loads: &[Load<'a>], horizon: &Horizon, index: usize, nominal: bool) -> Members<'a> {
        let (start, end) = (horizon.bucket_start(index), horizon.bucket_end(index));
        let before = start.saturating_add(-1);
        let mut members = Members { runs: Vec::new(), runs_left_out: 0, jobs: 0 };
        let timings = loads.iter().map(|load| load.timing);
        for timing in timings.filter(|timing| !timing.policy.suspend) {
            let counted = members.count();
            if nominal {
                let times = timing.schedule().after(before).take_while(|t| *t < end);
                times.for_each(|t| members.add(t, timing));
            } else {
                let due = timing.due_after(before).take_while(|decision| decision.due() < end);
                due.filter_map(|decision| decision.chosen).for_each(|t| members.add(t, timing));
            }
            members.jobs += usize::from(members.count() > counted);
        }
        members.settle();
        members
    }

    fn count(&self) -> u64 {
        self.runs.len() as u64 + self.runs_left_out
    }

    fn add(&mut self, t: UtcSecond, timing: &'a Timing) {
        self.runs.push((t, timing));
        if self.runs.len() == 2 * RUNS_MAX {
            self.settle();
        }
    }

    /// Keeps the first ones.
    fn settle(&mut self) {
        self.runs.sort_by_key(|(t, _)| *t);
        self.runs_left_out += self.runs.len().saturating_sub(RUNS_MAX) as u64;
        self.runs.truncate(RUNS_MAX);
    }
}

#[derive(Serialize)]
struct ForecastRecord<'a> {
    from: UtcSecond,
    to: UtcSecond,
    bucket_seconds: u64,
    jobs: usize,
    jobs_suspended: usize,
    starts: u64,
    starts_without_windows: u64,
    unschedulable: u64,
    peak: Option<PeakRecord<'a>>,
    peak_without_windows: Option<PeakRecord<'a>>,
    concurrency: Option<ConcurrencyRecord>,
    buckets: Vec<BucketRecord>,
}

#[derive(Serialize)]
struct PeakRecord<'a> {
    start: UtcSecond,
    starts: u32,
    jobs: usize,
    runs: Vec<RunRecord<'a>>,
    runs_left_out: u64,
}

#[derive(Serialize)]
struct RunRecord<'a> {
    identity: &'a str,
    time: UtcSecond,
}

#[derive(Serialize)]
struct ConcurrencyRecord {
    jobs_with_duration: usize,
    peak: u32,
    peak_start: Option<UtcSecond>,
    mean: f64,
    peak_without_windows: u32,
}

#[derive(Serialize)]
struct BucketRecord {
    start: UtcSecond,
    starts: u32,
    starts_without_windows: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
}

fn record<'a>(loads: &[Load<'a>], forecast: &Forecast) -> ForecastRecord<'a> {
    let horizon = &forecast.horizon;
    let peak = |peak: Option<(usize, u32)>, nominal: bool| {
        peak.map(|(bucket, starts)| {
            let members = Members::of(loads, horizon, bucket, nominal);
            PeakRecord {
                start: horizon.bucket_start(bucket),
                starts,
                jobs: members.jobs,
                runs: members
                    .runs
                    .into_iter()
                    .map(|(time, timing)| RunRecord {
                        identity: timing.placement().identity(),
                        time,
                    })
                    .collect(),
                runs_left_out: members.runs_left_out,
            }
        })
    };
    let concurrency = forecast.overlapping.as_ref().map(|overlapping| ConcurrencyRecord {
        jobs_with_duration: forecast.jobs_with_duration,
        peak: overlapping.peak().map_or(0, |(_, most)| most),
        peak_start: overlapping.peak().map(|(bucket, _)| horizon.bucket_start(bucket)),
        mean: overlapping.mean,
        peak_without_windows: forecast
            .overlapping_nominal
            .as_ref()
            .and_then(kron_core::Overlapping::peak)
            .map_or(0, |(_, most)| most),
    });
    ForecastRecord {
        from: horizon.from(),
        to: horizon.to(),
        bucket_seconds: horizon.bucket().get(),
        jobs: forecast.jobs,
        jobs_suspended: forecast.suspended,
        starts: forecast.chosen.total,
        starts_without_windows: forecast.nominal.total,
        unschedulable: forecast.unschedulable,
        peak: peak(forecast.chosen.peak(), false),
        peak_without_windows: peak(forecast.nominal.peak(), true),
        concurrency,
        buckets: (0..forecast.chosen.per_bucket.len())
            .map(|bucket| BucketRecord {
                start: horizon.bucket_start(bucket),
                starts: forecast.chosen.per_bucket[bucket],
                starts_without_windows: forecast.nominal.per_bucket[bucket],
                concurrency: forecast.overlapping.as_ref().map(|o| o.most_per_bucket[bucket]),
            })
            .collect(),
    }
}

fn write_text(
    out: &mut dyn Write,
    loads: &[Load<'_>],
    forecast: &Forecast,
    zone: &Zone,
) -> Result<(), Failure> {
    let horizon = &forecast.horizon;
    let bucket = horizon.bucket();
    writeln!(
        out,
        "{}, {} to {}, in buckets of {bucket}; times in {zone}",
        count(forecast.jobs as u64, "job"),
        horizon.from(),
        horizon.to(),
    )?;
    let mut aside = Vec::new();
    if forecast.suspended > 0 {
        aside.push(format!("{} left out: suspended", count(forecast.suspended as u64, "job")));
    }
    if forecast.unschedulable > 0 {
        aside.push(format!("{} unschedulable", count(forecast.unschedulable, "period")));
    }
    if !aside.is_empty() {
        writeln!(out, "{}", aside.join("; "))?;
    }
    writeln!(out)?;
    if forecast.chosen.total > 0 || forecast.nominal.total > 0 {
        write_histogram(out, forecast, zone)?;
        writeln!(out)?;
    }
    write_peaks(out, loads, forecast, zone)
}

fn write_histogram(out: &mut dyn Write, forecast: &Forecast, zone: &Zone) -> Result<(), Failure> {
    let (chosen, nominal) = (&forecast.chosen.per_bucket, &forecast.nominal.per_bucket);
    let per_row = chosen.len().div_ceil(ROWS_MAX);
    let most = chosen.iter().chain(nominal).copied().max().unwrap_or(0);
    let numbers = most.to_string().len().max(6);
    let horizon = &forecast.horizon;
    let label = RowLabel::of(horizon, zone);
    if per_row > 1 {
        writeln!(out, "a row stands for {per_row} buckets and shows the busiest\n")?;
    }
    let columns = label.columns() + BAR_COLUMNS + 1;
    writeln!(out, "{:columns$} {:>numbers$} {:>9}", "", "starts", "unspread")?;
    for (row, (chosen, nominal)) in (0..).zip(chosen.chunks(per_row).zip(nominal.chunks(per_row))) {
        let start = horizon.bucket_start(row * per_row);
        let busiest = |starts: &[u32]| starts.iter().copied().max().unwrap_or(0);
        let (chosen, nominal) = (busiest(chosen), busiest(nominal));
        writeln!(
            out,
            "{} {} {chosen:>numbers$} {nominal:>9}",
            label.text(start, zone),
            bar(chosen, nominal, most, BAR_COLUMNS)
        )?;
    }
    writeln!(out, "\n█ starts   ┆ unspread, where more: the same schedules without windows")?;
    Ok(())
}

/// How much of a time a row of the histogram shows: what tells the rows apart.
struct RowLabel {
    year: bool,
    seconds: bool,
    offset: bool,
}

impl RowLabel {
    fn of(horizon: &Horizon, zone: &Zone) -> RowLabel {
        let last = horizon.to().saturating_add(-1);
        let (from, to) = (zone.wall_at(horizon.from()), zone.wall_at(last));
        let whole_minutes =
            horizon.bucket().get().is_multiple_of(60) && from.second_of_day().is_multiple_of(60);
        let year = |wall: Wall| wall.date().year;
        RowLabel {
            year: year(from) != year(to),
            seconds: !whole_minutes,
            offset: from.offset() != to.offset(),
        }
    }

    fn columns(&self) -> usize {
        15 + 5 * usize::from(self.year)
            + 3 * usize::from(self.seconds)
            + 6 * usize::from(self.offset)
    }

    fn text(&self, t: UtcSecond, zone: &Zone) -> String {
        // The year may have five digits; what follows it has a fixed form.
        let wall = zone.wall_at(t).to_string();
        let (year, rest) = wall.split_once('-').unwrap_or(("", &wall));
        let (time, offset) = rest.split_at(14);
        let year = if self.year { format!("{year}-") } else { String::new() };
        let time = if self.seconds { time } else { &time[..11] };
        let offset = if self.offset { offset } else { "" };
        format!("{} {year}{time}{offset}", weekday(t, zone))
    }
}

fn write_peaks(
    out: &mut dyn Write,
    loads: &[Load<'_>],
    forecast: &Forecast,
    zone: &Zone,
) -> Result<(), Failure> {
    let horizon = &forecast.horizon;
    let at = |bucket: usize| zone.wall_at(horizon.bucket_start(bucket)).to_string();
    let Some((bucket, starts)) = forecast.chosen.peak() else {
        writeln!(out, "nothing starts in this time")?;
        return Ok(());
    };
    writeln!(
        out,
        "peak       {} in {} from {}",
        count(u64::from(starts), "start"),
        horizon.bucket(),
        at(bucket)
    )?;
    if let Some((bucket, unspread)) = forecast.nominal.peak() {
        let ratio = f64::from(unspread) / f64::from(starts);
        writeln!(
            out,
            "unspread   {} from {} ({ratio:.1} × as many)",
            count(u64::from(unspread), "start"),
            at(bucket)
        )?;
    }
    let members = Members::of(loads, horizon, bucket, false);
    let mut names: Vec<&str> = Vec::new();
    for (_, timing) in &members.runs {
        let name = timing.placement().identity();
        if names.len() < NAMED_MAX && !names.contains(&name) {
            names.push(name);
        }
    }
    let more = members.jobs - names.len();
    let mut words: Vec<String> = names.iter().map(|name| format!("{name},")).collect();
    if let Some(last) = words.last_mut() {
        last.pop();
    }
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    write_wrapped(out, "in it      ", &words)?;
    if let (Some(spread), Some(unspread)) = (&forecast.overlapping, &forecast.overlapping_nominal) {
        let (bucket, most) = spread.peak().unwrap_or((0, 0));
        writeln!(
            out,
            "at once    at most {most}, in {} from {}; {:.2} on average; unspread at most {}",
            horizon.bucket(),
            at(bucket),
            spread.mean,
            unspread.peak().map_or(0, |(_, most)| most),
        )?;
        writeln!(
            out,
            "           counting the {} of {} that declare a duration",
            forecast.jobs_with_duration,
            count(forecast.jobs as u64, "job"),
        )?;
    }
    Ok(())
}
