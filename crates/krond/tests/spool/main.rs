//! Spools inside krond: the binary, real processes, real directories.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../daemon/harness.rs"]
#[expect(dead_code, reason = "shared with other tests, which use all of it")]
mod harness;
#[path = "../faults/needs.rs"]
#[expect(dead_code, reason = "shared with other tests, which use all of it")]
mod needs;

mod again;
mod arriving;
mod full_disk;
mod making;
mod recovery;
mod reload;
mod running;
mod site;
mod starting;
mod surface;
mod wrong;
