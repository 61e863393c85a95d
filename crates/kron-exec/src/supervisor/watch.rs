//! The supervisor's loop: one forked command, from its preparation to its end.
//!
//! One `poll` over everything that can happen, one handler per source, each of which may return
//! the run's [`LastWords`]. The loop never waits anywhere else, so a command that hangs, stops or
//! floods its pipe delays neither its timeout nor a request to end it.
//!
//! The command's number is safe to signal throughout, because the command is reaped by nobody but
//! this loop, last of all.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use kron_state::{Cause, ExitStatus};
use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, TimerSetTimeFlags};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process, kill_process_group,
    waitid,
};

use super::command::Forked;
use super::descendants;
use super::output::{Count, Pump};
use super::stage::{Fault, WORD_BYTES, Word};
use crate::process::{ProcessId, start_ticks};
use crate::wire::{self, Message, Order, Received};

/// Time between two walks through the processes that are to be killed.
const ROUND: Duration = Duration::from_millis(10);
/// Times between walks after which those that do not die are left alone. The command itself is
/// waited for.
const ROUNDS_MAX: u32 = 500;

/// The longest time that is waited for: a hundred years, which the kernel can count.
const TIMER_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
/// Failures in a row, each followed by a pause, after which a supervisor gives up.
const FAILURES_MAX: u32 = 6_000;
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// How the watch over a run came to its end.
#[derive(Debug)]
pub(super) enum LastWords {
    /// The daemon went away before it released the command.
    NotReleased,
    /// The command is not going to be executed.
    Refused { why: Refusal, armed: bool },
    /// The command was released and could not be executed.
    ExecFailed(Fault),
    /// The command ended.
    Ended { status: ExitStatus, cause: Cause, output: Count },
}

/// Why a command is not going to be executed.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Its preparation failed.
    Fault(Fault),
    /// Its process ended by itself before it was released.
    Died(ExitStatus),
    /// It was asked to end before it was released.
    Asked,
    /// The daemon said something that cannot be.
    Protocol,
    /// The supervisor itself is in trouble.
    Trouble(io::Error),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The command's process prepares itself.
    Preparing,
    /// It waits at the gate.
    Armed,
    /// It was released.
    Released,
    /// It was asked to end.
    Asked(Cause),
    /// It and everything it started is being killed.
    Killing(Cause),
}

/// Whether the daemon is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Daemon {
    Present,
    Gone,
}

/// A run that is being watched.
pub(super) struct Watch {
    phase: Phase,
    control: BorrowedFd<'static>,
    daemon: Daemon,
    command: Pid,
    /// Present until the command is released or must not be any more.
    gate: Option<OwnedFd>,
    /// Present until the command is executed.
    words: Option<OwnedFd>,
    pump: Option<Pump>,
    signals: SignalFd,
    timer: TimerFd,
    timeout: Option<Duration>,
    grace: Duration,
    /// How the command ended, once it is reaped.
    status: Option<ExitStatus>,
    rounds: u32,
}

type Handled = io::Result<Option<LastWords>>;

impl Watch {
    pub(super) fn new(
        control: BorrowedFd<'static>,
        forked: Forked,
        pump: Option<Pump>,
        timeout: Option<Duration>,
        grace: Duration,
    ) -> io::Result<Watch> {
        let mut set = SigSet::empty();
        for signal in [NixSignal::SIGTERM, NixSignal::SIGQUIT, NixSignal::SIGCHLD] {
            set.add(signal);
        }
        Ok(Watch {
            phase: Phase::Preparing,
            control,
            daemon: Daemon::Present,
            command: forked.pid,
            gate: Some(forked.gate),
            words: Some(forked.words),
            pump,
            signals: SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?,
            timer: TimerFd::new(
                ClockId::CLOCK_MONOTONIC,
                TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
            )?,
            timeout,
            grace,
            status: None,
            rounds: 0,
        })
    }

    /// Watches to the end; says what became of the run and whether there is a daemon to tell.
    ///
    /// `None` if the system failed for good after the release: the command runs on, unwatched.
    pub(super) fn run(mut self) -> Option<(LastWords, Daemon)> {
        let mut failures = 0;
        let last = loop {
            // After a failure the command may have ended unnoticed.
            let handled = if failures == 0 { self.step() } else { self.on_child() };
            match handled {
                Ok(None) => failures = 0,
                Ok(Some(last)) => break last,
                // Nothing is executed under a supervisor that is in trouble already.
                Err(error) if self.gate.is_some() => break self.refuse(Refusal::Trouble(error)),
                Err(_) => {
                    failures += 1;
                    if failures > FAILURES_MAX {
                        return None;
                    }
                    std::thread::sleep(FAILURE_PAUSE);
                }
            }
        };
        if !matches!(last, LastWords::Ended { .. }) {
            self.pump.take().into_iter().for_each(Pump::discard);
        }
        Some((last, self.daemon))
    }

    /// Waits until something happens and handles it.
    fn step(&mut self) -> Handled {
        let Ready { control, words, output, signals, timer } = self.wait()?;
        // The output first: what a command wrote before it ended belongs to it.
        if output && let Some(pump) = &mut self.pump {
            pump.carry();
        }
        if control && let Some(last) = self.on_control()? {
            return Ok(Some(last));
        }
        if words && let Some(last) = self.on_words()? {
            return Ok(Some(last));
        }
        if signals && let Some(last) = self.on_signals()? {
            return Ok(Some(last));
        }
        if timer {
            return self.on_timer();
        }
        Ok(None)
    }

    fn wait(&self) -> io::Result<Ready> {
        // A negative descriptor would be skipped by the kernel; here the same one stands in, with
        // no events asked for.
        let nothing = self.signals.as_fd();
        let optional =
            |fd: Option<BorrowedFd<'_>>| fd.map_or(PollFlags::empty(), |_| PollFlags::IN);
        let control = (self.daemon == Daemon::Present).then_some(self.control);
        let words = self.words.as_ref().map(AsFd::as_fd);
        let output = self.pump.as_ref().and_then(Pump::as_fd);
        let mut fds = [
            PollFd::from_borrowed_fd(control.unwrap_or(nothing), optional(control)),
            PollFd::from_borrowed_fd(words.unwrap_or(nothing), optional(words)),
            PollFd::from_borrowed_fd(output.unwrap_or(nothing), optional(output)),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
        ];
        loop {
            match poll(&mut fds, None) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let [control, words, output, signals, timer] = fds.map(|fd| !fd.revents().is_empty());
        Ok(Ready { control, words, output, signals, timer })
    }

    fn on_control(&mut self) -> Handled {
        let gated = matches!(self.phase, Phase::Preparing | Phase::Armed);
        match (wire::receive_order(self.control), self.phase) {
            (Ok(Received::Nothing), _) => Ok(None),
            (Ok(Received::Packet(Order::Release)), Phase::Armed) => self.release(),
            (Ok(Received::Closed), _) => {
                self.daemon = Daemon::Gone;
                if gated {
                    self.call_off();
                    return Ok(Some(LastWords::NotReleased));
                }
                Ok(None)
            }
            (Ok(Received::Packet(_)) | Err(_), _) if gated => {
                Ok(Some(self.refuse(Refusal::Protocol)))
            }
            (Ok(Received::Packet(_)), _) => Ok(None),
            // A socket that only fails is as good as none.
            (Err(_), _) => {
                self.daemon = Daemon::Gone;
                Ok(None)
            }
        }
    }

    /// The one place that opens the gate.
    fn release(&mut self) -> Handled {
        if let Some(gate) = &self.gate {
            // What cannot be opened is closed: the command must not count as released then.
            if let Err(errno) = rustix::io::write(gate, &[1]) {
                return Ok(Some(self.refuse(Refusal::Trouble(errno.into()))));
            }
        }
        self.gate = None;
        self.phase = Phase::Released;
        if let Some(timeout) = self.timeout {
            self.set_timer(timeout)?;
        }
        Ok(None)
    }

    fn on_words(&mut self) -> Handled {
        let Some(words) = &self.words else { return Ok(None) };
        let mut bytes = [0; WORD_BYTES];
        let word = match rustix::io::read(words, &mut bytes) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(errno.into()),
            Ok(0) => None,
            Ok(_) => Word::from_bytes(bytes),
        };
        match (word, self.phase) {
            (Some(Word::Ready), Phase::Preparing) => self.report_armed(),
            (Some(Word::Failed(fault)), Phase::Preparing | Phase::Armed) => {
                Ok(Some(self.refuse(Refusal::Fault(fault))))
            }
            (_, Phase::Preparing | Phase::Armed) => {
                let why = self.call_off().map_or(Refusal::Protocol, Refusal::Died);
                Ok(Some(self.refuse(why)))
            }
            (Some(Word::Failed(fault)), _) => {
                self.reap()?;
                Ok(Some(LastWords::ExecFailed(fault)))
            }
            (_, _) => {
                // The kernel closed it: the command is executing, or it died on the very step,
                // which cannot be told apart and counts as executed.
                self.words = None;
                self.report(&Message::Executing);
                Ok(None)
            }
        }
    }

    fn report_armed(&mut self) -> Handled {
        let identify = |pid: Pid| {
            let pid = pid.as_raw_nonzero().get();
            io::Result::Ok(ProcessId { pid, start_ticks: start_ticks(pid)? })
        };
        let (supervisor, command) = (identify(getpid())?, identify(self.command)?);
        self.phase = Phase::Armed;
        self.report(&Message::Armed { supervisor, command });
        if self.daemon == Daemon::Gone {
            self.call_off();
            return Ok(Some(LastWords::NotReleased));
        }
        Ok(None)
    }

    fn on_signals(&mut self) -> Handled {
        let (mut terminate, mut kill, mut child) = (false, false, false);
        while let Some(signal) = self.signals.read_signal()? {
            match signal.ssi_signo.cast_signed() {
                libc::SIGTERM => terminate = true,
                libc::SIGQUIT => kill = true,
                _ => child = true,
            }
        }
        // A command that ended by itself was not ended by anybody who asks now.
        if child && let Some(last) = self.on_child()? {
            return Ok(Some(last));
        }
        match self.phase {
            Phase::Preparing | Phase::Armed if terminate || kill => {
                Ok(Some(self.refuse(Refusal::Asked)))
            }
            Phase::Released if kill => self.kill(Cause::Asked),
            Phase::Released if terminate => self.ask(Cause::Asked),
            Phase::Asked(cause) if kill => self.kill(cause),
            Phase::Preparing
            | Phase::Armed
            | Phase::Released
            | Phase::Asked(_)
            | Phase::Killing(_) => Ok(None),
        }
    }

    fn on_child(&mut self) -> Handled {
        match self.phase {
            // Its words end with it, and they say more.
            Phase::Preparing | Phase::Armed => Ok(None),
            Phase::Released => {
                descendants::reap_others(self.command);
                if !self.command_has_ended()? {
                    return Ok(None);
                }
                if let Some(last) = self.on_words()? {
                    return Ok(Some(last));
                }
                let status = self.reap()?;
                Ok(Some(self.ended(status, Cause::Own)))
            }
            Phase::Asked(cause) => {
                let others = descendants::reap_others(self.command);
                if others || !self.command_has_ended()? {
                    return Ok(None);
                }
                self.kill(cause)
            }
            Phase::Killing(cause) => self.kill_round(cause),
        }
    }

    fn on_timer(&mut self) -> Handled {
        // Only says that it expired, which is known.
        let _ = self.timer.wait();
        match self.phase {
            Phase::Preparing | Phase::Armed => Ok(None),
            Phase::Released if self.command_has_ended()? => self.on_child(),
            Phase::Released => self.ask(Cause::Timeout),
            Phase::Asked(cause) => self.kill(cause),
            Phase::Killing(cause) => {
                self.rounds += 1;
                self.kill_round(cause)
            }
        }
    }

    /// Asks the command's group to end, and gives it its grace.
    fn ask(&mut self, cause: Cause) -> Handled {
        self.phase = Phase::Asked(cause);
        self.signal_group(Signal::TERM);
        if self.grace.is_zero() {
            return self.kill(cause);
        }
        // What is stopped would not notice.
        self.signal_group(Signal::CONT);
        self.set_timer(self.grace)?;
        Ok(None)
    }

    /// Kills the command's group at once, then, in rounds, whatever escaped from it.
    fn kill(&mut self, cause: Cause) -> Handled {
        self.phase = Phase::Killing(cause);
        self.timer.unset()?;
        // Before the command is reaped, so the number is still its own.
        self.signal_group(Signal::KILL);
        self.kill_round(cause)
    }

    fn kill_round(&mut self, cause: Cause) -> Handled {
        descendants::kill_all();
        if self.status.is_none() && self.command_has_ended()? {
            if let Some(last) = self.on_words()? {
                return Ok(Some(last));
            }
            self.status = Some(self.reap()?);
        }
        let patient = self.rounds < ROUNDS_MAX;
        if let Some(status) = self.status
            && (!descendants::reap_all() || !patient)
        {
            return Ok(Some(self.ended(status, cause)));
        }
        // Rounds in between, whenever somebody dies, do not count and do not delay the next.
        if patient && self.timer.get()?.is_none() {
            self.set_timer(ROUND)?;
        }
        Ok(None)
    }

    /// Whoever of the group may be signalled is; when nobody may be, the rounds of killing find
    /// out.
    fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(self.command, signal);
    }

    fn refuse(&mut self, why: Refusal) -> LastWords {
        self.call_off();
        LastWords::Refused { why, armed: self.phase == Phase::Armed }
    }

    /// Makes sure that the command is not executed any more: kills its process, closes the gate
    /// and waits until the process is gone. Says how it ended, the first time.
    fn call_off(&mut self) -> Option<ExitStatus> {
        // Whoever may not be killed finds the gate closed and leaves.
        self.gate.take().and_then(|gate| {
            let _ = kill_process(self.command, Signal::KILL);
            drop(gate);
            self.reap().ok()
        })
    }

    fn command_has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.command), options)?.is_some())
    }

    /// Waits for the command's end and takes it; its number is free then.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        loop {
            match waitid(WaitId::Pid(self.command), WaitIdOptions::EXITED) {
                Ok(Some(status)) => return Ok(exit_status(&status)),
                Ok(None) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn ended(&mut self, status: ExitStatus, cause: Cause) -> LastWords {
        let output = self.pump.take().map(Pump::finish).unwrap_or_default();
        LastWords::Ended { status, cause, output }
    }

    fn report(&mut self, message: &Message) {
        if self.daemon == Daemon::Present && wire::send_report(self.control, message).is_err() {
            self.daemon = Daemon::Gone;
        }
    }

    fn set_timer(&self, after: Duration) -> io::Result<()> {
        // Zero would switch the timer off.
        let after = TimeSpec::from_duration(after.clamp(Duration::from_nanos(1), TIMER_MAX));
        self.timer.set(Expiration::OneShot(after), TimerSetTimeFlags::empty())?;
        Ok(())
    }
}

/// What has something to say.
struct Ready {
    control: bool,
    words: bool,
    output: bool,
    signals: bool,
    timer: bool,
}

fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::ExitCode(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        // Neither exited nor killed has not ended, and was not asked for.
        (None, None) => ExitStatus::Signal(0),
    }
}

impl Refusal {
    /// The stage, the system's error and the words for people.
    pub(super) fn explain(&self) -> (&'static str, i32, String) {
        match self {
            Refusal::Fault(fault) => fault.explain(""),
            Refusal::Died(ExitStatus::ExitCode(code)) => {
                ("gate", 0, format!("the process exited with {code} before it was released"))
            }
            Refusal::Died(ExitStatus::Signal(signal)) => (
                "gate",
                0,
                format!("the process was ended by signal {signal} before it was released"),
            ),
            Refusal::Asked => ("gate", 0, "asked to end before it was released".to_owned()),
            Refusal::Protocol => ("protocol", 0, "the daemon sent an unexpected order".to_owned()),
            Refusal::Trouble(error) => (
                "supervisor",
                error.raw_os_error().unwrap_or_default(),
                format!("could not watch the command: {error}"),
            ),
        }
    }
}
