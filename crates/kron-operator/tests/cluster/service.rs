//! Control planes that the tests of several processes share.
//!
//! A runner that gives every test a process of its own would start two control planes per test. So
//! one process, which `tests/control-plane/serve DIRECTORY` starts, runs both planes and the
//! operator of the shared one, and describes them in a file of that directory. A test that finds
//! the directory in [`VARIABLE`] uses these; without the variable it starts its own, as plain
//! `cargo test` does.
//!
//! The service lives until its standard input ends, and nothing that it started outlives it,
//! however it ends: see [`crate::process`].

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::control_plane::{ControlPlane, Site};
use crate::process::read;
use crate::scene::{SharedOperator, start_shared_operator};

/// Names the directory of a running service.
const VARIABLE: &str = "KRON_TEST_CONTROL_PLANES";
/// The file in it that describes what is served. It is complete as soon as it exists.
const DESCRIPTION: &str = "planes.json";

/// What a service has started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) shared: Site,
    pub(crate) quiet: Site,
    pub(crate) operator: SharedOperator,
}

/// What the service serves that this process is to use; `None` when there is no service.
pub(crate) fn served() -> Option<&'static Served> {
    static SERVED: OnceLock<Option<Served>> = OnceLock::new();
    let served = SERVED.get_or_init(|| {
        let file = directory()?.join(DESCRIPTION);
        let served = serde_json::from_str(&read(&file));
        Some(served.unwrap_or_else(|error| panic!("{VARIABLE}: `{}`: {error}", file.display())))
    });
    served.as_ref()
}

fn directory() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

/// Says on standard output that everything is ready, and ends with its standard input.
#[test]
#[ignore = "`tests/control-plane/serve` starts it"]
fn serves_until_its_input_ends() {
    let directory = directory().expect("a directory to describe the planes in");
    let description = directory.join(DESCRIPTION);
    assert!(!description.exists(), "`{}` is served already", directory.display());
    let (shared, quiet) = std::thread::scope(|scope| {
        let quiet = scope.spawn(ControlPlane::for_all);
        (ControlPlane::for_all(), quiet.join().unwrap())
    });
    let operator = start_shared_operator(&shared);
    let served = Served {
        shared: shared.site().clone(),
        quiet: quiet.site().clone(),
        operator: SharedOperator::of(&operator),
    };
    write_at_once(&description, &serde_json::to_string(&served).unwrap());
    let mut out = std::io::stdout();
    // With one test thread, as on one core, the line has the name of this test already.
    out.write_all(b"\nready\n").and_then(|()| out.flush()).unwrap();
    let mut input = std::io::stdin();
    while input.read(&mut [0; 64]).unwrap() > 0 {}
    std::fs::remove_file(&description).unwrap();
}

/// Renamed, so that no process reads half of it.
fn write_at_once(file: &Path, text: &str) {
    let unfinished = file.with_extension("unfinished");
    std::fs::write(&unfinished, text).unwrap();
    std::fs::rename(unfinished, file).unwrap();
}
