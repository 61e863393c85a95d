//! Every step that the world can take, and the setting in which it takes them.
//!
//! `offer` lists what can happen next, `take` makes it happen. The processes' own steps are in
//! `daemon` and `supervisor`, what befalls them in `fault`.

use stateright::{Model, Property};

use crate::model::slip::Slip;
use crate::model::world::{
    Code, CodeTruth, Command, DAEMONS, Document, Faults, Job, Life, Outcome, PERIODS, Run, STARTS,
    Sent, Stage, Supervisor, Truth, World,
};
use crate::model::{daemon, fault, promises, supervisor};

/// The setting: what is modelled, how much may go wrong, and which mistake is made on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    pub(crate) jobs: usize,
    pub(crate) policy: Policy,
    pub(crate) faults: Faults,
    pub(crate) slip: Option<Slip>,
    pub(crate) starts: Starts,
    pub(crate) question: Question,
}

/// What may go wrong with a start by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starts {
    /// An exec may fail, and a start may take too long.
    MayFail,
    /// Only faults make a start fail.
    Smooth,
}

/// The concurrency policy of every job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Allow,
    Forbid,
    Replace,
}

/// What the checker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Whether every promise is kept in every state.
    Promises,
    /// Whether the interesting situations can come about at all.
    Reach,
}

/// Names one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) job: usize,
    pub(crate) period: usize,
    pub(crate) start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A daemon takes the lock, syncs the state directory and reads every state file. One that
    /// waits for the lock does nothing anybody could see, so it is the same as one that comes later.
    StartDaemon {
        daemon: usize,
    },
    /// A system call of a killed daemon ends: its rename is done.
    Land {
        daemon: usize,
        job: usize,
    },
    /// A killed daemon's last thread is gone: the lock is free, its sockets are closed.
    Vanish {
        daemon: usize,
    },
    Daemon {
        daemon: usize,
        job: usize,
        step: daemon::Step,
    },
    Supervisor {
        key: Key,
        step: supervisor::Step,
    },
    Command {
        key: Key,
        step: CommandStep,
    },
    Fault(fault::Fault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandStep {
    Exec,
    ExecFails,
    Exit,
    /// The gate's other end is gone: leave without exec.
    LeaveGate,
    /// Only with [`Slip::GateOpensAtEof`].
    PassGate,
}

impl Protocol {
    pub(crate) fn slips(&self, slip: Slip) -> bool {
        self.slip == Some(slip)
    }

    /// Whether a new daemon would get the lock.
    pub(crate) fn lock_is_free(&self, world: &World) -> bool {
        let held = |life: &Life| match life {
            Life::Off => false,
            Life::Running => !self.slips(Slip::NoLock),
            Life::Dying => !self.slips(Slip::NoLock) && !self.slips(Slip::LockEndsBeforeWrites),
        };
        let inherited = self.slips(Slip::ForkKeepsTheLock)
            && keys(self.jobs).any(|key| run(world, key).supervisor.alive());
        !inherited && !world.daemons.iter().any(held)
    }

    /// Everything that happens by itself, without a fault.
    pub(crate) fn offer_steps(&self, world: &World, actions: &mut Vec<Action>) {
        if let Some(daemon) = world.daemons.iter().position(|life| *life == Life::Off)
            && self.lock_is_free(world)
        {
            actions.push(Action::StartDaemon { daemon });
        }
        for daemon in 0..DAEMONS {
            if world.daemons[daemon] == Life::Dying {
                actions.push(Action::Vanish { daemon });
                let landing = (0..self.jobs).filter(|job| {
                    world.jobs[*job].memory[daemon].write.is_some_and(|write| !write.renamed)
                });
                actions.extend(landing.map(|job| Action::Land { daemon, job }));
            }
        }
        let alone = self.jobs_are_independent(world);
        for job in 0..self.jobs {
            if alone && !actions.is_empty() {
                return;
            }
            self.offer_job_steps(world, job, actions);
        }
    }

    /// Whether the jobs have nothing more to do with each other. They share the daemon's life and
    /// the faults that are left, and nothing else; when no fault is left and the daemon's life is
    /// settled, every step of one commutes with every step of the other. Then it is enough to let
    /// one go to its end before the other goes on: each comes through the same states of its own,
    /// and every promise is about one job. (Starting the daemon commutes with all that can happen
    /// while there is none.)
    fn jobs_are_independent(&self, world: &World) -> bool {
        self.slip.is_none()
            && world.left == Faults::default()
            && !world.daemons.contains(&Life::Dying)
    }

    fn offer_job_steps(&self, world: &World, job: usize, actions: &mut Vec<Action>) {
        for daemon in 0..DAEMONS {
            if world.daemons[daemon] == Life::Running {
                daemon::offer(self, world, daemon, job, actions);
            }
        }
        for key in keys(self.jobs).filter(|key| key.job == job) {
            let run = run(world, key);
            if run.supervisor == Supervisor::Absent && run.command == Command::Absent {
                continue;
            }
            supervisor::offer(self, world, key, actions);
            let mut command = |step| actions.push(Action::Command { key, step });
            match run.command {
                Command::Going => {
                    command(CommandStep::Exec);
                    if self.starts == Starts::MayFail {
                        command(CommandStep::ExecFails);
                    }
                }
                Command::Executing => command(CommandStep::Exit),
                Command::Gated if !run.supervisor.alive() => match self.slip {
                    Some(Slip::GateOpensAtEof) => command(CommandStep::PassGate),
                    Some(Slip::GateNeverSeesEof) => {}
                    _ => command(CommandStep::LeaveGate),
                },
                _ => {}
            }
        }
    }

    fn take(&self, world: &mut World, action: Action) {
        for job in &mut world.jobs[..self.jobs] {
            self.close(job);
        }
        match action {
            Action::StartDaemon { daemon } => daemon::start(self, world, daemon),
            Action::Land { daemon, job } => {
                let job = &mut world.jobs[job];
                if let Some(write) = job.memory[daemon].write.take() {
                    job.file.visible = write.document;
                }
            }
            Action::Vanish { daemon } => fault::vanish(self, world, daemon),
            Action::Daemon { daemon, job, step } => daemon::take(self, world, daemon, job, step),
            Action::Supervisor { key, step } => supervisor::take(self, world, key, step),
            Action::Command { key, step } => {
                let job = &mut world.jobs[key.job];
                let run = &mut job.runs[key.period][key.start];
                run.command = match step {
                    CommandStep::Exec => {
                        job.truth[key.period].executed |= 1 << key.start;
                        Command::Executing
                    }
                    CommandStep::ExecFails => Command::Refused,
                    CommandStep::Exit => Command::Over,
                    CommandStep::LeaveGate => Command::Absent,
                    CommandStep::PassGate => Command::Going,
                };
            }
            Action::Fault(fault) => fault::take(self, world, fault),
        }
        for job in &mut world.jobs[..self.jobs] {
            self.forget(job);
        }
        // The jobs are alike, so a state and its mirror image are one.
        world.jobs[..self.jobs].sort_unstable();
    }

    /// Drops what nobody can look at any more, so that states which differ only in it are one.
    fn forget(&self, job: &mut Job) {
        for period in 0..PERIODS {
            for start in 0..STARTS {
                self.forget_run(job, period, start);
            }
            // The excuses matter only while there is something to excuse.
            let truth = &mut job.truth[period];
            truth.unprovable &= truth.executed == 0;
            truth.given_back &= self.question == Question::Reach;
            if (truth.executed != 0 || truth.unprovable) && truth.code != CodeTruth::Seen {
                job.runs[period].iter_mut().for_each(|run| run.killed = false);
            }
        }
    }

    fn forget_run(&self, job: &mut Job, period: usize, start: usize) {
        let named = is_named(job, period, start);
        let stage = job.memory.iter().find_map(|memory| {
            memory.track[period].filter(|track| usize::from(track.start) == start)
        });
        let run = &mut job.runs[period][start];
        if stage.is_none_or(|track| track.stage == Stage::Watching) {
            run.sent = Sent::Nothing;
        }
        if !run.supervisor.alive() {
            (run.peer, run.release, run.ack, run.asked) = (None, false, false, false);
            if !run.command.alive() {
                run.command = Command::Absent;
            }
        }
        // One whose report will never be acknowledged writes its record sooner or later, and
        // nobody can tell whether it knows that yet.
        if let Supervisor::Reported(record) = run.supervisor
            && (run.peer, run.ack) == (None, false)
            && !self.slips(Slip::ForkKeepsOtherGates)
        {
            run.supervisor = Supervisor::Writing(record);
        }
        // A supervisor whose command is gone only writes a record, or leaves.
        let idle = match run.supervisor {
            Supervisor::Absent | Supervisor::Gone => true,
            Supervisor::Reported(_) | Supervisor::Writing(_) | Supervisor::Renamed(_) => {
                self.slip.is_none()
            }
            _ => false,
        };
        let over = !named && stage.is_none() && idle && !run.command.alive();
        if over && !self.slips(Slip::RunIdIsReused) {
            *run = Run::default();
        }
    }

    /// Forgets how a period ended once nothing can change about it: it has a final, durable outcome
    /// and no process, record or write is left of it. The promises have seen it in that state.
    fn close(&self, job: &mut Job) {
        for period in 0..PERIODS {
            let durable = job.file.durable.outcome[period];
            let last = !matches!(durable, Outcome::Unhandled | Outcome::Executed(Code::Open));
            let agreed = documents(job).all(|document| {
                document.outcome[period] == durable
                    && document.active[period].is_none()
                    && usize::from(document.mark) > period
            });
            let quiet = job.runs[period] == [Run::default(); STARTS]
                && job.memory.iter().all(|memory| memory.track[period].is_none());
            // A code that should have been recorded and was not is for the end to show.
            let owed = matches!(job.truth[period].code, CodeTruth::Seen | CodeTruth::Durable)
                && durable != Outcome::Executed(Code::Known);
            if !(last && agreed && quiet) || owed {
                continue;
            }
            job.file.visible.outcome[period] = Outcome::Closed;
            job.file.durable.outcome[period] = Outcome::Closed;
            for write in job.memory.iter_mut().filter_map(|memory| memory.write.as_mut()) {
                write.document.outcome[period] = Outcome::Closed;
            }
            job.starts[period] = 0;
            // As if it had been executed, so that any further execution is one too many.
            job.truth[period] = Truth { executed: 1, ..Truth::default() };
        }
    }
}

/// What anybody can read of a job, or will be able to when a write under way is done.
fn documents(job: &Job) -> impl Iterator<Item = Document> {
    let written = job.memory.iter().filter_map(|memory| memory.write);
    written.map(|write| write.document).chain([job.file.visible, job.file.durable])
}

/// Whether a state file, or one about to be written, says that the run of this start is active.
pub(crate) fn is_named(job: &Job, period: usize, start: usize) -> bool {
    documents(job)
        .any(|document| document.active[period].is_some_and(|named| usize::from(named) == start))
}

pub(crate) fn keys(jobs: usize) -> impl Iterator<Item = Key> {
    (0..jobs).flat_map(|job| {
        (0..PERIODS)
            .flat_map(move |period| (0..STARTS).map(move |start| Key { job, period, start }))
    })
}

pub(crate) fn run(world: &World, key: Key) -> &Run {
    &world.jobs[key.job].runs[key.period][key.start]
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World { left: self.faults, ..World::default() }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.offer_steps(world, actions);
        fault::offer(self, world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = *world;
        self.take(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        match self.question {
            Question::Promises => promises::promises(),
            Question::Reach => promises::reach(self.policy),
        }
    }
}
