//! Long answers, made while they are sent.
//!
//! A list of a hundred thousand jobs is never one text in memory: its pieces are made as the client
//! takes them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body as HttpBody, Frame};
use serde::Serialize;

/// The bytes after which a piece is handed on.
const PIECE_BYTES: usize = 64 * 1024;

/// `{"<key>":[…]}`, each element made when it is needed.
pub(super) fn list<T, I>(key: &'static str, elements: I) -> Response
where
    T: Serialize,
    I: Iterator<Item = T> + Send + Unpin + 'static,
{
    let body = Body::new(List { key, elements, stage: Stage::Begin });
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

struct List<I> {
    key: &'static str,
    elements: I,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    First,
    Rest,
    Over,
}

impl<T: Serialize, I: Iterator<Item = T>> List<I> {
    /// The next piece; `None` when there is no more.
    fn piece(&mut self) -> Option<Vec<u8>> {
        if self.stage == Stage::Over {
            return None;
        }
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        if self.stage == Stage::Begin {
            piece.extend_from_slice(format!("{{\"{}\":[", self.key).as_bytes());
            self.stage = Stage::First;
        }
        while piece.len() < PIECE_BYTES {
            let Some(element) = self.elements.next() else {
                piece.extend_from_slice(b"]}");
                self.stage = Stage::Over;
                return Some(piece);
            };
            if self.stage == Stage::Rest {
                piece.push(b',');
            }
            self.stage = Stage::Rest;
            let before = piece.len();
            // Plain data always has a text. If that were ever wrong the list would still be JSON.
            if serde_json::to_writer(&mut piece, &element).is_err() {
                piece.truncate(before);
                piece.extend_from_slice(b"null");
            }
        }
        Some(piece)
    }
}

impl<T: Serialize, I: Iterator<Item = T> + Unpin> HttpBody for List<I> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.piece().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(count: u64) -> (serde_json::Value, usize) {
        let mut list = List { key: "jobs", elements: 0..count, stage: Stage::Begin };
        let pieces: Vec<Vec<u8>> = std::iter::from_fn(|| list.piece()).collect();
        assert!(pieces.iter().all(|piece| piece.len() < PIECE_BYTES + 100));
        (serde_json::from_slice(&pieces.concat()).unwrap(), pieces.len())
    }

    #[test]
    fn the_pieces_make_one_object() {
        for count in [0, 1, 2, 100_000] {
            let (value, pieces) = whole(count);
            let expected: Vec<u64> = (0..count).collect();
            assert_eq!(value, serde_json::json!({ "jobs": expected }));
            assert_eq!(pieces > 1, count == 100_000, "{count}");
        }
    }
}
