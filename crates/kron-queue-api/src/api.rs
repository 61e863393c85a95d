//! What every handler works with, and the two ways to the queue: writes are handed to the writer and
//! awaited, reads are done on threads that may block.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use kron_queue::{Change, Interest, Operation, Page, Queue, StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, broadcast, oneshot};

use crate::limits::{CHANGES_WAITING_MAX, READS_MAX, SUBSCRIBERS_MAX};
use crate::problem::Problem;
use crate::surface::Surface;

/// What every handler works with.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) surface: Surface,
    pub(crate) news: Arc<broadcast::Sender<Change>>,
    pub(crate) seats: Arc<Semaphore>,
    reads: Arc<Semaphore>,
}

impl Api {
    pub(crate) fn new(surface: Surface) -> Api {
        let news = Arc::new(broadcast::Sender::new(CHANGES_WAITING_MAX));
        let weak = Arc::downgrade(&news);
        // Sending never waits: whoever is too slow finds out how much it has missed.
        surface.queue.observe(move |changes| {
            let Some(news) = weak.upgrade() else { return Interest::Over };
            for change in changes {
                // It fails only when nobody listens.
                let _ = news.send(*change);
            }
            Interest::More
        });
        Api {
            surface,
            news,
            seats: Arc::new(Semaphore::new(SUBSCRIBERS_MAX)),
            reads: Arc::new(Semaphore::new(READS_MAX)),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.surface.clock.now()
    }

    /// Carries out an operation; it is done when this answers, also for whoever has gone away.
    pub(crate) async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, O::Error> {
        let (reply, answer) = oneshot::channel();
        self.surface.queue.submit(operation, move |result| drop(reply.send(result)));
        answer.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Reads the queue, or files beside it.
    pub(crate) async fn read<T, E>(
        &self,
        read: impl FnOnce(&Queue) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        let closed = || Problem::from(StoreError::Closed);
        let slot = Arc::clone(&self.reads).acquire_owned().await.map_err(|_| closed())?;
        let queue = self.surface.queue.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let answer = read(&queue);
            drop(slot);
            answer
        });
        reading.await.map_err(|_| closed())?.map_err(Into::into)
    }
}

/// A page as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageView<T> {
    /// The rows; there may be none and still a next page.
    pub items: Vec<T>,
    /// The cursor of the next page; null at the end.
    pub next: Option<String>,
}

impl<T> From<Page<T>> for PageView<T> {
    fn from(page: Page<T>) -> PageView<T> {
        let next = page.next.map(|cursor| cursor.as_str().to_owned());
        PageView { items: page.items, next }
    }
}

pub(crate) type Answer = Result<Response, Problem>;

pub(crate) fn ok(view: impl Serialize) -> Response {
    Json(view).into_response()
}

/// What was made, and where it is from now on.
pub(crate) fn created(place: &str, id: impl std::fmt::Display, view: impl Serialize) -> Response {
    let location = format!("{}/{place}/{id}", crate::PREFIX);
    (StatusCode::CREATED, [(axum::http::header::LOCATION, location)], Json(view)).into_response()
}
