//! The command's output on its way to where it is kept.
//!
//! Nothing here can end a run: what cannot be kept is dropped and counted, and where a file can
//! say so it says so. The supervisor reads as fast as the command writes, so a command never
//! waits for a limit; it waits only for the disk, and a moment for a slow system log.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    Gid, Mode, OFlags, Uid, fchown, fcntl_getfl, fcntl_setfl, fstat, mkdir, open, openat,
};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::plan::{Credentials, Output};

/// Bytes that are carried at once.
const BUFFER_BYTES: usize = 16 << 10;
/// Bytes of one message to the system log; longer lines become several.
const SYSLOG_LINE_BYTES_MAX: usize = 2 << 10;
/// How long a system log that takes nothing is waited for, once until it takes something again.
const SYSLOG_PATIENCE_MS: i64 = 100;
/// Where the system log listens.
const SYSLOG_SOCKET: &str = "/dev/log";
/// Facility `cron`, severity `info`, as other schedulers mark what their jobs print.
const SYSLOG_PRIORITY: u8 = 9 << 3 | 6;

/// Where the output goes, opened.
pub(super) struct Opened {
    /// The command's end; absent when it writes to the supervisor's own streams.
    pub(super) stream: Option<OwnedFd>,
    /// The supervisor's end, where it carries anything.
    pub(super) pump: Option<Pump>,
}

/// Opens what `output` says, with the supervisor's privileges, for a command of this user.
pub(super) fn open_output(output: &Output, user: Option<&Credentials>) -> io::Result<Opened> {
    let sink = match output {
        Output::Inherit => return Ok(Opened { stream: None, pump: None }),
        Output::Discard => {
            let null = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            return Ok(Opened { stream: Some(null), pump: None });
        }
        Output::Log { path, bytes_max } => Sink::Log(Log::create(path, *bytes_max)?),
        Output::Syslog { tag } => Sink::Syslog(Syslog::new(tag)),
    };
    let (pipe, stream) = pipe_with(PipeFlags::CLOEXEC)?;
    // Only this end: the command's must not surprise it.
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
    if let Some(Credentials { uid, gid, .. }) = user {
        // Else the command could not open its own `/dev/stdout`. Whoever may not do this may not
        // become that user either and is refused there.
        let _ = fchown(&stream, Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)));
    }
    let buffer = vec![0; BUFFER_BYTES].into();
    Ok(Opened {
        stream: Some(stream),
        pump: Some(Pump { pipe: Some(pipe), sink, count: Count::default(), buffer }),
    })
}

/// What became of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) kept: u64,
    pub(super) dropped: u64,
}

/// Carries the output from the command's pipe to its sink.
pub(super) struct Pump {
    /// Absent once every writer has closed it.
    pipe: Option<OwnedFd>,
    sink: Sink,
    count: Count,
    buffer: Box<[u8]>,
}

enum Sink {
    Log(Log),
    Syslog(Syslog),
}

impl Pump {
    /// Readable when there is something to carry.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Marks messages to the system log with the command's process.
    pub(super) fn name_process(&mut self, pid: i32) {
        if let Sink::Syslog(syslog) = &mut self.sink {
            syslog.name_process(pid);
        }
    }

    /// Carries one buffer; says how many bytes that were.
    pub(super) fn carry(&mut self) -> usize {
        let Some(pipe) = &self.pipe else { return 0 };
        match rustix::io::read(pipe, &mut *self.buffer) {
            Ok(length) if length > 0 => {
                let bytes = &self.buffer[..length];
                match &mut self.sink {
                    Sink::Log(log) => log.take(bytes, &mut self.count),
                    Sink::Syslog(syslog) => syslog.take(bytes, &mut self.count),
                }
                length
            }
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Ok(_) | Err(_) => {
                self.pipe = None;
                0
            }
        }
    }

    /// Carries what is in the pipe now, without waiting for those who still hold it open, and
    /// says what became of everything.
    pub(super) fn finish(mut self) -> Count {
        let waiting = self.pipe.as_ref().map_or(Ok(0), rustix::io::ioctl_fionread);
        let mut waiting = waiting.unwrap_or_default();
        while waiting > 0 {
            let carried = self.carry() as u64;
            if carried == 0 {
                break;
            }
            waiting = waiting.saturating_sub(carried);
        }
        if let Sink::Syslog(syslog) = &mut self.sink {
            syslog.flush(&mut self.count);
        }
        self.count
    }

    /// Removes the log of a command that was never executed.
    pub(super) fn discard(self) {
        if let Sink::Log(log) = self.sink {
            // An empty file that stays behind is untidy and nothing worse.
            let _ = std::fs::remove_file(log.path);
        }
    }
}

/// A new file that keeps so much and no more.
struct Log {
    file: std::fs::File,
    path: PathBuf,
    room: u64,
    /// Whether the file says that it is full.
    marked: bool,
    /// Bytes that could not be written since the last that could.
    lost: u64,
    at_line_start: bool,
}

impl Log {
    fn create(path: &Path, bytes_max: u64) -> io::Result<Log> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let directory = open_directory(parent)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Log {
            file: file.into(),
            path: path.to_owned(),
            room: bytes_max,
            marked: false,
            lost: 0,
            at_line_start: true,
        })
    }

    fn take(&mut self, bytes: &[u8], count: &mut Count) {
        let (kept, beyond) = bytes
            .split_at(usize::try_from(self.room).map_or(bytes.len(), |room| room.min(bytes.len())));
        if !kept.is_empty() {
            let written = self.put(kept) as u64;
            self.room -= written;
            count.kept += written;
            count.dropped += kept.len() as u64 - written;
        }
        if !beyond.is_empty() {
            count.dropped += beyond.len() as u64;
            if !self.marked {
                self.marked = true;
                let _ = self.mark("the limit of the log is reached, what follows is dropped");
            }
        }
    }

    /// Writes as much of `bytes` as can be; says how much.
    fn put(&mut self, bytes: &[u8]) -> usize {
        if self.lost > 0 {
            let gap = format!("{} bytes could not be written here", self.lost);
            if self.mark(&gap).is_err() {
                self.lost += bytes.len() as u64;
                return 0;
            }
            self.lost = 0;
        }
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write(&bytes[written..]) {
                Ok(length) if length > 0 => written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.lost += (bytes.len() - written) as u64;
                    break;
                }
            }
        }
        if written > 0 {
            self.at_line_start = bytes[written - 1] == b'\n';
        }
        written
    }

    /// A line of our own, which does not count as output.
    fn mark(&mut self, text: &str) -> io::Result<()> {
        let line_end = if self.at_line_start { "" } else { "\n" };
        self.file.write_all(format!("{line_end}[kron: {text}]\n").as_bytes())?;
        self.at_line_start = true;
        Ok(())
    }
}

/// The directory of a log, made if it or its parent is missing, and refused if others may put
/// something there.
fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let make = |path: &Path| match mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    };
    match (make(path), path.parent()) {
        (Err(Errno::NOENT), Some(parent)) => {
            make(parent)?;
            make(path)?;
        }
        (result, _) => result?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty())?;
    let status = fstat(&directory)?;
    let writable = Mode::from_raw_mode(status.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if status.st_uid != rustix::process::geteuid().as_raw() || writable {
        return Err(Errno::PERM.into());
    }
    Ok(directory)
}

/// The system log, line by line.
struct Syslog {
    socket: Option<UnixDatagram>,
    tag: String,
    header: Vec<u8>,
    line: Vec<u8>,
    /// Whether the last message was waited for in vain.
    stalled: bool,
}

impl Syslog {
    fn new(tag: &str) -> Syslog {
        let tag = tag.to_owned();
        Syslog { socket: None, header: Vec::new(), tag, line: Vec::new(), stalled: false }
    }

    fn name_process(&mut self, pid: i32) {
        self.header = format!("<{SYSLOG_PRIORITY}>{}[{pid}]: ", self.tag).into_bytes();
    }

    fn take(&mut self, bytes: &[u8], count: &mut Count) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            for part in text.chunks(SYSLOG_LINE_BYTES_MAX) {
                if self.line.len() + part.len() > SYSLOG_LINE_BYTES_MAX {
                    self.flush(count);
                }
                self.line.extend_from_slice(part);
            }
            if ends {
                self.flush(count);
                count.kept += 1;
            }
        }
    }

    /// Sends the line collected so far.
    fn flush(&mut self, count: &mut Count) {
        if self.line.is_empty() {
            return;
        }
        let bytes = self.line.len() as u64;
        let mut message = self.header.clone();
        message.append(&mut self.line);
        match self.send(&message) {
            Ok(()) => count.kept += bytes,
            Err(_) => count.dropped += bytes,
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        // A log that was restarted listens on another socket: one new attempt.
        for fresh in [false, true] {
            let socket = match self.socket.take().filter(|_| !fresh) {
                Some(socket) => socket,
                None => connect()?,
            };
            match self.send_through(&socket, message) {
                Ok(()) => {
                    self.socket = Some(socket);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket = Some(socket);
                    return Err(error);
                }
                Err(error) if fresh => return Err(error),
                Err(_) => {}
            }
        }
        Err(io::ErrorKind::NotConnected.into())
    }

    fn send_through(&mut self, socket: &UnixDatagram, message: &[u8]) -> io::Result<()> {
        let first = socket.send(message);
        let result = match first {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.stalled => {
                let mut fds = [PollFd::new(socket, PollFlags::OUT)];
                let patience = Timespec { tv_sec: 0, tv_nsec: SYSLOG_PATIENCE_MS * 1_000_000 };
                poll(&mut fds, Some(&patience))?;
                socket.send(message)
            }
            result => result,
        };
        self.stalled = matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        result.map(|_| ())
    }
}

fn connect() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(SYSLOG_SOCKET)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_where_something_is_missing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("private/log");
        let mut log = Log::create(&path, 1_000).expect("a log");
        let mut count = Count::default();
        log.take(b"before\nhalf a line", &mut count);
        // A file that cannot be written to, for a while.
        let file = std::mem::replace(&mut log.file, std::fs::File::open(&path).expect("opened"));
        log.take(b"lost", &mut count);
        log.take(b"lost too", &mut count);
        log.file = file;
        log.take(b"after\n", &mut count);

        let mut text = String::new();
        io::Read::read_to_string(&mut std::fs::File::open(&path).expect("opened"), &mut text)
            .expect("read");
        let expected = "before\nhalf a line\n[kron: 12 bytes could not be written here]\nafter\n";
        assert_eq!(text, expected);
        assert_eq!(count, Count { kept: 24, dropped: 12 });
    }
}
