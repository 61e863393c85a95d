//! Canaries: acts of sabotage that the tests must notice.
//!
//! A test that cannot fail proves nothing. Each [`Canary`] breaks one guarantee on purpose, and one
//! test is required to fail because of it. The sabotage stands in the code that it breaks, behind
//! `#[cfg(kron_canary)]`, and is dormant until the environment variable [`VARIABLE`] names it; so
//! one build serves all canaries. Without `--cfg kron_canary` this crate is empty, no other crate
//! depends on it, and none of the sabotage is compiled.
//!
//! | what | where |
//! |---|---|
//! | what there is, and which one is active | this module |
//! | the test that runs another test with a canary, and requires that it fails | [`trial`] |
//!
//! Each canary is also a patch in `crates/krond/tests/canaries`, which `scripts/canaries` applies to
//! a copy of the sources without this cfg: that proves that the code as it is shipped, so broken, is
//! caught. The text above the patch names the test and what it must say, for both forms.

#![cfg(kron_canary)]

#[cfg(not(debug_assertions))]
compile_error!("`kron_canary` is for test builds: a release must not contain sabotage");

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

pub mod trial;

/// The environment variable that names the active canary. Unset or empty, there is none.
pub const VARIABLE: &str = "KRON_CANARY";

macro_rules! canaries {
    ($($(#[$doc:meta])* $canary:ident = $name:literal,)*) => {
        /// An act of sabotage.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Canary {
            $($(#[$doc])* $canary,)*
        }

        impl Canary {
            /// Every canary.
            pub const ALL: &[Canary] = &[$(Canary::$canary,)*];

            /// The name by which it is chosen, which is that of its patch.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Canary::$canary => $name,)*
                }
            }
        }
    };
}

canaries! {
    /// A daemon that runs as root takes definitions that everybody may write.
    EverybodyWritesDefinitions = "everybody-writes-definitions",
    /// A supervisor is a fork of the daemon and keeps its descriptors, the lock above all.
    ForkedFromTheDaemon = "forked-from-the-daemon",
    /// The mark of what is handled moves to whatever was written last.
    MarkMovesBack = "mark-moves-back",
    /// A document is in its place, but its directory is not synced.
    NoDirectoryFsync = "no-directory-fsync",
    /// A command keeps the inheritable capabilities of the daemon.
    PrivilegesKept = "privileges-kept",
    /// The supervisor of a queue's job may exit before the end of its run is recorded.
    QueueAcknowledgedBeforeRecorded = "queue-acknowledged-before-recorded",
    /// A queue takes every run of an earlier daemon for dead, although its processes live.
    QueueAdoptsNothing = "queue-adopts-nothing",
    /// A queue answers before the commit that carries the answer.
    QueueAnswersBeforeCommit = "queue-answers-before-commit",
    /// The command of a queue's job is released before its process is recorded.
    QueueLetGoBeforeRecorded = "queue-let-go-before-recorded",
    /// A scheduled job is enqueued without an idempotency key.
    QueuePeriodWithoutAKey = "queue-period-without-a-key",
    /// No connection is kept for those who may change things.
    ReadersTakeEverySlot = "readers-take-every-slot",
    /// A scheduled command is released before it is recorded.
    RecordAfterStart = "record-after-start",
    /// The supervisor of a spool's task may exit before the end of its run is recorded.
    SpoolAcknowledgedBeforeRecorded = "spool-acknowledged-before-recorded",
    /// A spool takes every run of an earlier daemon for lost, although its processes live.
    SpoolAdoptsNothing = "spool-adopts-nothing",
    /// What can be no task is deleted instead of set aside.
    SpoolDeletesWhatIsWrong = "spool-deletes-what-is-wrong",
    /// A task is deleted from its directory before it is in the next one.
    SpoolDeletedBeforePlaced = "spool-deleted-before-placed",
    /// A task's command is released before the task is in `running/`.
    SpoolLetGoBeforeRecorded = "spool-let-go-before-recorded",
    /// A command is released although its record could not be written.
    StartAfterAFailedWrite = "start-after-a-failed-write",
    /// A supervisor is killed when its daemon dies.
    SupervisedByTheDaemon = "supervised-by-the-daemon",
}

impl Canary {
    /// Whether this canary is the one that [`VARIABLE`] names.
    ///
    /// The variable is read once. A name that belongs to no canary aborts the process: a test that
    /// ran without the sabotage it asked for would pass for the wrong reason.
    #[must_use]
    pub fn is_active(self) -> bool {
        active() == Some(self)
    }
}

/// The canary that [`VARIABLE`] names.
fn active() -> Option<Canary> {
    static ACTIVE: OnceLock<Option<Canary>> = OnceLock::new();
    *ACTIVE.get_or_init(|| {
        let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty())?;
        match name.to_string_lossy().parse() {
            Ok(canary) => Some(canary),
            Err(unknown) => abort(&unknown),
        }
    })
}

#[expect(clippy::print_stderr, reason = "there is no other way to say it before the end")]
fn abort(unknown: &UnknownCanary) -> ! {
    eprintln!("error: {VARIABLE}: {unknown}");
    std::process::abort()
}

impl fmt::Display for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Canary {
    type Err = UnknownCanary;

    fn from_str(name: &str) -> Result<Canary, UnknownCanary> {
        let named = Canary::ALL.iter().find(|canary| canary.name() == name);
        named.copied().ok_or_else(|| UnknownCanary(name.to_owned()))
    }
}

/// A name that belongs to no canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCanary(String);

impl fmt::Display for UnknownCanary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Canary::ALL.iter().map(|canary| canary.name()).collect();
        write!(f, "there is no canary `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownCanary {}

#[cfg(test)]
mod tests;
