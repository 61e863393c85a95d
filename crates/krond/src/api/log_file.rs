//! The output of a run, read piece by piece.
//!
//! A piece starts at an offset and has at most [`PIECE_BYTES_MAX`] bytes. The file is opened
//! without following a link and must be a regular file; whoever asks names a run, never a path.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// The bytes of one answer.
pub(super) const PIECE_BYTES_MAX: u64 = 1024 * 1024;

/// A part of a run's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// How long the file was when it was looked at.
    pub(super) file_bytes: u64,
}

/// Reads what follows `offset`; `None` when there is no such file.
pub(super) fn read(path: &Path, offset: u64) -> io::Result<Option<Piece>> {
    let Some(mut file) = open(path)? else { return Ok(None) };
    let file_bytes = file.metadata()?.len();
    let mut bytes = Vec::new();
    if offset < file_bytes {
        file.seek(SeekFrom::Start(offset))?;
        file.take(PIECE_BYTES_MAX).read_to_end(&mut bytes)?;
    }
    Ok(Some(Piece { bytes, file_bytes }))
}

fn open(path: &Path) -> io::Result<Option<File>> {
    // Without waiting, so that something that is no file cannot make us wait either.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.log");
        assert_eq!(read(&path, 0).unwrap(), None);
        let whole: Vec<u8> = (0..2 * PIECE_BYTES_MAX + 5).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &whole).unwrap();
        let mut seen = Vec::new();
        let mut pieces = 0;
        loop {
            let piece = read(&path, seen.len() as u64).unwrap().unwrap();
            assert_eq!(piece.file_bytes, whole.len() as u64);
            if piece.bytes.is_empty() {
                break;
            }
            assert!(piece.bytes.len() as u64 <= PIECE_BYTES_MAX);
            seen.extend(piece.bytes);
            pieces += 1;
        }
        assert!(seen == whole);
        assert_eq!(pieces, 3);
        assert_eq!(read(&path, u64::MAX).unwrap().unwrap().bytes, b"");
    }

    #[test]
    fn links_fifos_and_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(read(&link, 0).is_err());
        assert!(read(dir.path(), 0).is_err());
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(read(&fifo, 0).is_err());
    }
}
