//! A run that is overtaken: the daemon dies before it knows that a command was executed, and the
//! next one runs a later period before that command ends.
//!
//! The end of the first run is then recorded after the second was handled. The mark must stay.

use std::time::Duration;

use kron_testkit::needs::left_out;
use kron_testkit::process;
use kron_testkit::strace::{Follow, NEEDS, Strace, inject};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;

use crate::crash::checker::{
    Fault, Job, Overlap, Periods, active, history, is_final, mark, period_of,
};
use crate::crash::chronicle::Chronicle;
use crate::crash::witness::{self, wall};

const JOB: &str = "beside";
const STEP_S: i64 = 3;

#[test]
fn the_mark_stays_when_an_earlier_run_ends_after_a_later_one_was_handled() {
    if left_out("the mark stays when an earlier run ends after a later one was handled", NEEDS) {
        return;
    }
    let command = witness::command("sleep 8");
    let config = format!(
        "[job.{JOB}]\n\
         schedule = \"*/{STEP_S} * * * * * @policy(concurrency=allow,deadline=2s)\"\n\
         command = '''{command}'''\n\
         shell = true\n"
    );
    let job = Job {
        identity: JOB.to_owned(),
        periods: Periods::Every(STEP_S),
        deadline_s: 2,
        overlap: Overlap::Allow,
    };
    let mut chronicle = Chronicle::new(vec![job], &config);
    // There is time until the next period.
    eventually("a period begins", || {
        (wall().as_millis() % (STEP_S as u128 * 1_000) < 200).then_some(())
    });
    let mut krond = chronicle.start();
    let threads = process::threads(krond.pid());
    let (decides, _) = threads.iter().find(|(_, name)| name == "krond").expect("a thread");
    // The first report is that the command is at its gate; the second, that it was executed, is
    // never received.
    let options = inject("recvfrom", Signal::SIGKILL, 2);
    let file = chronicle.world.state_dir().with_file_name("trace");
    let strace =
        Strace::attach(&[*decides], Follow::Nobody, &options.each_ref().map(String::as_str), &file);
    krond.wait();
    assert!(strace.saw_kill());
    let document = chronicle.world.document(JOB);
    let overtaken = active(&document).next().and_then(period_of).expect("a run was recorded");
    assert_eq!(mark(&document), None, "nobody knew that it was executed");

    let mut krond = chronicle.start();
    let document = || chronicle.world.document(JOB);
    let handled = eventually("a later period is handled", || mark(&document()));
    assert!(overtaken < handled, "it was overtaken");
    eventually("the earlier run ends", || history(&document()).iter().any(is_final).then_some(()));
    assert!(mark(&document()) >= Some(handled), "mark moved back: {}", document());

    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0), "{}", krond.said.join("\n"));
    let until = wall().saturating_sub(Duration::from_secs(2 * STEP_S as u64)).as_secs() as i64;
    let faults = chronicle.judge(until);
    assert!(chronicle.witnesses().len() > 1);
    let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
