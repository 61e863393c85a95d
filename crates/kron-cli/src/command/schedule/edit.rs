//! `kron schedule edit`, `enable` and `disable`: changes of a schedule.

use std::io::Write;

use kron_queue::Schedule;

use crate::args::{ScheduleEditArgs, ScheduleShowArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::queue::body::{self, Body};
use crate::queue::lookup;

/// Whether a schedule makes jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    On,
    Off,
}

pub(super) fn run(args: &ScheduleEditArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some(cron) = &args.cron {
        jobs::check_expression("--cron", cron, args.timezone.as_deref())?;
    }
    let client = Client::of(&args.daemon);
    let params = body::params(&args.params)?;
    let id = lookup::schedule(&client, &args.schedule)?.schedule_id;
    let template = match &args.template {
        Some(template) => Some(lookup::template(&client, template)?.template_id),
        None => None,
    };
    let null = |is: bool| is.then_some("null");
    let body = Body::new()
        .field("name", args.name.as_ref())?
        .field("template_id", template)?
        .field("cron_expression", args.cron.as_ref())?
        .field("timezone", args.timezone.as_ref())?
        .raw("timezone", null(args.no_timezone))
        .raw("param_overrides", params.as_deref().or(null(args.no_params)))
        .finish();
    let schedule: Schedule = client.patch(&format!("schedules/{id}"), body)?;
    super::write(&client, out, args.format, &schedule)
}

pub(super) fn switch(
    args: &ScheduleShowArgs,
    switch: Switch,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let id = lookup::schedule(&client, &args.schedule)?.schedule_id;
    let body = Body::new().field("enabled", Some(switch == Switch::On))?.finish();
    let schedule: Schedule = client.patch(&format!("schedules/{id}"), body)?;
    super::write(&client, out, args.format, &schedule)
}
