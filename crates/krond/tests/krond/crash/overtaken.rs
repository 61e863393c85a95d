//! A run that is overtaken: the daemon dies before it knows that a command was executed, and the
//! next one runs a later period before that command ends.
//!
//! The end of the first run is then recorded after the second was handled. The mark must stay.

use kron_testkit::krond::wait_for_permit;
use kron_testkit::needs::left_out;
use kron_testkit::process;
use kron_testkit::strace::{Follow, NEEDS, Strace, inject};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;

use crate::crash::checker::{
    Fault, Job, Overlap, Periods, Story, active, history, is_final, mark, period_of,
};
use crate::crash::chronicle::Chronicle;
use crate::crash::witness;
use crate::new_world_in_memory;

const JOB: &str = "beside";
/// Seconds between two periods. Where the first run is not recorded before the second period begins,
/// the next attempt has more time.
const STEPS_S: [i64; 4] = [3, 6, 12, 30];

/// A world whose daemon died before it knew that a command was executed, and the period of that. The
/// command waits for a permit. `None` if the machine was too slow for these periods.
fn died_unaware(step_s: i64) -> Option<(Chronicle, i64)> {
    let command = witness::command(&wait_for_permit("permit"));
    let deadline_s = step_s - 1;
    let config = format!(
        "[job.{JOB}]\n\
         schedule = \"*/{step_s} * * * * * @policy(concurrency=allow,deadline={deadline_s}s)\"\n\
         command = '''{command}'''\n\
         shell = true\n"
    );
    let job = Job {
        identity: JOB.to_owned(),
        periods: Periods::Every(step_s),
        deadline_s,
        overlap: Overlap::Allow,
    };
    // The test is about the record that one daemon leaves to the next, not about the disk.
    let world = new_world_in_memory("");
    let story = Story { jobs: vec![job], ..Story::default() };
    let mut chronicle = Chronicle { world, story };
    let mut krond = chronicle.start();
    // The first report is that the command is at its gate; the second, that it was executed, is
    // never received.
    let options = inject("recvfrom", Signal::SIGKILL, 2);
    let options = options.each_ref().map(String::as_str);
    let file = chronicle.world.state_dir().with_file_name("trace");
    let decides = process::threads_named(krond.pid(), "krond");
    let strace = Strace::attach(&decides, Follow::Nobody, &options, &file);
    // The job comes after the tracer, by a signal: the daemon may die before it answers a request.
    chronicle.world.configure(&config);
    krond.signal(Signal::SIGHUP);
    krond.wait();
    strace.wait();
    assert!(strace.saw_kill());
    let document = chronicle.world.document(JOB);
    if history(&document).iter().any(|entry| entry["Outcome"] == "missed") {
        return None;
    }
    // The second report was another one if the first run was not recorded before the next period
    // began, and then nothing of the first was executed.
    let overtaken = active(&document).next().and_then(period_of)?;
    assert_eq!(mark(&document), None, "nobody knew that it was executed");
    let is_executed = || chronicle.witnesses().iter().any(|witness| witness.period == overtaken);
    let supervisor = active(&document).next()?["Supervisor"]["PID"].as_i64()? as i32;
    let executed = eventually("it is executed, or is not going to be", || match is_executed() {
        true => Some(true),
        // A supervisor that was not asked to release its command ends soon after the daemon; one
        // that was goes on, because its command waits for a permit.
        false => process::has_ended(supervisor).then(is_executed),
    });
    executed.then_some((chronicle, overtaken))
}

#[test]
fn the_mark_stays_when_an_earlier_run_ends_after_a_later_one_was_handled() {
    if left_out("the mark stays when an earlier run ends after a later one was handled", NEEDS) {
        return;
    }
    let died = STEPS_S.into_iter().find_map(died_unaware);
    let (mut chronicle, overtaken) =
        died.expect("no run was recorded before the next period began");

    let mut krond = chronicle.start();
    let document = || chronicle.world.document(JOB);
    let handled = eventually("a later period is handled", || mark(&document()));
    assert!(overtaken < handled, "it was overtaken");
    chronicle.world.permit("permit");
    let ended = eventually("the earlier run ends", || {
        let document = document();
        let mut earlier = history(&document).iter().filter(|it| period_of(it) == Some(overtaken));
        earlier.any(is_final).then_some(document)
    });
    assert!(mark(&ended) >= Some(handled), "mark moved back: {ended}");
    eventually("the later run is witnessed", || (chronicle.witnesses().len() > 1).then_some(()));

    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0), "{}", krond.said.join("\n"));
    let faults = chronicle.judge(handled);
    let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
