//! What the tests of several crates share. It is a dev-dependency and never part of a program.
//!
//! | module | what it is |
//! |---|---|
//! | [`needs`] | what a test needs of the machine, and the report of tests that were left out |
//! | [`chance`] | random numbers from a seed, and numbers from the environment |
//! | [`effort`] | bounds of processor time |
//! | [`waiting`] | waiting for a condition, and the clocks that tests of real time read |
//! | [`files`] | small files and directories of a test's own |
//! | [`programs`] | programs that a test cannot do without |
//! | [`process`] | processes and threads as the kernel shows them |
//! | [`strace`] | a tracer that stops or kills a process at a system call |
//! | [`loop_mount`] | an ext4 that loses its power |
//! | [`tmpfs_mount`] | a file system in memory that is soon full |
//! | [`krond`] | a real daemon over a directory of its own |
//!
//! It knows the daemon by its program and its files only and shares no code with what it tests:
//! the one crate of Kron that it depends on is the core, for the text of a time.
//!
//! A function here panics where a test cannot go on.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod chance;
pub mod effort;
pub mod files;
pub mod krond;
pub mod loop_mount;
mod mount_namespace;
pub mod needs;
pub mod process;
pub mod programs;
pub mod strace;
pub mod tmpfs_mount;
pub mod waiting;
