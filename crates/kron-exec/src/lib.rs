//! Kron's process supervision: gated starts that outlive the daemon.
//!
//! Each run has a supervisor, a small process of its own that forks the command, prepares it up to
//! the very last step and holds it at a gate. The daemon records durably that the run is about to
//! start and only then releases it; when the daemon goes away first, the command is never
//! executed. When it goes away later, the supervisor sees the run to its end and records it. So
//! no crash of anything gives a second run or an unrecorded one.
//!
//! ```text
//! daemon                supervisor              command's process
//!   │ plan ───────────────►│ fork ────────────────►│ session, descriptors, limits,
//!   │                      │                       │ privileges, directory
//!   │◄────────────── Armed │◄──────────── ready    │ waits at the gate
//!   │ (durable record)     │                       │
//!   │ release ────────────►│ opens the gate ──────►│ execve
//!   │◄────────── Executing │◄─ pipe closes on exec │ …
//!   │◄────────────── Ended │◄──────────── exit     │
//!   │ acknowledge ────────►│ leaves
//! ```
//!
//! The daemon's side is [`launch`] and [`Supervisor`]. The supervisor's side is [`supervise`],
//! which every program that launches calls first thing in its `main` when [`is_supervisor`] says
//! so. This is the only crate with `unsafe` code: what happens between `fork` and `execve`, and a
//! few system calls that have no safe binding.
//!
//! Deliberately absent: knowledge of jobs, periods and schedules, whose names a supervisor is given
//! to tell them and nothing else; control groups; retries.

mod account;
mod launch;
mod log_line;
mod memory;
mod plan;
mod process;
mod supervisor;
mod synchronised;
mod wire;

pub use account::{
    Account, AccountError, PATH_DEFAULT, RESERVED_PREFIX, account, clean_environment,
};
pub use launch::{Image, LaunchError, Launcher, Supervisor, launch};
pub use log_line::{LogFormat, log_line};
pub use memory::{give_back_memory, keep_little_memory};
pub use plan::{
    ARGUMENT_BYTES_MAX, Credentials, GROUPS_MAX, Limit, Output, PLAN_BYTES_MAX, Plan, PlanError,
    Resource, TAG_BYTES_MAX,
};
pub use process::{Held, ProcessId, Signal, become_subreaper, boot_id, own_process, reap_children};
pub use supervisor::{is_supervisor, supervise};
pub use synchronised::clock_is_synchronised;
pub use wire::Message;

/// The name that a supervisor is executed under.
pub const SUPERVISOR_NAME: &str = "kron-supervisor";
