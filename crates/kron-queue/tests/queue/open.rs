//! Opening: who may read the file, and which versions are taken.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use kron_queue::{Queue, Rules, StoreError};

use crate::support::World;

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_file_is_private_and_durable() {
    let world = World::new(Rules::default());
    world.story();
    assert_eq!(mode(&world.path), 0o600);
    assert_eq!(mode(world.path.parent().unwrap()), 0o700);
    for beside in ["queue.db-wal", "queue.db-shm"] {
        assert_eq!(mode(&world.path.with_file_name(beside)), 0o600);
    }
    let shell = world.shell();
    let wal: String = shell.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(wal, "wal");
    let sound: String =
        shell.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[test]
fn links_and_open_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().join("real.db");
    drop(Queue::open(&real, Rules::default()).unwrap());
    let link = directory.path().join("link.db");
    symlink(&real, &link).unwrap();
    assert!(matches!(Queue::open(&link, Rules::default()), Err(StoreError::File { .. })));
    let linked = directory.path().join("linked");
    symlink(directory.path(), &linked).unwrap();
    assert!(Queue::open(&linked.join("real.db"), Rules::default()).is_err());
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&real, open).unwrap();
    let refused = Queue::open(&real, Rules::default()).unwrap_err().to_string();
    assert!(refused.contains("others may use"), "{refused}");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let refused = Queue::open(&real, Rules::default()).unwrap_err().to_string();
    assert!(refused.contains("others may write to"), "{refused}");
}

#[test]
fn a_newer_version_and_a_stranger_are_refused() {
    let world = World::new(Rules::default());
    world.shell().pragma_update(None, "user_version", 5).unwrap();
    let World { queue, path, .. } = &world;
    let _ = queue;
    let refused = Queue::open(path, Rules::default());
    assert!(matches!(refused, Err(StoreError::NewerVersion { found: 5, known: 4 })));

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let refused = Queue::open(&path, Rules::default());
    assert!(matches!(refused, Err(StoreError::Foreign { .. })));
    std::fs::write(&path, b"this is no database, though it is long enough to look like one")
        .unwrap();
    assert!(Queue::open(&path, Rules::default()).is_err());
}

#[test]
fn an_older_version_is_migrated_with_its_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../src/schema/0001_queue.sql")).unwrap();
    old.pragma_update(None, "application_id", 0x4b72_6f6e).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    old.execute_batch(
        "INSERT INTO jobs (job_id, job_type, params, status, priority, position, attempt, \
         created_at, queued_at) VALUES ('01900000-0000-7000-8000-000000000000', 't', '{}', \
         'QUEUED', 0, 100, 0, '2026-03-01T00:00:00.000Z', '2026-03-01T00:00:00.000Z')",
    )
    .unwrap();
    drop(old);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let queue = Queue::open(&path, Rules::default()).unwrap();
    assert_eq!(queue.order(None, 10).unwrap().items.len(), 1);
    assert_eq!(queue.statistics("2026-01-01T00:00:00Z".parse().unwrap()).unwrap().queued, 1);
    let version: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 4);
}
