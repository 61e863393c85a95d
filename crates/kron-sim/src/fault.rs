//! What goes wrong, and when.

use kron_state::{ExitStatus, RunId};
use krond::machine::{Event, ManualOverlap, Request, RequestId, StopMode};

use crate::checker::Expectation;
use crate::plan::{JobPlan, Window};
use crate::scenario::Pace;
use crate::tally::Happening;
use crate::world::{Occurrence, World};

/// Seconds by which the clock is put forward and back at most.
const AHEAD_MAX_S: u64 = 5_000_000;
const BACK_MAX_S: u64 = 2_000_000;
/// Whether it is put back where documents are damaged, too. Nothing but a damaged document may know
/// how late it was before.
const BACK_WITH_DAMAGE: bool = false;
/// How many times longer than the mean distance between two faults a lull lasts at most.
const LULL_TIMES_MAX: u64 = 20;

impl World {
    /// Something goes wrong, and something else may.
    pub(crate) fn fault(&mut self) {
        if self.settling {
            return;
        }
        let mean_ms = self.scenario.fault_every_s * 1_000;
        match self.scenario.pace {
            Pace::Steady => {
                let next = self.rng.between(1, 2 * mean_ms);
                self.after(next, Occurrence::Fault);
            }
            // Misfortunes never come singly: what is being recovered from is struck again.
            Pace::AfterDeeds(_) => {
                if self.rng.one_in(3) {
                    let next = self.rng.of_any_size(1, 100_000);
                    self.after(next, Occurrence::Fault);
                }
            }
        }
        let unkind = self.scenario.unkind;
        match self.rng.below(15) {
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
                let (from, length) = (self.rng.below(12), self.rng.of_any_size(1, 60));
                self.storage.fail(from, length);
            }
            11 => self.stop(),
            12 if unkind.corruption => self.damage(),
            13 => {
                let (power_too, operations) = (self.rng.one_in(2), self.rng.below(8));
                self.crash_soon = Some((operations, power_too && unkind.power));
            }
            14 => self.ask(),
            _ => {}
        }
    }

    fn stop(&mut self) {
        let mode = *self.rng.pick(&[StopMode::Leave, StopMode::Wait, StopMode::Kill]);
        if self.daemon.is_some() {
            self.tally.count(Happening::Stopped);
            self.stop_asked = true;
            self.feed(Event::Stop(mode));
        }
    }

    fn kill_any_supervisor(&mut self) {
        if let Some(run) = self.any_run() {
            self.tally.count(Happening::SupervisorKilled);
            self.kill_supervisor(&run);
        }
    }

    fn kill_any_command(&mut self) {
        if let Some(run) = self.any_run()
            && self.processes[&run].stage == crate::process::Stage::Running
        {
            self.tally.count(Happening::CommandKilled);
            self.command_ends(&run, ExitStatus::Signal(9));
        }
    }

    fn any_run(&mut self) -> Option<RunId> {
        let boot = self.boot;
        let alive: Vec<RunId> = self
            .processes
            .iter()
            .filter(|(_, process)| process.is_alive(boot))
            .map(|(run, _)| run.clone())
            .collect();
        if alive.is_empty() { None } else { Some(self.rng.pick(&alive).clone()) }
    }

    /// Everything that was not synced is lost, and every process.
    pub(crate) fn cut_power(&mut self) {
        self.tally.count(Happening::PowerCut);
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
        let delay =
            if self.rng.one_in(4) { self.lull_ms() } else { self.rng.between(5_000, 600_000) };
        self.booted_ms = self.time_ms;
        self.after(delay, Occurrence::StartDaemon);
    }

    fn set_clock(&mut self) {
        let back = BACK_WITH_DAMAGE || !self.scenario.unkind.corruption;
        let seconds: i64 = match self.rng.below(5) {
            0 => self.rng.between(1, 30) as i64,
            1 => -(self.rng.between(1, 30) as i64),
            2 => self.rng.of_any_size(60, AHEAD_MAX_S) as i64,
            3 => -(self.rng.of_any_size(60, BACK_MAX_S) as i64),
            // More than is believed at once.
            _ => self.rng.between(90_000, 400_000) as i64,
        };
        let seconds = if back { seconds } else { seconds.abs() };
        self.tally.count(Happening::ClockSet);
        self.clock_set = true;
        self.wall_offset_ms += seconds * 1_000;
        // The timer is cancelled when the clock is set.
        let life = self.life;
        self.after(1, Occurrence::Wake(life));
    }

    /// The machine sleeps: both clocks go on and nothing happens.
    fn sleep(&mut self) {
        self.tally.count(Happening::Slept);
        let nap_ms = self.lull_ms();
        let woken_ms = (self.time_ms + nap_ms).min(self.scenario.span_s * 1_000);
        self.slept_ms += woken_ms - self.time_ms;
        self.time_ms = woken_ms;
    }

    /// How long the machine sleeps or nobody starts a daemon again, where that takes long.
    pub(crate) fn lull_ms(&mut self) -> u64 {
        self.rng.of_any_size(10_000, self.scenario.fault_every_s * LULL_TIMES_MAX * 1_000)
    }

    fn edit(&mut self) {
        self.tally.count(Happening::Edited);
        let which = self.rng.below(self.plans().len() as u64) as usize;
        let change = self.rng.below(6);
        let rhythm = self.rng.pick(&self.scenario.jobs).rhythm;
        let JobPlan { rhythm: present, concurrency, .. } = self.plans()[which];
        let gap_s = present.gap_s().min(rhythm.gap_s());
        let seconds = self.rng.below(gap_s.min(7_200));
        let window = Window::new(&mut self.rng, gap_s, concurrency);
        self.touched.insert(self.plans()[which].name.clone());
        let plan = &mut self.plans_mut()[which];
        match change {
            0 => plan.window = window,
            1 => plan.suspend = !plan.suspend,
            2 => plan.concurrency = if plan.concurrency == "allow" { "forbid" } else { "allow" },
            3 => plan.defined = !plan.defined,
            4 => {
                plan.rhythm = rhythm;
                plan.window = window;
                plan.duration_max_s = plan.duration_max_s.min(2 * rhythm.gap_s());
            }
            _ => plan.deadline_s = seconds,
        }
        let jobs = self.definitions();
        self.feed(Event::Load { jobs, request: None });
    }

    fn suspend_or_resume(&mut self) {
        let name = self.any_job();
        if self.daemon.is_none() {
            return;
        }
        self.tally.count(Happening::Suspended);
        self.touched.insert(name.clone());
        let request =
            if self.rng.one_in(2) { Request::Suspend(name) } else { Request::Resume(name) };
        self.feed(Event::Request { id: RequestId(0), request });
    }

    /// Somebody wants to know how things are, which must change nothing.
    fn ask(&mut self) {
        let job = self.any_job();
        for request in [Request::Status, Request::Jobs, Request::Job(job)] {
            self.feed(Event::Request { id: RequestId(0), request });
        }
    }

    fn run_by_hand(&mut self) {
        let identity = self.any_job();
        if self.daemon.is_none() {
            return;
        }
        self.tally.count(Happening::AskedByHand);
        let overlap =
            if self.rng.one_in(2) { ManualOverlap::Force } else { ManualOverlap::Respect };
        let request = Request::Run { identity, overlap };
        self.feed(Event::Request { id: RequestId(0), request });
    }

    /// A document is damaged while no daemon is there to notice.
    fn damage(&mut self) {
        let name = self.any_job();
        self.kill_daemon();
        let bits = self.rng.bits();
        if self.rng.one_in(4) {
            // What is known about all jobs: every one of them counts as new.
            if self.storage.damage_known(bits) {
                self.known_damaged = true;
                self.tally.count(Happening::Damaged);
                let names: Vec<String> = self.plans().iter().map(|p| p.name.clone()).collect();
                self.touched.extend(names);
            }
            return;
        }
        if self.storage.damage(&name, bits) {
            self.tally.count(Happening::Damaged);
            self.damaged.insert(name);
        }
    }

    fn any_job(&mut self) -> String {
        let which = self.rng.below(self.plans().len() as u64) as usize;
        self.plans()[which].name.clone()
    }

    /// No more faults: whatever is missing comes back.
    pub(crate) fn mend(&mut self) {
        self.settling = true;
        self.crash_soon = None;
        self.storage.mend();
        self.settled_unix = Some(self.wall_ms().div_euclid(1_000));
        if self.stop_asked {
            // It may wait for days.
            self.kill_daemon();
        }
        self.start_daemon();
        for plan in self.plans_mut() {
            plan.defined = true;
        }
        let jobs = self.definitions();
        self.feed(Event::Load { jobs, request: None });
        self.feed(Event::Request { id: RequestId(0), request: Request::AcceptClock });
    }

    /// No more starts: what runs is left to its end.
    pub(crate) fn settle(&mut self) {
        for plan in self.plans_mut() {
            plan.suspend = true;
        }
        let jobs = self.definitions();
        self.feed(Event::Load { jobs, request: None });
        for at in 0..self.plans().len() {
            let request = Request::Suspend(self.plans()[at].name.clone());
            self.feed(Event::Request { id: RequestId(0), request });
        }
    }

    /// What must be true of each job in the end.
    pub(crate) fn expectations(&self) -> Vec<Expectation> {
        let expectation = |plan: &JobPlan| {
            let damaged = self.damaged.contains(&plan.name);
            let plain = !(self.clock_set || damaged || self.touched.contains(&plan.name));
            // A run may be released a minute after it was judged, and told a while later; a
            // replacement waits for what it replaces.
            let patient = plain && plan.concurrency != "replace";
            Expectation {
                identity: plan.name.clone(),
                periods: plain.then(|| plan.rhythm.periods()),
                reach_s: plain.then(|| plan.window.reach_s()),
                late_max_s: patient.then_some(plan.deadline_s as i64 + 60 + 95),
                damaged,
            }
        };
        self.plans().iter().map(expectation).collect()
    }
}
