//! Logs and artifacts, read piece by piece beneath the state directory.
//!
//! **Invariant:** of the logs nothing outside their directory is ever opened, of a run's artifacts
//! nothing outside the run's: the kernel resolves paths beneath them and follows no link, whatever
//! the database or a handler says. What is no regular file counts as absent.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;

use kron_queue::{JobRun, RunId};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::runs::Progress;
use crate::limits::{PIECE_BYTES_MAX, PROGRESS_BYTES_MAX, PROGRESS_CHARS_MAX};

/// The greatest offset that a file can be asked for.
pub(crate) const OFFSET_MAX: u64 = i64::MAX as u64;
/// What a line about progress begins with.
const PROGRESS: &str = "kron-progress: ";

/// A file is there and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a file of the run cannot be read: {0}")]
pub(crate) struct FileError(#[from] io::Error);

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// How long the file was when it was looked at.
    pub(crate) file_bytes: u64,
}

/// Where the outputs of runs are, in the state directory.
const LOGS: &str = "queue/logs";

/// A file of a run: a directory beneath the state directory, and a path beneath that.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    directory: String,
    path: String,
}

impl Place {
    /// The output of a run; one that was recorded elsewhere than among the logs is none.
    pub(crate) fn log(run: &JobRun) -> Place {
        let path = match &run.log_path {
            None => format!("{}.log", run.run_id),
            Some(path) => path
                .strip_prefix(LOGS)
                .and_then(|path| path.strip_prefix('/'))
                .map_or_else(String::new, str::to_owned),
        };
        Place { directory: LOGS.to_owned(), path }
    }

    /// A file that a run produced.
    pub(crate) fn artifact(run_id: RunId, path: &str) -> Place {
        Place { directory: format!("queue/artifacts/{run_id}"), path: path.to_owned() }
    }
}

/// Reads what follows `offset`; `None` when there is no such file.
pub(crate) fn piece(
    state_dir: &Path,
    place: &Place,
    offset: u64,
) -> Result<Option<Piece>, FileError> {
    let Some((mut file, file_bytes)) = open(state_dir, place)? else { return Ok(None) };
    let mut bytes = Vec::new();
    if offset < file_bytes {
        file.seek(SeekFrom::Start(offset))?;
        file.take(PIECE_BYTES_MAX).read_to_end(&mut bytes)?;
    }
    Ok(Some(Piece { bytes, file_bytes }))
}

/// What the last line about progress says, if there is one near the end.
pub(crate) fn progress(state_dir: &Path, place: &Place) -> Result<Option<Progress>, FileError> {
    let Some((mut file, file_bytes)) = open(state_dir, place)? else { return Ok(None) };
    file.seek(SeekFrom::Start(file_bytes.saturating_sub(PROGRESS_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(PROGRESS_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // Before the first and after the last end of a line there may be half a one.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    Ok(whole.lines().rev().find_map(progress_of))
}

fn progress_of(line: &str) -> Option<Progress> {
    let (_, said) = line.split_once(PROGRESS)?;
    let (percent, text) = said.trim().split_once(' ').unwrap_or((said.trim(), ""));
    let percent: f64 = percent.trim_end_matches('%').parse().ok()?;
    if !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let text: String = text.trim().chars().take(PROGRESS_CHARS_MAX).collect();
    Some(Progress { percent, text: Some(text).filter(|text| !text.is_empty()) })
}

fn open(state_dir: &Path, place: &Place) -> io::Result<Option<(File, u64)>> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let state_dir = rustix::fs::openat(CWD, state_dir, directory, Mode::empty())?;
    let Some(directory) = beneath(&state_dir, &place.directory, directory)? else {
        return Ok(None);
    };
    // Without waiting, so that something that is no file cannot make us wait either.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Some(file) = beneath(&directory, &place.path, flags)? else { return Ok(None) };
    let file = File::from(file);
    let found = file.metadata()?;
    Ok(found.is_file().then_some((file, found.len())))
}

/// Opens what is beneath a directory, without a link on the way.
fn beneath(directory: &OwnedFd, path: &str, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(directory, path, flags, Mode::empty(), within) {
        Ok(opened) => Ok(Some(opened)),
        Err(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::INVAL
            | Errno::NAMETOOLONG
            | Errno::NXIO,
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_opened_and_no_link_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        let state = tempfile::tempdir().unwrap();
        let logs = state.path().join("queue/logs");
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::write(logs.join("a.log"), "hello").unwrap();
        let target = outside.path().join("secret");
        std::os::unix::fs::symlink(&target, logs.join("link")).unwrap();
        std::os::unix::fs::symlink("a.log", logs.join("inner")).unwrap();
        std::os::unix::fs::symlink(outside.path(), state.path().join("away")).unwrap();
        rustix::fs::mkfifoat(CWD, logs.join("fifo"), Mode::RUSR).unwrap();
        std::fs::write(state.path().join("queue.db"), "database").unwrap();
        let read = |directory: &str, path: &str, offset| {
            let place = Place { directory: directory.to_owned(), path: path.to_owned() };
            piece(state.path(), &place, offset).unwrap().map(|piece| piece.bytes)
        };
        assert_eq!(read(LOGS, "a.log", 0).unwrap(), b"hello");
        assert_eq!(read(LOGS, "a.log", 3).unwrap(), b"lo");
        assert_eq!(read(LOGS, "a.log", OFFSET_MAX).unwrap(), b"");
        let absolute = target.display().to_string();
        let up = format!("../../../{}/secret", outside.path().file_name().unwrap().display());
        for (directory, path) in [
            (LOGS, absolute.as_str()),
            (LOGS, up.as_str()),
            (LOGS, "../../queue.db"),
            (LOGS, "link"),
            (LOGS, "inner"),
            (LOGS, "fifo"),
            (LOGS, "."),
            (LOGS, "b.log"),
            (LOGS, "a.log/x"),
            (LOGS, "a\0b"),
            (LOGS, ""),
            ("away", "secret"),
            ("..", "secret"),
            ("queue/nothing", "a.log"),
        ] {
            assert_eq!(read(directory, path, 0), None, "{directory} {path:?}");
        }
    }

    #[test]
    fn the_last_whole_line_about_progress_counts() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("log");
        for (text, percent) in [
            ("", None),
            ("kron-progress: 10 ten", None),
            ("kron-progress: 10 ten\nkron-progress: 20", Some(10.0)),
            ("x\nkron-progress: 12.5\ny\n", Some(12.5)),
            ("kron-progress: 10\nkron-progress: 101\nkron-progress: NaN\n", Some(10.0)),
            ("2026-03-01T00:00:00Z kron-progress: 30 words here\n", Some(30.0)),
        ] {
            std::fs::write(&path, text).unwrap();
            let place = Place { directory: ".".to_owned(), path: "log".to_owned() };
            let found = progress(state.path(), &place).unwrap().map(|found| found.percent);
            assert_eq!(found, percent, "{text:?}");
        }
    }
}
