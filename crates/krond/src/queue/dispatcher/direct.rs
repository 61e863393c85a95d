//! Direct execution: callers in a line, of whom the first has or wants the next slot.
//!
//! A caller waits in the line, reserves the next slot when its turn comes, starts when a slot is
//! free, and is answered when its run has ended. Whoever has waited as long as it wanted to is told
//! that the queue is busy. What runs is never pre-empted.

use std::collections::VecDeque;
use std::time::Duration;

use kron_queue::{
    Claimed, Finished, Idle, NewJob, Release, Renew, Reservation, ReservationError, ReservationId,
    Reserve, StartDirect, StoreError,
};

use super::{AGAIN, Dispatcher, Moment, Step};

/// How long a reservation lasts unless it is renewed.
const RESERVATION_MS: i64 = 600_000;
/// How often one is renewed that waits for its slot.
const RENEW_INTERVAL: Duration = Duration::from_secs(120);
/// Callers that may wait.
const CALLERS_MAX: usize = 1_000;

/// Names a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DirectId(pub(crate) u64);

/// What a caller wants.
#[derive(Clone, Debug)]
pub(crate) struct DirectCall {
    /// The job.
    pub(crate) job: NewJob,
    /// How long it waits for a slot.
    pub(crate) wait: Duration,
    /// How long the run may take, if that is to be shorter than its handler says.
    pub(crate) timeout: Option<Duration>,
    /// Who it is.
    pub(crate) reserved_by: String,
}

/// Why a job was not run directly.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum DirectRefusal {
    /// There was no slot in time.
    #[error("no slot was free in time")]
    Busy,
    /// The daemon is leaving.
    #[error("the daemon is leaving")]
    Stopping,
    /// Another end of the run won; the job tells it.
    #[error("the run was ended by somebody else")]
    Lost,
    /// The queue refuses it.
    #[error(transparent)]
    Refused(ReservationError),
}

/// Everybody who waits.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: VecDeque<Caller>,
}

#[derive(Debug)]
struct Caller {
    id: DirectId,
    call: DirectCall,
    until: Duration,
    turn: Turn,
    /// Whether the slot was asked for. Who wants to wait for nothing is tried once all the same.
    tried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Not yet.
    Waiting,
    /// The slot is being reserved.
    Reserving,
    /// It waits until something ends: of its own type as much runs as may, which is no reason to
    /// keep others waiting.
    Parked,
    /// It is reserved, and nothing is free.
    Reserved { id: ReservationId, renewed: Duration },
    /// It is reserved, and the database is asked to start the run.
    Starting { id: ReservationId, renewed: Duration },
}

impl Line {
    /// When somebody must be told or looked after.
    pub(super) fn wakes_at(&self) -> Option<Duration> {
        let renew = self.waiting.front().and_then(|first| match first.turn {
            Turn::Reserved { renewed, .. } => Some(renewed + RENEW_INTERVAL),
            _ => None,
        });
        self.waiting.iter().map(|caller| caller.until).chain(renew).min()
    }

    /// Whether the database is not being asked for anybody.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Dispatcher {
    /// Somebody wants a job run directly.
    pub(crate) fn direct(&mut self, now: Moment, id: DirectId, call: DirectCall) {
        if self.stop.is_some() {
            return self.answer(id, Err(DirectRefusal::Stopping));
        }
        if self.line.waiting.len() >= CALLERS_MAX {
            return self.answer(id, Err(DirectRefusal::Busy));
        }
        let until = now.boot.saturating_add(call.wait);
        let caller = Caller { id, call, until, turn: Turn::Waiting, tried: false };
        self.line.waiting.push_back(caller);
        self.direct_turn(now);
    }

    /// Whoever asked has gone. A run that has begun goes on.
    pub(crate) fn direct_gone(&mut self, now: Moment, id: DirectId) {
        if let Some(caller) = self.line.waiting.iter_mut().find(|caller| caller.id == id) {
            caller.until = now.boot;
            caller.tried = true;
        }
        self.direct_turn(now);
    }

    /// Sees to whoever waits.
    pub(super) fn direct_turn(&mut self, now: Moment) {
        self.expire(now);
        let stopping = self.stop.is_some();
        let Some(first) = self.line.waiting.front_mut() else { return };
        match first.turn {
            Turn::Waiting if !stopping => {
                first.turn = Turn::Reserving;
                first.tried = true;
                let reserve = Reserve {
                    reserved_by: first.call.reserved_by.clone(),
                    owner: self.owner.clone(),
                    lasts_ms: RESERVATION_MS,
                    now: now.wall,
                };
                self.steps.push(Step::Reserve(first.id, reserve));
            }
            Turn::Reserved { id, renewed } => {
                if now.boot >= renewed + RENEW_INTERVAL {
                    let renew =
                        Renew { reservation_id: id, lasts_ms: RESERVATION_MS, now: now.wall };
                    self.steps.push(Step::Renew(renew));
                    first.turn = Turn::Reserved { id, renewed: now.boot };
                }
                self.try_start(now);
            }
            Turn::Waiting | Turn::Parked | Turn::Reserving | Turn::Starting { .. } => {}
        }
    }

    /// Something has ended, or more may run: whoever waited for that has its turn again.
    pub(crate) fn slots_changed(&mut self) {
        if let Some(first) = self.line.waiting.front_mut().filter(|it| it.turn == Turn::Parked) {
            first.turn = Turn::Waiting;
        }
    }

    /// Asks for the run of whoever has the slot.
    fn try_start(&mut self, now: Moment) {
        let worker_id = self.worker_id.clone();
        let Some(first) = self.line.waiting.front_mut() else { return };
        let Turn::Reserved { id, renewed } = first.turn else { return };
        first.turn = Turn::Starting { id, renewed };
        let start = StartDirect {
            reservation_id: id,
            job: first.call.job.clone(),
            worker_id,
            now: now.wall,
        };
        self.steps.push(Step::StartDirect(first.id, start));
    }

    /// Tells those who have waited long enough, or all when nobody is started any more. Of one for
    /// whom the database is being asked, its answer is waited for.
    fn expire(&mut self, now: Moment) {
        let stopping = self.stop.is_some();
        let mut over = Vec::new();
        let mut given_back = None;
        let mut first = true;
        self.line.waiting.retain(|caller| {
            let is_first = std::mem::replace(&mut first, false);
            let stays = match caller.turn {
                _ if caller.until > now.boot && !stopping => true,
                Turn::Reserving | Turn::Starting { .. } => true,
                Turn::Parked => false,
                Turn::Waiting => is_first && !caller.tried && !stopping,
                Turn::Reserved { id, .. } => {
                    given_back = Some(id);
                    false
                }
            };
            if !stays {
                over.push(caller.id);
            }
            stays
        });
        if let Some(reservation_id) = given_back {
            self.steps.push(Step::GiveBack(Release { reservation_id, now: now.wall }));
        }
        for id in over {
            let why = if stopping { DirectRefusal::Stopping } else { DirectRefusal::Busy };
            self.answer(id, Err(why));
        }
    }

    /// The slot is reserved, or is not.
    pub(crate) fn reserved(
        &mut self,
        now: Moment,
        id: DirectId,
        result: Result<Reservation, ReservationError>,
    ) {
        let Some(first) = self.line.waiting.front_mut().filter(|first| first.id == id) else {
            return;
        };
        match result {
            Ok(reservation) => {
                let id = reservation.reservation_id;
                first.turn = Turn::Reserved { id, renewed: now.boot };
                // Even one whose time is over is tried once: with a free slot nobody waits.
                match self.stop {
                    None => self.try_start(now),
                    Some(_) => self.expire(now),
                }
            }
            // Whoever has it gives it back, and that is told.
            Err(ReservationError::Busy(_)) => {
                first.turn = Turn::Waiting;
                self.expire(now);
            }
            Err(error) => self.direct_refused(now, error),
        }
    }

    /// The run has begun, or there is no slot.
    pub(crate) fn started_direct(
        &mut self,
        now: Moment,
        id: DirectId,
        result: Result<Claimed, ReservationError>,
    ) {
        let Some(first) = self.line.waiting.front_mut().filter(|first| first.id == id) else {
            return;
        };
        let Turn::Starting { id: reservation_id, renewed } = first.turn else { return };
        match result {
            Ok(Claimed::Run(claimed)) => {
                let timeout = first.call.timeout;
                self.line.waiting.pop_front();
                self.start(*claimed, Some(id), timeout);
            }
            Ok(Claimed::Nothing(Idle::TypesClosed { .. })) => {
                first.turn = Turn::Parked;
                let release = Release { reservation_id, now: now.wall };
                self.steps.push(Step::GiveBack(release));
                self.expire(now);
            }
            Ok(Claimed::Nothing(_)) => {
                first.turn = Turn::Reserved { id: reservation_id, renewed };
                self.expire(now);
            }
            // Its time was over, by a clock that leapt: it is reserved anew.
            Err(ReservationError::NotActive(_)) => {
                first.turn = Turn::Waiting;
                self.direct_turn(now);
            }
            Err(error) => {
                let release = Release { reservation_id, now: now.wall };
                self.steps.push(Step::GiveBack(release));
                self.direct_refused(now, error);
            }
        }
    }

    fn direct_refused(&mut self, now: Moment, error: ReservationError) {
        if let ReservationError::Store(StoreError::Stopped | StoreError::Closed) = &error {
            self.steps.push(Step::Fatal(crate::log::told(&error)));
        }
        self.drop_first(now, DirectRefusal::Refused(error));
    }

    fn drop_first(&mut self, now: Moment, why: DirectRefusal) {
        if let Some(first) = self.line.waiting.pop_front() {
            self.answer(first.id, Err(why));
        }
        self.direct_turn(now);
    }

    /// A reservation was given back, or could not be.
    pub(crate) fn gave_back(
        &mut self,
        now: Moment,
        release: Release,
        result: &Result<(), ReservationError>,
    ) {
        match result {
            Ok(()) | Err(ReservationError::NotActive(_)) => self.look(now),
            Err(ReservationError::Store(StoreError::Stopped | StoreError::Closed)) => {
                self.steps.push(Step::Fatal("a reservation could not be given back".to_owned()));
            }
            Err(_) => self.again.push((now.boot + AGAIN, Step::GiveBack(release))),
        }
    }

    /// A direct run has ended.
    pub(super) fn direct_over(&mut self, id: DirectId, answer: Result<Finished, DirectRefusal>) {
        self.answer(id, answer);
    }

    fn answer(&mut self, id: DirectId, answer: Result<Finished, DirectRefusal>) {
        self.steps.push(Step::Answer(id, Box::new(answer)));
    }
}
