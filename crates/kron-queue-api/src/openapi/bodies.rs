//! The bodies that requests have.

use kron_queue::limits::{
    EXPRESSION_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, JOBS_PER_CALL_MAX, NAME_BYTES_MAX,
    REASON_BYTES_MAX,
};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{OneOfBuilder, RefOr, Schema};

use super::parts::Need::{May, Must};
use super::parts::Null::{Allowed, Refused};
use super::parts::{
    Need, Null, Part, TEXT_PATTERN, boolean, id, job_type, list, number, object, params, priority,
    reference, text, time, word,
};
use crate::bodies::{ENDS, FAILURE_MODES, GROUP_MODES};
use crate::limits::{DIRECT_TIMEOUT_MS_MAX, DIRECT_WAIT_MS_MAX};

fn name(null: Null) -> Part {
    text(Some(TEXT_PATTERN), NAME_BYTES_MAX, null)
}

fn expression() -> Part {
    text(Some(TEXT_PATTERN), EXPRESSION_BYTES_MAX, Refused)
}

/// One of the three ways to say where a job goes.
fn place() -> Part {
    let ways = OneOfBuilder::new()
        .item(object([("to", word(&ENDS), Must)]))
        .item(object([("before", id(Refused), Must)]))
        .item(object([("after", id(Refused), Must)]));
    RefOr::T(Schema::OneOf(ways.build()))
}

/// What a job and a member of a group may say.
fn job_fields(type_need: Need, template_need: Need) -> [(&'static str, Part, Need); 5] {
    let null = |need| if need == Must { Refused } else { Allowed };
    [
        ("job_type", job_type(null(type_need)), type_need),
        ("template_id", id(null(template_need)), template_need),
        ("params", params(Allowed), May),
        ("priority", priority(Allowed), May),
        ("not_before", time(Allowed), May),
    ]
}

/// A job has a type of its own, or its template's.
fn either(fields: impl Fn(Need, Need) -> Part) -> Part {
    let ways = AnyOfBuilder::new().item(fields(Must, May)).item(fields(May, Must));
    RefOr::T(Schema::AnyOf(ways.build()))
}

/// The bodies, by their names.
pub(super) fn all() -> Vec<(&'static str, Part)> {
    vec![
        (
            "NewJob",
            either(|type_need, template_need| {
                let key = text(Some(TEXT_PATTERN), IDEMPOTENCY_KEY_BYTES_MAX, Allowed);
                let [a, b, c, d, e] = job_fields(type_need, template_need);
                object([a, b, c, d, e, ("idempotency_key", key, May)])
            }),
        ),
        (
            "GroupJob",
            either(|type_need, template_need| object(job_fields(type_need, template_need))),
        ),
        ("NewJobs", object([("jobs", list(reference("NewJob"), JOBS_PER_CALL_MAX), Must)])),
        (
            "JobPatch",
            object([
                ("params", params(Refused), May),
                ("priority", priority(Refused), May),
                ("not_before", time(Allowed), May),
            ]),
        ),
        ("Move", place()),
        (
            "NewTemplate",
            object([
                ("name", name(Refused), Must),
                ("job_type", job_type(Refused), Must),
                ("params", params(Allowed), May),
                ("priority", priority(Allowed), May),
            ]),
        ),
        (
            "TemplatePatch",
            object([
                ("name", name(Refused), May),
                ("job_type", job_type(Refused), May),
                ("params", params(Refused), May),
                ("priority", priority(Refused), May),
            ]),
        ),
        (
            "NewSchedule",
            object([
                ("template_id", id(Refused), Must),
                ("name", name(Refused), Must),
                ("cron_expression", expression(), Must),
                ("timezone", name(Allowed), May),
                ("enabled", boolean(), May),
                ("param_overrides", params(Allowed), May),
            ]),
        ),
        (
            "SchedulePatch",
            object([
                ("template_id", id(Refused), May),
                ("name", name(Refused), May),
                ("cron_expression", expression(), May),
                ("timezone", name(Allowed), May),
                ("enabled", boolean(), May),
                ("param_overrides", params(Allowed), May),
            ]),
        ),
        (
            "NewGroup",
            object([
                ("name", name(Allowed), May),
                ("mode", word(&GROUP_MODES), May),
                ("on_failure", word(&FAILURE_MODES), May),
                ("jobs", list(reference("GroupJob"), JOBS_PER_CALL_MAX), Must),
            ]),
        ),
        (
            "Direct",
            object([
                ("job_type", job_type(Refused), Must),
                ("params", params(Allowed), May),
                ("wait_ms", number(0, DIRECT_WAIT_MS_MAX, Refused), May),
                ("timeout_ms", number(1, DIRECT_TIMEOUT_MS_MAX, Allowed), May),
                ("reserved_by", name(Refused), May),
            ]),
        ),
        (
            "NewPause",
            object([
                ("job_type", job_type(Allowed), May),
                ("reason", text(Some(TEXT_PATTERN), REASON_BYTES_MAX, Refused), Must),
            ]),
        ),
        ("Resume", object([("job_type", job_type(Allowed), May)])),
    ]
}
