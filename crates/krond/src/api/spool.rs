//! The spools' part of the API: what there is, and what only their holder can do.
//!
//! Tasks themselves are files, and are put and read as files. On the socket whoever may look may
//! look; what comes over a network sees nothing of it without the token.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use kron_spool::{RetryError, TaskId};
use tokio::sync::oneshot;

use super::access::Access;
use super::failure::Failure;
use super::handlers::order;
use super::view::{SpoolPurge, SpoolPurged, SpoolRetried, SpoolsView};
use crate::daemon::{Handle, SpoolShared};
use crate::log::told;
use crate::spool::keeper::{Old, Order};

/// The spools' paths.
pub(super) fn router() -> Router<Handle> {
    Router::new()
        .route("/", get(spools))
        .route("/{name}/tasks/{id}/retry", post(retry))
        .route("/{name}/purge", post(purge))
}

async fn spools(
    State(handle): State<Handle>,
    Extension(access): Extension<Access>,
) -> Result<Json<SpoolsView>, Failure> {
    if let Access::ReadFromNetwork(token) = &access {
        return Err((*token).refusal("the spools"));
    }
    let spools = handle.spools().all();
    Ok(Json(SpoolsView { spools: spools.iter().map(|spool| spool.view()).collect() }))
}

async fn retry(
    State(handle): State<Handle>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<SpoolRetried>, Failure> {
    let spool = find(&handle, &name)?;
    let id = TaskId::new(&id).map_err(|error| Failure::bad_request(error.to_string()))?;
    let (reply, answer) = oneshot::channel();
    if !spool.order(Order::Retry(id, reply)) {
        return Err(Failure::spool_closed(&spool.view()));
    }
    match answer.await {
        Ok(Ok(task)) => Ok(Json(SpoolRetried { task_id: task.id.to_string() })),
        Ok(Err(error)) => Err(match &error {
            RetryError::NotCompleted(_) => Failure::no_such_run(
                error.to_string(),
                format!("`kron spool ls --spool {name} --state completed` lists what is"),
            ),
            RetryError::Succeeded(_) | RetryError::Unfit { .. } => {
                Failure::conflict(error.to_string())
            }
            RetryError::Spool(cause) => Failure::unreadable(cause.category(), told(cause), None),
        }),
        Err(_) => Err(Failure::stopping()),
    }
}

async fn purge(
    State(handle): State<Handle>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<SpoolPurged>, Failure> {
    let wanted: SpoolPurge = order(body)?;
    let spool = find(&handle, &name)?;
    let (reply, answer) = oneshot::channel();
    let what = if wanted.rejected { Old::Rejected } else { Old::Completed };
    let purge = spool.older_than(wanted.older_than_s, what);
    if !spool.order(Order::Purge(purge, Some(reply))) {
        return Err(Failure::spool_closed(&spool.view()));
    }
    match answer.await {
        Ok(Ok(purged)) => Ok(Json(SpoolPurged {
            completed: purged.completed,
            rejected: purged.rejected,
            temporary: purged.temporary,
        })),
        Ok(Err(error)) => Err(Failure::unreadable(error.category(), told(&error), None)),
        Err(_) => Err(Failure::stopping()),
    }
}

fn find(handle: &Handle, name: &str) -> Result<Arc<SpoolShared>, Failure> {
    let spools = handle.spools().all();
    let found = spools.iter().find(|spool| spool.view().name == name);
    found.cloned().ok_or_else(|| {
        let names: Vec<String> = spools.iter().map(|spool| spool.view().name).collect();
        Failure::no_such_spool(name, &names)
    })
}
