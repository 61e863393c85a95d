//! Privileges, seen from inside the command, and every way of not getting rid of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use kron_exec::{Credentials, Limit, Message, Output, Plan, Resource, account, clean_environment};
use kron_state::ExitStatus;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::gate::refused;
use crate::place::{NOBODY, Place, next, wait_for_end};
use crate::runner::{Case, NOTHING, ROOT, ROOT_AND_STRACE};
use crate::strace::traced;

const LYING_STEPS: &str =
    "privileges::any_step_that_only_seems_to_work_keeps_the_command_from_executing";

pub(crate) const CASES: &[Case] = &[
    ("privileges::everything_is_as_planned_inside_the_command", ROOT, inside),
    (
        "privileges::any_step_that_fails_keeps_the_command_from_executing",
        ROOT_AND_STRACE,
        failing_steps,
    ),
    (LYING_STEPS, ROOT_AND_STRACE, lying_steps),
    ("privileges::the_same_in_a_container", ROOT_AND_STRACE, lying_steps_in_a_container),
    ("privileges::root_stays_root_when_asked", ROOT, root),
    ("privileges::without_the_right_to_change_users_the_run_is_refused", ROOT, not_permitted),
    ("privileges::without_credentials_the_command_is_the_daemons_user", ROOT, own_user),
    ("privileges::a_directory_is_entered_as_the_user", ROOT, directory_as_user),
    ("privileges::a_program_is_executed_as_the_user", ROOT, program_as_user),
    ("privileges::accounts_are_looked_up_with_all_their_groups", NOTHING, accounts),
    ("privileges::environments_are_clean", NOTHING, environment),
];

fn nobody() -> Credentials {
    Credentials { uid: NOBODY, gid: NOBODY, groups: vec![24, 4, NOBODY] }
}

/// Inheritable capabilities survive a change of user: the daemon has some, the command must not.
fn gain_inheritable() {
    let sets = rustix::thread::capabilities(None).expect("capabilities");
    let inheritable = CapabilitySet::KILL | CapabilitySet::SETUID;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable, ..sets }).expect("root");
}

fn inside() {
    gain_inheritable();
    // Things that a careless daemon would pass on: a descriptor, ignored signals, variables.
    let place = Place::through(
        "exec 7< /etc/passwd; trap '' HUP INT USR1 TERM CHLD; export LEAKED=1; exec kron-supervisor",
    );
    let script = "cat /proc/self/status; echo; stat=$(cat /proc/$$/stat); echo \"stat ${stat##*) }\"
        echo pid $$; echo cwd $(pwd -P); printf \"fds \"; ls -m /proc/$$/fd; echo env $(tr '\\0' ' ' < /proc/$$/environ)
        echo nofile $(ulimit -S -n) $(ulimit -H -n); echo core $(ulimit -c); echo stdin $(readlink /proc/$$/fd/0)
        echo reopened stdout > /dev/stdout; echo reopened-too stderr > /dev/stderr
        touch created; echo created $(stat -c '%a %u %g' created)";
    let env = [("PATH", "/usr/bin:/bin"), ("A", "1"), ("EMPTY", "")];
    let plan = Plan {
        credentials: Some(nobody()),
        no_new_privileges: true,
        cwd: Some(place.open.clone()),
        umask: 0o027,
        nice: Some(5),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        limits: vec![
            Limit { resource: Resource::OpenFiles, soft: Some(123), hard: Some(456) },
            Limit { resource: Resource::CoreSize, soft: Some(0), hard: None },
        ],
        ..place.plan(script)
    };
    assert_eq!(place.run(&plan).status, ExitStatus::ExitCode(0));
    let text = place.logged();
    let found: BTreeMap<&str, String> = text
        .lines()
        .filter_map(|line| line.split_once([':', ' ']))
        .map(|(key, value)| (key, value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")))
        .collect();
    let id = NOBODY.to_string();
    let ids = [id.as_str(); 4].join(" ");
    let cwd = place.open.canonicalize().expect("a path").display().to_string();
    let none = "0000000000000000";
    let rows = [
        ("Uid", ids.as_str()),
        ("Gid", &ids),
        ("Groups", "4 24 65534"),
        ("CapInh", none),
        ("CapPrm", none),
        ("CapEff", none),
        ("CapAmb", none),
        ("NoNewPrivs", "1"),
        ("Umask", "0027"),
        ("SigBlk", none),
        ("SigIgn", none),
        ("SigCgt", none),
        ("cwd", &cwd),
        ("fds", "0, 1, 2"),
        ("env", "PATH=/usr/bin:/bin A=1 EMPTY="),
        ("nofile", "123 456"),
        ("core", "0"),
        ("stdin", "/dev/null"),
        ("created", "640 65534 65534"),
        ("reopened", "stdout"),
        ("reopened-too", "stderr"),
    ];
    for (key, value) in rows {
        assert_eq!(found.get(key).map(String::as_str), Some(value), "{key} in:\n{text}");
    }
    let pid = found["pid"].as_str();
    let stat: Vec<&str> = found["stat"].split(' ').collect();
    // State, parent, group, session, terminal; later the nice value.
    assert_eq!((stat[2], stat[3], stat[4]), (pid, pid, "0"), "{text}");
    assert_eq!(stat[16], "5", "nice in:\n{text}");
}

/// A plan that takes every step there is.
fn every_step(place: &Place) -> Plan {
    Plan {
        credentials: Some(nobody()),
        no_new_privileges: true,
        cwd: Some(place.open.clone()),
        nice: Some(1),
        limits: vec![Limit { resource: Resource::CoreSize, soft: Some(0), hard: Some(0) }],
        output: Output::Discard,
        ..place.plan("")
    }
}

/// Runs that plan with something injected; the command must not be executed.
fn check(options: &str, stage: &str, message: &str) {
    let place = traced(options);
    let supervisor = place.launch(&every_step(&place));
    let report = next(&supervisor);
    assert!(matches!(report, Message::Refused { .. }), "{options}: {report:?}");
    refused(&report, stage, message);
    assert_eq!(next(&supervisor), Message::Closed);
    wait_for_end(&supervisor);
    crate::place::wait_for_everybody();
    assert_eq!(place.executions(), 0, "{options}");
}

fn failing_steps() {
    gain_inheritable();
    // Numbers count the calls of each process for itself; the supervisor makes some calls too,
    // and fails as early.
    let rows = [
        ("-f -e inject=setgroups:error=EPERM", "groups", "could not set its supplementary groups"),
        ("-f -e inject=setresgid:error=EPERM", "group", "could not set its group"),
        ("-f -e inject=setresuid:error=EAGAIN", "user", "could not set its user"),
        ("-f -e inject=capset:error=EPERM", "capabilities", "could not drop its capabilities"),
        ("-f -e inject=capget:error=EPERM", "verification", "could not verify that its privileges"),
        (
            "-f -e inject=getresuid:error=EPERM",
            "verification",
            "could not verify that its privileges",
        ),
        (
            "-f -e inject=getresgid:error=EPERM",
            "verification",
            "could not verify that its privileges",
        ),
        (
            "-f -e inject=getgroups:error=EPERM",
            "verification",
            "could not verify that its privileges",
        ),
        ("-f -e inject=setsid:error=EPERM", "session", "could not start a session"),
        ("-f -e inject=setpriority:error=EACCES", "priority", "could not set its priority"),
        ("-f -e inject=prlimit64:error=EPERM", "limits", "could not set its resource limits"),
        ("-f -e inject=?dup2,dup3:error=EBUSY", "descriptors", "could not set up its descriptors"),
        (
            "-f -e inject=close_range:error=EPERM:when=1",
            "supervisor",
            "could not become a supervisor",
        ),
        (
            "-f -e inject=close_range:error=EPERM:when=2",
            "descriptors",
            "could not set up its descriptors",
        ),
        ("-f -e inject=prctl:error=EPERM:when=1", "supervisor", "could not become a supervisor"),
        (
            "-f -e inject=prctl:error=EPERM:when=2",
            "no new privileges",
            "could not forbid it new privileges",
        ),
        (
            "-f -e inject=?fork,?vfork,clone,?clone3:error=EAGAIN",
            "fork",
            "could not fork the command's process",
        ),
        ("-f -e inject=rt_sigaction:error=EPERM:when=40", "signals", "could not reset its signals"),
    ];
    for (options, stage, message) in rows {
        check(options, stage, message);
    }
    // Only the calls on one path: the supervisor changes its directory as well.
    let place = traced("-f -P \"${0%/*}/../open\" -e inject=chdir:error=EACCES");
    let path = place.root.path().join("bin/../open");
    let supervisor = place.launch(&Plan { cwd: Some(path), ..every_step(&place) });
    refused(&next(&supervisor), "directory", "could not enter its directory: Permission denied");
    wait_for_end(&supervisor);
    assert_eq!(place.executions(), 0);
}

fn lying_steps() {
    gain_inheritable();
    // The call is not made and claims to have succeeded.
    let rows = [
        ("-f -e inject=setgroups:retval=0", "verification", "they are not"),
        ("-f -e inject=setresgid:retval=0", "verification", "they are not"),
        ("-f -e inject=setresuid:retval=0:when=1", "verification", "they are not"),
        ("-f -e inject=setresuid:retval=0", "verification", "they are not"),
        // Privileges that can be had back were not given up.
        ("-f -e inject=setresuid:retval=0:when=2", "verification", "they are not"),
        ("-f -e inject=setresgid:retval=0:when=2", "verification", "they are not"),
        ("-f -e inject=capset:retval=0", "verification", "they are not"),
        ("-f -e inject=setsid:retval=1", "session", "it did not take effect"),
        ("-f -e inject=prctl:retval=0:when=2", "no new privileges", "it did not take effect"),
    ];
    for (options, stage, message) in rows {
        check(options, stage, message);
    }
}

/// In a container the session is often led from outside, and then has no number.
fn lying_steps_in_a_container() {
    let output = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--case", LYING_STEPS])
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn root() {
    let place = Place::new();
    let credentials = Some(Credentials { uid: 0, gid: 0, groups: vec![0, 4] });
    let plan =
        Plan { credentials, ..place.plan("id -u; id -g; id -G; grep CapEff /proc/self/status") };
    place.run(&plan);
    let text = place.logged();
    assert!(text.starts_with("0\n0\n0 4\n"), "{text}");
    assert!(!text.contains("0000000000000000"), "root has capabilities: {text}");
}

/// A place whose supervisors are nobody's, and a plan for it.
fn unprivileged(credentials: Option<Credentials>) -> (Place, Plan) {
    let place =
        Place::through("exec setpriv --reuid=65534 --regid=65534 --clear-groups kron-supervisor");
    let output = Output::Log { path: place.open.join("logs/log"), bytes_max: 1_000 };
    let plan = Plan { credentials, output, ..place.plan("id -u") };
    (place, plan)
}

fn not_permitted() {
    let others = [
        Credentials { uid: 1, gid: 1, groups: vec![1] },
        Credentials { uid: 0, gid: 0, groups: vec![0] },
        Credentials { uid: NOBODY, gid: NOBODY, groups: vec![4] },
    ];
    for credentials in others {
        let (place, plan) = unprivileged(Some(credentials));
        let supervisor = place.launch(&plan);
        refused(&next(&supervisor), "groups", "Operation not permitted");
        wait_for_end(&supervisor);
        assert_eq!(place.executions(), 0);
    }
}

fn own_user() {
    // To stay who one is needs no right.
    let same = Credentials { uid: NOBODY, gid: NOBODY, groups: Vec::new() };
    for credentials in [None, Some(same)] {
        let (place, plan) = unprivileged(credentials);
        place.run(&plan);
        assert_eq!(fs::read_to_string(place.open.join("logs/log")).expect("a log"), "65534\n");
    }
}

fn directory_as_user() {
    let place = Place::new();
    let private = place.root.path().join("private");
    fs::create_dir(&private).expect("a directory");
    fs::set_permissions(&private, PermissionsExt::from_mode(0o700)).expect("a mode");
    let plan = |credentials| Plan { credentials, cwd: Some(private.clone()), ..place.plan("") };
    let supervisor = place.launch(&plan(Some(nobody())));
    refused(&next(&supervisor), "directory", "Permission denied");
    wait_for_end(&supervisor);
    assert_eq!(place.executions(), 0);
    place.run(&plan(None));
    assert_eq!(place.executions(), 1);
}

fn program_as_user() {
    let place = Place::new();
    let program = place.open.join("program");
    fs::write(&program, "#!/bin/sh\nexit 0\n").expect("written");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).expect("a mode");
    let mut plan = Plan { credentials: Some(nobody()), ..place.plan("") };
    plan.argv = vec![program.display().to_string()];
    let (supervisor, _) = place.arm(&plan);
    supervisor.release().expect("released");
    let report = next(&supervisor);
    assert!(matches!(report, Message::ExecFailed { errno: 13, .. }), "{report:?}");
    supervisor.acknowledge().expect("acknowledged");
    wait_for_end(&supervisor);
}

fn accounts() {
    let id = |options: &[&str], name: &str| {
        let output = std::process::Command::new("id").args(options).arg(name).output().expect("id");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    for name in ["root", "nobody", "daemon"] {
        let found = account(Some(name), None).expect("an account");
        let mut groups: Vec<u32> =
            id(&["-G"], name).split(' ').map(|text| text.parse().expect("a number")).collect();
        groups.sort_unstable();
        assert_eq!(found.name, name);
        assert_eq!(found.credentials.uid.to_string(), id(&["-u"], name));
        assert_eq!(found.credentials.gid.to_string(), id(&["-g"], name));
        assert_eq!(found.credentials.groups, groups);
        // By number, and by nothing at all for the caller's own.
        let uid = found.credentials.uid.to_string();
        assert_eq!(account(Some(&uid), None).expect("an account"), found);
    }
    let own = account(None, None).expect("an account");
    assert_eq!(own.credentials.uid.to_string(), rustix::process::geteuid().as_raw().to_string());
    let other = account(Some("nobody"), Some("daemon")).expect("an account");
    assert_eq!((other.credentials.uid, other.credentials.gid), (NOBODY, 1));
    assert!(other.credentials.groups.contains(&1));
    assert_eq!(other.to_assume(), Some(other.credentials.clone()));

    let message = |user, group| account(Some(user), group).expect_err("nobody").to_string();
    assert_eq!(message("no-such-user", None), "there is no user `no-such-user`");
    assert_eq!(message("+0", None), "there is no user `+0`");
    assert_eq!(message("", None), "there is no user ``");
    assert_eq!(message("4294967295", None), "there is no user `4294967295`");
    assert_eq!(message("root", Some("no-such-group")), "there is no group `no-such-group`");
}

fn environment() {
    let account = account(Some("nobody"), None).expect("an account");
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let job =
        own(&[("PATH", "/opt"), ("A", "1"), ("A", "2"), ("KRON_IDENTITY", "x"), ("KRON_X", "x")]);
    let kron = [("KRON_IDENTITY", "job".to_owned()), ("KRON_PERIOD_ID", "period".to_owned())];
    let expected = own(&[
        ("HOME", &account.home),
        ("LOGNAME", "nobody"),
        ("USER", "nobody"),
        ("SHELL", &account.shell),
        ("PATH", "/opt"),
        ("A", "2"),
        ("KRON_IDENTITY", "job"),
        ("KRON_PERIOD_ID", "period"),
    ]);
    assert_eq!(clean_environment(&account, &job, &kron), expected);
    let plain = clean_environment(&account, &[], &[]);
    assert_eq!(plain[4], ("PATH".to_owned(), kron_exec::PATH_DEFAULT.to_owned()));
}
