//! The limit on everything that can grow, in one place.
//!
//! Whoever exceeds one is told its value; nothing is cut silently. The one text that is cut is the
//! error of a run, because the end of a run must never be refused, and the cut is marked.

/// Bytes of a job's parameters as JSON, after merging.
pub const PARAMS_BYTES_MAX: usize = 256 * 1024;
/// How deeply arrays and objects in parameters may be nested.
pub const PARAMS_DEPTH_MAX: usize = 32;
/// Bytes of a job type.
pub const JOB_TYPE_BYTES_MAX: usize = 64;
/// Bytes of an idempotency key.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;
/// Bytes of names: of templates, schedules, groups, workers and those who reserve.
pub const NAME_BYTES_MAX: usize = 200;
/// Bytes of the reason of a pause.
pub const REASON_BYTES_MAX: usize = 1_000;
/// Bytes of a schedule's expression.
pub const EXPRESSION_BYTES_MAX: usize = 1_000;
/// Bytes of a run's error; what is longer is cut and marked.
pub const ERROR_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a path.
pub const PATH_BYTES_MAX: usize = 4_096;
/// Artifacts of a run.
pub const ARTIFACTS_MAX: usize = 1_000;
/// Jobs that one call may enqueue, and members of a group.
pub const JOBS_PER_CALL_MAX: usize = 1_000;
/// The distance of a priority from 0.
pub const PRIORITY_MAX: i64 = 1_000_000;
/// Rows of a page.
pub const PAGE_ROWS_MAX: usize = 1_000;
/// Bytes of the parameters, payloads and the like on a page; it ends after the row that reaches it.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Rows that are looked at for one page, where what is wanted has no index of its own.
pub const PAGE_EXAMINED_MAX: usize = 10_000;
/// Groups of a page, since the status of each is derived from its members.
pub const GROUP_PAGE_ROWS_MAX: usize = 100;
/// Decisions about a schedule's future that one call makes.
pub const UPCOMING_MAX: usize = 100;
/// The distance between the positions of neighbours.
pub const POSITION_GAP: i64 = 100;
/// The distance of a position from 0 beyond which positions are assigned anew.
pub const POSITION_MAX: i64 = 1 << 53;
/// Operations that one commit may carry.
pub const BATCH_OPERATIONS_MAX: usize = 1_024;
/// Jobs whose time has come that one commit lets in.
pub const RELEASES_PER_COMMIT_MAX: usize = 1_000;
/// Operations that may wait for the writer; more callers wait outside.
pub const WAITING_OPERATIONS_MAX: usize = 4_096;
/// Connections that read.
pub const READERS_MAX: usize = 4;
/// How long a connection waits for a lock that another program holds.
pub const BUSY_TIMEOUT_MS: u64 = 5_000;
/// Prepared statements that a connection keeps.
pub const STATEMENTS_MAX: usize = 128;
/// Schedules that one call triggers; whoever has more calls again.
pub const SCHEDULES_PER_CALL_MAX: usize = 1_000;
/// Expressions that are read before what was remembered of them is forgotten.
pub const TIMINGS_MAX: usize = 100_000;
/// Deliveries that one call claims.
pub const DELIVERIES_PER_CALL_MAX: usize = 100;
/// Chains that one call purges.
pub const PURGE_CHAINS_MAX: usize = 500;
/// How long a reservation may last without being renewed.
pub const RESERVATION_MS_MAX: i64 = 3_600_000;
/// Tries of a webhook's delivery: the first, and three more.
pub const DELIVERY_ATTEMPTS_MAX: u32 = 4;
/// The wait before a delivery is tried again; it is four times as long after each.
pub const DELIVERY_BACKOFF_FIRST_MS: i64 = 10_000;
/// Rows of logs (outcomes, deliveries) that one call purges, of each kind.
pub const PURGE_LOG_ROWS_MAX: usize = 5_000;
