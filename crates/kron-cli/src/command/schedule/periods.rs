//! `kron schedule next` and `outcomes`: a schedule's periods, to come and past.

use std::io::Write;

use kron_queue::{PeriodRecord, Upcoming};
use kron_queue_api::PageView;

use crate::args::{OutputFormat, ScheduleNextArgs, ScheduleOutcomesArgs};
use crate::client::{Client, with_query};
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::queue::lookup;
use crate::queue::pages::Pages;
use crate::queue::words::one_line;
use crate::text::{count, local, write_json, write_table};

pub(super) fn next(args: &ScheduleNextArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let after = args.after.as_deref().map(|text| jobs::time("--after", Some(text))).transpose()?;
    let schedule = lookup::schedule(&client, &args.schedule)?;
    let path = with_query(
        &format!("schedules/{}/next", schedule.schedule_id),
        &[("count", Some(args.count.to_string())), ("after", after.map(|after| after.to_string()))],
    );
    let page: PageView<Upcoming> = client.get(&path)?;
    match args.format {
        OutputFormat::Json => {
            for upcoming in &page.items {
                write_json(out, upcoming)?;
            }
        }
        OutputFormat::Text => {
            let zone = &schedule.timezone;
            writeln!(out, "{}: times in {zone}", one_line(&schedule.name))?;
            if !schedule.enabled {
                writeln!(out, "disabled: until it is enabled, none of these makes a job")?;
            }
            if page.items.is_empty() {
                writeln!(out, "\nnothing: this schedule has no period after that")?;
                return Ok(Exit::No);
            }
            writeln!(out)?;
            let header = ["nominal", "window start", "window end", "chosen"];
            let mut rows = vec![header.map(str::to_owned).to_vec()];
            rows.extend(page.items.iter().map(|it| {
                let chosen = it.chosen_time.map(|at| local(at, zone));
                vec![
                    local(it.nominal_time, zone),
                    local(it.window_start, zone),
                    local(it.window_end, zone),
                    chosen.unwrap_or_else(|| "unschedulable".to_owned()),
                ]
            }));
            write_table(out, "", &rows)?;
        }
    }
    Ok(if page.items.is_empty() { Exit::No } else { Exit::Ok })
}

pub(super) fn outcomes(args: &ScheduleOutcomesArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let schedule = lookup::schedule(&client, &args.schedule)?;
    let path = format!("schedules/{}/outcomes", schedule.schedule_id);
    let mut pages = Pages::new(&client, path);
    let records: Vec<PeriodRecord> = pages.rows(args.count as usize)?;
    if args.format == OutputFormat::Json {
        for record in &records {
            write_json(out, record)?;
        }
        return Ok(Exit::Ok);
    }
    let zone = &schedule.timezone;
    writeln!(out, "{}: times in {zone}, the newest first\n", one_line(&schedule.name))?;
    if records.is_empty() {
        writeln!(out, "nothing is recorded")?;
        return Ok(Exit::Ok);
    }
    let mut rows = vec![["period", "outcome", "job"].map(str::to_owned).to_vec()];
    rows.extend(records.iter().map(|record| {
        let mut outcome = record.outcome.to_string();
        if let Some(reason) = &record.reason {
            outcome.push_str(&format!(": {}", one_line(reason)));
        }
        if record.periods > 1 {
            let periods = count(record.periods.unsigned_abs(), "period");
            outcome.push_str(&format!(" ({periods}, to {})", local(record.last_period, zone)));
        }
        let job = record.job_id.map_or_else(String::new, |id| id.to_string());
        vec![local(record.first_period, zone), outcome, job]
    }));
    write_table(out, "", &rows)?;
    if !pages.is_over() {
        writeln!(out, "\nthere are more, which `--count N` shows")?;
    }
    Ok(Exit::Ok)
}
