//! Templates and schedules.

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse as _;
use kron_core::UtcSecond;
use kron_queue::limits::{PAGE_ROWS_MAX, UPCOMING_MAX};
use kron_queue::{
    CreateSchedule, CreateTemplate, DefinitionError, DeleteSchedule, DeleteTemplate, PatchSchedule,
    PatchTemplate, ScheduleId, TemplateId, Timestamp,
};

use crate::api::{Answer, Api, PageView, created, ok};
use crate::bodies;
use crate::fields::id;
use crate::json::body;
use crate::limits::{BODY_BYTES_MAX, UPCOMING_DEFAULT};
use crate::problem::{Problem, excerpt};
use crate::query::{Id, Query};

/// A page of a list whose cursors are the keys of its rows.
fn page<T>(mut rows: Vec<T>, limit: usize, key: impl Fn(&T) -> String) -> PageView<T> {
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(key);
    PageView { items: rows, next }
}

fn bad_cursor(text: &str) -> Problem {
    let detail = format!("`{}` is not a cursor of this list; begin without one", excerpt(text));
    Problem::malformed("bad-cursor", detail).field("cursor")
}

fn after<T: std::str::FromStr>(query: &Query) -> Result<Option<T>, Problem> {
    query.text("cursor").map(|text| id(text).ok_or_else(|| bad_cursor(text))).transpose()
}

/// One row more than the page has says whether there is a next one; the library's own limit is
/// therefore one more than ours.
const ROWS_MAX: usize = PAGE_ROWS_MAX - 1;

pub(crate) async fn templates(State(api): State<Api>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &["cursor", "limit"])?;
    let (after, limit) = (after::<TemplateId>(&query)?, query.limit(ROWS_MAX)?);
    let rows = api.read(move |queue| queue.templates(after, limit + 1)).await?;
    Ok(ok(page(rows, limit, |template| template.template_id.to_string())))
}

pub(crate) async fn create_template(State(api): State<Api>, request: Request) -> Answer {
    let settings = bodies::template(body(request, BODY_BYTES_MAX).await?)?;
    let template = api.write(CreateTemplate { settings, now: api.now() }).await?;
    Ok(created("job-templates", template.template_id, template))
}

pub(crate) async fn template(State(api): State<Api>, Id(id): Id<TemplateId>) -> Answer {
    let template = api.read(move |queue| queue.template(id)).await?;
    Ok(ok(template.ok_or(DefinitionError::NoTemplate(id))?))
}

pub(crate) async fn change_template(
    State(api): State<Api>,
    Id(template_id): Id<TemplateId>,
    request: Request,
) -> Answer {
    let patch = bodies::template_patch(body(request, BODY_BYTES_MAX).await?)?;
    Ok(ok(api.write(PatchTemplate { template_id, patch, now: api.now() }).await?))
}

pub(crate) async fn delete_template(
    State(api): State<Api>,
    Id(template_id): Id<TemplateId>,
) -> Answer {
    api.write(DeleteTemplate { template_id, now: api.now() }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(crate) async fn schedules(State(api): State<Api>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &["cursor", "limit"])?;
    let (after, limit) = (after::<ScheduleId>(&query)?, query.limit(ROWS_MAX)?);
    let rows = api.read(move |queue| queue.schedules(after, limit + 1)).await?;
    Ok(ok(page(rows, limit, |schedule| schedule.schedule_id.to_string())))
}

/// The template is named in the body, not in the path.
fn refused(error: DefinitionError) -> Problem {
    let of_body = matches!(error, DefinitionError::NoTemplate(_));
    let problem = Problem::from(error);
    if of_body { problem.of_body("template_id") } else { problem }
}

pub(crate) async fn create_schedule(State(api): State<Api>, request: Request) -> Answer {
    let settings = bodies::schedule(body(request, BODY_BYTES_MAX).await?)?;
    let made = api.write(CreateSchedule { settings, now: api.now() }).await;
    let schedule = made.map_err(refused)?;
    Ok(created("schedules", schedule.schedule_id, schedule))
}

pub(crate) async fn schedule(State(api): State<Api>, Id(id): Id<ScheduleId>) -> Answer {
    let schedule = api.read(move |queue| queue.schedule(id)).await?;
    Ok(ok(schedule.ok_or(DefinitionError::NoSchedule(id))?))
}

pub(crate) async fn change_schedule(
    State(api): State<Api>,
    Id(schedule_id): Id<ScheduleId>,
    request: Request,
) -> Answer {
    let patch = bodies::schedule_patch(body(request, BODY_BYTES_MAX).await?)?;
    let changed = api.write(PatchSchedule { schedule_id, patch, now: api.now() }).await;
    Ok(ok(changed.map_err(refused)?))
}

pub(crate) async fn delete_schedule(
    State(api): State<Api>,
    Id(schedule_id): Id<ScheduleId>,
) -> Answer {
    api.write(DeleteSchedule { schedule_id, now: api.now() }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(crate) async fn outcomes(State(api): State<Api>, Id(id): Id<ScheduleId>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &["cursor", "limit"])?;
    let before = query
        .text("cursor")
        .map(|text| UtcSecond::parse(text).map_err(|_| bad_cursor(text)))
        .transpose()?;
    let limit = query.limit(ROWS_MAX)?;
    let rows = api
        .read(move |queue| {
            queue.schedule(id)?.ok_or(DefinitionError::NoSchedule(id))?;
            Ok::<_, DefinitionError>(queue.outcomes(id, before, limit + 1)?)
        })
        .await?;
    Ok(ok(page(rows, limit, |record| record.first_period.to_string())))
}

pub(crate) async fn next(State(api): State<Api>, Id(id): Id<ScheduleId>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &["count", "after"])?;
    let count = query.number("count", 1, UPCOMING_MAX as u64)?;
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(UPCOMING_DEFAULT);
    let wrong = |text: &str| {
        let shown = excerpt(text);
        let detail = format!("`after` is `{shown}`; a timestamp with an offset is expected");
        Problem::malformed("bad-timestamp", detail).field("after")
    };
    let after = query.text("after").map(|text| text.parse::<Timestamp>().map_err(|_| wrong(text)));
    let after = after.transpose()?.unwrap_or_else(|| api.now());
    let upcoming = api.read(move |queue| queue.upcoming(id, after, count)).await?;
    Ok(ok(PageView { items: upcoming, next: None }))
}
