//! The control socket's file.
//!
//! It is made by whoever holds the state directory's lock, so a file that is already there is left
//! over from a daemon that is gone, unless somebody listens on it: another state directory's daemon
//! may have been given the same path. It is private until it has its group, and only then readable
//! by that.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::unistd::{Group, chown};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The permissions of a socket with a group that may read.
const GROUP_MODE: u32 = 0o660;
/// The permissions of one without.
const PRIVATE_MODE: u32 = 0o600;
/// The permissions of the directory that is made for it.
const DIRECTORY_MODE: u32 = 0o755;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    /// Something that is no socket has its name.
    #[error("`{}` is there already, and is no socket", path.display())]
    Occupied { path: PathBuf },
    /// Another daemon answers there.
    #[error("another process answers on `{}`", path.display())]
    InUse { path: PathBuf },
    /// The system says no.
    #[error("cannot {operation} `{}`", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
}

impl SocketError {
    /// What can be done about it.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            SocketError::Occupied { .. } => {
                Some("move it away if it is not needed, or choose another place with `--socket`")
            }
            SocketError::InUse { .. } => Some(
                "if it is another krond, give this one its own place with `--socket`; \
                 `kron status --socket PATH` asks who is there",
            ),
            SocketError::Io { .. } => None,
        }
    }
}

/// The file of a control socket. Dropping it removes the file, unless somebody listens there: this
/// daemon still, which a later one finds out about, or another that took its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
}

/// Makes the socket and listens on it.
pub(super) fn bind(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let failed =
        |operation| move |source| SocketError::Io { operation, path: path.to_owned(), source };
    if let Some(directory) = path.parent()
        && !directory.try_exists().map_err(failed("look at the directory of"))?
    {
        fs::create_dir_all(directory).map_err(failed("make the directory of"))?;
        // Whatever the daemon's mask: whom the socket lets in must be able to reach it.
        set_mode(directory, DIRECTORY_MODE).map_err(failed("open the directory of"))?;
    }
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::Occupied { path: path.to_owned() });
        }
        Ok(_) if is_listened_on(path) => {
            return Err(SocketError::InUse { path: path.to_owned() });
        }
        Ok(_) => fs::remove_file(path).map_err(failed("remove"))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("look at")(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed("listen on"))?;
    set_mode(path, PRIVATE_MODE).map_err(failed("set the permissions of"))?;
    Ok((listener, SocketFile { path: path.to_owned() }))
}

/// Whether anybody listens on the socket, found out without waiting: a listener that is too busy
/// to answer is one all the same.
fn is_listened_on(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(socket, &address)
    });
    !matches!(connected, Err(Errno::CONNREFUSED | Errno::NOENT))
}

impl SocketFile {
    /// Lets this group in, if there is such a group and the daemon may.
    pub(super) fn admit(&self, group: &str) -> Result<Admission, SocketError> {
        let failed = |operation| {
            move |source| SocketError::Io { operation, path: self.path.clone(), source }
        };
        let found = Group::from_name(group)
            .map_err(|errno| failed("look up the group of")(errno.into()))?;
        let admission = match found.map(|group| chown(&self.path, None, Some(group.gid))) {
            None => Admission::NoSuchGroup,
            Some(Ok(())) => Admission::Admitted,
            Some(Err(nix::errno::Errno::EPERM)) => Admission::NotPermitted,
            Some(Err(errno)) => return Err(failed("set the group of")(errno.into())),
        };
        let mode = match admission {
            Admission::Admitted => GROUP_MODE,
            Admission::NoSuchGroup | Admission::NotPermitted => PRIVATE_MODE,
        };
        set_mode(&self.path, mode).map_err(failed("set the permissions of"))?;
        Ok(admission)
    }
}

/// Whether a group reaches the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It does.
    Admitted,
    /// There is no such group.
    NoSuchGroup,
    /// The daemon is not in the group, and is not root.
    NotPermitted,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !is_listened_on(&self.path) {
            // One that stays is found to be left over by the next daemon.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_socket_is_private_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/krond.sock");
        let (listener, file) = bind(&path).unwrap();
        assert_eq!(mode(&path), PRIVATE_MODE);
        assert_eq!(mode(&dir.path().join("run")), DIRECTORY_MODE);
        assert_eq!(file.admit("no such group as this").unwrap(), Admission::NoSuchGroup);
        assert_eq!(mode(&path), PRIVATE_MODE);
        drop(listener);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_left_over_is_replaced_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("krond.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (listener, file) = bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(SocketError::InUse { .. })));
        drop(listener);
        // Another daemon took its place: that file is not this one's to remove.
        let other = bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
        let (listener, file) = other;
        drop(listener);
        drop(file);
        fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path), Err(SocketError::Occupied { .. })));
        assert!(path.exists());
    }
}
