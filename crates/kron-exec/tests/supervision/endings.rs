//! How runs end: by themselves, by their timeout, by request, with everything they started.

use std::time::{Duration, Instant};

use kron_exec::{Message, Plan, ProcessId, Signal};
use kron_state::{Cause, ExitStatus, RunEnd};
use kron_testkit::files::read;
use kron_testkit::process::has_ended;

use crate::gate::kill;
use crate::place::{
    LONG, PATIENCE, Place, assert_nobody_left, next, wait_for_everybody, wait_for_text, wait_until,
};
use crate::runner::{Case, NOTHING, STRACE, TERMINAL, note};
use crate::strace::{trace_file, traced};

pub(crate) const CASES: &[Case] = &[
    ("endings::exit_codes_are_told", NOTHING, exit_codes),
    ("endings::signals_are_told", NOTHING, signals),
    ("endings::a_timeout_asks_first", NOTHING, timeout_asks),
    ("endings::a_timeout_may_be_answered_with_an_exit_code", NOTHING, timeout_answered),
    ("endings::a_timeout_kills_those_who_ignore_it", NOTHING, timeout_kills),
    ("endings::a_timeout_without_grace_kills_at_once", NOTHING, timeout_without_grace),
    ("endings::a_timeout_reaches_a_stopped_command", NOTHING, timeout_stopped),
    ("endings::a_timeout_kills_a_stopped_command_that_ignores_it", NOTHING, timeout_stopped_deaf),
    ("endings::a_command_that_ends_in_time_is_not_timed_out", NOTHING, in_time),
    ("endings::timeout_and_grace_end_when_they_are_to", NOTHING, timers),
    ("endings::a_request_to_end_asks_and_waits", NOTHING, asked),
    ("endings::a_second_request_kills", NOTHING, asked_twice),
    ("endings::a_request_to_kill_kills", NOTHING, killed),
    ("endings::a_request_just_before_the_execution_ends_it", NOTHING, asked_at_release),
    ("endings::grandchildren_end_with_the_run", NOTHING, grandchildren),
    (
        "endings::grandchildren_that_ignore_the_request_get_the_grace_and_no_more",
        NOTHING,
        deaf_grandchildren,
    ),
    ("endings::those_who_left_the_session_end_with_the_run", NOTHING, left_session),
    ("endings::daemons_end_with_the_run", NOTHING, daemons),
    ("endings::a_deep_tree_of_sessions_ends_with_the_run", NOTHING, deep_tree),
    ("endings::a_growing_crowd_ends_with_the_run", NOTHING, crowd),
    ("endings::background_processes_outlive_a_command_that_ends_by_itself", NOTHING, background),
    ("endings::nobody_else_is_signalled", NOTHING, nobody_else),
    (
        "endings::a_group_is_signalled_while_its_leader_keeps_the_number",
        STRACE,
        signalled_before_reaped,
    ),
    ("endings::a_terminals_interrupt_does_not_reach_the_run", TERMINAL, terminal),
    ("endings::a_supervisor_is_small", NOTHING, memory),
];

const SOON: Duration = Duration::from_millis(100);

fn check(script: &str, change: impl Fn(&mut Plan), status: ExitStatus, cause: Cause) -> Place {
    let place = Place::new();
    let mut plan = place.plan(script);
    change(&mut plan);
    let end = place.run(&plan);
    assert_eq!((end.status, end.cause), (status, cause), "{script}");
    assert_eq!(place.executions(), 1);
    place
}

fn timed(timeout: Duration, grace: Duration) -> impl Fn(&mut Plan) {
    move |plan| {
        plan.timeout = Some(timeout);
        plan.grace = grace;
    }
}

/// Timeouts to try one after the other: how long a script needs until it is ready, or to answer,
/// depends on the machine.
fn timeouts() -> impl Iterator<Item = Duration> {
    (0..10).map(|doubled| SOON * (1 << doubled))
}

/// Runs a script that times out, and says `ready` first when it is ready for that. `last` is what
/// it says last. Nothing is left of it. The grace is a multiple of the timeout; where it has an
/// end, some process of the run ignores the request, so that all of the grace passes.
///
/// A run that was not ready proves nothing, and the next has a longer timeout. So has the next of a
/// command that was killed before it answered, if it had all of its grace: a busy machine may not
/// let it run for so long. That hides no supervisor that kills too early, which the time shows, and
/// none that does not ask: where the grace is [`FOR_EVER`], the first run that was ready decides.
fn check_timeout(script: &str, last: &str, graces: u32, status: ExitStatus) {
    for timeout in timeouts() {
        let place = Place::new();
        let mut plan = place.plan(script);
        timed(timeout, timeout * graces)(&mut plan);
        let (end, _, took) = run_released(&place, &plan);
        check_nobody_left(took.saturating_sub(timeout + plan.grace));
        assert_eq!(end.cause, Cause::Timeout, "{script}");
        let said = place.logged();
        if !said.starts_with("ready\n") {
            continue;
        }
        if graces != FOR_EVER {
            assert!(took >= timeout + plan.grace, "killed after {took:?}: {script}");
        }
        let has_answered = end.status == status && said.ends_with(last);
        if !has_answered && (1..FOR_EVER).contains(&graces) && end.status == KILLED {
            continue;
        }
        assert_eq!(end.status, status, "{script}");
        assert!(said.ends_with(last), "{script} said {said:?}");
        assert_eq!(place.executions(), 1);
        return;
    }
    panic!("it was never ready, or never answered within its grace: {script}");
}

/// How long a supervisor waits for the processes it has killed before it reports the end regardless.
const WAITS_FOR_KILLED: Duration = Duration::from_secs(5);

/// Checks that no process of a run is left. `waited` is the time from the kill to the report of the
/// end: only if the supervisor used up its limit may a process still be exiting, and then this waits
/// until it is gone. A process that was not killed sleeps on, and fails the test.
fn check_nobody_left(waited: Duration) {
    if waited < WAITS_FOR_KILLED {
        assert_nobody_left();
    }
    wait_for_everybody();
}

/// A grace that is never over.
const FOR_EVER: u32 = 10_000;
const KILLED: ExitStatus = ExitStatus::Signal(9);

/// Runs to the end: how it ended, the command, and the time from just before its release to after
/// its end. Timeout and grace lie within that time, however busy the machine is.
fn run_released(place: &Place, plan: &Plan) -> (RunEnd, ProcessId, Duration) {
    let (supervisor, command) = place.arm(plan);
    let since = Instant::now();
    supervisor.release().expect("released");
    assert_eq!(next(&supervisor), Message::Executing);
    let end = place.end_of(&supervisor);
    (end, command, since.elapsed())
}

fn exit_codes() {
    for code in [0, 1, 2, 126, 127, 128, 143, 255] {
        check(&format!("exit {code}"), |_| (), ExitStatus::ExitCode(code), Cause::Own);
    }
}

fn signals() {
    // Every signal that ends a process, by its number on every architecture with Linux's
    // generic numbers; the job-control ones stop it instead.
    for signal in
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 29, 31, 34, 64]
    {
        let script = format!("ulimit -c 0; kill -{signal} $$; sleep 1000");
        check(&script, |_| (), ExitStatus::Signal(signal), Cause::Own);
    }
}

fn timeout_asks() {
    check_timeout("echo ready; exec sleep 1000", "ready\n", FOR_EVER, ExitStatus::Signal(15));
}

fn timeout_answered() {
    let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    check_timeout(script, "asked\n", FOR_EVER, ExitStatus::ExitCode(3));
}

fn timeout_kills() {
    let script = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done";
    check_timeout(script, "asked\n", 1, ExitStatus::Signal(9));
}

fn timeout_without_grace() {
    let script = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    check_timeout(script, "ready\n", 0, ExitStatus::Signal(9));
}

/// A process beside a script that says `ready` when the script is stopped.
const READY_WHEN_STOPPED: &str = "(until read -r _ _ state _ < /proc/$$/stat; [ $state = T ]; \
     do sleep 0.01; done; echo ready) &";

fn timeout_stopped() {
    let script = format!("{READY_WHEN_STOPPED} kill -STOP $$; sleep 1000");
    check_timeout(&script, "ready\n", FOR_EVER, ExitStatus::Signal(15));
}

fn timeout_stopped_deaf() {
    let script = format!("trap '' TERM; {READY_WHEN_STOPPED} while :; do kill -STOP $$; done");
    check_timeout(&script, "ready\n", 1, ExitStatus::Signal(9));
}

fn in_time() {
    let plan = |plan: &mut Plan| plan.timeout = Some(LONG);
    check("exit 0", plan, ExitStatus::ExitCode(0), Cause::Own);
}

/// When the supervisor is to be woken is in the kernel's hands, and is looked at there: how late that
/// makes the end of a run on a busy machine does not matter.
fn timers() {
    let place = Place::new();
    let mut plan = place.plan("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    plan.timeout = Some(LONG);
    plan.grace = LONG / 2;
    let (supervisor, _) = place.execute(&plan);
    wait_for_text(&place.log());
    let left = || {
        let pid = supervisor.process().pid;
        let infos = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("descriptors");
        let texts = infos.filter_map(|info| read(&info.expect("a descriptor").path()));
        let timers: Vec<String> = texts.filter(|text| text.contains("it_value:")).collect();
        let [timer] = timers.as_slice() else { panic!("one timer: {timers:?}") };
        let value =
            timer.lines().find_map(|line| line.strip_prefix("it_value: (")).expect("a value");
        Duration::from_secs(value.split(',').next().expect("seconds").parse().expect("a number"))
    };
    let is_within = |left: Duration, all: Duration| left <= all && left + PATIENCE > all;
    assert!(is_within(left(), LONG), "{:?}", left());
    assert!(supervisor.signal(Signal::Terminate).expect("signalled"));
    wait_until("the grace begins", || left() <= LONG / 2);
    assert!(is_within(left(), LONG / 2), "{:?}", left());
    assert!(supervisor.signal(Signal::Kill).expect("signalled"));
    place.end_of(&supervisor);
    assert_nobody_left();
}

fn asked() {
    let place = Place::new();
    let (supervisor, _) =
        place.execute(&place.plan("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"));
    wait_for_text(&place.log());
    assert!(supervisor.signal(Signal::Terminate).expect("signalled"));
    let end = place.end_of(&supervisor);
    assert_eq!((end.status, end.cause), (ExitStatus::ExitCode(5), Cause::Asked));
    assert_nobody_left();
}

fn asked_twice() {
    let place = Place::new();
    let script = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done";
    let (supervisor, _) = place.execute(&place.plan(script));
    wait_for_text(&place.log());
    assert!(supervisor.signal(Signal::Terminate).expect("signalled"));
    wait_until("it was asked", || place.logged().ends_with("asked\n"));
    assert!(supervisor.signal(Signal::Kill).expect("signalled"));
    let end = place.end_of(&supervisor);
    assert_eq!((end.status, end.cause), (ExitStatus::Signal(9), Cause::Asked));
    assert!(!supervisor.signal(Signal::Kill).expect("an answer"), "it is gone");
    assert_nobody_left();
}

fn killed() {
    let place = Place::new();
    let script = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done";
    let (supervisor, _) = place.execute(&place.plan(script));
    wait_for_text(&place.log());
    assert!(supervisor.signal(Signal::Kill).expect("signalled"));
    let end = place.end_of(&supervisor);
    assert_eq!((end.status, end.cause), (ExitStatus::Signal(9), Cause::Asked));
    assert_eq!(place.logged(), "ready\n", "it was not asked");
    assert_nobody_left();
}

fn asked_at_release() {
    for _ in 0..20 {
        let place = Place::new();
        let (supervisor, _) = place.arm(&place.plan("exec sleep 1000"));
        supervisor.release().expect("released");
        assert!(supervisor.signal(Signal::Terminate).expect("signalled"));
        // Whichever came first, it is over, and what is told agrees with what happened.
        match next(&supervisor) {
            Message::Refused { .. } => {
                supervisor.acknowledge().expect("acknowledged");
                crate::place::wait_for_end(&supervisor);
                assert_eq!(place.executions(), 0);
            }
            Message::Executing => {
                let end = place.end_of(&supervisor);
                assert_eq!((end.status, end.cause), (ExitStatus::Signal(15), Cause::Asked));
            }
            other => panic!("{other:?}"),
        }
        assert_nobody_left();
    }
}

fn grandchildren() {
    let script = "sleep 1000 & (sleep 1000 & echo ready; sleep 1000) & sleep 1000";
    check_timeout(script, "ready\n", FOR_EVER, ExitStatus::Signal(15));
}

fn deaf_grandchildren() {
    // The command itself obeys at once, but what it started does not.
    let script = "(trap '' TERM; sleep 1000 & echo ready; wait; sleep 1000) & exec sleep 1000";
    check_timeout(script, "ready\n", 1, ExitStatus::Signal(15));
}

fn left_session() {
    let script = "setsid sleep 1000 & \
        setsid sh -c \"trap '' TERM HUP; echo ready; sleep 1000; :\" & exec sleep 1000";
    check_timeout(script, "ready\n", 1, ExitStatus::Signal(15));
}

fn daemons() {
    // Twice forked, a session of its own, parents gone. One of them says so when its parent, whose
    // number is the first field of its status and the fourth of its child's, is gone.
    let script = r#"(setsid sh -c '
        trap "" TERM HUP
        (read -r middle _ < /proc/self/stat
        (until read -r _ _ _ parent _ < /proc/self/stat; [ $parent != $middle ]
        do sleep 0.01; done; echo ready; exec sleep 1000) & sleep 1000 &) & exec sleep 1000' &)
        exec sleep 1000"#;
    check_timeout(script, "ready\n", 1, ExitStatus::Signal(15));
}

fn deep_tree() {
    // Deeper than one walk goes, each level in a session of its own.
    let script = "cat > $0.sh <<'END'\n[ $1 -gt 0 ] || exec sleep 1000\nsetsid sh $0 $(($1 - 1)) &\nwait\nEND\nsh $0.sh 100";
    let place = Place::new();
    let mut plan = place.plan(script);
    plan.argv.push(place.open.join("level").display().to_string());
    plan.grace = SOON;
    let (supervisor, _) = place.execute(&plan);
    let deepest = || {
        let lists = std::process::Command::new("ps").args(["-eo", "args"]).output().expect("ps");
        let text = String::from_utf8_lossy(&lists.stdout).into_owned();
        text.contains(&format!("{}.sh 1\n", place.open.join("level").display()))
    };
    wait_until("the tree is grown", deepest);
    let since = Instant::now();
    supervisor.signal(Signal::Kill).expect("signalled");
    let end = place.end_of(&supervisor);
    assert_eq!((end.status, end.cause), (ExitStatus::Signal(9), Cause::Asked));
    check_nobody_left(since.elapsed());
}

fn crowd() {
    // Every process keeps starting sessions while it is hunted, up to a number. It is ready when
    // there are some.
    let script = "trap '' TERM; i=0; while [ $i -lt 300 ]; do setsid sh -c \"trap '' TERM; sleep 1000; :\" & i=$((i + 1)); [ $i -ne 20 ] || echo ready; done; wait";
    check_timeout(script, "ready\n", 0, ExitStatus::Signal(9));
}

fn background() {
    let script = "sleep 1000 & echo $!; (setsid sleep 1000 & echo $!); exit 0";
    let since = Instant::now();
    let place = check(script, |_| (), ExitStatus::ExitCode(0), Cause::Own);
    assert!(since.elapsed() < Duration::from_secs(900));
    let pids: Vec<i32> = place.logged().lines().map(|line| line.parse().expect("a pid")).collect();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        // One that has ended could be killed as well until it is reaped.
        assert!(!has_ended(pid), "it ended with the command");
        kill(pid, "KILL");
    }
}

fn nobody_else() {
    let place = Place::new();
    // Another run, and a process of the daemon's own: neither may notice.
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn().expect("a sleep");
    let other = Plan {
        output: kron_exec::Output::Discard,
        ..place.plan("trap 'exit 9' TERM HUP CONT; echo on > go; while :; do sleep 0.01; done")
    };
    let other = Plan { cwd: Some(place.open.clone()), ..other };
    let (other_supervisor, other_command) = place.execute(&other);
    wait_for_text(&place.open.join("go"));
    let mut plan = place.plan("setsid sleep 1000 & exec sleep 1000");
    timed(SOON, SOON)(&mut plan);
    let end = place.run(&plan);
    assert_eq!(end.cause, Cause::Timeout);
    assert!(bystander.try_wait().expect("an answer").is_none());
    assert!(
        crate::place::hold(other_command).is_some_and(|held| !held.has_ended().expect("an answer"))
    );
    bystander.kill().expect("killed");
    bystander.wait().expect("reaped");
    other_supervisor.signal(Signal::Kill).expect("signalled");
    assert_eq!(place.end_of(&other_supervisor).status, ExitStatus::Signal(9));
}

fn signalled_before_reaped() {
    // The leader obeys, a member does not, and one left the group.
    let script = "(trap '' TERM; echo ready; sleep 1000; :) & \
        setsid sh -c 'echo ready; exec sleep 1000' & exec sleep 1000";
    // As in `check_timeout`, a leader that was killed after all of its grace had no time to obey.
    let of_one_that_was_ready = timeouts().find_map(|timeout| {
        let place = traced("-e trace=kill,waitid,pidfd_send_signal");
        let mut plan = place.plan(script);
        timed(timeout, timeout)(&mut plan);
        let (end, command, took) = run_released(&place, &plan);
        wait_for_everybody();
        let trace = std::fs::read_to_string(trace_file(&place)).expect("a trace");
        if place.logged() != "ready\nready\n" {
            return None;
        }
        assert!(took >= timeout + timeout, "killed after {took:?}");
        (end.status != KILLED).then_some((end, command, trace))
    });
    let (end, command, trace) = of_one_that_was_ready.expect("one that was ready and obeyed");
    assert_eq!(end.status, ExitStatus::Signal(15));
    let lines: Vec<&str> = trace.lines().collect();
    let reaped = lines.iter().position(|line| {
        line.starts_with("waitid(")
            && line.contains(&format!("si_pid={}", command.pid))
            && !line.contains("WNOWAIT")
    });
    let reaped = reaped.expect("the command is reaped");
    let signals = |name: &str| {
        let call = format!("kill(-{}, {name})", command.pid);
        let found: Vec<usize> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.starts_with(&call))
            .map(|(index, _)| index)
            .collect();
        assert!(!found.is_empty(), "{call} in:\n{trace}");
        found
    };
    for name in ["SIGTERM", "SIGCONT", "SIGKILL"] {
        assert!(signals(name).into_iter().all(|index| index < reaped), "{name} in:\n{trace}");
    }
    // No other number is ever signalled.
    assert!(lines.iter().filter(|line| line.starts_with("kill(")).count() == 3, "{trace}");
}

fn terminal() {
    use std::io::{Read, Write};
    // `script` runs the daemon's part of this case with a terminal of its own.
    let place = Place::new();
    if std::env::var("KRON_TEST_TERMINAL").is_err() {
        let case = "exec \"$0\" --case endings::a_terminals_interrupt_does_not_reach_the_run";
        let mut child = std::process::Command::new("script")
            .args([
                "-qec",
                &case.replace(
                    "$0",
                    &std::env::current_exe().expect("this program").display().to_string(),
                ),
                "/dev/null",
            ])
            .env("KRON_TEST_TERMINAL", "yes")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("`script` of util-linux");
        let mut output = String::new();
        let mut stdout = child.stdout.take().expect("a pipe");
        let mut byte = [0];
        while !output.contains("interrupt me") {
            assert_eq!(stdout.read(&mut byte).expect("read"), 1, "{output}");
            output.push(char::from(byte[0]));
        }
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(b"\x03").expect("written");
        stdout.read_to_string(&mut output).expect("read");
        assert!(output.contains("was interrupted"), "{output}");
        assert!(output.contains("run ended by itself"), "{output}");
        assert!(child.wait().expect("reaped").success());
        return;
    }
    // Group, session and terminal, counted from the state.
    let place_of = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a status");
        let fields = stat.rsplit_once(") ").expect("fields").1.to_owned();
        let number = |index: usize| -> i32 {
            fields.split(' ').nth(index).expect("a field").parse().expect("a number")
        };
        (number(2), number(3), number(4))
    };
    assert_ne!(place_of(std::process::id() as i32).2, 0, "this process has a terminal");
    let mut signals = nix::sys::signal::SigSet::empty();
    signals.add(nix::sys::signal::Signal::SIGINT);
    signals.thread_block().expect("blocked");
    let go = place.open.join("go");
    let script = format!("until [ -e {} ]; do sleep 0.01; done; exit 6", go.display());
    let (supervisor, command) = place.execute(&place.plan(&script));
    let group = place_of(supervisor.process().pid).0;
    assert_eq!(group, supervisor.process().pid, "the supervisor is in the daemon's group");
    assert_eq!(place_of(command.pid), (command.pid, command.pid, 0));
    writeln!(std::io::stdout(), "interrupt me").expect("written");
    assert_eq!(signals.wait().expect("a signal"), nix::sys::signal::Signal::SIGINT);
    writeln!(std::io::stdout(), "was interrupted").expect("written");
    std::fs::write(go, "").expect("written");
    let end = place.end_of(&supervisor);
    assert_eq!((end.status, end.cause), (ExitStatus::ExitCode(6), Cause::Own));
    writeln!(std::io::stdout(), "run ended by itself").expect("written");
}

fn memory() {
    let place = Place::new();
    let mut plan = place.plan("echo ready; exec sleep 1000");
    // A plan of some size, which must be forgotten.
    plan.env.push(("BIG".to_owned(), "x".repeat(100_000)));
    plan.stdin = Some("x".repeat(400_000));
    let (supervisor, _) = place.execute(&plan);
    wait_for_text(&place.log());
    let path = format!("/proc/{}/smaps_rollup", supervisor.process().pid);
    let rollup = std::fs::read_to_string(path).expect("memory in numbers");
    let kib = |name: &str| -> u64 {
        let line = rollup.lines().find(|line| line.starts_with(name)).expect("the line");
        line.split_ascii_whitespace().nth(1).expect("a number").parse().expect("a number")
    };
    let private = kib("Private_Clean:") + kib("Private_Dirty:");
    let (dirty, pss) = (kib("Private_Dirty:"), kib("Pss:"));
    note(&format!(
        "a supervisor's memory: {private} KiB private, of it {dirty} KiB written; {pss} KiB proportional"
    ));
    assert!(dirty <= 1_024, "{rollup}");
    supervisor.signal(Signal::Kill).expect("signalled");
    place.end_of(&supervisor);
}
