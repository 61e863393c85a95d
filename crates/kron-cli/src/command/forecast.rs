//! `kron forecast`: the load of all jobs over time.

use std::io::Write;

use kron_config::{Job, Loaded};
use kron_core::{Forecast, Forecaster, Horizon, Seconds, UtcSecond, Zone};
use serde::Serialize;

use crate::args::{ForecastArgs, OutputFormat};
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::plot::bar;
use crate::text::{count, weekday};

/// Rows a histogram has at most; more buckets share rows.
const ROWS_MAX: usize = 48;
/// Columns of a bar.
const BAR_COLUMNS: usize = 40;
/// Jobs of the peak that are named in text.
const NAMED_MAX: usize = 12;

pub(crate) fn run(args: &ForecastArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let horizon = jobs::horizon(&args.horizon, Seconds::new(86_400))?;
    let zone = Zone::named(&args.timezone).map_err(Failure::argument("--timezone"))?;
    let loaded = jobs::load_usable(&args.files, &args.read)?;
    let forecast = forecast(&loaded, horizon);
    match args.format {
        OutputFormat::Text => write_text(out, &loaded, &forecast, &zone)?,
        OutputFormat::Json => {
            serde_json::to_writer(&mut *out, &record(&loaded, &forecast))?;
            writeln!(out)?;
        }
    }
    Ok(Exit::Ok)
}

/// The forecast of all jobs.
pub(crate) fn forecast(loaded: &Loaded, horizon: Horizon) -> Forecast {
    let mut forecaster = Forecaster::new(horizon);
    for job in &loaded.jobs {
        forecaster.add(&job.timing, job.duration);
    }
    forecaster.finish()
}

/// The runs that start in one bucket, by their chosen or by their nominal times.
fn members<'a>(
    loaded: &'a Loaded,
    horizon: &Horizon,
    bucket: usize,
    nominal: bool,
) -> Vec<(&'a Job, UtcSecond)> {
    let (start, end) = (horizon.bucket_start(bucket), horizon.bucket_end(bucket));
    let mut members = Vec::new();
    for job in loaded.jobs.iter().filter(|job| !job.timing.policy.suspend) {
        let before = start.saturating_add(-1);
        if nominal {
            let times = job.timing.schedule().after(before).take_while(|t| *t < end);
            members.extend(times.map(|t| (job, t)));
        } else {
            let due = job.timing.due_after(before).take_while(|decision| decision.due() < end);
            members.extend(due.filter_map(|decision| decision.chosen).map(|t| (job, t)));
        }
    }
    members.sort_by_key(|(_, t)| *t);
    members
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
    runs: Vec<RunRecord<'a>>,
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

fn record<'a>(loaded: &'a Loaded, forecast: &Forecast) -> ForecastRecord<'a> {
    let horizon = &forecast.horizon;
    let peak = |peak: Option<(usize, u32)>, nominal: bool| {
        peak.map(|(bucket, starts)| PeakRecord {
            start: horizon.bucket_start(bucket),
            starts,
            runs: members(loaded, horizon, bucket, nominal)
                .into_iter()
                .map(|(job, time)| RunRecord { identity: job.identity(), time })
                .collect(),
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
    loaded: &Loaded,
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
    write_histogram(out, forecast, zone)?;
    writeln!(out)?;
    write_peaks(out, loaded, forecast, zone)
}

fn write_histogram(out: &mut dyn Write, forecast: &Forecast, zone: &Zone) -> Result<(), Failure> {
    let (chosen, nominal) = (&forecast.chosen.per_bucket, &forecast.nominal.per_bucket);
    let per_row = chosen.len().div_ceil(ROWS_MAX);
    let most = chosen.iter().chain(nominal).copied().max().unwrap_or(0);
    let numbers = most.to_string().len().max(6);
    let label = if per_row > 1 { format!("busiest of {per_row}") } else { "starts".to_owned() };
    writeln!(out, "{:16} {:BAR_COLUMNS$} {:>numbers$} {:>9}", "", label, "starts", "unspread")?;
    for (row, (chosen, nominal)) in (0..).zip(chosen.chunks(per_row).zip(nominal.chunks(per_row))) {
        let start = forecast.horizon.bucket_start(row * per_row);
        let wall = zone.wall_at(start).to_string();
        let busiest = |starts: &[u32]| starts.iter().copied().max().unwrap_or(0);
        let (chosen, nominal) = (busiest(chosen), busiest(nominal));
        writeln!(
            out,
            "{} {} {} {chosen:>numbers$} {nominal:>9}",
            weekday(start, zone),
            &wall[5..16],
            bar(chosen, nominal, most, BAR_COLUMNS)
        )?;
    }
    writeln!(out, "\n█ starts at chosen times   ┆ the same schedules without windows, where more")?;
    Ok(())
}

fn write_peaks(
    out: &mut dyn Write,
    loaded: &Loaded,
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
    let members = members(loaded, horizon, bucket, false);
    let mut names: Vec<&str> = Vec::new();
    for (job, _) in &members {
        if !names.contains(&job.identity()) {
            names.push(job.identity());
        }
    }
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    writeln!(out, "in it      {}{more}", names.join(", "))?;
    if let (Some(spread), Some(unspread)) = (&forecast.overlapping, &forecast.overlapping_nominal) {
        let (bucket, most) = spread.peak().unwrap_or((0, 0));
        writeln!(
            out,
            "at once    at most {most} from {}, {:.2} on average; unspread at most {} ({} of {} with a declared duration)",
            at(bucket),
            spread.mean,
            unspread.peak().map_or(0, |(_, most)| most),
            forecast.jobs_with_duration,
            count(forecast.jobs as u64, "job"),
        )?;
    }
    Ok(())
}
