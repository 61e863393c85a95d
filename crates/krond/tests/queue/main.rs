//! The queue inside krond: the binary, real processes, a real database, real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../daemon/harness.rs"]
#[expect(dead_code, reason = "shared with other tests, which use all of it")]
mod harness;

mod direct;
mod endpoint;
mod making;
mod recovery;
mod running;
mod site;
mod surface;
mod told;
mod web;
