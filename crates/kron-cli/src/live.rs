//! A table, live on a terminal: drawn anew every second until somebody has seen enough.
//!
//! What is shown is a [`Scene`]: the daemon's jobs ([`Jobs`]) or its queue ([`QueueScene`]).
//!
//! Three things are waited for at once: keys, signals, and answers. The daemon is asked from a
//! thread of its own, so that keys work while it is slow; one that does not answer, or is gone, is
//! said so and asked again. Asking takes at most a fifth of the time: a daemon with very many jobs
//! is asked less often.

mod jobs;
mod queue;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use kron_core::UtcSecond;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

pub(crate) use self::jobs::{Jobs, Sort};
pub(crate) use self::queue::QueueScene;
use crate::board::{Paint, Style, painted, shortened};
use crate::client::{Client, ClientError};
use crate::clock;
use crate::screen::{Key, Screen};

/// How often the daemon is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// The part of the time that asking may take.
const SHARE: u32 = 5;

/// The pause before a daemon that is starting is asked again.
const START_PAUSE: Duration = Duration::from_millis(50);

/// A terminal with fewer rows shows jobs instead of notes.
const ROWS_FOR_NOTES: usize = 14;

/// What is shown beside the table, and what keys do.
#[derive(Debug)]
pub(crate) struct Manner {
    /// Lines below the table.
    pub(crate) notes: Vec<String>,
    /// What is said while no daemon has answered yet.
    pub(crate) before: String,
    /// What is said when one no longer does.
    pub(crate) lost: String,
    /// What is said about leaving.
    pub(crate) leaving: String,
    pub(crate) style: Style,
}

/// What is shown, and what can be done about it.
pub(crate) trait Scene {
    /// What a daemon says.
    type Snapshot: Send + 'static;
    /// What a key asks of the daemon.
    type Order: Send + 'static;

    /// Asks the daemon.
    fn look(client: &Client) -> Result<Self::Snapshot, ClientError>;

    /// Asks the daemon to do something.
    fn obey(client: &Client, order: Self::Order) -> Result<(), ClientError>;

    /// Takes a key that means nothing to every scene.
    fn press(&mut self, letter: char, shown: Option<&Self::Snapshot>) -> Option<Self::Order>;

    /// What stands above the table: the first line, and others that are worth attention.
    fn head(&self, shown: &Self::Snapshot) -> Vec<String>;

    /// The table in so many rows, from the line that was scrolled to.
    fn table(
        &self,
        shown: &Self::Snapshot,
        room: usize,
        scrolled: &mut usize,
        style: &Style,
    ) -> Vec<String>;

    /// What keys do.
    fn keys(&self) -> String;
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody pressed `q`.
    Asked,
    /// A signal came.
    Signalled,
    /// The terminal is gone.
    Gone,
    /// [`Stop`] was told.
    Stopped,
}

/// What came of asking.
#[derive(Debug)]
struct Answer<T> {
    said: Result<T, ClientError>,
    /// What it would not do.
    refusal: Option<String>,
    /// How long it took.
    took: Duration,
}

/// Why there is no answer.
#[derive(Debug)]
struct Trouble {
    message: String,
    since: UtcSecond,
    is_nobody_there: bool,
}

/// Ends a [`Live`] from another thread.
#[derive(Debug)]
pub(crate) struct Stop(Arc<OwnedFd>);

impl Stop {
    pub(crate) fn tell(&self) {
        // A pipe that takes no byte is full of others that will be seen.
        let _ = rustix::io::write(&*self.0, &[STOP]);
    }
}

const ANSWER: u8 = b'a';
const STOP: u8 = b's';

/// The live table.
#[derive(Debug)]
pub(crate) struct Live<S: Scene> {
    scene: S,
    manner: Manner,
    /// Where the daemon's latest answer is put.
    answer: Arc<Mutex<Option<Answer<S::Snapshot>>>>,
    /// Asks the daemon to do something, or nothing, and how it is then.
    ask: mpsc::Sender<Option<S::Order>>,
    /// What arrives here says why to look.
    bell: OwnedFd,
    ringer: Arc<OwnedFd>,
    signals: SignalFd,
    shown: Option<S::Snapshot>,
    trouble: Option<Trouble>,
    /// What the daemon would not do, until the next key.
    refusal: Option<String>,
    /// How many jobs are above the first one that is shown.
    scrolled: usize,
}

/// Lets these signals wait until [`Live`] takes them; before any thread is started.
pub(crate) fn block(signals: &[Signal]) -> io::Result<()> {
    Ok(signals.iter().copied().collect::<SigSet>().thread_block()?)
}

impl<S: Scene> Live<S> {
    /// A table of what this daemon says, which takes these signals. They must be blocked.
    pub(crate) fn new(
        client: Client,
        scene: S,
        manner: Manner,
        signals: &[Signal],
    ) -> io::Result<Live<S>> {
        let mask: SigSet = signals.iter().copied().collect();
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let (bell, ringer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (ask, asked) = mpsc::channel::<Option<S::Order>>();
        let (answer, ringer) = (Arc::new(Mutex::new(None)), Arc::new(ringer));
        let (put, ring) = (Arc::clone(&answer), Arc::clone(&ringer));
        std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
            while let Ok(order) = asked.recv() {
                let began = clock::elapsed();
                let done = order.map(|order| S::obey(&client, order));
                let refusal = done.and_then(Result::err).map(|error| error.to_string());
                let said = S::look(&client);
                let took = clock::elapsed().saturating_sub(began);
                *put.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Answer { said, refusal, took });
                let _ = rustix::io::write(&*ring, &[ANSWER]);
            }
        })?;
        Ok(Live {
            scene,
            manner,
            answer,
            ask,
            bell,
            ringer,
            signals,
            shown: None,
            trouble: None,
            refusal: None,
            scrolled: 0,
        })
    }

    pub(crate) fn stop(&self) -> Stop {
        Stop(Arc::clone(&self.ringer))
    }

    /// Waits for the daemon's first answer, unless something else ends that.
    pub(crate) fn wait_for_daemon(&mut self) -> Option<End> {
        loop {
            let _ = self.ask.send(None);
            loop {
                let mut bells = [PollFd::new(&self.bell, PollFlags::IN)];
                // A wait that fails is tried again.
                let _ = poll(&mut bells, None);
                match self.rung() {
                    Some(End::Stopped) => return Some(End::Stopped),
                    _ if self.take_answer().is_some() => break,
                    _ => {}
                }
            }
            if self.shown.is_some() {
                return None;
            }
            std::thread::sleep(START_PAUSE);
        }
    }

    /// Looks why the bell was rung.
    fn rung(&self) -> Option<End> {
        let mut bytes = [0; 16];
        let length = rustix::io::read(&self.bell, &mut bytes).unwrap_or(0);
        bytes[..length].contains(&STOP).then_some(End::Stopped)
    }

    /// Draws until something ends it. A signal for a new size only draws again.
    pub(crate) fn run(&mut self, screen: &Screen) -> io::Result<End> {
        let mut next = Some(clock::elapsed());
        loop {
            if next.is_some_and(|at| at <= clock::elapsed()) {
                next = None;
                // The thread is there as long as this is.
                let _ = self.ask.send(None);
            }
            self.draw(screen)?;
            let [key, signal, bell] = self.wait(screen, next)?;
            if signal {
                while let Ok(Some(info)) = self.signals.read_signal() {
                    if Signal::try_from(info.ssi_signo.cast_signed()) != Ok(Signal::SIGWINCH) {
                        return Ok(End::Signalled);
                    }
                }
            }
            if bell {
                if let Some(end) = self.rung() {
                    return Ok(end);
                }
                if let Some(took) = self.take_answer() {
                    next = Some(clock::elapsed() + PERIOD.max(took * SHARE));
                }
            }
            if key {
                match self.press(screen) {
                    Some(end) => return Ok(end),
                    // Somebody wants to see something.
                    None => next = next.map(|_| clock::elapsed()),
                }
            }
        }
    }

    /// Waits for keys, signals and answers.
    fn wait(&self, screen: &Screen, next: Option<Duration>) -> io::Result<[bool; 3]> {
        let keyboard = screen.keyboard();
        let signals = self.signals.as_fd();
        let mut waited_for = [
            PollFd::new(&keyboard, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
            PollFd::new(&self.bell, PollFlags::IN),
        ];
        let patience = next.map(|at| at.saturating_sub(clock::elapsed()));
        let patience = patience.map(|patience| Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        });
        match poll(&mut waited_for, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(waited_for.map(|fd| !fd.revents().is_empty())),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes what the daemon said, and tells how long that took.
    fn take_answer(&mut self) -> Option<Duration> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Answer { said, refusal, took } = answer?;
        self.refusal = refusal.or(self.refusal.take());
        match said {
            Ok(snapshot) => {
                self.shown = Some(snapshot);
                self.trouble = None;
            }
            Err(error) => {
                let since = self.trouble.take().map_or_else(clock::now, |trouble| trouble.since);
                let is_nobody_there = error.is_not_running();
                self.trouble = Some(Trouble { message: error.to_string(), since, is_nobody_there });
            }
        }
        Some(took)
    }

    fn press(&mut self, screen: &Screen) -> Option<End> {
        let page = screen.size().rows.saturating_sub(8).max(1);
        self.refusal = None;
        match screen.key() {
            Key::Letter('q' | 'Q') => return Some(End::Asked),
            Key::Gone => return Some(End::Gone),
            Key::Up | Key::Letter('k') => self.scrolled = self.scrolled.saturating_sub(1),
            Key::Down | Key::Letter('j') => self.scrolled += 1,
            Key::PageUp => self.scrolled = self.scrolled.saturating_sub(page),
            Key::PageDown => self.scrolled += page,
            Key::Letter(letter) => {
                if let Some(order) = self.scene.press(letter, self.shown.as_ref()) {
                    let _ = self.ask.send(Some(order));
                }
            }
            Key::Other => {}
        }
        None
    }

    fn draw(&mut self, screen: &Screen) -> io::Result<()> {
        let size = screen.size();
        let style = Style { width: Some(size.columns), ..self.manner.style };
        let mut above = Vec::new();
        let mut say = |text: &str, paint| {
            above.push(painted(&shortened(text, &style), paint, &style));
        };
        match &self.shown {
            None => say(&self.manner.before, Paint::Strong),
            Some(snapshot) => {
                let mut lines = self.scene.head(snapshot).into_iter();
                lines.by_ref().take(1).for_each(|line| say(&line, Paint::Strong));
                lines.for_each(|line| say(&line, Paint::Doubtful));
            }
        }
        if let Some(trouble) = &self.trouble {
            let first = trouble.message.lines().next().unwrap_or("");
            if self.shown.is_some() {
                say(&format!("{} since {}: {first}", self.manner.lost, trouble.since), Paint::Bad);
            } else if !trouble.is_nobody_there {
                say(first, Paint::Bad);
            }
        }
        if let Some(refusal) = &self.refusal {
            say(refusal.lines().next().unwrap_or(""), Paint::Bad);
        }
        above.push(String::new());
        let keys = format!("{}   {}", self.scene.keys(), self.manner.leaving);
        let mut below = vec![String::new()];
        let notes = if size.rows < ROWS_FOR_NOTES { &[][..] } else { &self.manner.notes };
        let notes = notes.iter().chain([&keys]);
        below.extend(notes.map(|note| painted(&shortened(note, &style), Paint::Faint, &style)));
        let room = size.rows.saturating_sub(above.len() + below.len());
        let mut table = match &self.shown {
            Some(shown) => self.scene.table(shown, room, &mut self.scrolled, &style),
            None => Vec::new(),
        };
        table.truncate(room);
        let mut lines = above;
        lines.extend(table);
        // The notes stand at the bottom.
        let free = size.rows.saturating_sub(lines.len() + below.len());
        lines.extend(std::iter::repeat_n(String::new(), free));
        lines.extend(below);
        lines.truncate(size.rows);
        screen.draw(&lines)
    }
}

/// Which lines of a table fit below its headers, from where it was scrolled to.
fn visible(count: usize, room: usize, scrolled: &mut usize) -> Range<usize> {
    let rows = room.saturating_sub(1);
    // When not all fit, a line says how many do not.
    let shown = if count > rows { rows.saturating_sub(1) } else { rows };
    *scrolled = (*scrolled).min(count.saturating_sub(shown));
    *scrolled..count.min(*scrolled + shown)
}

/// What is said below a table of which only a part is shown.
fn part_words(shown: &Range<usize>, count: usize, style: &Style) -> Option<String> {
    if shown.len() == count {
        return None;
    }
    let (first, last) = (shown.start + 1, shown.end);
    let text = format!("{first} to {last} of {count} jobs; up and down show others");
    Some(painted(&shortened(&text, style), Paint::Faint, style))
}
