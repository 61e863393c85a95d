//! Imagined supervisors and commands.
//!
//! They follow the contract of the real ones: a command goes through its gate only when it is told
//! to, a supervisor that loses its daemon before that ends the command and leaves proof, one that
//! loses it later goes on and leaves the result.

use kron_state::{Cause, ExitStatus, Process, RunEnd, RunId, RunRecord};
use krond::machine::{Event, Report, StartFailure, Urgency};

use crate::scenario::Sabotage;
use crate::tally::Happening;
use crate::world::{Occurrence, World};

/// How late the gate opens where that is broken on purpose, in milliseconds.
const SLOW_GATE_MS: u64 = 3_600_000;

/// A supervisor and its command.
#[derive(Clone, Debug)]
pub(crate) struct Supervised {
    pub(crate) identity: String,
    pub(crate) period: String,
    pub(crate) boot: u64,
    pub(crate) supervisor: Process,
    pub(crate) command: Process,
    pub(crate) stage: Stage,
    pub(crate) supervisor_alive: bool,
    pub(crate) command_alive: bool,
    pub(crate) status: Option<ExitStatus>,
    pub(crate) cause: Cause,
    /// The daemon at the other end of the socket.
    pub(crate) link: Option<u64>,
    /// The daemon that launched it, and so reaps its command.
    pub(crate) parent: u64,
    /// Messages arrive in the order in which they were sent.
    pub(crate) inbox_until: u64,
    pub(crate) outbox_until: u64,
    pub(crate) duration_ms: u64,
    pub(crate) stubborn: bool,
    /// How long the machine had slept when it was launched.
    pub(crate) slept_ms: u64,
    pub(crate) told: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stage {
    Gated,
    Running,
    /// Waiting to be acknowledged.
    Reported(RunRecord),
    Left,
}

/// A run that was launched.
#[derive(Clone, Debug)]
pub(crate) struct Spawn {
    pub(crate) life: u64,
    pub(crate) run: RunId,
    pub(crate) identity: String,
    pub(crate) period: String,
    /// How long the machine had slept until then.
    pub(crate) slept_ms: u64,
}

/// What a daemon sends to a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToSupervisor {
    Release,
    Acknowledge,
    /// The daemon, or its end of the socket, is gone.
    Closed,
}

impl Supervised {
    /// Whether anything of it is alive in this boot.
    pub(crate) fn is_alive(&self, boot: u64) -> bool {
        self.boot == boot && (self.supervisor_alive || self.command_alive)
    }
}

impl World {
    /// A supervisor comes to be, and with it a command at its gate.
    pub(crate) fn spawn(&mut self, spawn: Spawn) {
        let Spawn { life, run, identity, period, slept_ms } = spawn;
        if !self.daemon_lives(life) || self.cancelled.contains(&run) {
            return;
        }
        if self.scenario.unkind.start_failures && self.rng.one_in(12) {
            self.tally.count(Happening::StartFailed);
            let failure = StartFailure {
                category: kron_core::Category::System,
                operation: "spawn".to_owned(),
                message: "resource temporarily unavailable".to_owned(),
            };
            let delay = self.rng.between(1, 50);
            self.tell_daemon(life, delay, Event::LaunchFailed { run, failure });
            return;
        }
        let ticks = self.boot_ms() / 10;
        let (supervisor, command) = (self.new_process(ticks), self.new_process(ticks));
        let plan = self.plans().iter().find(|plan| plan.name == identity);
        let duration_max_ms = plan.map_or(1, |plan| plan.duration_max_s.max(1)) * 1_000;
        let supervised = Supervised {
            identity,
            period,
            boot: self.boot,
            supervisor,
            command,
            stage: Stage::Gated,
            supervisor_alive: true,
            command_alive: true,
            status: None,
            cause: Cause::Own,
            link: Some(life),
            parent: life,
            inbox_until: 0,
            outbox_until: 0,
            duration_ms: self.rng.between(1, duration_max_ms),
            stubborn: self.rng.one_in(5),
            slept_ms,
            told: false,
        };
        self.processes.insert(run.clone(), supervised);
        let boot_id = format!("boot-{}", self.boot);
        self.report(&run.clone(), Event::Armed { run, supervisor, command, boot_id });
    }

    /// Process numbers are few, so that they are soon used again.
    fn new_process(&mut self, start_ticks: u64) -> Process {
        Process { pid: self.rng.between(100, 160) as i32, start_ticks }
    }

    /// Sends something from a supervisor to its daemon, in order.
    fn report(&mut self, run: &RunId, event: Event) {
        let delay = self.message_delay();
        let Some(process) = self.processes.get_mut(run) else { return };
        let Some(life) = process.link else { return };
        process.outbox_until = process.outbox_until.max(self.time_ms + delay);
        let at = process.outbox_until;
        self.at(at, Occurrence::ToDaemon(life, Box::new(event)));
    }

    /// Sends something from a daemon to a supervisor, in order.
    pub(crate) fn tell(&mut self, run: &RunId, message: ToSupervisor) {
        let mut delay = self.message_delay();
        if self.scenario.sabotage == Sabotage::SlowGate && message == ToSupervisor::Release {
            delay += SLOW_GATE_MS;
        }
        let Some(process) = self.processes.get_mut(run) else { return };
        process.inbox_until = process.inbox_until.max(self.time_ms + delay);
        let at = process.inbox_until;
        self.at(at, Occurrence::ToSupervisor(run.clone(), message));
    }

    pub(crate) fn receive(&mut self, run: &RunId, message: ToSupervisor) {
        let Some(process) = self.processes.get_mut(run) else { return };
        if !process.supervisor_alive || process.boot != self.boot {
            return;
        }
        match (message, process.stage.clone()) {
            (ToSupervisor::Release, Stage::Gated) => self.execute(run),
            (ToSupervisor::Acknowledge, Stage::Reported(_)) => {
                // Nothing is left of it but what it wrote.
                self.processes.remove(run);
            }
            (ToSupervisor::Closed, Stage::Gated)
                if self.scenario.sabotage == Sabotage::OpenGate =>
            {
                process.link = None;
                self.execute(run);
            }
            (ToSupervisor::Closed, Stage::Gated) => {
                process.link = None;
                process.command_alive = false;
                self.leave_record(run, &RunRecord::NotReleased);
            }
            (ToSupervisor::Closed, Stage::Running) => process.link = None,
            (ToSupervisor::Closed, Stage::Reported(record)) => {
                process.link = None;
                self.leave_record(run, &record);
            }
            _ => {}
        }
    }

    fn execute(&mut self, run: &RunId) {
        if self.scenario.unkind.start_failures && self.rng.one_in(12) {
            self.tally.count(Happening::StartFailed);
            let (stage, message) = ("exec".to_owned(), "no such file or directory".to_owned());
            let Some(process) = self.processes.get_mut(run) else { return };
            process.command_alive = false;
            let record = RunRecord::ExecFailed { stage, errno: 2, message };
            process.stage = Stage::Reported(record);
            let failure = StartFailure {
                category: kron_core::Category::Execution,
                operation: "exec".to_owned(),
                message: "no such file or directory".to_owned(),
            };
            self.report(run, Event::ExecFailed { run: run.clone(), failure });
            return;
        }
        self.witness(run);
        let Some(process) = self.processes.get_mut(run) else { return };
        process.stage = Stage::Running;
        let end = self.time_ms + process.duration_ms;
        self.report(run, Event::Executing { run: run.clone() });
        let code = if self.rng.one_in(4) { self.rng.below(200) as i32 } else { 0 };
        self.at(end, Occurrence::CommandEnds(run.clone(), ExitStatus::ExitCode(code)));
    }

    /// The command is over, by itself or by a signal.
    pub(crate) fn command_ends(&mut self, run: &RunId, status: ExitStatus) {
        let wall = self.wall();
        let Some(process) = self.processes.get_mut(run) else { return };
        if !process.command_alive || process.boot != self.boot {
            return;
        }
        process.command_alive = false;
        process.status = Some(status);
        let seen = process.supervisor_alive;
        if let Some(at) = self.witness_of.get(run) {
            let witness = &mut self.witnesses[*at];
            witness.seen = seen;
            witness.exit_code = match status {
                ExitStatus::ExitCode(code) => Some(i64::from(code)),
                ExitStatus::Signal(_) => None,
            };
        }
        if process.stage != Stage::Running {
            return;
        }
        if process.supervisor_alive {
            let end = RunEnd {
                status,
                cause: process.cause,
                at: wall,
                output_bytes: 0,
                output_dropped: 0,
            };
            let record = RunRecord::Ended(end);
            process.stage = Stage::Reported(record.clone());
            if process.link.is_some() {
                let report = Report { record: Some(record), reaped: None };
                self.report(run, Event::Ended { run: run.clone(), report });
            } else {
                self.leave_record(run, &record);
            }
        } else {
            self.notice_gone(run);
        }
    }

    /// A supervisor writes what nobody is there to be told, and leaves.
    fn leave_record(&mut self, run: &RunId, record: &RunRecord) {
        let written = self.write_run(run, record);
        let Some(process) = self.processes.get_mut(run) else { return };
        process.stage = Stage::Left;
        process.supervisor_alive = false;
        if !written {
            self.unproven.insert(run.clone());
        }
        self.notice_gone(run);
    }

    pub(crate) fn kill_supervisor(&mut self, run: &RunId) {
        let Some(process) = self.processes.get_mut(run) else { return };
        if !process.supervisor_alive {
            return;
        }
        process.supervisor_alive = false;
        self.unproven.insert(run.clone());
        if process.stage == Stage::Gated {
            // It reads the end of the file at its gate.
            process.command_alive = false;
        }
        self.notice_gone(run);
    }

    /// A daemon that watches a run learns that nothing is left of it.
    pub(crate) fn notice_gone(&mut self, run: &RunId) {
        let life = self.life;
        let boot = self.boot;
        let Some(process) = self.processes.get_mut(run) else { return };
        if process.is_alive(boot) || process.told || !self.watched.contains(run) {
            return;
        }
        process.told = true;
        let reaped = if process.parent == life { process.status } else { None };
        let at = process.outbox_until.max(self.time_ms + 1);
        self.at(at, Occurrence::Gone(life, run.clone(), reaped));
    }

    /// A daemon asks for the end of a run, by a signal to its supervisor or, where that is dead, to
    /// the command.
    pub(crate) fn end(&mut self, run: &RunId, urgency: Urgency) {
        let Some(process) = self.processes.get_mut(run) else { return };
        if process.boot != self.boot {
            return;
        }
        if !process.supervisor_alive {
            if process.command_alive && !(process.stubborn && urgency == Urgency::Terminate) {
                self.after(20, Occurrence::CommandEnds(run.clone(), ExitStatus::Signal(9)));
            }
            return;
        }
        match process.stage {
            Stage::Gated => {
                process.command_alive = false;
                process.link = None;
                self.leave_record(run, &RunRecord::NotReleased);
            }
            Stage::Running => {
                process.cause = Cause::Asked;
                let patient = process.stubborn && urgency == Urgency::Terminate;
                let (delay, signal) = if patient { (5_000, 9) } else { (20, 15) };
                let at = self.time_ms + delay;
                self.at(at, Occurrence::CommandEnds(run.clone(), ExitStatus::Signal(signal)));
            }
            Stage::Reported(_) | Stage::Left => {}
        }
    }

    /// Whether the very process that was recorded is alive.
    pub(crate) fn is_alive(&self, boot_id: &str, recorded: Process) -> bool {
        boot_id == format!("boot-{}", self.boot)
            && self.processes.values().any(|process| {
                process.boot == self.boot
                    && ((process.supervisor == recorded && process.supervisor_alive)
                        || (process.command == recorded && process.command_alive))
            })
    }
}
