//! What a claim takes with few and with very many jobs in the queue.
//!
//! `queue_claims DIRECTORY ROUNDS COUNT SIZE…`: fills a queue of each size, then prints one line of
//! JSON a round: for each size the medians in microseconds of a lone claim with its commit, of the
//! processor's time that it takes, which knows nothing of the disk, and the steps of SQLite's virtual
//! machine that finding the head takes. What is claimed is finished and replaced, outside of the
//! times.

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kron_queue::{
    Claim, Claimed, Enqueue, Finish, NewJob, Outcome, Queue, Rules, RunEnd, Timestamp,
};
use rusqlite::{Connection, OpenFlags, StatementStatus};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Jobs of one call while a queue is filled.
const FILL: usize = 1_000;
/// Types of the jobs, so that the index of types is as in use.
const TYPES: usize = 5;
/// What the library asks for the first job that may run.
const HEAD_SQL: &str = "SELECT seq, job_type FROM jobs WHERE status = 'QUEUED' AND hold IS NULL \
    ORDER BY priority DESC, position, created_at, seq LIMIT 1";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    let (rounds, count) = (number(1), number(2));
    let queues: Vec<Filled> =
        (3..arguments.len()).map(|at| Filled::new(Path::new(&arguments[0]), number(at))).collect();
    for _ in 0..rounds {
        let mut times: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); queues.len()];
        for _ in 0..count {
            for (queue, (wall, processor)) in queues.iter().zip(&mut times) {
                let (took, burnt) = queue.claim();
                wall.push(took);
                processor.push(burnt);
            }
        }
        let rows = queues.iter().zip(times).map(|(queue, (wall, processor))| {
            json!({
                "size": queue.size, "wall": median(wall), "processor": median(processor),
                "steps": queue.steps(),
            })
        });
        println!("{}", serde_json::Value::from_iter(rows));
    }
}

struct Filled {
    queue: Queue,
    size: usize,
}

impl Filled {
    fn new(directory: &Path, size: usize) -> Filled {
        let path = directory.join(format!("{size}.db"));
        let queue = Queue::open(&path, Rules::default()).expect("a queue");
        let mut left = size;
        while left > 0 {
            let some = left.min(FILL);
            let jobs = (left - some..left).map(job).collect();
            queue.call(Enqueue { jobs, now: now() }).expect("enqueued");
            left -= some;
        }
        Filled { queue, size }
    }

    /// Claims one, and says how long it took in all and how long the processor worked for it.
    fn claim(&self) -> (f64, f64) {
        let claim = Claim { worker_id: "bench".to_owned(), now: now() };
        let (began, burnt) = (Instant::now(), processor());
        let claimed = self.queue.call(claim).expect("claimed");
        let (burnt, took) = (processor() - burnt, began.elapsed().as_secs_f64() * 1e6);
        let Claimed::Run(claimed) = claimed else { panic!("nothing to claim") };
        let end = RunEnd::new(Outcome::Completed);
        let (run_id, token) = (claimed.run.run_id, claimed.token);
        self.queue.call(Finish { run_id, token, end, now: now() }).expect("finished");
        self.queue.call(Enqueue { jobs: vec![job(0)], now: now() }).expect("enqueued");
        (took, burnt)
    }

    fn steps(&self) -> i32 {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = Connection::open_with_flags(self.queue.path(), flags).expect("opened");
        let mut statement = connection.prepare(HEAD_SQL).expect("prepared");
        let _: i64 = statement.query_row((), |row| row.get(0)).expect("a head");
        statement.get_status(StatementStatus::VmStep)
    }
}

fn job(number: usize) -> NewJob {
    NewJob::of_type(
        &format!("type-{}", number % TYPES),
        json!({"number": number, "to": "someone@example.org"}),
    )
}

fn processor() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    Timestamp::from_unix_ms(since.as_millis() as i64).expect("a time")
}
