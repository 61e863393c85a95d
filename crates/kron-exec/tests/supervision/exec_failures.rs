//! Commands that were released and cannot be executed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kron_exec::{LaunchError, Limit, Message, Plan, PlanError, Resource};
use kron_state::{ExitStatus, RunRecord};

use crate::gate::refused;
use crate::place::{Place, next, wait_for_end};
use crate::runner::{Case, NOTHING};

pub(crate) const CASES: &[Case] = &[
    ("exec_failures::each_is_told_with_its_cause", NOTHING, told),
    ("exec_failures::one_that_nobody_acknowledges_is_recorded", NOTHING, recorded),
    ("exec_failures::programs_are_searched_in_the_plans_path", NOTHING, searched),
    ("exec_failures::a_missing_directory_refuses_the_run", NOTHING, missing_directory),
    ("exec_failures::what_cannot_be_handed_over_is_not_launched", NOTHING, not_launched),
];

fn told() {
    let place = Place::new();
    let file = |name: &str, mode: u32, bytes: &[u8]| {
        let path = place.open.join(name);
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("a mode");
        path.display().to_string()
    };
    let no_rights = file("no-rights", 0o644, b"#!/bin/sh\n");
    let no_interpreter = file("no-interpreter", 0o755, b"#!/no/such/thing\n");
    let no_magic = file("no-magic", 0o755, b"echo hello\n");
    let directory = place.open.display().to_string();
    let rows: [(&str, i32, &str); 8] = [
        (
            "/no/such/program",
            2,
            "`/no/such/program`: could not execute it: No such file or directory (os error 2)",
        ),
        ("no-such-program", 2, "No such file or directory"),
        ("./relative", 2, "No such file or directory"),
        (&no_rights, 13, "Permission denied"),
        (&directory, 13, "Permission denied"),
        (&no_interpreter, 2, "(os error 2); the file is there, its interpreter is not"),
        (&no_magic, 8, "a script starts with `#!` and its interpreter"),
        (&format!("{no_magic}/below"), 20, "Not a directory"),
    ];
    for (program, errno, message) in rows {
        let mut plan = place.plan("");
        plan.argv[0] = program.to_owned();
        fails(&place, &plan, errno, message);
    }
    // More than a quarter of the stack, which the kernel does not pass on.
    let mut plan = place.plan("");
    plan.limits = vec![Limit { resource: Resource::StackSize, soft: Some(512 << 10), hard: None }];
    plan.env.extend((0..5).map(|index| (format!("BIG{index}"), "x".repeat(100_000))));
    fails(&place, &plan, 7, "Argument list too long");
}

fn fails(place: &Place, plan: &Plan, expected: i32, expected_message: &str) {
    let (supervisor, _) = place.arm(plan);
    supervisor.release().expect("released");
    match next(&supervisor) {
        Message::ExecFailed { stage, errno, message } => {
            assert_eq!((stage.as_str(), errno), ("exec", expected), "{message}");
            assert!(message.contains(expected_message), "{message:?} lacks {expected_message:?}");
        }
        other => panic!("{:?} did not fail: {other:?}", plan.argv),
    }
    supervisor.acknowledge().expect("acknowledged");
    assert_eq!(next(&supervisor), Message::Closed);
    wait_for_end(&supervisor);
    assert_eq!(place.record(), None);
    assert_eq!(place.executions(), 0);
    assert!(!place.log().exists(), "no log of what never ran");
}

fn recorded() {
    let place = Place::new();
    let mut plan = place.plan("");
    plan.argv[0] = "/no/such/program".to_owned();
    let (supervisor, _) = place.arm(&plan);
    supervisor.release().expect("released");
    // Gone before the failure could be told, or before it was acknowledged: both are recorded.
    drop(supervisor);
    crate::place::wait_for_everybody();
    match place.record() {
        Some(RunRecord::ExecFailed { stage, errno, message }) => {
            assert_eq!((stage.as_str(), errno), ("exec", 2));
            assert!(message.contains("/no/such/program"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

fn searched() {
    let place = Place::new();
    let program = |directory: &str, mode: u32, code: i32| {
        let directory = place.open.join(directory);
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("tool");
        fs::write(&path, format!("#!/bin/sh\nexit {code}\n")).expect("written");
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
        directory.display().to_string()
    };
    let (denied, first, second) =
        (program("denied", 0o644, 1), program("first", 0o755, 11), program("second", 0o755, 12));
    let plan = |path: String, cwd: &Path| {
        let mut plan = place.plan("");
        plan.argv = vec!["tool".to_owned()];
        plan.env = vec![("PATH".to_owned(), path)];
        plan.cwd = Some(cwd.to_owned());
        plan
    };
    let code = |path: String| match place.run(&plan(path, &place.open.join("first"))).status {
        ExitStatus::ExitCode(code) => {
            fs::remove_file(place.log()).expect("removed");
            code
        }
        ExitStatus::Signal(signal) => panic!("signal {signal}"),
    };
    assert_eq!(code(format!("/no/such:{denied}:{first}:{second}")), 11);
    assert_eq!(code(format!("{second}:{first}")), 12);
    // What is denied explains more than what is missing, and the directory it starts in does not
    // count.
    fails(&place, &plan(format!("{denied}:/no/such"), &place.open), 13, "Permission denied");
    fails(&place, &plan(".::first".to_owned(), Path::new(&first)), 2, "No such file or directory");
}

fn missing_directory() {
    let place = Place::new();
    let deleted = place.open.join("deleted");
    let mut plan = place.plan("");
    plan.cwd = Some(deleted);
    let supervisor = place.launch(&plan);
    refused(
        &next(&supervisor),
        "directory",
        "could not enter its directory: No such file or directory",
    );
    assert_eq!(next(&supervisor), Message::Closed);
    wait_for_end(&supervisor);
    assert_eq!(place.executions(), 0);
    assert_eq!(place.record(), None);
}

fn not_launched() {
    let mut place = Place::new();
    let mut plan = place.plan("");
    plan.argv.push("x".repeat(200_000));
    let error = place.launcher.launch(&plan).expect_err("too long an argument");
    assert!(matches!(error, LaunchError::Plan(PlanError::TooLong { bytes: 200_000, .. })));

    let mut plan = place.plan("");
    plan.stdin = Some("x".repeat(kron_exec::PLAN_BYTES_MAX));
    let error = place.launcher.launch(&plan).expect_err("too large a plan");
    assert!(matches!(error, LaunchError::PlanSize { .. }), "{error}");

    place.launcher.image = kron_exec::Image::At("/no/such/image".into());
    let error = place.launcher.launch(&place.plan("")).expect_err("no image");
    assert!(matches!(error, LaunchError::Spawn(_)), "{error}");
    crate::place::assert_nobody_left();
    assert_eq!(place.executions(), 0);
}
