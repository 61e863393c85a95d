//! Bounded lines from a file or standard input, one at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use kron_config::files::ReadError;

use crate::failure::Failure;

/// Bytes a line may have where nothing else is said.
pub(crate) const LINE_BYTES_MAX: usize = 1024 * 1024;

/// A source of lines.
pub(crate) struct Lines {
    path: PathBuf,
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    bytes_max: usize,
}

/// A line without its end.
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    /// It was longer than it may be and has been passed over.
    TooLong,
}

impl Lines {
    /// Lines of a file, or of standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<Lines, Failure> {
        Lines::open_bounded(path, LINE_BYTES_MAX)
    }

    /// The same, with lines of no more than so many bytes.
    pub(crate) fn open_bounded(path: &Path, bytes_max: usize) -> Result<Lines, Failure> {
        let input: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            let file = File::open(path)
                .map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
            Box::new(BufReader::new(file))
        };
        Ok(Lines { path: path.to_owned(), input, line: Vec::new(), bytes_max })
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Failure> {
        self.line.clear();
        let mut whole = true;
        let mut any = false;
        loop {
            let buffer = self
                .input
                .fill_buf()
                .map_err(|source| ReadError::Io { path: self.path.clone(), source })?;
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let used = end.map_or(buffer.len(), |end| end + 1);
            if used > 0 {
                any = true;
                if self.line.len() + part.len() > self.bytes_max {
                    whole = false;
                } else {
                    self.line.extend_from_slice(part);
                }
                self.input.consume(used);
            }
            if end.is_some() || used == 0 {
                let line = if whole { Line::Whole(&self.line) } else { Line::TooLong };
                return Ok(any.then_some(line));
            }
        }
    }
}
