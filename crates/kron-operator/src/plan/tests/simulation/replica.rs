//! An operator: its picture of the cluster, its term of leadership, and the step that it is at.

use kron_core::{Decision, UtcSecond};

use super::super::super::{JOB_AGE_S_MIN, OwnedJob, Plan, Step, plan};
use super::server::{Read, Server};
use super::{Dice, LATE_MAX_S, LEASE_MARGIN_S, LEASE_S, STALE_MAX_S, Weather};
use crate::resource::KronJobStatus;

/// A step that was planned and not carried out.
enum Pending {
    Store { status: Box<KronJobStatus>, version: u64 },
    Start { decision: Box<Decision>, replace: Vec<Box<str>>, generation: i64 },
}

struct Term {
    claimant: String,
    /// When it ends by itself, as this replica believes.
    until: i64,
}

pub(super) struct Replica {
    number: usize,
    /// How often it was started.
    life: u64,
    read: Read,
    jobs: Vec<OwnedJob>,
    read_at: i64,
    jobs_at: i64,
    term: Option<Term>,
    pending: Option<Pending>,
    removals: Vec<Box<str>>,
    judged: Option<(UtcSecond, UtcSecond)>,
    /// Whether something happened that calls for a look.
    look: bool,
    wake: Option<UtcSecond>,
    /// No attempt before this.
    pause_until: i64,
    away_until: i64,
    crashed: bool,
}

impl Replica {
    pub(super) fn new(number: usize, server: &Server) -> Replica {
        Replica {
            number,
            life: 0,
            read: server.read(),
            jobs: server.jobs(),
            read_at: 0,
            jobs_at: 0,
            term: None,
            pending: None,
            removals: Vec::new(),
            judged: None,
            look: false,
            wake: None,
            pause_until: 0,
            away_until: 0,
            crashed: true,
        }
    }

    /// It is killed; what it knew is gone.
    pub(super) fn crash(&mut self, back: i64) {
        self.away_until = back;
        self.crashed = true;
    }

    /// It is stopped where it is, and goes on later.
    pub(super) fn pause(&mut self, back: i64) {
        self.away_until = back;
    }

    /// It ends in good order.
    pub(super) fn stop(&mut self, server: &mut Server, back: i64) {
        if server.lease.holder == Some(self.number) && server.second() >= self.away_until {
            server.lease.holder = None;
            server.tell(&format!("{} lets the lease go", self.number));
        }
        self.crash(back);
    }

    pub(super) fn come_back(&mut self) {
        self.away_until = 0;
    }

    /// Takes the lease though another holds it.
    pub(super) fn usurp(&mut self, server: &mut Server) {
        if server.second() >= self.away_until && !self.crashed && self.term.is_none() {
            self.take_lease(server);
        }
    }

    fn take_lease(&mut self, server: &mut Server) {
        let second = server.second();
        server.lease.transitions += 1;
        server.lease.holder = Some(self.number);
        server.lease.renewed = second;
        let claimant = format!("{}.{}/{}", self.number, self.life, server.lease.transitions);
        server.tell(&format!("{claimant} leads"));
        self.term = Some(Term { claimant, until: second + LEASE_S - LEASE_MARGIN_S });
        self.let_go();
        self.look = true;
    }

    fn let_go(&mut self) {
        self.pending = None;
        self.removals.clear();
        self.judged = None;
        self.wake = None;
        for job in &mut self.jobs {
            job.deleting = false;
        }
    }

    /// What happens to it whether it leads or not: it starts, reads, and sees to its lease.
    pub(super) fn begin_second(&mut self, server: &mut Server, dice: &mut Dice, weather: Weather) {
        let second = server.second();
        if second < self.away_until {
            return;
        }
        if self.crashed {
            let life = self.life + 1;
            *self = Replica { life, crashed: false, ..Replica::new(self.number, server) };
            (self.read_at, self.jobs_at) = (second, second);
        }
        if second - self.read_at >= STALE_MAX_S || dice.one_of_1000(500) {
            self.read_at = second;
            if server.version() > self.read.version {
                self.take_in(server);
            }
        }
        if second - self.jobs_at >= STALE_MAX_S || dice.one_of_1000(500) {
            self.jobs_at = second;
            let mut jobs = server.jobs();
            for job in &mut jobs {
                let known = self.jobs.iter().find(|known| known.uid == job.uid);
                job.deleting = known.is_some_and(|known| known.deleting);
            }
            if jobs != self.jobs {
                self.jobs = jobs;
                self.look = true;
            }
        }
        self.see_to_lease(server, dice, weather);
    }

    fn take_in(&mut self, server: &Server) {
        let generation = self.read.generation;
        self.read = server.read();
        if self.read.generation != generation {
            self.judged = None;
            self.pause_until = 0;
        }
        self.look = true;
    }

    fn see_to_lease(&mut self, server: &mut Server, dice: &mut Dice, weather: Weather) {
        let second = server.second();
        let mine = server.lease.holder == Some(self.number);
        if self.term.as_ref().is_some_and(|term| second >= term.until) {
            self.term = None;
            self.let_go();
        }
        if self.term.is_some() {
            // It asks every few seconds, and then hears of another.
            if second.rem_euclid(2) == 0 && !(weather.losses && dice.one_of_1000(100)) {
                if mine {
                    server.lease.renewed = second;
                    if let Some(term) = &mut self.term {
                        term.until = second + LEASE_S - LEASE_MARGIN_S;
                    }
                } else if dice.one_of_1000(300) {
                    self.term = None;
                    self.let_go();
                }
            }
        } else if server.lease.holder.is_none() || second >= server.lease.renewed + LEASE_S {
            self.take_lease(server);
        }
    }

    /// One step: a request that was planned, or a plan.
    pub(super) fn step(&mut self, server: &mut Server, dice: &mut Dice, weather: Weather) {
        let second = server.second();
        if second < self.away_until || self.crashed {
            return;
        }
        // Requests look at the lease themselves.
        let Some(term) = &self.term else { return };
        if second >= term.until {
            return;
        }
        let limit_s = term.until - second;
        let claimant = term.claimant.clone();
        if let Some(pending) = self.pending.take() {
            match pending {
                Pending::Store { status, version } => {
                    self.store(server, dice, weather, *status, version);
                }
                Pending::Start { decision, replace, generation } => {
                    if self.read.generation != generation {
                        self.look = true;
                        return;
                    }
                    for uid in &replace {
                        // It may not get through all of them.
                        if weather.crashes && dice.one_of_1000(50) {
                            self.crash(second + 1 + dice.below(20));
                            return;
                        }
                        server.replace(uid);
                    }
                    self.start(server, dice, weather, &decision, limit_s);
                }
            }
            if weather.crashes && dice.one_of_1000(10) {
                self.crash(second + 1 + dice.below(20));
            }
            return;
        }
        if let Some(uid) = self.removals.pop() {
            server.clean_up(&uid, !weather.leaps);
            return;
        }
        let now = server.wall();
        let woken = self.wake.is_some_and(|wake| wake <= now);
        if (self.look || woken) && second >= self.pause_until {
            self.consider(server, &claimant, now);
        }
    }

    fn consider(&mut self, server: &Server, claimant: &str, now: UtcSecond) {
        self.look = false;
        let next = self.read.status.next.as_ref().map(|next| next.period_id);
        let judged = self.judged.take().filter(|(period, _)| Some(*period) == next);
        let now = judged.map_or(now, |(_, at)| at);
        let Plan { step, remove, wake } =
            plan(&server.subject(&self.read, &self.jobs), claimant, JOB_AGE_S_MIN, now);
        self.wake = wake;
        match step {
            Step::Rest => {}
            Step::Store { status, urgent, .. } => {
                let period = status.next.as_ref().map(|next| next.period_id);
                self.judged = urgent.and(period).map(|period| (period, now));
                self.pending = Some(Pending::Store { status, version: self.read.version });
            }
            Step::Start { decision, replace } => {
                let uid = |place: usize| self.jobs[place].uid.clone();
                let replace = replace.into_iter().map(uid).collect();
                let generation = self.read.generation;
                self.pending = Some(Pending::Start { decision, replace, generation });
            }
        }
        for place in remove {
            self.jobs[place].deleting = true;
            self.removals.push(self.jobs[place].uid.clone());
        }
    }

    fn store(
        &mut self,
        server: &mut Server,
        dice: &mut Dice,
        weather: Weather,
        status: KronJobStatus,
        version: u64,
    ) {
        self.look = true;
        if weather.losses && dice.one_of_1000(80) {
            // The request was lost, or its answer.
            if dice.one_of_1000(500) {
                let _ = server.store(version, &status);
            }
            self.pause_until = server.second() + dice.below(3);
            return;
        }
        match server.store(version, &status) {
            Some(stored) => {
                if stored > self.read.version {
                    self.read.version = stored;
                    self.read.status = status;
                }
            }
            None => {
                self.judged = None;
                self.take_in(server);
            }
        }
    }

    fn start(
        &mut self,
        server: &mut Server,
        dice: &mut Dice,
        weather: Weather,
        decision: &Decision,
        limit_s: i64,
    ) {
        self.look = true;
        let generation = self.read.generation;
        if weather.losses && dice.one_of_1000(120) {
            let late_s = if weather.late { LATE_MAX_S } else { 0 };
            // Where ages mean nothing, nothing is under way for longer than a moment.
            let most_s = if weather.leaps || server.specs.replace { 0 } else { limit_s + late_s };
            match dice.below(3) {
                0 => {}
                1 => drop(server.make(decision, generation)),
                _ => server.make_late(decision, generation, dice.below(most_s + 1)),
            }
            self.pause_until = server.second() + dice.below(3);
            return;
        }
        let job = server.make(decision, generation);
        if !self.jobs.iter().any(|known| known.uid == job.uid) {
            self.jobs.push(job);
        }
    }
}
