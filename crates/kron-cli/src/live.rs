//! The table of jobs, live on a terminal: drawn anew every second until somebody has seen enough.
//!
//! Three things are waited for at once: keys, signals, and answers. The daemon is asked from a
//! thread of its own, so that keys work while it is slow; one that does not answer, or is gone, is
//! said so and asked again. Asking takes at most a fifth of the time: a daemon with very many jobs
//! is asked less often.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use kron_core::UtcSecond;
use krond::api::view::{JobView, JobsView, StatusView};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::board::{self, Paint, Style, painted, shortened};
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
    /// What comes first.
    pub(crate) sort: Sort,
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

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// What is due soonest
    #[default]
    Next,
    /// What ended latest
    Last,
    /// Names, from A to Z
    Name,
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

/// What a daemon said.
#[derive(Debug)]
struct Snapshot {
    daemon: StatusView,
    jobs: Vec<JobView>,
}

/// What came of asking.
#[derive(Debug)]
struct Answer {
    said: Result<Snapshot, ClientError>,
    /// How long it took.
    took: Duration,
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
pub(crate) struct Live {
    manner: Manner,
    /// Where the daemon's latest answer is put.
    answer: Arc<Mutex<Option<Answer>>>,
    ask: mpsc::Sender<()>,
    /// What arrives here says why to look.
    bell: OwnedFd,
    ringer: Arc<OwnedFd>,
    signals: SignalFd,
    shown: Option<Snapshot>,
    trouble: Option<(String, UtcSecond)>,
    /// How many jobs are above the first one that is shown.
    scrolled: usize,
}

/// Lets these signals wait until [`Live`] takes them; before any thread is started.
pub(crate) fn block(signals: &[Signal]) -> io::Result<()> {
    Ok(signals.iter().copied().collect::<SigSet>().thread_block()?)
}

impl Live {
    /// A table of this daemon's jobs, which takes these signals. They must be blocked.
    pub(crate) fn new(client: Client, manner: Manner, signals: &[Signal]) -> io::Result<Live> {
        let mask: SigSet = signals.iter().copied().collect();
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let (bell, ringer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (ask, asked) = mpsc::channel::<()>();
        let (answer, ringer) = (Arc::new(Mutex::new(None)), Arc::new(ringer));
        let (put, ring) = (Arc::clone(&answer), Arc::clone(&ringer));
        std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
            while asked.recv().is_ok() {
                let began = clock::elapsed();
                let said = look(&client);
                let took = clock::elapsed().saturating_sub(began);
                *put.lock().unwrap_or_else(PoisonError::into_inner) = Some(Answer { said, took });
                let _ = rustix::io::write(&*ring, &[ANSWER]);
            }
        })?;
        Ok(Live {
            manner,
            answer,
            ask,
            bell,
            ringer,
            signals,
            shown: None,
            trouble: None,
            scrolled: 0,
        })
    }

    pub(crate) fn stop(&self) -> Stop {
        Stop(Arc::clone(&self.ringer))
    }

    /// Waits for the daemon's first answer, unless something else ends that.
    pub(crate) fn wait_for_daemon(&mut self) -> Option<End> {
        loop {
            let _ = self.ask.send(());
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
                let _ = self.ask.send(());
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
        let Answer { said, took } = answer?;
        match said {
            Ok(snapshot) => {
                self.shown = Some(snapshot);
                self.trouble = None;
            }
            Err(error) => {
                let since = self.trouble.take().map_or_else(clock::now, |(_, since)| since);
                self.trouble = Some((error.to_string(), since));
            }
        }
        Some(took)
    }

    fn press(&mut self, screen: &Screen) -> Option<End> {
        let page = screen.size().rows.saturating_sub(8).max(1);
        match screen.key() {
            Key::Letter('q' | 'Q') => return Some(End::Asked),
            Key::Gone => return Some(End::Gone),
            Key::Letter('n') => self.manner.sort = Sort::Next,
            Key::Letter('l') => self.manner.sort = Sort::Last,
            Key::Letter('a') => self.manner.sort = Sort::Name,
            Key::Up | Key::Letter('k') => self.scrolled = self.scrolled.saturating_sub(1),
            Key::Down | Key::Letter('j') => self.scrolled += 1,
            Key::PageUp => self.scrolled = self.scrolled.saturating_sub(page),
            Key::PageDown => self.scrolled += page,
            Key::Letter(_) | Key::Other => {}
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
                let mut lines = board::daemon_lines(&snapshot.daemon).into_iter();
                lines.by_ref().take(1).for_each(|line| say(&line, Paint::Strong));
                lines.for_each(|line| say(&line, Paint::Doubtful));
            }
        }
        if let Some((message, since)) = self.trouble.as_ref().filter(|_| self.shown.is_some()) {
            let first = message.lines().next().unwrap_or("");
            say(&format!("{} since {since}: {first}", self.manner.lost), Paint::Bad);
        }
        above.push(String::new());
        let keys = format!(
            "sort by: n next, l last, a name ({})   {}",
            match self.manner.sort {
                Sort::Next => "next",
                Sort::Last => "last",
                Sort::Name => "name",
            },
            self.manner.leaving
        );
        let mut below = vec![String::new()];
        let notes = if size.rows < ROWS_FOR_NOTES { &[][..] } else { &self.manner.notes };
        let notes = notes.iter().chain([&keys]);
        below.extend(notes.map(|note| painted(&shortened(note, &style), Paint::Faint, &style)));
        let room = size.rows.saturating_sub(above.len() + below.len());
        let table = self.table(room, &style);
        let mut lines = above;
        lines.extend(table);
        // The notes stand at the bottom.
        let free = size.rows.saturating_sub(lines.len() + below.len());
        lines.extend(std::iter::repeat_n(String::new(), free));
        lines.extend(below);
        lines.truncate(size.rows);
        screen.draw(&lines)
    }

    /// As many jobs as fit below their headers, from where it was scrolled to.
    fn table(&mut self, room: usize, style: &Style) -> Vec<String> {
        let Some(Snapshot { daemon, jobs }) = &self.shown else { return Vec::new() };
        let mut jobs: Vec<&JobView> = jobs.iter().collect();
        sort(&mut jobs, self.manner.sort);
        let rows = room.saturating_sub(1);
        // When not all fit, a line says how many do not.
        let shown = if jobs.len() > rows { rows.saturating_sub(1) } else { rows };
        self.scrolled = self.scrolled.min(jobs.len().saturating_sub(shown));
        let visible = &jobs[self.scrolled..jobs.len().min(self.scrolled + shown)];
        let mut lines = board::table(visible, daemon.time, style);
        if visible.len() < jobs.len() {
            let (first, last) = (self.scrolled + 1, self.scrolled + visible.len());
            let text = format!("{first} to {last} of {} jobs; up and down show others", jobs.len());
            lines.push(painted(&shortened(&text, style), Paint::Faint, style));
        }
        lines.truncate(room);
        lines
    }
}

fn sort(jobs: &mut [&JobView], by: Sort) {
    match by {
        // They come in the order of their names, and that stays where nothing else decides.
        Sort::Name => {}
        Sort::Next => jobs.sort_by_key(|job| {
            let due = job.next.as_ref().filter(|_| job.suspended_by.is_none());
            let due = due.and_then(|next| next.chosen_time.as_deref()?.parse::<UtcSecond>().ok());
            (due.is_none(), due)
        }),
        Sort::Last => jobs.sort_by_key(|job| {
            let last = job.last.as_ref();
            std::cmp::Reverse(last.and_then(|last| last.completed_at.or(last.started_at)))
        }),
    }
}

fn look(client: &Client) -> Result<Snapshot, ClientError> {
    let daemon = client.get("status")?;
    let JobsView { jobs } = client.get("jobs")?;
    Ok(Snapshot { daemon, jobs })
}
