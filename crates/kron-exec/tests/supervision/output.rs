//! Where output goes, and what happens when it cannot go there; and what is read.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;

use kron_exec::{Limit, Output, Plan, Resource, Signal};
use kron_state::ExitStatus;
use kron_testkit::process::has_ended;

use crate::gate::refused;
use crate::place::{PATIENCE, Place, next, wait_for_end, wait_until};
use crate::runner::{Case, NOTHING, ROOT};

pub(crate) const CASES: &[Case] = &[
    ("output::a_log_keeps_so_much_and_no_more", NOTHING, capped),
    ("output::a_flood_is_drained", NOTHING, flood),
    ("output::a_flood_does_not_delay_a_request_to_end", NOTHING, endless_flood),
    ("output::a_log_is_private_and_new", NOTHING, private),
    ("output::a_log_that_exists_or_is_elsewhere_refuses_the_run", NOTHING, refused_logs),
    ("output::a_full_disk_does_not_end_the_run", NOTHING, full_disk),
    ("output::a_command_may_close_its_output", NOTHING, closed),
    ("output::those_who_hold_the_output_open_do_not_hold_up_the_end", NOTHING, held_open),
    ("output::inherited_output_goes_where_the_supervisors_goes", NOTHING, inherited),
    ("output::discarded_output_goes_nowhere", NOTHING, discarded),
    ("output::the_system_log_gets_lines", ROOT, syslog),
    ("output::a_missing_system_log_does_not_end_the_run", ROOT, syslog_missing),
    ("output::a_stuck_system_log_does_not_end_the_run", ROOT, syslog_stuck),
    ("output::input_is_read_to_its_end", NOTHING, input),
    ("output::input_that_nobody_reads_holds_up_nobody", NOTHING, input_unread),
    ("output::without_input_there_is_none", NOTHING, input_none),
];

fn capped() {
    let log = |place: &Place, bytes_max| Output::Log { path: place.log(), bytes_max };
    let full = "[kron: the limit of the log is reached, what follows is dropped]\n";
    let rows = [
        (10, "printf 123456789", "123456789".to_owned(), 9, 0),
        (10, "printf 1234567890", "1234567890".to_owned(), 10, 0),
        (10, "printf 12345678901", format!("1234567890\n{full}"), 10, 1),
        (10, "echo 123456789; echo more; echo more", format!("123456789\n{full}"), 10, 10),
        (0, "echo more", full.to_owned(), 0, 5),
    ];
    for (bytes_max, script, text, kept, dropped) in rows {
        let place = Place::new();
        let end = place.run(&Plan { output: log(&place, bytes_max), ..place.plan(script) });
        assert_eq!(place.logged(), text, "{script}");
        assert_eq!((end.output_bytes, end.output_dropped), (kept, dropped), "{script}");
        assert_eq!(end.status, ExitStatus::ExitCode(0));
    }
}

fn flood() {
    let place = Place::new();
    let output = Output::Log { path: place.log(), bytes_max: 1_000_000 };
    let end = place.run(&Plan { output, ..place.plan("head -c 100000000 /dev/zero; exit 7") });
    assert_eq!(end.status, ExitStatus::ExitCode(7));
    assert_eq!((end.output_bytes, end.output_dropped), (1_000_000, 99_000_000));
    let length = fs::metadata(place.log()).expect("a log").len();
    assert!((1_000_000..1_000_100).contains(&length), "{length}");
}

fn endless_flood() {
    let place = Place::new();
    let output = Output::Log { path: place.log(), bytes_max: 1_000 };
    let plan = Plan { output, ..place.plan("exec cat /dev/zero") };
    let (supervisor, command) = place.execute(&plan);
    wait_until("much is written", || {
        let io = fs::read_to_string(format!("/proc/{}/io", command.pid)).expect("its counters");
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        written.and_then(|bytes| bytes.parse::<u64>().ok()) > Some(300_000)
    });
    assert!(supervisor.signal(Signal::Terminate).expect("signalled"));
    let end = place.end_of(&supervisor);
    assert_eq!(end.status, ExitStatus::Signal(15));
    assert!(end.output_dropped > 100_000);
}

fn private() {
    let place = Place::new();
    place.run(&place.plan("echo x; umask 0; echo y"));
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it is there").mode() & 0o7777;
    assert_eq!(mode(&place.log()), 0o600);
    assert_eq!(mode(&place.state.join("logs/job")), 0o700);
    assert_eq!(mode(&place.state.join("logs")), 0o700);
}

fn refused_logs() {
    type Tamper = fn(&Place);
    let cases: [(&str, Tamper); 6] = [
        ("File exists", |place| {
            make_directories(place);
            fs::write(place.log(), "precious").expect("written");
        }),
        ("File exists", |place| {
            make_directories(place);
            symlink(place.open.join("elsewhere"), place.log()).expect("a link");
        }),
        ("Not a directory", |place| {
            fs::create_dir(place.state.join("logs")).expect("a directory");
            symlink(&place.open, place.state.join("logs/job")).expect("a link");
        }),
        ("Operation not permitted", |place| {
            make_directories(place);
            let job = place.state.join("logs/job");
            fs::set_permissions(job, PermissionsExt::from_mode(0o770)).expect("a mode");
        }),
        ("Not a directory", |place| {
            fs::create_dir(place.state.join("logs")).expect("a directory");
            fs::write(place.state.join("logs/job"), "").expect("written");
        }),
        ("No such file or directory", |place| {
            fs::remove_dir_all(&place.state).expect("removed");
        }),
    ];
    for (message, tamper) in cases {
        let mut place = Place::new();
        tamper(&place);
        if !place.state.exists() {
            // Logs may be kept anywhere; a parent's parent is not made.
            place.state = place.state.join("deep");
        }
        let supervisor = place.launch(&place.plan("echo overwritten"));
        refused(&next(&supervisor), "output", message);
        wait_for_end(&supervisor);
        assert_eq!(place.executions(), 0);
        assert!(!place.open.join("elsewhere").exists());
        if place.log().is_file() {
            assert_eq!(place.logged(), "precious");
        }
    }
}

fn make_directories(place: &Place) {
    fs::create_dir_all(place.state.join("logs/job")).expect("directories");
    let private = PermissionsExt::from_mode(0o700);
    fs::set_permissions(place.state.join("logs/job"), private).expect("a mode");
}

fn full_disk() {
    // To the supervisor a limit on its files is what a full disk is: writes fail.
    let place = Place::through("ulimit -S -f 8; exec kron-supervisor");
    let mut plan = place.plan("yes 0123456 | head -c 100000; exit 7");
    plan.limits = vec![Limit { resource: Resource::FileSize, soft: None, hard: None }];
    let end = place.run(&plan);
    assert_eq!(end.status, ExitStatus::ExitCode(7));
    assert_eq!(end.output_bytes + end.output_dropped, 100_000);
    // Some shells count in blocks of 512 bytes, some of 1,024.
    assert!([4_096, 8_192].contains(&end.output_bytes), "{}", end.output_bytes);
    assert_eq!(place.logged().len() as u64, end.output_bytes);
}

fn closed() {
    let place = Place::new();
    let end = place.run(&place.plan("exec >&- 2>&-; sleep 0.1; exit 7"));
    assert_eq!((end.status, end.output_bytes), (ExitStatus::ExitCode(7), 0));
}

fn held_open() {
    let place = Place::new();
    let script = "sleep 1000 & echo $!; (while :; do echo more || exit; done) & exit 3";
    let end = place.run(&place.plan(script));
    assert_eq!(end.status, ExitStatus::ExitCode(3));
    let logged = place.logged();
    // The writer finds the pipe closed and leaves, which is waited for; the other is alive.
    let sleeper = logged.lines().next().expect("a pid").parse().expect("a number");
    assert!(!has_ended(sleeper), "it ended with the command");
    crate::gate::kill(sleeper, "KILL");
}

fn inherited() {
    let place = Place::through("exec kron-supervisor > \"${0%/*}/../open/inherited\" 2>&1");
    let plan = Plan { output: Output::Inherit, ..place.plan("echo out; echo err >&2") };
    let end = place.run(&plan);
    assert_eq!((end.output_bytes, end.output_dropped), (0, 0));
    let text = fs::read_to_string(place.open.join("inherited")).expect("a file");
    assert_eq!(text, "out\nerr\n");
}

fn discarded() {
    let place = Place::new();
    let script =
        "streams=$(readlink /proc/$$/fd/1 /proc/$$/fd/2); echo \"$streams\" > fds; echo out";
    let plan = Plan { cwd: Some(place.open.clone()), ..place.plan(script) };
    let end = place.run(&Plan { output: Output::Discard, ..plan });
    assert_eq!((end.output_bytes, end.output_dropped), (0, 0));
    assert_eq!(
        fs::read_to_string(place.open.join("fds")).expect("a file"),
        "/dev/null\n/dev/null\n"
    );
}

/// A place whose supervisors find a directory of ours instead of `/dev`.
fn with_own_dev() -> Place {
    let place = Place::through(
        "exec unshare -m sh -c 'mount --bind \"$0\" /dev && exec kron-supervisor' \"${0%/*}/../dev\"",
    );
    let dev = place.root.path().join("dev");
    fs::create_dir(&dev).expect("a directory");
    let status = std::process::Command::new("mknod")
        .args(["-m", "666"])
        .arg(dev.join("null"))
        .args(["c", "1", "3"])
        .status()
        .expect("mknod");
    assert!(status.success());
    place
}

fn syslog_plan(place: &Place, script: &str) -> Plan {
    Plan { output: Output::Syslog { tag: "kron-test".to_owned() }, ..place.plan(script) }
}

fn syslog() {
    let place = with_own_dev();
    let path = place.root.path().join("dev/log");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut buffer = [0; 4_096];
    let receive = |socket: &UnixDatagram, buffer: &mut [u8; 4_096]| {
        let length = socket.recv(buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let go = place.open.join("go");
    let script = format!(
        "echo one; echo; echo two >&2; printf %05000d 0 | tr 0 x; echo
         until [ -e {} ]; do sleep 0.01; done; printf last",
        go.display()
    );
    let (supervisor, command) = place.execute(&syslog_plan(&place, &script));
    let header = format!("<78>kron-test[{}]: ", command.pid);
    assert_eq!(receive(&socket, &mut buffer), format!("{header}one"));
    assert_eq!(receive(&socket, &mut buffer), format!("{header}two"));
    for length in [2_048, 2_048, 904] {
        assert_eq!(receive(&socket, &mut buffer), format!("{header}{}", "x".repeat(length)));
    }
    // The log is restarted.
    drop(socket);
    fs::remove_file(&path).expect("removed");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    fs::write(go, "").expect("written");
    assert_eq!(receive(&socket, &mut buffer), format!("{header}last"));
    let end = place.end_of(&supervisor);
    assert_eq!((end.output_bytes, end.output_dropped), (4 + 1 + 4 + 5_001 + 4, 0));
}

fn syslog_missing() {
    let place = with_own_dev();
    let end = place.run(&syslog_plan(&place, "echo one; echo two; exit 7"));
    assert_eq!(end.status, ExitStatus::ExitCode(7));
    assert_eq!(end.output_dropped, 6);
}

fn syslog_stuck() {
    let place = with_own_dev();
    // Nobody ever reads from it.
    let _socket = UnixDatagram::bind(place.root.path().join("dev/log")).expect("a socket");
    let end = place.run(&syslog_plan(&place, "yes | head -c 20000; exit 7"));
    assert_eq!(end.status, ExitStatus::ExitCode(7));
    assert!(end.output_dropped > 0);
    assert_eq!(end.output_bytes + end.output_dropped, 20_000);
}

fn input() {
    let place = Place::new();
    let text = "x".repeat(700_000);
    place.run(&Plan {
        stdin: Some(text),
        ..place.plan("cat | wc -c; echo more 2>&1 >&0 && echo written")
    });
    assert!(place.logged().starts_with("700000\n"), "{}", place.logged());
    assert!(!place.logged().contains("written"), "input can be written to: {}", place.logged());
}

fn input_unread() {
    let place = Place::new();
    let text = "x".repeat(700_000);
    let (supervisor, _) =
        place.execute(&Plan { stdin: Some(text), ..place.plan("exec sleep 1000") });
    supervisor.signal(Signal::Terminate).expect("signalled");
    assert_eq!(place.end_of(&supervisor).status, ExitStatus::Signal(15));
}

fn input_none() {
    let place = Place::new();
    place.run(&place.plan("cat; readlink /proc/$$/fd/0"));
    wait_until("it is written", || place.logged() == "/dev/null\n");
}
