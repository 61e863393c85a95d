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

use nix::unistd::{Gid, Group, chown};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The permissions of a socket with a group that may read.
const GROUP_MODE: u32 = 0o660;
/// The permissions of one without.
const PRIVATE_MODE: u32 = 0o600;
/// The permissions of the directories that are made for it.
const DIRECTORY_MODE: u32 = 0o755;
/// Bytes that the system lets the path of a socket have, without the one that ends it.
const PATH_BYTES_MAX: usize = 107;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    /// Something that is no socket has its name.
    #[error("`{}` is there already, and is no socket", path.display())]
    Occupied { path: PathBuf },
    /// Another daemon answers there.
    #[error("another process answers on `{}`", path.display())]
    InUse { path: PathBuf },
    /// The system takes no path as long as that.
    #[error(
        "the path `{}` has {} bytes, and that of a socket may have at most {PATH_BYTES_MAX}",
        path.display(), path.as_os_str().len()
    )]
    TooLong { path: PathBuf },
    /// The name service does not answer.
    #[error("cannot look up the group `{name}`")]
    Group { name: String, source: io::Error },
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
            SocketError::TooLong { .. } => {
                Some("choose a shorter path with `--socket`, and give `kron` the same")
            }
            SocketError::Group { .. } | SocketError::Io { .. } => None,
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
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(SocketError::TooLong { path: path.to_owned() });
    }
    if let Some(directory) = path.parent() {
        make_directories(directory).map_err(failed("make the directory of"))?;
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

/// Makes a directory and those above it, as far as they are missing. Whatever the daemon's mask, each
/// that is made lets everybody through: whom the socket lets in must be able to reach it.
fn make_directories(directory: &Path) -> io::Result<()> {
    let missing = |path: &&Path| {
        !path.as_os_str().is_empty() && !path.try_exists().is_ok_and(|exists| exists)
    };
    let missing: Vec<&Path> = directory.ancestors().take_while(missing).collect();
    for path in missing.into_iter().rev() {
        match fs::create_dir(path) {
            Ok(()) => set_mode(path, DIRECTORY_MODE)?,
            // Somebody else was faster, and it is his.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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

/// The number of a group, if there is such a group. Asks the name service, which may take a while.
pub(super) fn group_number(name: &str) -> Result<Option<Gid>, SocketError> {
    let found = Group::from_name(name)
        .map_err(|errno| SocketError::Group { name: name.to_owned(), source: errno.into() })?;
    Ok(found.map(|group| group.gid))
}

impl SocketFile {
    /// Lets a group in, if there is one and the daemon may.
    pub(super) fn admit(&self, group: Option<Gid>) -> Result<Admission, SocketError> {
        let failed = |operation| {
            move |source| SocketError::Io { operation, path: self.path.clone(), source }
        };
        let admission = match group.map(|group| chown(&self.path, None, Some(group))) {
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
    use rustix::net::{Shutdown, shutdown};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// Nobody listens any more, though a process that another test starts may have the socket for a
    /// moment longer.
    fn hush(listener: UnixListener) {
        shutdown(&listener, Shutdown::Both).unwrap();
        drop(listener);
    }

    #[test]
    fn a_socket_is_private_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/krond.sock");
        let (listener, file) = bind(&path).unwrap();
        assert_eq!(mode(&path), PRIVATE_MODE);
        assert_eq!(mode(&dir.path().join("run")), DIRECTORY_MODE);
        let group = group_number("no such group as this").unwrap();
        assert_eq!(file.admit(group).unwrap(), Admission::NoSuchGroup);
        assert_eq!(mode(&path), PRIVATE_MODE);
        hush(listener);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_may_be_just_so_long() {
        let dir = tempfile::tempdir().unwrap();
        let room = PATH_BYTES_MAX - dir.path().as_os_str().len() - "/".len();
        let longest = dir.path().join("x".repeat(room));
        drop(bind(&longest).unwrap());
        let longer = dir.path().join("new").join("x".repeat(room));
        let error = bind(&longer).unwrap_err();
        let length = longer.as_os_str().len();
        assert!(
            error.to_string().ends_with(&format!(
                "has {length} bytes, and that of a socket may have at most 107"
            ))
        );
        assert!(error.hint().is_some_and(|hint| hint.contains("`--socket`")));
        assert!(!dir.path().join("new").exists(), "nothing is made for it");
    }

    #[test]
    fn what_is_left_over_is_replaced_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("krond.sock");
        hush(UnixListener::bind(&path).unwrap());
        let (listener, file) = bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(SocketError::InUse { .. })));
        hush(listener);
        // Another daemon took its place: that file is not this one's to remove.
        let other = bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
        let (listener, file) = other;
        hush(listener);
        drop(file);
        fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path), Err(SocketError::Occupied { .. })));
        assert!(path.exists());
    }
}
