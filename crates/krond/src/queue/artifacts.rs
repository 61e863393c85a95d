//! What a run leaves behind: a directory of its own, whose files are recorded when it has ended.
//!
//! The directory is below the state directory, into which nobody but the daemon's user can look. A
//! command of another user writes to a staging directory instead, from which its files are taken
//! over at the end. That lies beside the state directory, in one that only the daemon can write to:
//! nobody else can put a directory there or learn what is in one.
//!
//! Nothing is followed on the way: only plain files count, and of staged ones only those of the
//! command's user. Everything is bounded: files, bytes, depth and time. What goes beyond is left out
//! and noted; the end of a run never waits for it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kron_queue::{Artifact, RunId, limits};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};
use sha2::{Digest as _, Sha256};

use super::artifacts_path;
use crate::daemon::clock;

/// How deep directories may lie in each other.
const DEPTH_MAX: usize = 16;
/// Bytes of all files of a run that are recorded.
const BYTES_MAX: u64 = 4 << 30;
/// How long recording them may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 * 1024;

/// What a run has left.
#[derive(Debug)]
pub(crate) struct Left {
    /// Its files, in the order of their names.
    pub(crate) artifacts: Vec<Artifact>,
    /// What could not be recorded, and why.
    pub(crate) notes: Vec<String>,
    bytes_left: u64,
    files_left: usize,
    until: Duration,
}

impl Left {
    fn new(bytes_max: u64, patience: Duration) -> Left {
        Left {
            artifacts: Vec::new(),
            notes: Vec::new(),
            bytes_left: bytes_max,
            files_left: limits::ARTIFACTS_MAX,
            until: clock::now().boot + patience,
        }
    }

    fn note(&mut self, name: &Path, why: impl std::fmt::Display) {
        // As many notes as files are enough to see what is the matter.
        if self.notes.len() < limits::ARTIFACTS_MAX {
            self.notes.push(format!("`{}`: {why}", name.display()));
        }
    }

    /// Makes room for a file, if there is some.
    fn admit(&mut self, bytes: u64) -> io::Result<()> {
        if self.files_left == 0 {
            return Err(io::Error::other("there are too many files"));
        }
        if bytes > self.bytes_left {
            return Err(io::Error::other("there are too many bytes"));
        }
        self.files_left -= 1;
        self.bytes_left -= bytes;
        Ok(())
    }

    fn is_late(&self) -> bool {
        clock::now().boot >= self.until
    }
}

/// Makes the directory of a run, for a command of this user, or of the daemon's when absent.
pub(crate) fn prepare(
    state_dir: &Path,
    run: RunId,
    owner: Option<(u32, u32)>,
) -> io::Result<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let Some((uid, gid)) = owner.filter(|(uid, _)| *uid != own) else {
        let private = artifacts_path(state_dir, run);
        DirBuilder::new().recursive(true).mode(0o700).create(&private)?;
        return Ok(private);
    };
    let all = staging(state_dir);
    match DirBuilder::new().mode(0o711).create(&all) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result?,
    }
    let directory = open_directory(&all)?;
    let found = rustix::fs::fstat(&directory)?;
    if found.st_uid != own || found.st_mode & 0o022 != 0 {
        let why = format!("`{}` is not this daemon's own", all.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    // The mask of the daemon is narrower.
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o711))?;
    let staged = all.join(run.to_string());
    DirBuilder::new().mode(0o700).create(&staged)?;
    let directory = open_directory(&staged)?;
    rustix::fs::fchown(&directory, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    Ok(staged)
}

/// Where commands of other users leave their files until these are taken over.
fn staging(state_dir: &Path) -> PathBuf {
    let mut name = state_dir.file_name().unwrap_or(OsStr::new("krond")).to_owned();
    name.push("-artifacts");
    state_dir.with_file_name(name)
}

/// Takes over what a run has left, and records it. A run that has left nothing leaves no directory.
pub(crate) fn collect(state_dir: &Path, run: RunId) -> Left {
    collect_within(state_dir, run, BYTES_MAX, PATIENCE)
}

fn collect_within(state_dir: &Path, run: RunId, bytes_max: u64, patience: Duration) -> Left {
    let mut left = Left::new(bytes_max, patience);
    let private = artifacts_path(state_dir, run);
    let staged = staging(state_dir).join(run.to_string());
    if let Err(error) = take_over(&staged, &private, &mut left) {
        left.note(&staged, error);
    }
    // Recording counts anew what taking over has counted.
    (left.bytes_left, left.files_left) = (bytes_max, limits::ARTIFACTS_MAX);
    match open_directory(&private) {
        Ok(directory) => record(&directory, Path::new(""), DEPTH_MAX, &mut left),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => left.note(&private, error),
    }
    left.artifacts.sort_by(|one, other| one.path.cmp(&other.path));
    if left.artifacts.is_empty() {
        // It stays when something is in it that could not be recorded.
        let _ = fs::remove_dir(&private);
    }
    left
}

/// Removes what a run has left.
pub(crate) fn remove(state_dir: &Path, run: RunId) -> io::Result<()> {
    remove_all(&artifacts_path(state_dir, run))?;
    remove_staged(state_dir, run)
}

/// Removes what a run has left where only commands of other users leave something.
pub(crate) fn remove_staged(state_dir: &Path, run: RunId) -> io::Result<()> {
    remove_all(&staging(state_dir).join(run.to_string()))
}

/// The runs that have something staged.
pub(crate) fn staged(state_dir: &Path) -> io::Result<Vec<RunId>> {
    let entries = match fs::read_dir(staging(state_dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let names = names.collect::<io::Result<Vec<OsString>>>()?;
    Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
}

fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn take_over(staged: &Path, private: &Path, left: &mut Left) -> io::Result<()> {
    let directory = match open_directory(staged) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    let owner = rustix::fs::fstat(&directory)?.st_uid;
    // What an interrupted attempt has left is taken over anew.
    remove_all(private)?;
    DirBuilder::new().recursive(true).mode(0o700).create(private)?;
    copy_all(&directory, private, owner, DEPTH_MAX, left)?;
    remove_all(staged)
}

fn copy_all(
    from: &OwnedFd,
    to: &Path,
    owner: u32,
    depth: usize,
    left: &mut Left,
) -> io::Result<()> {
    for (name, kind) in entries(from, left)? {
        let target = to.join(&name);
        if left.is_late() {
            left.note(&target, "there was no time for it");
            return Ok(());
        }
        let result = match kind {
            Kind::Directory if depth == 0 => Err(io::Error::other("it lies too deep")),
            Kind::Directory => {
                DirBuilder::new().mode(0o700).create(&target)?;
                let inner = open_at(from, &name, OFlags::DIRECTORY)?;
                copy_all(&inner, &target, owner, depth - 1, left)
            }
            Kind::File => copy(from, &name, &target, owner, left),
            Kind::Other => Err(io::Error::other("it is no plain file")),
        };
        if let Err(error) = result {
            left.note(&target, error);
        }
    }
    Ok(())
}

fn copy(
    from: &OwnedFd,
    name: &OsStr,
    target: &Path,
    owner: u32,
    left: &mut Left,
) -> io::Result<()> {
    let mut source = File::from(open_at(from, name, OFlags::NONBLOCK)?);
    let found = source.metadata()?;
    if !found.is_file() || found.uid() != owner {
        return Err(io::Error::other("it is somebody else's"));
    }
    left.admit(found.len())?;
    let mut sink = File::options().write(true).create_new(true).mode(0o600).open(target)?;
    // Somebody may still be writing: what was there when it was looked at is taken.
    let mut rest = found.len();
    each_piece(&mut source, &mut rest, left, |piece| sink.write_all(piece))?;
    sink.flush()
}

/// Records the files below a directory.
fn record(directory: &OwnedFd, prefix: &Path, depth: usize, left: &mut Left) {
    let found = match entries(directory, left) {
        Ok(found) => found,
        Err(error) => return left.note(prefix, error),
    };
    for (name, kind) in found {
        let path = prefix.join(&name);
        if left.is_late() {
            return left.note(&path, "there was no time for it");
        }
        let recordable = |text: &&str| {
            text.len() <= limits::PATH_BYTES_MAX && !text.chars().any(char::is_control)
        };
        let Some(text) = path.to_str().filter(recordable).map(str::to_owned) else {
            left.note(&path, "its name cannot be recorded");
            continue;
        };
        let result = match kind {
            Kind::Directory if depth == 0 => Err(io::Error::other("it lies too deep")),
            Kind::Directory => open_at(directory, &name, OFlags::DIRECTORY)
                .map(|inner| record(&inner, &path, depth - 1, left)),
            Kind::File => artifact(directory, &name, text, left),
            Kind::Other => Err(io::Error::other("it is no plain file")),
        };
        if let Err(error) = result {
            left.note(&path, error);
        }
    }
}

fn artifact(directory: &OwnedFd, name: &OsStr, path: String, left: &mut Left) -> io::Result<()> {
    let mut file = File::from(open_at(directory, name, OFlags::NONBLOCK)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    left.admit(found.len())?;
    let mut hash = Sha256::new();
    let mut rest = found.len();
    each_piece(&mut file, &mut rest, left, |piece| {
        hash.update(piece);
        Ok(())
    })?;
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    left.artifacts.push(Artifact { path, size_bytes: found.len() - rest, sha256 });
    Ok(())
}

/// Reads up to `rest` bytes, piece by piece; what was not there stays in it.
fn each_piece(
    file: &mut File,
    rest: &mut u64,
    left: &Left,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    while *rest > 0 {
        if left.is_late() {
            return Err(io::Error::other("there was no time for it"));
        }
        let wanted = usize::try_from(*rest).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let length = file.read(&mut piece[..wanted])?;
        if length == 0 {
            return Ok(());
        }
        take(&piece[..length])?;
        *rest -= length as u64;
    }
    Ok(())
}

enum Kind {
    File,
    Directory,
    Other,
}

/// What is in a directory, in the order of names; no more than may be recorded.
fn entries(directory: &OwnedFd, left: &mut Left) -> io::Result<Vec<(OsString, Kind)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let status = rustix::fs::statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        };
        let name = OsString::from_vec(name.to_bytes().to_vec());
        if found.len() == limits::ARTIFACTS_MAX {
            left.note(Path::new(&name), "there are too many files");
            break;
        }
        found.push((name, kind));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

fn open_at(directory: &OwnedFd, name: &OsStr, extra: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use kron_testkit::needs::{Need, left_out};

    use super::*;

    struct Place {
        _root: tempfile::TempDir,
        state: PathBuf,
    }

    fn place() -> Place {
        let root = tempfile::tempdir().unwrap();
        let state = root.path().join("state");
        fs::create_dir(&state).unwrap();
        Place { _root: root, state }
    }

    fn run() -> RunId {
        "01890000-0000-7000-8000-000000000001".parse().unwrap()
    }

    fn names(left: &Left) -> Vec<&str> {
        left.artifacts.iter().map(|artifact| artifact.path.as_str()).collect()
    }

    #[test]
    fn files_are_recorded_with_size_and_hash_and_links_are_not_followed() {
        let place = place();
        let directory = prepare(&place.state, run(), None).unwrap();
        fs::create_dir(directory.join("sub")).unwrap();
        fs::write(directory.join("sub/b.txt"), "abc").unwrap();
        fs::write(directory.join("a.txt"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.join("link")).unwrap();
        let left = collect(&place.state, run());
        assert_eq!(
            left.artifacts,
            [
                Artifact {
                    path: "a.txt".into(),
                    size_bytes: 0,
                    sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
                        .into()
                },
                Artifact {
                    path: "sub/b.txt".into(),
                    size_bytes: 3,
                    sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
                        .into()
                },
            ]
        );
        assert_eq!(left.notes, ["`link`: it is no plain file"]);
        let again = collect(&place.state, run());
        assert_eq!(again.artifacts, left.artifacts, "looking changes nothing");
    }

    #[test]
    fn a_run_that_left_nothing_leaves_no_directory() {
        let place = place();
        let directory = prepare(&place.state, run(), None).unwrap();
        let left = collect(&place.state, run());
        assert!(left.artifacts.is_empty() && left.notes.is_empty());
        assert!(!directory.exists());
    }

    #[test]
    fn what_goes_beyond_a_limit_is_left_out_and_the_rest_is_not() {
        let place = place();
        let directory = prepare(&place.state, run(), None).unwrap();
        fs::write(directory.join("a\nb"), "x").unwrap();
        fs::write(directory.join("good"), "x").unwrap();
        let huge = File::create(directory.join("huge")).unwrap();
        huge.set_len(4 << 40).unwrap();
        let left = collect(&place.state, run());
        assert_eq!(names(&left), ["good"]);
        assert_eq!(left.notes.len(), 2, "{:?}", left.notes);
        for number in 0..limits::ARTIFACTS_MAX + 10 {
            fs::write(directory.join(format!("z{number}")), "").unwrap();
        }
        assert!(collect(&place.state, run()).artifacts.len() <= limits::ARTIFACTS_MAX);
        let late = collect_within(&place.state, run(), BYTES_MAX, Duration::ZERO);
        assert!(late.artifacts.is_empty() && !late.notes.is_empty());
    }

    #[test]
    fn what_another_user_left_is_taken_over_and_nothing_of_others() {
        if left_out("files of another user", &[Need::Root]) {
            return;
        }
        let place = place();
        let directory = prepare(&place.state, run(), Some((65_534, 65_534))).unwrap();
        assert!(!directory.starts_with(&place.state));
        let all = directory.parent().unwrap();
        let mode = fs::metadata(all).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o711, "nobody else makes anything there, or lists it");
        for (name, uid) in [("own", 65_534), ("roots", 0)] {
            fs::write(directory.join(name), name).unwrap();
            std::os::unix::fs::chown(directory.join(name), Some(uid), None).unwrap();
        }
        std::os::unix::fs::symlink("/etc/shadow", directory.join("link")).unwrap();
        let left = collect(&place.state, run());
        assert_eq!(names(&left), ["own"]);
        assert_eq!(left.notes.len(), 2, "{:?}", left.notes);
        assert!(!directory.exists(), "nothing stays behind");
        assert!(staged(&place.state).unwrap().is_empty());
    }

    #[test]
    fn a_place_for_staging_that_others_can_write_to_is_not_used() {
        if left_out("files of another user", &[Need::Root]) {
            return;
        }
        let place = place();
        let all = staging(&place.state);
        fs::create_dir(&all).unwrap();
        std::os::unix::fs::chown(&all, Some(65_534), None).unwrap();
        assert!(prepare(&place.state, run(), Some((65_534, 65_534))).is_err());
        fs::remove_dir(&all).unwrap();
        std::os::unix::fs::symlink("/tmp", &all).unwrap();
        assert!(prepare(&place.state, run(), Some((65_534, 65_534))).is_err());
    }

    #[test]
    fn a_link_in_a_private_directory_is_never_written_through() {
        if left_out("files of another user", &[Need::Root]) {
            return;
        }
        let place = place();
        let victim = place.state.join("victim");
        fs::write(&victim, "precious").unwrap();
        let private = artifacts_path(&place.state, run());
        fs::create_dir_all(&private).unwrap();
        std::os::unix::fs::symlink(&victim, private.join("latest")).unwrap();
        let directory = prepare(&place.state, run(), Some((65_534, 65_534))).unwrap();
        fs::write(directory.join("latest"), "evil").unwrap();
        std::os::unix::fs::chown(directory.join("latest"), Some(65_534), None).unwrap();
        collect(&place.state, run());
        let mut kept = String::new();
        File::open(&victim).unwrap().read_to_string(&mut kept).unwrap();
        assert_eq!(kept, "precious");
    }
}
