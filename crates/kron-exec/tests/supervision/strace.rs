//! Supervisors under `strace`, which fails or kills them at a system call of our choice.

use std::path::PathBuf;

use crate::place::Place;

/// A place whose supervisors run under `strace` with these options. The tracer stays out of the
/// way: the supervisor itself is the process that is launched.
pub(crate) fn traced(options: &str) -> Place {
    Place::through(&script(options))
}

/// The same in fresh directories, with the same copy of the program.
pub(crate) fn traced_again(first: &Place, options: &str) -> Place {
    first.again(&script(options))
}

fn script(options: &str) -> String {
    format!("exec strace -D -q -o \"${{0%/*}}/trace\" {options} kron-supervisor")
}

/// Where the trace is written.
pub(crate) fn trace_file(place: &Place) -> PathBuf {
    place.root.path().join("bin/trace")
}
