//! The command `kron-operator`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kron_operator::main_with(std::env::args_os())
}
