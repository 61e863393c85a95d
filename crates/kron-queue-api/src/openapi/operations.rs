//! The operations: what each takes, and every answer it can give.

use kron_queue::limits::{
    GROUP_PAGE_ROWS_MAX, IDEMPOTENCY_KEY_BYTES_MAX, PAGE_ROWS_MAX, UPCOMING_MAX,
};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{ContentBuilder, Required, ResponseBuilder};

use super::parts::Null::Refused;
use super::parts::{
    Part, TEXT_PATTERN, bytes, free, id, job_type, number, page, reference, text, time, word,
};
use crate::handlers::files::OFFSET_MAX;
use crate::handlers::jobs::STATES;
use crate::handlers::queue::DELIVERY_STATUSES;
use crate::handlers::runs::{
    ARTIFACT_BYTES_HEADER, ARTIFACT_HASH_HEADER, LOG_ACTIVE_HEADER, LOG_BYTES_HEADER, STATUSES,
};
use crate::problem::PROBLEM_TYPE;

const JSON: &str = "application/json";

/// One operation, with the whole path.
pub(super) struct Documented {
    pub(super) path: String,
    pub(super) item: PathItem,
}

struct Operation {
    method: HttpMethod,
    path: &'static str,
    operation: OperationBuilder,
}

/// Starts an operation with the answers that every one has: the daemon's refusals to let somebody
/// in, and the store's trouble.
fn operation(
    method: HttpMethod,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Operation {
    let tag = path.split('/').nth(1).unwrap_or_default();
    let operation = OperationBuilder::new().operation_id(Some(id)).summary(Some(summary)).tag(tag);
    Operation { method, path, operation }.problems(&[401, 403, 503])
}

fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    operation(HttpMethod::Get, path, id, summary)
}

fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    operation(HttpMethod::Post, path, id, summary)
}

fn patch(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    operation(HttpMethod::Patch, path, id, summary)
}

fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    operation(HttpMethod::Delete, path, id, summary)
}

fn meaning(status: u16) -> &'static str {
    match status {
        400 => "the path, the query or the body cannot be read",
        401 => "nobody says who asks, or with a wrong token",
        403 => "whoever asks may not",
        404 => "there is no such thing",
        409 => "what is there is against it",
        413 => "the body is too large",
        415 => "the body is not JSON",
        422 => "what was sent is not allowed",
        429 => "too many streams are open",
        _ => "the store or the daemon cannot do it now",
    }
}

impl Operation {
    fn answer(
        mut self,
        status: u16,
        description: &str,
        content: Option<(&str, Part)>,
        headers: &[(&str, &str)],
    ) -> Operation {
        let mut response = ResponseBuilder::new().description(description);
        if let Some((media, schema)) = content {
            let content = ContentBuilder::new().schema(Some(schema)).build();
            response = response.content(media, content);
        }
        for (name, about) in headers {
            let header = HeaderBuilder::new().schema(bytes()).description(Some(*about)).build();
            response = response.header(*name, header);
        }
        self.operation = self.operation.response(status.to_string(), response.build());
        self
    }

    fn ok(self, schema: Part) -> Operation {
        self.answer(200, "as asked", Some((JSON, schema)), &[])
    }

    fn created(self, schema: Part) -> Operation {
        let location = [("Location", "where it is from now on")];
        self.answer(201, "it was made", Some((JSON, schema)), &location)
    }

    fn problems(self, statuses: &[u16]) -> Operation {
        statuses.iter().fold(self, |operation, status| {
            let retry: &[(&str, &str)] = match status {
                429 | 503 => &[("Retry-After", "seconds after which to try again")],
                _ => &[],
            };
            let problem = Some((PROBLEM_TYPE, reference("ProblemView")));
            operation.answer(*status, meaning(*status), problem, retry)
        })
    }

    /// A body, and everything that can be wrong with one.
    fn body(mut self, name: &str) -> Operation {
        let content = ContentBuilder::new().schema(Some(reference(name))).build();
        let body = RequestBodyBuilder::new().content(JSON, content).required(Some(Required::True));
        self.operation = self.operation.request_body(Some(body.build()));
        self.problems(&[400, 413, 415, 422])
    }

    fn parameter(mut self, place: ParameterIn, name: &str, schema: Part) -> Operation {
        let required = match place {
            ParameterIn::Path => Required::True,
            _ => Required::False,
        };
        let parameter = ParameterBuilder::new().parameter_in(place).name(name).required(required);
        self.operation = self.operation.parameter(parameter.schema(Some(schema)).build());
        self
    }

    /// An id in the path, which may be none, or nobody's.
    fn id(self, name: &str) -> Operation {
        self.parameter(ParameterIn::Path, name, id(Refused)).problems(&[400, 404])
    }

    fn query(self, name: &str, schema: Part) -> Operation {
        self.parameter(ParameterIn::Query, name, schema).problems(&[400])
    }

    fn paged(self, rows_max: usize, of: &str) -> Operation {
        let limit = number(1, i64::try_from(rows_max).unwrap_or(i64::MAX), Refused);
        self.query("cursor", bytes()).query("limit", limit).ok(page(of))
    }

    fn offset(self) -> Operation {
        let most = i64::try_from(OFFSET_MAX).unwrap_or(i64::MAX);
        self.query("offset", number(0, most, Refused))
    }

    fn done(self) -> Documented {
        let path = format!("{}{}", crate::PREFIX, self.path);
        Documented { path, item: PathItem::new(self.method, self.operation) }
    }
}

/// Every operation.
pub(super) fn all() -> Vec<Documented> {
    let all = [jobs(), runs(), definitions(), groups(), queue()];
    all.into_iter().flatten().map(Operation::done).collect()
}

fn jobs() -> Vec<Operation> {
    let job = || reference("Job");
    let key = text(Some(TEXT_PATTERN), IDEMPOTENCY_KEY_BYTES_MAX, Refused);
    vec![
        post("/jobs", "enqueue", "Enqueue a job")
            .parameter(ParameterIn::Header, "Idempotency-Key", key)
            .body("NewJob")
            .created(job())
            .answer(200, "it was there, under its key", Some((JSON, job())), &[])
            .problems(&[409]),
        post("/jobs/batch", "enqueueMany", "Enqueue many jobs, all or none")
            .body("NewJobs")
            .answer(201, "they are in the queue", Some((JSON, reference("BatchView"))), &[])
            .answer(
                200,
                "all were there, under their keys",
                Some((JSON, reference("BatchView"))),
                &[],
            )
            .problems(&[409]),
        get("/jobs", "jobs", "Jobs, by filters or in the order of dispatch")
            .query("state", word(&STATES))
            .query("job_type", job_type(Refused))
            .query("group_id", id(Refused))
            .query("schedule_id", id(Refused))
            .query("template_id", id(Refused))
            .query("order", word(&["queue"]))
            .paged(PAGE_ROWS_MAX, "Job"),
        get("/jobs/{job_id}", "job", "One job").id("job_id").ok(job()),
        patch("/jobs/{job_id}", "changeJob", "Change a queued job")
            .id("job_id")
            .body("JobPatch")
            .ok(job())
            .problems(&[409]),
        delete("/jobs/{job_id}", "cancelJob", "Cancel a job")
            .id("job_id")
            .answer(200, "it was queued, and is cancelled", Some((JSON, job())), &[])
            .answer(202, "it runs, and is to be ended", Some((JSON, job())), &[])
            .problems(&[409]),
        post("/jobs/{job_id}/move", "moveJob", "Move a queued job among its priority")
            .id("job_id")
            .body("Move")
            .ok(job())
            .problems(&[409]),
        post("/jobs/{job_id}/retry", "retryJob", "Repeat a job that has ended")
            .id("job_id")
            .created(job())
            .problems(&[409]),
        get("/jobs/{job_id}/runs", "runsOfJob", "The run of a job").id("job_id").ok(page("JobRun")),
        get("/jobs/{job_id}/chain", "chainOfJob", "A job's chain of retries, original first")
            .id("job_id")
            .paged(PAGE_ROWS_MAX, "Job"),
    ]
}

fn runs() -> Vec<Operation> {
    vec![
        get("/job-runs", "runs", "Runs, latest first")
            .query("status", word(&STATUSES))
            .query("job_type", job_type(Refused))
            .paged(PAGE_ROWS_MAX, "JobRun"),
        get("/job-runs/{run_id}", "run", "One run, with its progress")
            .id("run_id")
            .ok(reference("RunView")),
        post("/job-runs/{run_id}/retry", "retryRun", "Repeat the job of a run")
            .id("run_id")
            .created(reference("Job"))
            .problems(&[409]),
        get("/job-runs/{run_id}/log", "log", "A piece of a run's output")
            .id("run_id")
            .offset()
            .answer(
                200,
                "the output from the offset on, of bounded length",
                Some(("text/plain", bytes())),
                &[
                    (LOG_ACTIVE_HEADER, "whether the run goes on"),
                    (LOG_BYTES_HEADER, "how long the whole output is"),
                ],
            ),
        get("/job-runs/{run_id}/artifacts/{path}", "artifact", "A piece of what a run produced")
            .id("run_id")
            .parameter(ParameterIn::Path, "path", bytes())
            .offset()
            .answer(
                200,
                "the file from the offset on, of bounded length",
                Some(("application/octet-stream", bytes())),
                &[
                    (ARTIFACT_BYTES_HEADER, "how long the whole file is"),
                    (ARTIFACT_HASH_HEADER, "the SHA-256 of the whole file"),
                ],
            ),
    ]
}

fn definitions() -> Vec<Operation> {
    let (template, schedule) = (|| reference("Template"), || reference("Schedule"));
    let gone = |operation: Operation| operation.answer(204, "it is gone", None, &[]);
    let upcoming_max = i64::try_from(UPCOMING_MAX).unwrap_or(i64::MAX);
    vec![
        get("/job-templates", "templates", "Templates, oldest first")
            .paged(PAGE_ROWS_MAX - 1, "Template"),
        post("/job-templates", "createTemplate", "Make a template")
            .body("NewTemplate")
            .created(template())
            .problems(&[409]),
        get("/job-templates/{template_id}", "template", "One template")
            .id("template_id")
            .ok(template()),
        patch("/job-templates/{template_id}", "changeTemplate", "Change a template")
            .id("template_id")
            .body("TemplatePatch")
            .ok(template())
            .problems(&[409]),
        gone(
            delete("/job-templates/{template_id}", "deleteTemplate", "Delete a template")
                .id("template_id")
                .problems(&[409]),
        ),
        get("/schedules", "schedules", "Schedules, oldest first")
            .paged(PAGE_ROWS_MAX - 1, "Schedule"),
        post("/schedules", "createSchedule", "Make a schedule")
            .body("NewSchedule")
            .created(schedule())
            .problems(&[409]),
        get("/schedules/{schedule_id}", "schedule", "One schedule")
            .id("schedule_id")
            .ok(schedule()),
        patch("/schedules/{schedule_id}", "changeSchedule", "Change a schedule")
            .id("schedule_id")
            .body("SchedulePatch")
            .ok(schedule())
            .problems(&[409]),
        gone(
            delete("/schedules/{schedule_id}", "deleteSchedule", "Delete a schedule")
                .id("schedule_id"),
        ),
        get(
            "/schedules/{schedule_id}/outcomes",
            "outcomes",
            "What became of periods, latest first",
        )
        .id("schedule_id")
        .paged(PAGE_ROWS_MAX - 1, "PeriodRecord"),
        get("/schedules/{schedule_id}/next", "next", "What is decided about the next periods")
            .id("schedule_id")
            .query("count", number(1, upcoming_max, Refused))
            .query("after", time(Refused))
            .ok(page("Upcoming"))
            .problems(&[422]),
    ]
}

fn groups() -> Vec<Operation> {
    vec![
        post("/job-groups", "createGroup", "Make a group and enqueue its jobs")
            .body("NewGroup")
            .created(reference("NewGroupView")),
        get("/job-groups", "groups", "Groups, newest first").paged(GROUP_PAGE_ROWS_MAX, "Group"),
        get("/job-groups/{group_id}", "group", "One group and its members")
            .id("group_id")
            .ok(reference("GroupView")),
        delete("/job-groups/{group_id}", "cancelGroup", "Cancel what of a group has not ended")
            .id("group_id")
            .ok(reference("CancelledGroupView")),
    ]
}

fn queue() -> Vec<Operation> {
    vec![
        post("/direct", "direct", "Run a job at once and be answered with its end")
            .body("Direct")
            .ok(reference("DirectAnswer"))
            .problems(&[409]),
        get("/queue", "queue", "How the queue is doing").ok(reference("QueueView")),
        post("/queue/pause", "pause", "Pause the queue or a type")
            .body("NewPause")
            .ok(reference("PausesView")),
        post("/queue/resume", "resume", "Resume the queue or a type")
            .body("Resume")
            .ok(reference("PausesView"))
            .problems(&[409]),
        post("/queue/normalise", "normalise", "Assign the positions of queued jobs anew")
            .ok(reference("DoneView")),
        get("/webhook-deliveries", "deliveries", "Deliveries of webhooks, newest first")
            .query("status", word(&DELIVERY_STATUSES))
            .paged(PAGE_ROWS_MAX, "DeliveryRecord"),
        get("/events", "events", "Changes as they happen, as server-sent events")
            .answer(200, "a stream without end", Some(("text/event-stream", bytes())), &[])
            .problems(&[429]),
        get("/openapi.json", "openapi", "This document").ok(free()),
    ]
}
