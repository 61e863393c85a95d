//! Supervisors, commands and what they leave, with real processes.
//!
//! This program is its own supervisor image, exactly as `krond` is, and so has a `main` of its
//! own. Each case runs in a process of its own that adopts every orphan below it: a case ends only
//! when everything it started is gone, and what is not gone fails it.
//!
//! Some cases need root, some need `strace`. Where it is missing they fail, unless the variable
//! `KRON_TEST_WITHOUT` says that it may be.
#![expect(
    clippy::disallowed_methods,
    reason = "tests read files, clocks and the environment to judge what the crate does with them"
)]

mod crash;
mod endings;
mod exec_failures;
mod gate;
mod identity;
mod output;
mod place;
mod privileges;
mod record;
mod runner;
mod strace;

use std::process::ExitCode;

fn main() -> ExitCode {
    if kron_exec::is_supervisor() {
        return kron_exec::supervise();
    }
    runner::main(
        &[
            crash::CASES,
            endings::CASES,
            exec_failures::CASES,
            gate::CASES,
            identity::CASES,
            output::CASES,
            privileges::CASES,
            record::CASES,
        ],
        &[crash::EVERY_CALL],
    )
}
