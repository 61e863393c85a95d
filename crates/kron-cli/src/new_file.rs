//! Files that are written once and never overwritten.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use kron_config::files::ReadError;

use crate::failure::Failure;

/// Who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nobody else.
    Private,
    /// Whom the umask allows.
    Public,
}

/// Writes a file that is not there yet; `argument` is the flag that said where.
pub(crate) fn write(
    path: &Path,
    text: &str,
    access: Access,
    argument: &'static str,
) -> Result<(), Failure> {
    let failed = |source| Failure::Read(ReadError::Io { path: path.to_owned(), source });
    let mode = match access {
        Access::Private => 0o600,
        Access::Public => 0o666,
    };
    let mut options = OpenOptions::new();
    let mut file = match options.write(true).create_new(true).mode(mode).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::Unclear {
                message: format!("`{}` is there already", path.display()),
                hint: format!("nothing is overwritten; remove it, or say another `{argument}`"),
            });
        }
        result => result.map_err(failed)?,
    };
    file.write_all(text.as_bytes()).map_err(|error| {
        // Half a file would be read as a whole one.
        let _ = std::fs::remove_file(path);
        failed(error)
    })
}
