//! Groups of jobs.

use axum::extract::{Request, State};
use axum::http::Uri;
use kron_queue::limits::GROUP_PAGE_ROWS_MAX;
use kron_queue::{CancelGroup, CreateGroup, Group, GroupError, GroupId, GroupMember, Job};
use serde::{Deserialize, Serialize};

use crate::api::{Answer, Api, PageView, created, ok};
use crate::bodies;
use crate::json::body;
use crate::limits::BATCH_BYTES_MAX;
use crate::query::{Id, Query};

/// A group and its members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GroupView {
    /// The group.
    #[serde(flatten)]
    pub group: Group,
    /// Its members in order, each by the last job of its chain of retries.
    pub members: Vec<GroupMember>,
}

/// A group that was made, and its jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewGroupView {
    /// The group.
    #[serde(flatten)]
    pub group: Group,
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
}

/// A group that was cancelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CancelledGroupView {
    /// The group.
    #[serde(flatten)]
    pub group: Group,
    /// Jobs that were queued and are cancelled.
    pub cancelled: u32,
    /// Jobs that run and are to be ended.
    pub requested: u32,
}

pub(crate) async fn create(State(api): State<Api>, request: Request) -> Answer {
    let bodies::NewGroup { name, mode, on_failure, jobs } =
        bodies::group(body(request, BATCH_BYTES_MAX).await?)?;
    let made = api.write(CreateGroup { name, mode, on_failure, jobs, now: api.now() }).await?;
    let (group, jobs) = made;
    Ok(created("job-groups", group.group_id, NewGroupView { group, jobs }))
}

pub(crate) async fn list(State(api): State<Api>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &["cursor", "limit"])?;
    let (cursor, limit) = (query.cursor(), query.limit(GROUP_PAGE_ROWS_MAX)?);
    let page = api.read(move |queue| queue.groups(cursor.as_ref(), limit)).await?;
    Ok(ok(PageView::from(page)))
}

pub(crate) async fn show(State(api): State<Api>, Id(id): Id<GroupId>) -> Answer {
    let found = api.read(move |queue| queue.group_members(id)).await?;
    let (group, members) = found.ok_or(GroupError::NoGroup(id))?;
    Ok(ok(GroupView { group, members }))
}

pub(crate) async fn cancel(State(api): State<Api>, Id(group_id): Id<GroupId>) -> Answer {
    let done = api.write(CancelGroup { group_id, now: api.now() }).await?;
    let (cancelled, requested) = (done.cancelled, done.requested);
    Ok(ok(CancelledGroupView { group: done.group, cancelled, requested }))
}
