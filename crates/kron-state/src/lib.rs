//! Kron's recorded past: what was handled, what is running, and the store that keeps it through
//! crashes.
//!
//! [`Document`] is the one JSON document per job that the state format prescribes, and
//! [`Document::apply`] is the only way it changes. [`Store`] keeps documents, and everything else
//! that must outlive a daemon, in a directory that only its user may enter; [`Lock`] lets one
//! daemon at a time use it. Nothing here decides when anything runs, and nothing here asks for the
//! time.
//!
//! Files are replaced as a whole, durably, or not at all. What cannot be read is set aside, never
//! thrown away; what cannot be understood, or could have been put there by somebody else, is left
//! alone and refused.

mod change;
mod delivery;
mod directory;
mod document;
mod epoch;
mod instant;
mod known;
mod lock;
mod mark;
mod migration;
mod real;
mod replace;
mod run;
mod sealed;
mod shared_sync;
pub mod simulated;
mod store;
mod summary;

pub use change::{Change, Inapplicable, handed_over};
pub use delivery::{Delivery, DeliveryId};
pub use directory::{
    Admission, Contents, Directory, FileError, FileKind, FileVersion, Moves, Operation, Owners,
    Refusal,
};
pub use document::{
    ActiveState, Document, DocumentError, HistoryEntry, PeriodRef, Process, Replacing, VERSION,
};
pub use epoch::{Epoch, EpochEvent, EpochLog};
pub use known::{Known, KnownAhead, KnownJob, KnownTime, Unknown};
pub use lock::{Holder, Lock, LockError, holder};
pub use mark::MarkRefused;
pub use real::{DirectoryLock, Making, RealDirectory};
pub use replace::write_all;
pub use run::{Cause, Ending, ExitStatus, RunEnd, RunId, RunRecord, RunReport};
pub use store::{
    DOCUMENT_BYTES_MAX, EPOCHS_BYTES_MAX, KNOWN_BYTES_MAX, KnownRead, RunRead, Scan, Store,
    StoreError, UnreadableFile, document_file, write_run_record, write_run_report,
};
pub use summary::{Recent, RecentEvent, Summary};
