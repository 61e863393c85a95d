//! What goes wrong, and when.

use kron_state::{ExitStatus, RunId};
use krond::machine::{Event, ManualOverlap, Request, RequestId, StopMode};

use crate::checker::Expectation;
use crate::scenario::definitions;
use crate::world::{Occurrence, World};

impl World {
    /// Something goes wrong, and something else will.
    pub(crate) fn fault(&mut self) {
        if self.settling {
            return;
        }
        let mean_ms = self.scenario.fault_every_s * 1_000;
        let next = self.rng.between(1, 2 * mean_ms);
        self.after(next, Occurrence::Fault);
        let unkind = self.scenario.unkind;
        match self.rng.below(14) {
            0 | 1 => self.kill_daemon(),
            2 => self.kill_any_supervisor(),
            3 => self.kill_any_command(),
            4 if unkind.power => self.cut_power(),
            5 if unkind.clock => self.set_clock(),
            6 => self.sleep(),
            7 if unkind.edits => self.edit(),
            8 if unkind.suspends => self.suspend_or_resume(),
            9 if unkind.manual => self.run_by_hand(),
            10 if unkind.disk_errors => {
                let (from, length) = (self.rng.below(12), self.rng.between(1, 30));
                self.storage.fail(from, length);
            }
            11 => {
                let mode = *self.rng.pick(&[StopMode::Leave, StopMode::Wait, StopMode::Kill]);
                self.feed(Event::Stop(mode));
            }
            12 if unkind.corruption => self.damage(),
            13 => {
                let (daemon_too, operations) = (self.rng.one_in(2), self.rng.below(8));
                self.crash_soon = Some((operations, daemon_too && unkind.power));
            }
            _ => {}
        }
    }

    fn kill_any_supervisor(&mut self) {
        if let Some(run) = self.any_run() {
            self.kill_supervisor(&run);
        }
    }

    fn kill_any_command(&mut self) {
        if let Some(run) = self.any_run()
            && self.processes[&run].stage == crate::process::Stage::Running
        {
            self.command_ends(&run, ExitStatus::Signal(9));
        }
    }

    fn any_run(&mut self) -> Option<RunId> {
        let boot = self.boot;
        let alive: Vec<RunId> = self
            .processes
            .iter()
            .filter(|(_, p)| p.boot == boot && (p.supervisor_alive || p.command_alive))
            .map(|(run, _)| run.clone())
            .collect();
        if alive.is_empty() { None } else { Some(self.rng.pick(&alive).clone()) }
    }

    /// Everything that was not synced is lost, and every process.
    pub(crate) fn cut_power(&mut self) {
        self.daemon = None;
        self.storage.lose_power();
        for (run, process) in &mut self.processes {
            if process.boot == self.boot && process.supervisor_alive {
                self.unproven.insert(run.clone());
                process.supervisor_alive = false;
                process.command_alive = false;
            }
        }
        self.boot += 1;
        let delay = self.rng.between(5_000, 600_000);
        self.booted_ms = self.time_ms;
        self.after(delay, Occurrence::StartDaemon);
    }

    fn set_clock(&mut self) {
        let seconds: i64 = match self.rng.below(5) {
            0 => self.rng.between(1, 30) as i64,
            1 => -(self.rng.between(1, 30) as i64),
            2 => self.rng.between(60, 20_000) as i64,
            3 => -(self.rng.between(60, 20_000) as i64),
            _ => self.rng.between(90_000, 400_000) as i64,
        };
        self.wall_offset_ms += seconds * 1_000;
        // The timer is cancelled when the clock is set.
        let life = self.life;
        self.after(1, Occurrence::Wake(life));
    }

    /// The machine sleeps: both clocks go on and nothing happens.
    fn sleep(&mut self) {
        let nap_ms = self.rng.between(1_000, self.scenario.fault_every_s * 1_000);
        self.time_ms = (self.time_ms + nap_ms).min(self.scenario.span_s * 1_000);
    }

    fn edit(&mut self) {
        let which = self.rng.below(self.plans.len() as u64) as usize;
        let change = self.rng.below(5);
        let seconds = self.rng.below(self.plans[which].rhythm.gap_s().min(7_200));
        let plan = &mut self.plans[which];
        match change {
            0 => plan.window_s = seconds,
            1 => plan.suspend = !plan.suspend,
            2 => plan.concurrency = if plan.concurrency == "allow" { "forbid" } else { "allow" },
            3 => plan.defined = !plan.defined,
            _ => plan.deadline_s = seconds,
        }
        let jobs = definitions(&self.plans);
        self.feed(Event::Load { jobs, request: None });
    }

    fn suspend_or_resume(&mut self) {
        let names: Vec<String> = self.plans.iter().map(|plan| plan.name.clone()).collect();
        let name = self.rng.pick(&names).clone();
        let request =
            if self.rng.one_in(2) { Request::Suspend(name) } else { Request::Resume(name) };
        self.feed(Event::Request { id: RequestId(0), request });
    }

    fn run_by_hand(&mut self) {
        let names: Vec<String> = self.plans.iter().map(|plan| plan.name.clone()).collect();
        let identity = self.rng.pick(&names).clone();
        let overlap =
            if self.rng.one_in(2) { ManualOverlap::Force } else { ManualOverlap::Respect };
        let request = Request::Run { identity, overlap };
        self.feed(Event::Request { id: RequestId(0), request });
    }

    /// A document is damaged while no daemon is there to notice.
    fn damage(&mut self) {
        let names: Vec<String> = self.plans.iter().map(|plan| plan.name.clone()).collect();
        let name = self.rng.pick(&names).clone();
        self.kill_daemon();
        let bits = self.rng.bits();
        if self.storage.damage(&name, bits) {
            self.damaged.insert(name);
        }
    }

    /// No more faults: whatever is missing comes back.
    pub(crate) fn mend(&mut self) {
        self.settling = true;
        self.crash_soon = None;
        self.storage.mend();
        self.settled_unix = Some(self.wall_ms().div_euclid(1_000));
        self.start_daemon();
        for plan in &mut self.plans {
            plan.defined = true;
        }
        let jobs = definitions(&self.plans);
        self.feed(Event::Load { jobs, request: None });
        self.feed(Event::Request { id: RequestId(0), request: Request::AcceptClock });
    }

    /// No more starts: what runs is left to its end.
    pub(crate) fn settle(&mut self) {
        for plan in &mut self.plans {
            plan.suspend = true;
        }
        let jobs = definitions(&self.plans);
        self.feed(Event::Load { jobs, request: None });
        for plan in self.plans.clone() {
            let request = Request::Suspend(plan.name);
            self.feed(Event::Request { id: RequestId(0), request });
        }
    }

    /// What must be true of each job in the end.
    pub(crate) fn expectations(&self) -> Vec<Expectation> {
        let unkind = self.scenario.unkind;
        let plain = !(unkind.clock || unkind.edits || unkind.suspends || unkind.corruption);
        let expectation = |plan: &crate::scenario::JobPlan| {
            let strict = plain && plan.window_s == 0;
            // A run may be released a minute after it was judged, and told a while later; a
            // replacement waits for what it replaces.
            let patient = plan.concurrency != "replace" && plain;
            Expectation {
                identity: plan.name.clone(),
                every: if strict { plan.rhythm.regular() } else { None },
                late_max_s: patient.then_some(plan.deadline_s as i64 + 60 + 95),
                damaged: self.damaged.contains(&plan.name),
            }
        };
        self.plans.iter().map(expectation).collect()
    }
}
