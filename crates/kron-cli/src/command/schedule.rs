//! `kron schedule`: jobs enqueued by the clock.

mod edit;
mod periods;

use std::collections::HashMap;
use std::io::Write;

use kron_queue::{Schedule, Template, TemplateId};
use serde_json::json;

use crate::args::{
    DefinitionLsArgs, OutputFormat, ScheduleAddArgs, ScheduleArgs, ScheduleCommand,
    ScheduleShowArgs,
};
use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::queue::body::{self, Body};
use crate::queue::ids::{self, Short};
use crate::queue::lookup;
use crate::queue::pages::Pages;
use crate::queue::words::{self, moment, one_line};
use crate::schedule_words;
use crate::text::{brief, local_and_utc, write_json, write_table};

pub(crate) fn run(args: &ScheduleArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    match &args.command {
        ScheduleCommand::Add(args) => add(args, out),
        ScheduleCommand::Ls(args) => ls(args, out),
        ScheduleCommand::Show(args) => show(args, out),
        ScheduleCommand::Edit(args) => edit::run(args, out),
        ScheduleCommand::Enable(args) => edit::switch(args, edit::Switch::On, out),
        ScheduleCommand::Disable(args) => edit::switch(args, edit::Switch::Off, out),
        ScheduleCommand::Rm(args) => rm(args, out),
        ScheduleCommand::Next(args) => periods::next(args, out),
        ScheduleCommand::Outcomes(args) => periods::outcomes(args, out),
    }
}

fn add(args: &ScheduleAddArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    jobs::check_expression("--cron", &args.cron, args.timezone.as_deref())?;
    let client = Client::of(&args.daemon);
    let params = body::params(&args.params)?;
    let template = lookup::template(&client, &args.template)?;
    let body = Body::new()
        .field("template_id", Some(template.template_id))?
        .field("name", Some(&args.name))?
        .field("cron_expression", Some(&args.cron))?
        .field("timezone", args.timezone.as_ref())?
        .field("enabled", Some(!args.disabled))?
        .raw("param_overrides", params.as_deref())
        .finish();
    let (schedule, _): (Schedule, bool) = client.make("schedules", body)?;
    match args.format {
        OutputFormat::Json => write_json(out, &schedule)?,
        OutputFormat::Text => writeln!(out, "{}", schedule.schedule_id)?,
    }
    Ok(Exit::Ok)
}

fn ls(args: &DefinitionLsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let mut schedules: Vec<Schedule> = Pages::new(&client, "schedules").rows(usize::MAX)?;
    schedules.sort_by(|a, b| a.name.cmp(&b.name));
    if args.format == OutputFormat::Json {
        for schedule in &schedules {
            write_json(out, schedule)?;
        }
        return Ok(Exit::Ok);
    }
    if schedules.is_empty() {
        writeln!(out, "there is no schedule")?;
        return Ok(Exit::Ok);
    }
    let templates: Vec<Template> = Pages::new(&client, "job-templates").rows(usize::MAX)?;
    let names: HashMap<TemplateId, String> =
        templates.into_iter().map(|it| (it.template_id, it.name)).collect();
    let now = clock::now();
    let short = Short::among(schedules.iter().map(|schedule| schedule.schedule_id));
    let header = ["name", "schedule", "template", "when", "zone", "next"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(schedules.iter().map(|schedule| {
        let template = names.get(&schedule.template_id).map(|name| one_line(name));
        vec![
            one_line(&schedule.name),
            short.of(&schedule.schedule_id),
            template.unwrap_or_else(|| ids::short(&schedule.template_id)),
            schedule_words::words(&schedule.cron_expression),
            schedule.timezone.clone(),
            match schedule.next_trigger_at {
                _ if !schedule.enabled => "disabled".to_owned(),
                Some(at) => format!("in {}", brief(at.second().since(now).max(0))),
                None => "never".to_owned(),
            },
        ]
    }));
    write_table(out, "", &rows)?;
    Ok(Exit::Ok)
}

fn show(args: &ScheduleShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let schedule = lookup::schedule(&client, &args.schedule)?;
    write(&client, out, args.format, &schedule)
}

fn rm(args: &ScheduleShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let schedule = lookup::schedule(&client, &args.schedule)?;
    client.delete::<()>(&format!("schedules/{}", schedule.schedule_id))?;
    match args.format {
        OutputFormat::Json => {
            write_json(out, &json!({"done": "deleted", "schedule_id": schedule.schedule_id}))?;
        }
        OutputFormat::Text => writeln!(out, "{} is deleted", one_line(&schedule.name))?,
    }
    Ok(Exit::Ok)
}

/// Everything about one schedule.
fn write(
    client: &Client,
    out: &mut dyn Write,
    format: OutputFormat,
    schedule: &Schedule,
) -> Result<Exit, Failure> {
    if format == OutputFormat::Json {
        write_json(out, schedule)?;
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut tell = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    tell("id", schedule.schedule_id.to_string());
    let template = client.get::<Template>(&format!("job-templates/{}", schedule.template_id));
    let name = template.map_or_else(|_| String::new(), |it| format!(" {}", one_line(&it.name)));
    tell("template", format!("{}{name}", schedule.template_id));
    tell("schedule", one_line(&schedule.cron_expression));
    let in_words = schedule_words::words(&schedule.cron_expression);
    if in_words != schedule.cron_expression {
        tell("", in_words);
    }
    tell("zone", schedule.timezone.clone());
    if let Some(params) = schedule.param_overrides.as_ref().map(words::params) {
        tell("params", one_line(&params));
    }
    if let Some(at) = schedule.last_triggered_at {
        tell("last", moment(at, now));
    }
    match schedule.next_trigger_at {
        _ if !schedule.enabled => {
            tell("next", "it is disabled: `kron schedule enable` lets it make jobs".to_owned());
        }
        Some(at) => {
            let at = at.second();
            let ahead = brief(at.since(now).max(0));
            tell("next", format!("{}, in {ahead}", local_and_utc(at, &schedule.timezone)));
        }
        None => tell("next", "it makes no more jobs".to_owned()),
    }
    tell("created", moment(schedule.created_at, now));
    writeln!(out, "{}", one_line(&schedule.name))?;
    write_table(out, "  ", &rows)?;
    Ok(Exit::Ok)
}
