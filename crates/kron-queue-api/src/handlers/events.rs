//! News of changes, as server-sent events.
//!
//! A stream begins with now; there is no memory of what was before it. A reader that is too slow is
//! told how many changes it has missed, and reads what it needs to know; the writer never waits for
//! it. There are at most [`SUBSCRIBERS_MAX`] streams.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use kron_queue::Change;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::api::{Answer, Api};
use crate::limits::{EVENTS_RETRY_MS, HEARTBEAT_MS, SUBSCRIBERS_MAX};
use crate::problem::Problem;

pub(crate) async fn stream(State(api): State<Api>) -> Answer {
    let Ok(seat) = Arc::clone(&api.seats).try_acquire_owned() else {
        let detail = format!("{SUBSCRIBERS_MAX} streams of events are open already");
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-streams", detail));
    };
    let news = api.news.subscribe();
    let hello = Event::default().retry(Duration::from_millis(EVENTS_RETRY_MS)).comment("hello");
    // The seat goes with the stream, and is free when the reader has gone.
    let events = futures_util::stream::unfold(
        (news, seat, Some(hello)),
        |(mut news, seat, hello)| async move {
            let event = match hello {
                Some(hello) => hello,
                None => match news.recv().await {
                    Ok(change) => event(change),
                    Err(RecvError::Lagged(missed)) => {
                        named("lagged", &json!({"change": "lagged", "missed": missed}))
                    }
                    Err(RecvError::Closed) => return None,
                },
            };
            Some((Ok::<Event, Infallible>(event), (news, seat, None)))
        },
    );
    let heartbeat = KeepAlive::new().interval(Duration::from_millis(HEARTBEAT_MS)).text("alive");
    Ok(Sse::new(events).keep_alive(heartbeat).into_response())
}

fn event(change: Change) -> Event {
    // It has no key that is not a text, so that it can always be written.
    let value = serde_json::to_value(change).unwrap_or(Value::Null);
    let name = value.get("change").and_then(Value::as_str).unwrap_or("change").to_owned();
    named(&name, &value)
}

fn named(name: &str, value: &Value) -> Event {
    Event::default().event(name).data(value.to_string())
}
