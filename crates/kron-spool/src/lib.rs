//! Kron's file spool: tasks as files, at least once, none lost.
//!
//! A task is one JSON file in one of three directories, which say what has become of it:
//!
//! ```text
//! <dir>/tasks/pending/<task-id>.json      waits
//! <dir>/tasks/running/<task-id>.json      was started
//! <dir>/tasks/completed/<task-id>.json    has ended for good, with its result
//! <dir>/rejected/<name>, <name>.report    could not be a task, and why
//! ```
//!
//! Whoever renames a complete file into `pending/` is a producer; [`Spool::put`] is the comfortable
//! way. A task goes from one directory to another by one procedure: write a temporary file where it
//! goes, sync it, rename it, sync both directories, and delete the old file. Whatever stops that
//! leaves the task in one directory or in two, never in none; [`Spool::recover`] says which of two
//! counts.
//!
//! This crate is the directories and their rules, and nothing else: it starts no process, asks for
//! no time, and watches nothing. [`RetryPolicy::after`] says what follows from the end of a run. One
//! process at a time changes anything but `pending/`: the holder of [`SpoolLock`].

mod error;
mod id;
mod left;
mod list;
mod look;
mod open;
mod policy;
mod purge;
mod put;
mod recovery;
mod reject;
mod steps;
mod task;
mod transition;

pub use error::{Fault, SpoolError};
pub use id::{IdError, IdSource, TaskId, scheduled_id};
pub use list::Counts;
pub use look::{Found, Look, Repeat};
pub use open::{Spool, SpoolLock};
pub use policy::{Next, RetryPolicy};
pub use purge::{Purged, RetryError};
pub use put::{NewTask, Put, PutError};
pub use recovery::{Fate, Recovered};
pub use reject::{Report, SetAside};
pub use task::{
    OUTPUT_BYTES_MAX, Outcome, Payload, Run, State, TASK_BYTES_MAX, TASK_DEPTH_MAX, Task,
    TaskResult, check_type, compact,
};
pub use transition::{Finish, Start};
