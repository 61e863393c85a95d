//! The way of log lines to standard error: a queue and a thread.
//!
//! Standard error may be a pipe that nobody reads. Whoever logs never waits for that: lines wait
//! here, up to a bound, and what does not fit is counted and told once there is room. Lines that
//! fit into a pipe at once are written together; each stays whole. A process that is killed takes
//! with it what waits here, which is nothing while standard error is read.

use std::io;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::{LogFormat, line};
use crate::daemon::worker;
use crate::machine::{Entry, Level};

/// How much may wait.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// Writes of so much to a pipe are not mixed with those of others.
const WRITE_BYTES_MAX: usize = 4096;
/// How long the end of a process is held up for its last lines.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// Lines on their way.
#[derive(Debug)]
pub(super) struct Outlet {
    format: LogFormat,
    state: Mutex<State>,
    /// There is something to write.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Texts that found no room.
    lost: u64,
    writing: bool,
}

impl Outlet {
    pub(super) fn start(format: LogFormat) -> io::Result<&'static Outlet> {
        let outlet: &'static Outlet = Box::leak(Box::new(Outlet {
            format,
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }));
        worker::spawn("log".to_owned(), || outlet.work())?;
        Ok(outlet)
    }

    /// Takes a text that ends its last line.
    pub(super) fn take(&self, text: &str) {
        let mut state = self.lock();
        if state.waiting.len() + text.len() > WAITING_BYTES_MAX {
            state.lost += 1;
            return;
        }
        state.waiting.extend_from_slice(text.as_bytes());
        drop(state);
        self.filled.notify_one();
    }

    pub(super) fn flush(&self) {
        let busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        let _ = self.emptied.wait_timeout_while(self.lock(), FLUSH_PATIENCE, busy);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.waiting.is_empty() {
                state.writing = false;
                self.emptied.notify_all();
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.writing = true;
            let mut texts = mem::take(&mut state.waiting);
            let lost = mem::take(&mut state.lost);
            drop(state);
            if lost > 0 {
                let entry = Entry::new(Level::Warn, "log_lines_lost").with("count", lost);
                texts.extend_from_slice(line(self.format, &entry).as_bytes());
            }
            pieces(&texts).for_each(write);
            state = self.lock();
        }
    }
}

/// Whole lines, as many at once as fit; a longer one by itself.
fn pieces(texts: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = texts;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let fitting = &rest[..rest.len().min(WRITE_BYTES_MAX)];
        let end_of_line = |text: &[u8]| text.iter().position(|&byte| byte == b'\n');
        let end = match fitting.iter().rposition(|&byte| byte == b'\n') {
            Some(end) => end + 1,
            None => end_of_line(rest).map_or(rest.len(), |end| end + 1),
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Past the lock of the standard library's, which a panic elsewhere needs.
fn write(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stderr(), bytes) {
            Ok(length) if length > 0 => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            // Somebody has made it one that does not wait. This thread can.
            Err(Errno::AGAIN) => {
                let stderr = rustix::stdio::stderr();
                let mut fds = [rustix::event::PollFd::new(&stderr, rustix::event::PollFlags::OUT)];
                if rustix::event::poll(&mut fds, None).is_err() {
                    return;
                }
            }
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines_and_as_few_as_can_be() {
        let short = "x".repeat(999) + "\n";
        let long = "y".repeat(10_000) + "\n";
        let texts = short.repeat(5) + &long + &short + "no end";
        let found: Vec<usize> = pieces(texts.as_bytes()).map(<[u8]>::len).collect();
        assert_eq!(found, [4_000, 1_000, 10_001, 1_000, 6]);
        let joined: Vec<u8> = pieces(texts.as_bytes()).flatten().copied().collect();
        assert_eq!(joined, texts.as_bytes());
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let outlet = Outlet {
            format: LogFormat::Text,
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        };
        let line = "x".repeat(WAITING_BYTES_MAX / 2) + "\n";
        for _ in 0..4 {
            outlet.take(&line);
        }
        assert_eq!(outlet.lock().lost, 3);
    }
}
