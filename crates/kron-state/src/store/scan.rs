//! Reading every document once, at start-up, without keeping histories.

use std::num::NonZero;
use std::thread;

use kron_core::UtcSecond;

use crate::directory::Directory;
use crate::document::{Document, DocumentError};
use crate::store::{DOCUMENT_BYTES_MAX, DOCUMENT_SUFFIX, Store, StoreError, document_file};
use crate::summary::Summary;

/// Hex digits in the name of a document.
const HASH_DIGITS: usize = 64;
/// With fewer documents than this, threads cost more than they save.
const THREADED_MIN: usize = 2_000;
/// Threads that read documents at the same time.
const THREADS_MAX: usize = 8;

/// What all documents say.
#[derive(Debug, Default)]
pub struct Scan {
    /// Those that could be read, in the order of their file names.
    pub documents: Vec<Summary>,
    /// Those that could not, to be replaced by [`Store::restore`].
    pub unreadable: Vec<UnreadableFile>,
}

/// A document that could not be read. Its identity is lost with it; only its hash is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableFile {
    /// SHA-256 of the identity, in hex, as in the file's name.
    pub identity_hash: String,
    /// When it was last written.
    pub modified: UtcSecond,
    /// What is wrong with it.
    pub cause: String,
}

impl<D: Directory> Store<D> {
    /// What every document says.
    ///
    /// # Errors
    /// When one cannot be read, is not a private file, or is of another version or identity: then
    /// nothing may be scheduled.
    pub fn scan(&self) -> Result<Scan, StoreError> {
        let names = self.document_names()?;
        if names.len() < THREADED_MIN {
            return self.scan_files(&names);
        }
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
        let share = names.len().div_ceil(threads);
        thread::scope(|scope| {
            let shares: Vec<_> = names
                .chunks(share)
                .map(|names| scope.spawn(move || self.scan_files(names)))
                .collect();
            let mut all = Scan::default();
            for share in shares {
                let share =
                    share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                all.documents.extend(share.documents);
                all.unreadable.extend(share.unreadable);
            }
            Ok(all)
        })
    }

    /// The file names of all documents, in order.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn document_names(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.names(&self.state)?;
        names.retain(|name| hash_of(name).is_some());
        Ok(names)
    }

    /// The document in a file named by [`Store::document_names`]; `None` when it is gone.
    ///
    /// # Errors
    /// When it cannot be read or used.
    pub fn read_file(&self, name: &str) -> Result<Option<Document>, StoreError> {
        let Some(contents) = self.contents(name, DOCUMENT_BYTES_MAX)? else { return Ok(None) };
        Document::parse(&contents.bytes, None)
            .and_then(|document| named_after(name, &document.identity).map(|()| Some(document)))
            .map_err(|source| StoreError::Document { file: self.state.describe(name), source })
    }

    fn scan_files(&self, names: &[String]) -> Result<Scan, StoreError> {
        let mut scan = Scan::default();
        for name in names {
            // It was there when the directory was listed, and nobody else may remove it.
            let Some(contents) = self.contents(name, DOCUMENT_BYTES_MAX)? else { continue };
            let summary = Summary::parse(&contents.bytes)
                .and_then(|summary| named_after(name, &summary.identity).map(|()| summary));
            match summary {
                Ok(summary) => scan.documents.push(summary),
                Err(DocumentError::Unreadable(cause)) => scan.unreadable.push(UnreadableFile {
                    identity_hash: hash_of(name).unwrap_or_default().to_owned(),
                    modified: contents.modified,
                    cause,
                }),
                Err(source @ DocumentError::Incompatible(_)) => {
                    return Err(StoreError::Document { file: self.state.describe(name), source });
                }
            }
        }
        Ok(scan)
    }
}

/// The hash in the name of a document, or `None` when it is not one.
fn hash_of(name: &str) -> Option<&str> {
    let hash = name.strip_suffix(DOCUMENT_SUFFIX)?;
    let hex = hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (hex && hash.len() == HASH_DIGITS).then_some(hash)
}

/// A copy of a document under another name would be a second past of the same job.
fn named_after(name: &str, identity: &str) -> Result<(), DocumentError> {
    if document_file(identity) == name {
        return Ok(());
    }
    Err(DocumentError::of_identity(identity))
}
