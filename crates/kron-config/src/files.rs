//! Reading definitions from disk, bounded, and telling their formats apart.
//!
//! Beside [`crate::local_zone`] the only place of this crate that touches the file system.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kron_core::Category;

use crate::load::{CrontabOwner, Format};
use crate::source::{SOURCE_BYTES_MAX, Source};

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It could not be opened or read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a directory, a pipe or another thing without an end.
    #[error("`{}` is not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// It is larger than a definition can be.
    #[error("`{}` is larger than {} MiB", path.display(), SOURCE_BYTES_MAX / 1024 / 1024)]
    TooLarge {
        /// The path.
        path: PathBuf,
    },
    /// It is not a text.
    #[error("`{}` is not UTF-8: line {line} has an invalid byte at column {column}", path.display())]
    NotText {
        /// The path.
        path: PathBuf,
        /// The line of the first invalid byte.
        line: usize,
        /// Its byte in that line, from 1.
        column: usize,
    },
    /// Its name does not tell how it is written.
    #[error("cannot tell how `{}` is written", path.display())]
    UnknownFormat {
        /// The path.
        path: PathBuf,
    },
    /// It belongs to somebody who may not say what runs here.
    #[error("`{}` belongs to user {uid}, who may not say what runs here", path.display())]
    WrongOwner {
        /// The path.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Others than its owner may change it.
    #[error("`{}` may be written by others than its owner: its mode is {mode:04o}", path.display())]
    Writable {
        /// The path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A directory without any file of a known format.
    #[error("`{}` has no file that ends in `.toml`, `.krontab` or `.crontab`", path.display())]
    EmptyDirectory {
        /// The path.
        path: PathBuf,
    },
}

impl ReadError {
    /// The kind of error.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            ReadError::Io { source, .. } if source.kind() != io::ErrorKind::NotFound => {
                Category::System
            }
            ReadError::WrongOwner { .. } | ReadError::Writable { .. } => Category::Validation,
            _ => Category::Configuration,
        }
    }

    /// What to do about it, where there is something to say.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            ReadError::WrongOwner { path, .. } => {
                Some(format!("`chown root {}`, if you trust what is in it", path.display()))
            }
            ReadError::Writable { path, .. } => {
                Some(format!("`chmod go-w {}`, if you trust what is in it", path.display()))
            }
            _ => None,
        }
    }
}

/// The format that a path's name tells.
#[must_use]
pub fn format_of(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    let parent = path.parent().and_then(Path::file_name).and_then(|parent| parent.to_str());
    let extension = path.extension().and_then(|extension| extension.to_str());
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(name);
    match (name, extension, parent) {
        (_, Some("toml"), _) => Some(Format::Toml),
        (_, Some("krontab"), _) => Some(Format::Krontab),
        (name, _, Some("cron.d")) => {
            is_crontab_name(name).then_some(Format::Crontab(CrontabOwner::System))
        }
        ("crontab", ..) => Some(Format::Crontab(CrontabOwner::System)),
        (_, Some("crontab"), _) | (_, None, Some("crontabs")) => {
            Some(Format::Crontab(CrontabOwner::User(stem.to_owned())))
        }
        _ => None,
    }
}

/// Whether cron reads a file of this name in its directory: letters, digits, `_` and `-`. So what a
/// package manager or an editor leaves beside a file is not a second set of jobs.
fn is_crontab_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !name.is_empty() && name.bytes().all(plain)
}

/// The system crontabs a path stands for, in name order: itself, whatever its name, or those files of
/// a directory whose names cron would read. There may be none.
///
/// # Errors
/// When the path cannot be read.
pub fn crontabs(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    if !path.metadata().map_err(io)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(io)? {
        let entry = entry.map_err(io)?;
        let file = entry.path();
        if entry.file_name().to_str().is_some_and(is_crontab_name) && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Whose files are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Anybody's: nothing is run from them.
    Anybody,
    /// Root's and this user's, if nobody else may write them: what they say is run.
    RootAnd(u32),
}

/// Reads a crontab, or standard input for `-`. Bytes that are no UTF-8 become U+FFFD, so that a comment
/// in another encoding spoils nothing; a line that matters and has one is for the loader to refuse.
///
/// # Errors
/// When it cannot be read, is no file, is too large, or is not to be believed.
pub fn read_crontab(path: &Path, trust: Trust) -> Result<Source, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let bytes = if path == Path::new("-") {
        read_bounded(io::stdin().lock(), path)?
    } else {
        let file = open(path)?;
        if let Trust::RootAnd(uid) = trust {
            // What was opened is what is judged, whatever has become of the name meanwhile.
            check_trusted(path, &file.metadata().map_err(io)?, uid)?;
        }
        read_bounded(file, path)?
    };
    Ok(Source::new(&path.to_string_lossy(), &String::from_utf8_lossy(&bytes)))
}

/// Opens a file. A named pipe is refused, because opening one waits for a writer that may never come;
/// what a shell hands over as `/dev/fd/…` is already open and is read.
fn open(path: &Path) -> Result<File, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    if !path.metadata().map_err(io)?.is_file() && !path.starts_with("/dev") {
        return Err(ReadError::NotAFile { path: path.to_owned() });
    }
    File::open(path).map_err(io)
}

/// Whether a file is one that only root and this user could have written.
fn check_trusted(path: &Path, metadata: &Metadata, own_uid: u32) -> Result<(), ReadError> {
    /// Writable by the group or by others.
    const WRITABLE: u32 = 0o022;
    let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if uid != 0 && uid != own_uid {
        return Err(ReadError::WrongOwner { path: path.to_owned(), uid });
    }
    if mode & WRITABLE != 0 {
        return Err(ReadError::Writable { path: path.to_owned(), mode });
    }
    Ok(())
}

fn read_bounded(input: impl Read, path: &Path) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let limit = SOURCE_BYTES_MAX as u64 + 1;
    input
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    if bytes.len() > SOURCE_BYTES_MAX {
        return Err(ReadError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// When it cannot be read, is no file, is too large or is not UTF-8.
pub fn read(path: &Path) -> Result<Source, ReadError> {
    let bytes = if path == Path::new("-") {
        read_bounded(io::stdin().lock(), path)?
    } else {
        read_bounded(open(path)?, path)?
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Source::new(&path.to_string_lossy(), text)),
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            let line_start = valid.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            Err(ReadError::NotText {
                path: path.to_owned(),
                line: valid.iter().filter(|&&byte| byte == b'\n').count() + 1,
                column: valid.len() - line_start + 1,
            })
        }
    }
}

/// The files a path stands for, with their formats, in name order: itself, or the files of a
/// directory whose names tell a format. `format` overrides what a file's name tells.
///
/// # Errors
/// When the path cannot be read or no format is known.
pub fn expand(path: &Path, format: Option<&Format>) -> Result<Vec<(PathBuf, Format)>, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    if path == Path::new("-") || !path.metadata().map_err(io)?.is_dir() {
        let format = format.cloned().or_else(|| format_of(path));
        let format = format.ok_or_else(|| ReadError::UnknownFormat { path: path.to_owned() })?;
        return Ok(vec![(path.to_owned(), format)]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(io)? {
        let file = entry.map_err(io)?.path();
        let hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden || !file.is_file() {
            continue;
        }
        if let Some(format) = format.cloned().or_else(|| format_of(&file)) {
            files.push((file, format));
        }
    }
    // Where cron's files go there may be none, and nothing was mistaken.
    if files.is_empty() && path.file_name().is_none_or(|name| name != "cron.d") {
        return Err(ReadError::EmptyDirectory { path: path.to_owned() });
    }
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(files)
}
