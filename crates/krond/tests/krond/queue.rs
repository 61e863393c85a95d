//! The queue inside krond: the binary, real processes, a real database, real sockets.

mod direct;
mod endpoint;
mod making;
mod recovery;
mod running;
mod site;
mod surface;
mod told;
pub(crate) mod web;
