//! How many operations a second apalis-sqlite acknowledges durably; prints one line of JSON.
//!
//! `kron-bench-apalis DIRECTORY enqueue|cycle SECONDS CLIENTS`. Clients are tasks of two threads over
//! a pool of one connection, since SQLite has one writer. `setup` turns syncing off for the
//! connection that it uses, so that is undone and read back. In a cycle apalis' own worker works the
//! jobs, fetching as many at once as there are clients; they wait while that many are not yet worked
//! off, so that the queue stays short. What has been done is read from the database at the end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePoolOptions, SqliteStorage};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Noop {
    number: i64,
    to: String,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, what, seconds, clients] = arguments.as_slice() else {
        panic!("kron-bench-apalis DIRECTORY enqueue|cycle SECONDS CLIENTS");
    };
    let is_cycle = what == "cycle";
    let clients: usize = clients.parse().expect("a number of clients");
    let limit = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
    let options = SqliteConnectOptions::new()
        .filename(Path::new(directory).join("queue.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(60))
        .connect_with(options)
        .await
        .expect("a database");
    SqliteStorage::setup(&pool).await.expect("set up");
    sqlx::query("PRAGMA synchronous = FULL").execute(&pool).await.expect("set");
    let (level,): (i64,) =
        sqlx::query_as("PRAGMA synchronous").fetch_one(&pool).await.expect("read");
    assert_eq!(level, 2, "`synchronous` is FULL");

    let config = Config::default().queue("noop").batch_size(clients);
    let storage: SqliteStorage<Noop> = SqliteStorage::new(&pool).with_config(config);
    let (inserted, worked) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    if is_cycle {
        let counter = Arc::clone(&worked);
        let worker = WorkerBuilder::new("bench")
            .backend(storage.clone().poll_with_interval(Duration::from_millis(1)))
            .concurrency(clients)
            .build(move |_: Noop| {
                let counter = Arc::clone(&counter);
                async move {
                    counter.fetch_add(1, Ordering::Relaxed);
                    Ok::<(), BoxDynError>(())
                }
            });
        tokio::spawn(worker.run());
    }
    let began = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..clients {
        let (mut storage, inserted, worked) =
            (storage.clone(), Arc::clone(&inserted), Arc::clone(&worked));
        tasks.push(tokio::spawn(async move {
            while began.elapsed() < limit {
                let open = inserted.load(Ordering::Relaxed) - worked.load(Ordering::Relaxed);
                if is_cycle && open > 2 * clients as i64 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                let job = Noop { number: 1, to: "someone@example.org".to_owned() };
                storage.push(job).await.expect("pushed");
                inserted.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for task in tasks {
        task.await.expect("a client");
    }
    let mut done = inserted.load(Ordering::Relaxed);
    if is_cycle {
        let query = sqlx::query_as("SELECT count(*) FROM Jobs WHERE status = 'Done'");
        (done,) = query.fetch_one(&pool).await.expect("read");
    }
    let seconds = began.elapsed().as_secs_f64();
    let answer = serde_json::json!({
        "done": done, "seconds": seconds,
        "clients": format!("{clients} tasks, one connection"), "durability": "synchronous=FULL",
    });
    println!("{answer}");
    // Its worker has no end of its own.
    std::process::exit(0);
}
