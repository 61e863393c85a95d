//! A disk in memory that knows what a power cut would leave of it.
//!
//! What a program sees is one thing, what is on the disk another. Bytes that were written since
//! the last sync of their file may be lost, all of them or the later ones, or be zeros. Names that
//! were given or removed since the last sync of their directory may each, independently of the
//! others, be as before; a renamed file may have both names. That is less than most file systems
//! promise, so that nothing is relied upon that only some of them do.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kron_core::UtcSecond;
use rustix::io::Errno;

use crate::directory::{Contents, Directory, FileError, FileKind, FileVersion, Moves, Refusal};

/// A directory of a disk in memory; [`Disk::new`] gives its outermost one. Clones are the same
/// directory of the same disk.
#[derive(Clone, Debug)]
pub struct Disk {
    shared: Arc<Mutex<Shared>>,
    directory: usize,
}

/// A file of a [`Disk`], opened for writing at its end.
#[derive(Debug)]
pub struct DiskFile(File);

#[derive(Debug)]
struct Shared {
    directories: Vec<Names>,
    now: UtcSecond,
}

/// A file, which is gone with the last of its names and the last who has it open.
#[derive(Clone, Debug)]
struct File(Arc<Mutex<Inode>>);

#[derive(Debug)]
struct Inode {
    /// What was synced.
    synced: Vec<u8>,
    /// What was written after it, one element per write.
    unsynced: Vec<Vec<u8>>,
    modified: UtcSecond,
}

#[derive(Clone, Debug, Default)]
struct Names {
    /// What a program sees.
    seen: BTreeMap<String, Node>,
    /// What was synced.
    synced: BTreeMap<String, Node>,
    /// What happened after that.
    unsynced: Vec<NameChange>,
}

#[derive(Clone, Debug)]
enum Node {
    File(File),
    Directory(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Given(String, Node),
    Removed(String),
    Renamed { from: String, to: String, node: Node },
}

impl Disk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Disk {
        let shared = Shared { directories: vec![Names::default()], now: UtcSecond::MIN };
        Disk { shared: Arc::new(Mutex::new(shared)), directory: 0 }
    }

    /// Sets the time that files written from now on carry.
    pub fn set_now(&self, now: UtcSecond) {
        self.lock().now = now;
    }

    /// A new disk with what a power cut at this moment could leave. Wherever there is a choice
    /// `choose` makes it: it is told how many possibilities there are, and gives one's number. The
    /// first is always that what was not synced is lost, the second that it is kept.
    #[must_use]
    pub fn after_power_cut(&self, choose: &mut dyn FnMut(usize) -> usize) -> Disk {
        let shared = self.lock();
        // A file with two names is still one file.
        let mut survivors: HashMap<*const Mutex<Inode>, File> = HashMap::new();
        let directories: Vec<Names> = shared
            .directories
            .iter()
            .map(|names| {
                let mut seen = names.survivors(choose);
                for node in seen.values_mut() {
                    if let Node::File(file) = node {
                        let survivor = survivors
                            .entry(Arc::as_ptr(&file.0))
                            .or_insert_with(|| File::new(file.lock().survivor(choose)));
                        *node = Node::File(survivor.clone());
                    }
                }
                Names { synced: seen.clone(), seen, unsynced: Vec::new() }
            })
            .collect();
        let survivor = Shared { directories, now: shared.now };
        Disk { shared: Arc::new(Mutex::new(survivor)), directory: self.directory }
    }

    /// Every disk that a power cut at this moment could leave; where there are more than
    /// `count_max`, that many, for which `draw` makes the choices: it is told how many possibilities
    /// there are, and gives one's number.
    #[must_use]
    pub fn survivors(&self, count_max: usize, draw: &mut dyn FnMut(usize) -> usize) -> Vec<Disk> {
        let mut all = Vec::new();
        let mut choices: Vec<(usize, usize)> = Vec::new();
        loop {
            let mut asked = 0;
            all.push(self.after_power_cut(&mut |possibilities| {
                if asked == choices.len() {
                    choices.push((0, possibilities));
                }
                asked += 1;
                choices[asked - 1].0
            }));
            choices.truncate(asked);
            // The next in order: the last choice that has another possibility takes it.
            while choices.last().is_some_and(|(chosen, possible)| chosen + 1 == *possible) {
                choices.pop();
            }
            match choices.last_mut() {
                Some((chosen, _)) => *chosen += 1,
                None => return all,
            }
            if all.len() == count_max {
                return (0..count_max).map(|_| self.after_power_cut(draw)).collect();
            }
        }
    }

    /// Puts a file there, durably and at once, as if the disk had always held it: to damage one.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut shared = self.lock();
        let modified = shared.now;
        let inode = Inode { synced: bytes.to_vec(), unsynced: Vec::new(), modified };
        let node = Node::File(File::new(inode));
        let names = &mut shared.directories[self.directory];
        names.seen.insert(name.to_owned(), node.clone());
        names.synced.insert(name.to_owned(), node);
        let unsynced = std::mem::take(&mut names.unsynced);
        names.unsynced =
            unsynced.into_iter().filter_map(|change| change.not_concerning(name)).collect();
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> Result<Option<File>, FileError> {
        match self.lock().directories[self.directory].seen.get(name) {
            None => Ok(None),
            Some(Node::File(file)) => Ok(Some(file.clone())),
            Some(Node::Directory(_)) => Err(FileError::Refused(Refusal::Kind {
                found: FileKind::Directory,
                wanted: FileKind::Regular,
            })),
        }
    }
}

impl Default for Disk {
    fn default() -> Disk {
        Disk::new()
    }
}

impl File {
    fn new(inode: Inode) -> File {
        File(Arc::new(Mutex::new(inode)))
    }

    fn version(&self) -> FileVersion {
        let inode = self.lock();
        let modified_ns = i128::from(inode.modified.unix()) * 1_000_000_000;
        FileVersion {
            device: 0,
            inode: Arc::as_ptr(&self.0).addr() as u64,
            changed_ns: modified_ns,
            modified_ns,
            bytes: inode.bytes().len() as u64,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inode {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        bytes.extend(self.unsynced.iter().flatten());
        bytes
    }

    fn survivor(&self, choose: &mut dyn FnMut(usize) -> usize) -> Inode {
        let written: Vec<u8> = self.unsynced.concat();
        let kept = if written.is_empty() {
            written
        } else {
            match choose(4) {
                0 => Vec::new(),
                1 => written,
                2 => written[..written.len() / 2].to_vec(),
                _ => vec![0; written.len()],
            }
        };
        let mut synced = self.synced.clone();
        synced.extend(kept);
        Inode { synced, unsynced: Vec::new(), modified: self.modified }
    }
}

impl Names {
    fn change(&mut self, change: NameChange) {
        apply(&mut self.seen, &change);
        self.unsynced.push(change);
    }

    fn survivors(&self, choose: &mut dyn FnMut(usize) -> usize) -> BTreeMap<String, Node> {
        let mut names = self.synced.clone();
        for change in &self.unsynced {
            let possibilities = if matches!(change, NameChange::Renamed { .. }) { 3 } else { 2 };
            match (choose(possibilities), change) {
                (0, _) => {}
                (2, NameChange::Renamed { to, node, .. }) => {
                    names.insert(to.clone(), node.clone());
                }
                _ => apply(&mut names, change),
            }
        }
        names
    }
}

fn apply(names: &mut BTreeMap<String, Node>, change: &NameChange) {
    match change {
        NameChange::Given(name, node) => {
            names.insert(name.clone(), node.clone());
        }
        NameChange::Removed(name) => {
            names.remove(name);
        }
        NameChange::Renamed { from, to, node } => {
            names.remove(from);
            names.insert(to.clone(), node.clone());
        }
    }
}

impl NameChange {
    /// What is left of the change when it no longer matters what it did to `name`.
    fn not_concerning(self, name: &str) -> Option<NameChange> {
        match self {
            NameChange::Given(given, _) | NameChange::Removed(given) if given == name => None,
            NameChange::Renamed { from, to, .. } if to == name => Some(NameChange::Removed(from)),
            change => Some(change),
        }
    }
}

impl Directory for Disk {
    type File = DiskFile;

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }

    fn subdirectory(&self, name: &str) -> Result<Disk, FileError> {
        if let Some(existing) = self.existing_subdirectory(name)? {
            return Ok(existing);
        }
        let mut shared = self.lock();
        let directory = shared.directories.len();
        shared.directories.push(Names::default());
        let names = &mut shared.directories[self.directory];
        names.seen.insert(name.to_owned(), Node::Directory(directory));
        names.synced.insert(name.to_owned(), Node::Directory(directory));
        drop(shared);
        Ok(Disk { shared: Arc::clone(&self.shared), directory })
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Disk>, FileError> {
        match self.lock().directories[self.directory].seen.get(name) {
            Some(Node::Directory(directory)) => {
                Ok(Some(Disk { shared: Arc::clone(&self.shared), directory: *directory }))
            }
            Some(Node::File(_)) => Err(FileError::Refused(Refusal::Kind {
                found: FileKind::Regular,
                wanted: FileKind::Directory,
            })),
            None => Ok(None),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().directories[self.directory].seen.keys().cloned().collect())
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Contents>, FileError> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        let inode = file.lock();
        let bytes = inode.bytes();
        let length = bytes.len() as u64;
        if length > bytes_max {
            return Err(Refusal::TooLong { bytes: length, bytes_max }.into());
        }
        let modified = inode.modified;
        drop(inode);
        Ok(Some(Contents { bytes, modified, version: file.version() }))
    }

    fn modified(&self, name: &str) -> Result<Option<UtcSecond>, FileError> {
        Ok(self.file(name)?.map(|file| file.lock().modified))
    }

    fn set_modified(&self, name: &str, at: UtcSecond) -> Result<(), FileError> {
        let Some(file) = self.file(name)? else {
            return Err(FileError::Io(Errno::NOENT.into()));
        };
        file.lock().modified = at;
        Ok(())
    }

    fn create(&self, name: &str) -> io::Result<DiskFile> {
        let mut shared = self.lock();
        if shared.directories[self.directory].seen.contains_key(name) {
            return Err(Errno::EXIST.into());
        }
        let modified = shared.now;
        let file = File::new(Inode { synced: Vec::new(), unsynced: Vec::new(), modified });
        let given = NameChange::Given(name.to_owned(), Node::File(file.clone()));
        shared.directories[self.directory].change(given);
        Ok(DiskFile(file))
    }

    fn append(&self, name: &str) -> Result<DiskFile, FileError> {
        match self.file(name)? {
            Some(file) => Ok(DiskFile(file)),
            None => Ok(self.create(name)?),
        }
    }

    fn write(&self, file: &mut DiskFile, bytes: &[u8]) -> io::Result<usize> {
        let now = self.lock().now;
        let mut inode = file.0.lock();
        inode.unsynced.push(bytes.to_vec());
        inode.modified = now;
        Ok(bytes.len())
    }

    fn sync_file(&self, file: &DiskFile) -> io::Result<()> {
        let mut inode = file.0.lock();
        let written = std::mem::take(&mut inode.unsynced);
        inode.synced.extend(written.into_iter().flatten());
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let names = &mut self.lock().directories[self.directory];
        let Some(node) = names.seen.get(from).cloned() else { return Err(Errno::NOENT.into()) };
        if matches!(names.seen.get(to), Some(Node::Directory(_))) {
            return Err(Errno::ISDIR.into());
        }
        names.change(NameChange::Renamed { from: from.to_owned(), to: to.to_owned(), node });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let names = &mut self.lock().directories[self.directory];
        match names.seen.get(name) {
            None => Err(Errno::NOENT.into()),
            Some(Node::Directory(_)) => Err(Errno::ISDIR.into()),
            Some(Node::File(_)) => {
                names.change(NameChange::Removed(name.to_owned()));
                Ok(())
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let names = &mut self.lock().directories[self.directory];
        for change in names.unsynced.drain(..) {
            apply(&mut names.synced, &change);
        }
        Ok(())
    }
}

impl Moves for Disk {
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        if self.version(to)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.rename(from, to)
    }

    /// The new name is on the disk at once, so that no cut leaves a file that was moved without any
    /// name: file systems do that much. The old name may come back like any other.
    fn move_to(&self, name: &str, directory: &Disk, to: &str) -> io::Result<()> {
        let mut shared = self.lock();
        let node = shared.directories[self.directory].seen.get(name).cloned();
        let Some(node) = node else { return Err(Errno::NOENT.into()) };
        let target = &mut shared.directories[directory.directory];
        if target.seen.contains_key(to) {
            return Err(Errno::EXIST.into());
        }
        target.seen.insert(to.to_owned(), node.clone());
        target.synced.insert(to.to_owned(), node);
        shared.directories[self.directory].change(NameChange::Removed(name.to_owned()));
        Ok(())
    }

    fn version(&self, name: &str) -> io::Result<Option<FileVersion>> {
        Ok(self.lock().directories[self.directory].seen.get(name).map(|node| match node {
            Node::File(file) => file.version(),
            Node::Directory(number) => FileVersion {
                device: 1,
                inode: *number as u64,
                changed_ns: 0,
                modified_ns: 0,
                bytes: 0,
            },
        }))
    }

    fn sync_named(&self, name: &str) -> Result<(), FileError> {
        let file = self.file(name)?.ok_or_else(|| FileError::Io(Errno::NOENT.into()))?;
        Ok(self.sync_file(&DiskFile(file))?)
    }

    fn remove_read(&self, name: &str, read: FileVersion) -> io::Result<bool> {
        match self.file(name) {
            Ok(Some(file)) if file.version() == read => self.remove(name).map(|()| true),
            _ => Ok(false),
        }
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        let mut shared = self.lock();
        let inside = match shared.directories[self.directory].seen.get(name) {
            None => return Err(Errno::NOENT.into()),
            Some(Node::File(_)) => return Err(Errno::NOTDIR.into()),
            Some(Node::Directory(inside)) => *inside,
        };
        if !shared.directories[inside].seen.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        shared.directories[self.directory].change(NameChange::Removed(name.to_owned()));
        Ok(())
    }
}
