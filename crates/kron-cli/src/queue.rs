//! What the commands about the queue share: finding what people mean, bodies of requests, pages of
//! lists, words and tables. Each command itself is a file under `command/queue`.

pub(crate) mod board;
pub(crate) mod body;
pub(crate) mod ids;
pub(crate) mod input;
pub(crate) mod lookup;
pub(crate) mod pages;
pub(crate) mod waiting;
pub(crate) mod words;
