//! Job definitions as people write them: TOML files, krontab lines, and crontab files as they
//! are.
//!
//! [`Loader`] takes texts and yields [`Job`]s and [`Diagnostic`]s. It reports every fault of every
//! text at once, each with file, line and column; it never stops at the first. What it yields is
//! complete: defaults filled in, zones resolved, windows proven not to overlap. Beside the jobs there
//! may be the daemon's own settings ([`DaemonSettings`]).
//!
//! - native texts ([`Format::Toml`], [`Format::Krontab`]): any error means nothing may be
//!   scheduled from the whole load ([`Loaded::is_usable`]);
//! - crontab files: a bad line is reported and left out, as cron itself does.
//!
//! Only [`files`] and [`local_zone`] touch the file system; everything else is a function of texts.

mod crontab;
mod daemon;
mod diagnostic;
pub mod files;
mod hook;
mod import;
mod job;
mod krontab;
mod limit;
mod lint;
mod load;
pub mod local_zone;
mod queue;
mod settings;
mod source;
mod spool;
mod toml_file;
mod value;
mod web;

pub use daemon::{DaemonSettings, RunSettings};
pub use diagnostic::Diagnostic;
pub use hook::{Hook, HookEvent, HookTarget};
pub use import::{Fate, ImportNote, Imported, Importer};
pub use job::{Action, Argv, Execution, Job, Output};
pub use limit::{Limit, Resource};
pub use lint::{CoverageReport, lint};
pub use load::{CrontabOwner, Format, Loaded, Loader, Options};
pub use queue::{
    ApiSettings, EnqueueSettings, Handler, HandlerTarget, QueueSettings, QueueWebhook,
    RetrySettings,
};
pub use source::{Location, Source};
pub use spool::{SpoolDrop, SpoolSettings};
