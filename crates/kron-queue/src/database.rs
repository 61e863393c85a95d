//! The database file: who may read it, how connections are set up, and its versions.
//!
//! **Invariant:** a commit is on the disk when it returns (`synchronous=FULL` with a write-ahead
//! log). The file is private (0600 in a directory that only its owner may write), no symbolic link
//! is followed, and a file of a newer version is refused.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::limits::{BUSY_TIMEOUT_MS, STATEMENTS_MAX};

/// Every version's step from the one before; never edited once released.
const MIGRATIONS: [&str; 4] = [
    include_str!("schema/0001_queue.sql"),
    include_str!("schema/0002_webhooks.sql"),
    include_str!("schema/0003_lists.sql"),
    include_str!("schema/0004_replace.sql"),
];
/// `PRAGMA application_id` of our files: `Kron`.
const APPLICATION_ID: i64 = 0x4b72_6f6e;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
}

/// Makes directory and file if they are not there, and checks that they are private.
pub(crate) fn prepare(path: &Path) -> Result<PathBuf, StoreError> {
    let file_error = |what, path: &Path| {
        let path = path.display().to_string();
        move |source| StoreError::File { what, path, source: Some(std::sync::Arc::new(source)) }
    };
    let refuse = |what, path: &Path| {
        Err(StoreError::File { what, path: path.display().to_string(), source: None })
    };
    let path = std::path::absolute(path).map_err(file_error("cannot find", path))?;
    let Some(directory) = path.parent() else { return refuse("no file name in", &path) };
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(file_error("cannot create", directory)(error)),
    }
    let found =
        std::fs::symlink_metadata(directory).map_err(file_error("cannot read", directory))?;
    if !found.is_dir() {
        return refuse("not a directory:", directory);
    }
    if found.mode() & 0o022 != 0 {
        return refuse("others may write to", directory);
    }
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(&path)
        .map_err(file_error("cannot open", &path))?;
    let found = opened.metadata().map_err(file_error("cannot read", &path))?;
    if !found.is_file() || found.nlink() != 1 {
        return refuse("not a file of its own:", &path);
    }
    if found.mode() & 0o077 != 0 {
        return refuse("others may use", &path);
    }
    // The name of a new file must be as durable as what will be acknowledged in it.
    std::fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(file_error("cannot sync", directory))?;
    Ok(path)
}

/// Opens a connection and sets it up.
pub(crate) fn connect(path: &Path, access: Access) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(StoreError::sql("cannot open the database"))?;
    let set = |name: &str, value: &str| {
        connection
            .pragma_update(None, name, value)
            .map_err(StoreError::sql("cannot set up the connection"))
    };
    connection.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // A statement is planned once, whatever is bound to it later. Otherwise most are prepared anew
    // for each use, which takes longer than using them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    set("trusted_schema", "OFF")?;
    set("foreign_keys", "ON")?;
    set("synchronous", "FULL")?;
    match access {
        Access::Write => {
            let mode: String =
                connection
                    .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
            if mode != "wal" {
                return Err(StoreError::File {
                    what: "no write-ahead log is possible for",
                    path: path.display().to_string(),
                    source: None,
                });
            }
        }
        Access::Read => set("query_only", "ON")?,
    }
    Ok(connection)
}

/// Brings the database to the present version, each step in a transaction of its own.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let known = MIGRATIONS.len() as i64;
    loop {
        let step =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let version: i64 = step.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let application: i64 = step.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables: i64 =
            step.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        if (version == 0 && tables != 0) || (version != 0 && application != APPLICATION_ID) {
            return Err(StoreError::Foreign { path: path.display().to_string() });
        }
        if version > known {
            return Err(StoreError::NewerVersion { found: version, known });
        }
        let Some(sql) = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version))
        else {
            return Ok(());
        };
        let migrating = StoreError::sql("cannot bring the database to the present version");
        step.execute_batch(sql).map_err(migrating)?;
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
        step.pragma_update(None, "user_version", version + 1)?;
        step.commit()?;
    }
}
