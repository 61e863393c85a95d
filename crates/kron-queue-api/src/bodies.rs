//! What bodies mean: from their fields to what the queue is asked for.

use kron_queue::limits::JOBS_PER_CALL_MAX;
use kron_queue::{
    GroupMode, Invalid, NewJob, OnFailure, Place, SchedulePatch, ScheduleSettings, TemplatePatch,
    TemplateSettings, Timestamp,
};
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::limits::{DIRECT_TIMEOUT_MS_MAX, DIRECT_WAIT_MS_MAX};
use crate::problem::Problem;
use crate::surface::DirectRequest;

pub(crate) const NEW_JOB: [&str; 6] =
    ["job_type", "template_id", "params", "priority", "not_before", "idempotency_key"];
/// A key names one job, and a group has several.
pub(crate) const GROUP_JOB: [&str; 5] =
    ["job_type", "template_id", "params", "priority", "not_before"];
pub(crate) const BATCH: [&str; 1] = ["jobs"];
pub(crate) const JOB_PATCH: [&str; 3] = ["params", "priority", "not_before"];
pub(crate) const MOVE: [&str; 3] = ["to", "before", "after"];
pub(crate) const TEMPLATE: [&str; 4] = ["name", "job_type", "params", "priority"];
pub(crate) const SCHEDULE: [&str; 6] =
    ["template_id", "name", "cron_expression", "timezone", "enabled", "param_overrides"];
pub(crate) const GROUP: [&str; 4] = ["name", "mode", "on_failure", "jobs"];
pub(crate) const DIRECT: [&str; 5] = ["job_type", "params", "wait_ms", "timeout_ms", "reserved_by"];
pub(crate) const PAUSE: [&str; 2] = ["job_type", "reason"];
pub(crate) const RESUME: [&str; 1] = ["job_type"];
pub(crate) const GROUP_MODES: [&str; 2] = ["parallel", "sequential"];
pub(crate) const FAILURE_MODES: [&str; 3] = ["stop", "continue", "skip"];
pub(crate) const ENDS: [&str; 2] = ["top", "bottom"];
/// For whom a slot is reserved, if nothing is said.
pub(crate) const RESERVED_BY_DEFAULT: &str = "api";

pub(crate) fn new_job(value: Value, known: &[&str]) -> Result<NewJob, Problem> {
    let mut fields = Fields::of(value, known)?;
    Ok(NewJob {
        job_type: fields.optional("job_type")?,
        template_id: fields.optional("template_id")?,
        params: fields.optional::<Map<_, _>>("params")?.map(Value::Object),
        priority: fields.optional("priority")?,
        not_before: fields.optional("not_before")?,
        idempotency_key: fields.optional("idempotency_key")?,
    })
}

fn new_jobs(values: Vec<Value>, known: &[&str]) -> Result<Vec<NewJob>, Problem> {
    let count = values.len();
    if count == 0 {
        return Err(Invalid::Empty { what: "jobs" }.into());
    }
    if count > JOBS_PER_CALL_MAX {
        return Err(Invalid::TooMany { what: "jobs", count, count_max: JOBS_PER_CALL_MAX }.into());
    }
    let each = values.into_iter().enumerate();
    let read = |(index, value)| new_job(value, known).map_err(|wrong| wrong.within("jobs", index));
    each.map(read).collect()
}

pub(crate) fn batch(value: Value) -> Result<Vec<NewJob>, Problem> {
    new_jobs(Fields::of(value, &BATCH)?.required("jobs")?, &NEW_JOB)
}

/// What of a job is to change; what is absent stays.
pub(crate) struct JobPatch {
    pub(crate) params: Option<Value>,
    pub(crate) priority: Option<i64>,
    pub(crate) not_before: Option<Option<Timestamp>>,
}

pub(crate) fn job_patch(value: Value) -> Result<JobPatch, Problem> {
    let mut fields = Fields::of(value, &JOB_PATCH)?;
    Ok(JobPatch {
        params: fields.given::<Map<_, _>>("params")?.map(Value::Object),
        priority: fields.given("priority")?,
        not_before: fields.removable("not_before")?,
    })
}

pub(crate) fn place(value: Value) -> Result<Place, Problem> {
    let mut fields = Fields::of(value, &MOVE)?;
    let to = fields.word::<String>("to", &ENDS)?;
    match (to.as_deref(), fields.given("before")?, fields.given("after")?) {
        (Some("top"), None, None) => Ok(Place::Top),
        (Some(_), None, None) => Ok(Place::Bottom),
        (None, Some(other), None) => Ok(Place::Before(other)),
        (None, None, Some(other)) => Ok(Place::After(other)),
        _ => {
            let detail = "exactly one of `to`, `before` and `after` is expected";
            Err(Problem::not_allowed("one-of", detail))
        }
    }
}

pub(crate) fn template(value: Value) -> Result<TemplateSettings, Problem> {
    let mut fields = Fields::of(value, &TEMPLATE)?;
    Ok(TemplateSettings {
        name: fields.required("name")?,
        job_type: fields.required("job_type")?,
        params: Value::Object(fields.optional("params")?.unwrap_or_default()),
        priority: fields.optional("priority")?.unwrap_or_default(),
    })
}

pub(crate) fn template_patch(value: Value) -> Result<TemplatePatch, Problem> {
    let mut fields = Fields::of(value, &TEMPLATE)?;
    Ok(TemplatePatch {
        name: fields.given("name")?,
        job_type: fields.given("job_type")?,
        params: fields.given::<Map<_, _>>("params")?.map(Value::Object),
        priority: fields.given("priority")?,
    })
}

pub(crate) fn schedule(value: Value) -> Result<ScheduleSettings, Problem> {
    let mut fields = Fields::of(value, &SCHEDULE)?;
    Ok(ScheduleSettings {
        template_id: fields.required("template_id")?,
        name: fields.required("name")?,
        cron_expression: fields.required("cron_expression")?,
        timezone: fields.optional("timezone")?,
        enabled: fields.given("enabled")?.unwrap_or(true),
        param_overrides: fields.optional::<Map<_, _>>("param_overrides")?.map(Value::Object),
    })
}

pub(crate) fn schedule_patch(value: Value) -> Result<SchedulePatch, Problem> {
    let mut fields = Fields::of(value, &SCHEDULE)?;
    let overrides = fields.removable::<Map<_, _>>("param_overrides")?;
    Ok(SchedulePatch {
        template_id: fields.given("template_id")?,
        name: fields.given("name")?,
        cron_expression: fields.given("cron_expression")?,
        timezone: fields.removable("timezone")?,
        enabled: fields.given("enabled")?,
        param_overrides: overrides.map(|params| params.map(Value::Object)),
    })
}

/// A group that is to be made.
pub(crate) struct NewGroup {
    pub(crate) name: Option<String>,
    pub(crate) mode: GroupMode,
    pub(crate) on_failure: OnFailure,
    pub(crate) jobs: Vec<NewJob>,
}

pub(crate) fn group(value: Value) -> Result<NewGroup, Problem> {
    let mut fields = Fields::of(value, &GROUP)?;
    Ok(NewGroup {
        name: fields.optional("name")?,
        mode: fields.word("mode", &GROUP_MODES)?.unwrap_or(GroupMode::Parallel),
        on_failure: fields.word("on_failure", &FAILURE_MODES)?.unwrap_or(OnFailure::Stop),
        jobs: new_jobs(fields.required("jobs")?, &GROUP_JOB)?,
    })
}

pub(crate) fn direct(value: Value) -> Result<DirectRequest, Problem> {
    let mut fields = Fields::of(value, &DIRECT)?;
    let request = DirectRequest {
        job_type: fields.required("job_type")?,
        params: Value::Object(fields.optional("params")?.unwrap_or_default()),
        wait_ms: fields.given("wait_ms")?.unwrap_or(0),
        timeout_ms: fields.optional("timeout_ms")?,
        reserved_by: fields.given("reserved_by")?.unwrap_or(RESERVED_BY_DEFAULT.to_owned()),
    };
    range("wait_ms", request.wait_ms, 0, DIRECT_WAIT_MS_MAX)?;
    if let Some(timeout_ms) = request.timeout_ms {
        range("timeout_ms", timeout_ms, 1, DIRECT_TIMEOUT_MS_MAX)?;
    }
    Ok(request)
}

fn range(what: &'static str, value: i64, from: i64, to: i64) -> Result<(), Problem> {
    if (from..=to).contains(&value) {
        return Ok(());
    }
    Err(Invalid::OutOfRange { what, value, from, to }.into())
}

pub(crate) fn pause(value: Value) -> Result<(Option<String>, String), Problem> {
    let mut fields = Fields::of(value, &PAUSE)?;
    Ok((fields.optional("job_type")?, fields.required("reason")?))
}

pub(crate) fn resume(value: Value) -> Result<Option<String>, Problem> {
    Fields::of(value, &RESUME)?.optional("job_type")
}
