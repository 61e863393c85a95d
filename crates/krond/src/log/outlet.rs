//! The way of log lines to standard error or the journal: a queue and a thread.
//!
//! Standard error may be a pipe that nobody reads, and the journal may be stuck. Whoever logs never
//! waits for that: lines wait here, up to a bound, and what does not fit is counted and told once
//! there is room. Lines that fit into a pipe at once are written together; each stays whole. A
//! process that is killed takes with it what waits here, which is nothing while somebody reads.

use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::journal::{self, Journal};
use super::{LogFormat, Priority, fields, line_of};
use crate::daemon::worker;
use crate::machine::{Entry, Level};

/// How much may wait.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// Writes of so much to a pipe are not mixed with those of others.
const WRITE_BYTES_MAX: usize = 4096;
/// The end of a process is held up for its last lines, which are looked after this often.
const FLUSH_GLANCE: Duration = Duration::from_millis(20);
/// How many looks in a row find no room and nothing written until the lines are given up: at least two
/// seconds. Looks are counted, and not the time: while a machine stands still, the reader of the log
/// stands still as well.
const FULL_GLANCES_MAX: u32 = 100;
/// How many looks there are at all, so that every process ends: at least a minute.
const GLANCES_MAX: u32 = 3_000;

/// Lines on their way.
#[derive(Debug)]
pub(super) struct Outlet {
    format: LogFormat,
    /// Where entries go instead of standard error.
    journal: Option<Journal>,
    state: Mutex<State>,
    /// There is something to write.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
    /// How many writes and datagrams were done with.
    written: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Record>,
    waiting_bytes: usize,
    /// Records that found no room.
    lost: u64,
    writing: bool,
}

/// One entry on its way, or a text for people.
#[derive(Debug)]
pub(super) struct Record {
    priority: Priority,
    /// Ends its last line.
    text: String,
    /// The same for the journal; empty where there is none.
    datagram: Vec<u8>,
}

impl Record {
    /// Texts for people are about what is wrong with their files: a doubt, or an error that says so.
    pub(super) fn plain(text: &str) -> Record {
        let is_error = text.lines().any(|line| line.starts_with("error"));
        let level = if is_error { Level::Error } else { Level::Warn };
        Record { priority: level.into(), text: text.to_owned(), datagram: Vec::new() }
    }

    fn size_bytes(&self) -> usize {
        size_of::<Record>() + self.text.len() + self.datagram.len()
    }
}

impl Outlet {
    pub(super) fn start(
        format: LogFormat,
        journal: Option<Journal>,
    ) -> io::Result<&'static Outlet> {
        let outlet: &'static Outlet = Box::leak(Box::new(Outlet::new(format, journal)));
        worker::spawn("log".to_owned(), || outlet.work())?;
        Ok(outlet)
    }

    fn new(format: LogFormat, journal: Option<Journal>) -> Outlet {
        Outlet {
            format,
            journal,
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            written: AtomicU64::new(0),
        }
    }

    /// An entry as it will be written.
    pub(super) fn record(&self, entry: &Entry) -> Record {
        let fields = fields(entry);
        let text = line_of(self.format, entry, &fields);
        let priority = Priority::from(entry.level);
        let datagram = match self.journal {
            Some(_) => journal::datagram(priority, &text, &fields),
            None => Vec::new(),
        };
        Record { priority, text, datagram }
    }

    pub(super) fn take(&self, record: Record) {
        if record.text.is_empty() {
            return;
        }
        let mut state = self.lock();
        let size_bytes = record.size_bytes();
        if state.waiting_bytes + size_bytes > WAITING_BYTES_MAX {
            state.lost += 1;
            return;
        }
        state.waiting_bytes += size_bytes;
        state.waiting.push(record);
        drop(state);
        self.filled.notify_one();
    }

    /// Waits until everything is written. Lines that find no room for a while are given up, so that a
    /// log without a reader holds up no end; a busy machine, on which there is room, costs no line.
    pub(super) fn flush(&self) {
        // Only a send shows whether the journal has room.
        let has_room = || self.journal.is_none() && has_room(rustix::stdio::stderr());
        self.wait_until_written(FLUSH_GLANCE, has_room);
    }

    /// Waits until everything is written, or it is given up; says whether it is written.
    fn wait_until_written(&self, glance: Duration, has_room: impl Fn() -> bool) -> bool {
        let busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        let (mut full, mut written) = (0, self.written.load(Ordering::Relaxed));
        for _ in 0..GLANCES_MAX {
            let waited = self.emptied.wait_timeout_while(self.lock(), glance, busy);
            let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
            drop(state);
            if !result.timed_out() {
                return true;
            }
            let before = mem::replace(&mut written, self.written.load(Ordering::Relaxed));
            full = if written != before || has_room() { 0 } else { full + 1 };
            if full >= FULL_GLANCES_MAX {
                return false;
            }
        }
        false
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
            let mut records = mem::take(&mut state.waiting);
            state.waiting_bytes = 0;
            let lost = mem::take(&mut state.lost);
            drop(state);
            if lost > 0 {
                let entry = Entry::new(Level::Warn, "log_lines_lost").with("count", lost);
                records.push(self.record(&entry));
            }
            match &self.journal {
                Some(journal) => {
                    for record in &records {
                        send(journal, record);
                        self.written.fetch_add(1, Ordering::Relaxed);
                    }
                }
                None => {
                    let texts: String = records.into_iter().map(|record| record.text).collect();
                    for piece in pieces(texts.as_bytes()) {
                        write(piece);
                        self.written.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            state = self.lock();
        }
    }
}

/// To the journal; or to standard error, where the journal's socket does not take it.
fn send(journal: &Journal, record: &Record) {
    let Record { priority, text, datagram } = record;
    let sent = if datagram.is_empty() {
        journal.send(&journal::datagram(*priority, text, &[]))
    } else {
        journal.send(datagram)
    };
    if sent.is_err() {
        pieces(journal::prefixed(*priority, text).as_bytes()).for_each(write);
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
                if poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None).is_err() {
                    return;
                }
            }
            Ok(_) | Err(_) => return,
        }
    }
}

/// Whether a write would not wait: there is room, or an error to return.
fn has_room(file: impl AsFd) -> bool {
    let mut files = [PollFd::new(&file, PollFlags::OUT)];
    poll(&mut files, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixDatagram;

    use kron_testkit::waiting::PATIENCE;

    use super::super::journal::tests::read;
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
        let outlet = Outlet::new(LogFormat::Text, None);
        let text = "x".repeat(WAITING_BYTES_MAX / 2) + "\n";
        for _ in 0..4 {
            outlet.take(Record::plain(&text));
        }
        assert_eq!(outlet.lock().lost, 3);
    }

    #[test]
    fn lines_are_given_up_when_there_is_no_room_for_a_while_and_not_before() {
        let outlet = Outlet::new(LogFormat::Text, None);
        outlet.take(Record::plain("a line\n"));
        let glances = Cell::new(0);
        // Whether it is written, and after how many looks, where this shows whether there is room.
        let wait = |has_room: &dyn Fn(u32) -> bool| {
            glances.set(0);
            let is_written = outlet.wait_until_written(Duration::ZERO, || {
                glances.set(glances.get() + 1);
                has_room(glances.get())
            });
            (is_written, glances.get())
        };
        assert_eq!(wait(&|_| false), (false, FULL_GLANCES_MAX));
        // Each bit of room is a new beginning.
        assert_eq!(wait(&|glance| glance == 50), (false, 50 + FULL_GLANCES_MAX));
        assert_eq!(wait(&|_| true), (false, GLANCES_MAX), "a process ends in any case");
        // So is each write: the look after it is not at the room.
        let writes = |glance| {
            outlet.written.fetch_add(u64::from(glance == 50), Ordering::Relaxed);
            false
        };
        assert_eq!(wait(&writes), (false, 50 + FULL_GLANCES_MAX));
        // A machine that is slow, and writes the line at last.
        let at_last = |glance| {
            if glance == 10 * FULL_GLANCES_MAX {
                outlet.lock().waiting.clear();
            }
            true
        };
        assert_eq!(wait(&at_last), (true, 10 * FULL_GLANCES_MAX));
    }

    #[test]
    fn a_pipe_has_room_until_it_is_full_and_again_when_it_is_read() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        assert!(has_room(&writer));
        let mut length = 0;
        while has_room(&writer) {
            length += writer.write(&[b'x'; WRITE_BYTES_MAX]).unwrap();
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        assert!(has_room(&writer));
        drop(reader);
        assert!(has_room(&writer), "what fails does not wait");
    }

    #[test]
    fn texts_for_people_are_errors_where_they_say_so() {
        let rows = [
            ("warning: a doubt\n --> error.toml:1:1\n", Level::Warn),
            ("warning: a doubt\n\nerror: no such zone\n", Level::Error),
        ];
        for (text, level) in rows {
            assert_eq!(Record::plain(text).priority, level.into(), "{text}");
        }
    }

    /// A journal that is nothing but its socket.
    fn journal(dir: &tempfile::TempDir) -> (UnixDatagram, Journal) {
        let path = dir.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        (socket, Journal::at(&path).unwrap())
    }

    fn next(socket: &UnixDatagram) -> BTreeMap<String, String> {
        let mut bytes = [0; 1 << 16];
        let length = socket.recv(&mut bytes).expect("a datagram");
        read(&bytes[..length])
    }

    #[test]
    fn the_journal_gets_the_log_line_and_its_fields() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, journal) = journal(&dir);
        let outlet = Outlet::start(LogFormat::Text, Some(journal)).unwrap();
        let entry = Entry::new(Level::Error, "odd").of(&"a job".into()).with("exit_code", 7);
        outlet.take(outlet.record(&entry));
        outlet.take(Record::plain("warning: one\n  two\n\n"));
        let fields = next(&socket);
        assert_eq!(fields["PRIORITY"], "3");
        assert_eq!(fields["KRON_EVENT"], "odd");
        assert_eq!(fields["KRON_IDENTITY"], "a job");
        assert_eq!(fields["KRON_EXIT_CODE"], "7");
        let (_, told) = fields["MESSAGE"].split_once(' ').unwrap();
        assert_eq!(told, "level=error component=krond event=odd identity=\"a job\" exit_code=7");
        let fields = next(&socket);
        assert_eq!(fields["PRIORITY"], "4");
        assert_eq!(fields["MESSAGE"], "warning: one\n  two");
    }

    #[test]
    fn a_journal_that_reads_nothing_holds_nobody_up_and_learns_what_it_missed() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, journal) = journal(&dir);
        let outlet = Outlet::start(LogFormat::Text, Some(journal)).unwrap();
        let entry = Entry::new(Level::Info, "filling").with("text", "x".repeat(10_000));
        // Far more than two buffers and the queue of the socket hold.
        let taken = 1_000;
        (0..taken).for_each(|_| outlet.take(outlet.record(&entry)));
        let (mut read, mut lost) = (0_u64, 0_u64);
        while read + lost < taken {
            let fields = next(&socket);
            match fields["KRON_EVENT"].as_str() {
                "filling" => read += 1,
                "log_lines_lost" => lost += fields["KRON_COUNT"].parse::<u64>().unwrap(),
                event => panic!("{event}"),
            }
        }
        assert_eq!(read + lost, taken);
        assert!(lost > 0, "there is no end to what waits");
    }

    #[test]
    fn a_journal_that_is_gone_is_no_reason_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, journal) = journal(&dir);
        let path = dir.path().join("socket");
        let outlet = Outlet::start(LogFormat::Text, Some(journal)).unwrap();
        drop(socket);
        std::fs::remove_file(&path).unwrap();
        outlet.take(outlet.record(&Entry::new(Level::Info, "on_standard_error")));
        assert!(outlet.wait_until_written(PATIENCE, || true));
        assert!(!outlet.lock().writing);
        // Whoever takes its place is found.
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        outlet.take(outlet.record(&Entry::new(Level::Info, "here_again")));
        assert_eq!(next(&socket)["KRON_EVENT"], "here_again");
    }
}
