//! A directory that fails on request, around any other.

use std::fmt;
use std::io;
use std::sync::Arc;

use kron_core::UtcSecond;

use crate::directory::{Contents, Directory, FileError, FileVersion, Moves, Operation};

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It goes through.
    None,
    /// It does nothing and fails with this error number.
    Errno(i32),
    /// A write takes half of what it is given; any other call goes through.
    Short,
    /// It does nothing and claims success. Only for what returns nothing; any other call goes
    /// through.
    Swallowed,
}

/// A directory whose calls may fail; those of its subdirectories too.
#[derive(Clone)]
pub struct Faulty<D> {
    inner: D,
    decide: Arc<Decide>,
}

type Decide = dyn Fn(Operation, &str) -> Fault + Send + Sync;

impl<D> Faulty<D> {
    /// A directory that asks `decide` before every call. It is told the operation and the name
    /// concerned, which is empty for the directory itself and for files that are open.
    pub fn new(
        inner: D,
        decide: impl Fn(Operation, &str) -> Fault + Send + Sync + 'static,
    ) -> Faulty<D> {
        Faulty { inner, decide: Arc::new(decide) }
    }

    /// Whether the call is to be made; an error when it is to fail.
    fn goes_through(&self, operation: Operation, name: &str) -> io::Result<bool> {
        match (self.decide)(operation, name) {
            Fault::None | Fault::Short => Ok(true),
            Fault::Swallowed => Ok(false),
            Fault::Errno(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl<D: fmt::Debug> fmt::Debug for Faulty<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faulty").field(&self.inner).finish()
    }
}

impl<D: Directory> Directory for Faulty<D> {
    type File = D::File;

    fn describe(&self, name: &str) -> String {
        self.inner.describe(name)
    }

    fn subdirectory(&self, name: &str) -> Result<Faulty<D>, FileError> {
        self.goes_through(Operation::OpenDirectory, name)?;
        let inner = self.inner.subdirectory(name)?;
        Ok(Faulty { inner, decide: Arc::clone(&self.decide) })
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Faulty<D>>, FileError> {
        self.goes_through(Operation::OpenDirectory, name)?;
        let inner = self.inner.existing_subdirectory(name)?;
        Ok(inner.map(|inner| Faulty { inner, decide: Arc::clone(&self.decide) }))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.goes_through(Operation::List, "")?;
        self.inner.names()
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Contents>, FileError> {
        self.goes_through(Operation::Read, name)?;
        self.inner.read(name, bytes_max)
    }

    fn modified(&self, name: &str) -> Result<Option<UtcSecond>, FileError> {
        self.goes_through(Operation::Read, name)?;
        self.inner.modified(name)
    }

    fn set_modified(&self, name: &str, at: UtcSecond) -> Result<(), FileError> {
        if self.goes_through(Operation::SetModified, name)? {
            self.inner.set_modified(name, at)?;
        }
        Ok(())
    }

    fn create(&self, name: &str) -> io::Result<D::File> {
        self.goes_through(Operation::Create, name)?;
        self.inner.create(name)
    }

    fn append(&self, name: &str) -> Result<D::File, FileError> {
        self.goes_through(Operation::Append, name)?;
        self.inner.append(name)
    }

    fn write(&self, file: &mut D::File, bytes: &[u8]) -> io::Result<usize> {
        match (self.decide)(Operation::Write, "") {
            Fault::Errno(errno) => Err(io::Error::from_raw_os_error(errno)),
            Fault::Short => self.inner.write(file, &bytes[..bytes.len().div_ceil(2)]),
            Fault::None | Fault::Swallowed => self.inner.write(file, bytes),
        }
    }

    fn sync_file(&self, file: &D::File) -> io::Result<()> {
        if self.goes_through(Operation::SyncFile, "")? {
            self.inner.sync_file(file)?;
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.goes_through(Operation::Rename, to)? {
            self.inner.rename(from, to)?;
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.goes_through(Operation::Remove, name)? {
            self.inner.remove(name)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.goes_through(Operation::SyncDirectory, "")? {
            self.inner.sync()?;
        }
        Ok(())
    }
}

impl<D: Moves> Moves for Faulty<D> {
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        if self.goes_through(Operation::Rename, to)? {
            self.inner.rename_new(from, to)?;
        }
        Ok(())
    }

    fn move_to(&self, name: &str, directory: &Faulty<D>, to: &str) -> io::Result<()> {
        if self.goes_through(Operation::Rename, to)? {
            self.inner.move_to(name, &directory.inner, to)?;
        }
        Ok(())
    }

    fn version(&self, name: &str) -> io::Result<Option<FileVersion>> {
        self.goes_through(Operation::Read, name)?;
        self.inner.version(name)
    }

    fn sync_named(&self, name: &str) -> Result<(), FileError> {
        if self.goes_through(Operation::SyncFile, name)? {
            self.inner.sync_named(name)?;
        }
        Ok(())
    }

    fn remove_read(&self, name: &str, read: FileVersion) -> io::Result<bool> {
        match self.goes_through(Operation::Remove, name)? {
            true => self.inner.remove_read(name, read),
            false => Ok(true),
        }
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        if self.goes_through(Operation::Remove, name)? {
            self.inner.remove_directory(name)?;
        }
        Ok(())
    }
}
