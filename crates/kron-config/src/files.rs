//! Reading definitions from disk, bounded, and telling their formats apart.
//!
//! The only place of this crate that touches the file system.

use std::fs::File;
use std::io::{self, Read};
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
            _ => Category::Configuration,
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
        // As cron does, so that an editor's backup is not a second set of jobs.
        (name, _, Some("cron.d")) => name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
            .then_some(Format::Crontab(CrontabOwner::System)),
        ("crontab", ..) => Some(Format::Crontab(CrontabOwner::System)),
        (_, Some("crontab"), _) | (_, None, Some("crontabs")) => {
            Some(Format::Crontab(CrontabOwner::User(stem.to_owned())))
        }
        _ => None,
    }
}

/// Reads a file, or standard input for `-`.
///
/// A named pipe is refused, because opening one waits for a writer that may never come; what a
/// shell hands over as `/dev/fd/…` is already open and is read.
///
/// # Errors
/// When it cannot be read, is no file, is too large or is not UTF-8.
pub fn read(path: &Path) -> Result<Source, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let limit = SOURCE_BYTES_MAX as u64 + 1;
    if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(io)?;
    } else {
        if !path.metadata().map_err(io)?.is_file() && !path.starts_with("/dev") {
            return Err(ReadError::NotAFile { path: path.to_owned() });
        }
        let file = File::open(path).map_err(io)?;
        file.take(limit).read_to_end(&mut bytes).map_err(io)?;
    }
    if bytes.len() > SOURCE_BYTES_MAX {
        return Err(ReadError::TooLarge { path: path.to_owned() });
    }
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
    if files.is_empty() {
        return Err(ReadError::EmptyDirectory { path: path.to_owned() });
    }
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(files)
}
