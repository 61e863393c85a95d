//! The limit on everything that a request or an answer can make grow, in one place. Those of what
//! is kept are in `kron_queue::limits`.

use kron_queue::limits::{PARAMS_BYTES_MAX, PARAMS_DEPTH_MAX};

/// Bytes of a request's body around the parameters of one job.
pub const ENVELOPE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a request's body about one job, template or schedule.
pub const BODY_BYTES_MAX: usize = PARAMS_BYTES_MAX + ENVELOPE_BYTES_MAX;
/// Bytes of a request's body with many jobs.
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a body that is read on the runtime's own threads; more is read aside.
pub(crate) const BODY_INLINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a body that is too large which are read before it is answered.
pub const BODY_DRAINED_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX;
/// How deeply a request's body may be nested: the parameters, and what they are in.
pub const BODY_DEPTH_MAX: usize = PARAMS_DEPTH_MAX + 3;
/// Rows of a page, if nothing is said.
pub const PAGE_ROWS_DEFAULT: usize = 50;
/// Decisions about a schedule's future, if nothing is said.
pub const UPCOMING_DEFAULT: usize = 10;
/// Bytes of a log or an artifact in one answer.
pub const PIECE_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes at the end of a log in which progress is looked for.
pub const PROGRESS_BYTES_MAX: u64 = 64 * 1024;
/// Characters of the text of a progress line that are shown.
pub const PROGRESS_CHARS_MAX: usize = 500;
/// Streams of events at once.
pub const SUBSCRIBERS_MAX: usize = 64;
/// Changes that wait for a slow reader of events before it misses some.
pub const CHANGES_WAITING_MAX: usize = 1_024;
/// How often a stream of events without news says that it is alive.
pub const HEARTBEAT_MS: u64 = 15_000;
/// When a reader of events that lost its connection comes back.
pub const EVENTS_RETRY_MS: u64 = 2_000;
/// Reads of the database or of files at once; more wait.
pub const READS_MAX: usize = 16;
/// How long a direct run may wait for its slot.
pub const DIRECT_WAIT_MS_MAX: i64 = 3_600_000;
/// How long a direct run may take.
pub const DIRECT_TIMEOUT_MS_MAX: i64 = 86_400_000;
/// How far back ended runs are counted in the queue's numbers.
pub const ENDED_WITHIN_MS: i64 = 86_400_000;
/// When to come back after the store failed, or had too much to do.
pub const RETRY_AFTER_S: u32 = 2;
/// Characters of what was given that are shown in a refusal.
pub(crate) const EXCERPT_CHARS_MAX: usize = 80;
