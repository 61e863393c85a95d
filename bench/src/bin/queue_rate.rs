//! How many operations a second the queue's library acknowledges durably, to many who each wait for
//! their own.
//!
//! `queue_rate DIRECTORY enqueue|cycle SECONDS CLIENTS grouped|single|serial`: prints one line of
//! JSON. `grouped` is the library as it is; with `single` one lock is held over every call, so that
//! the same statements go into one commit each; `serial` is one client instead of many, which commits
//! as often without handing a lock on. In `cycle` every client enqueues a job, claims one and finishes
//! it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kron_queue::{
    Claim, Claimed, Enqueue, Finish, NewJob, Outcome, Queue, Rules, RunEnd, Timestamp,
};
use serde_json::json;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, what, seconds, clients, how] = arguments.as_slice() else {
        panic!("queue_rate DIRECTORY enqueue|cycle SECONDS CLIENTS grouped|single|serial");
    };
    let clients: u32 = clients.parse().expect("a number of clients");
    let clients = if how == "serial" { 1 } else { clients };
    let limit = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
    let rules = Rules { workers_max: clients, ..Rules::default() };
    let queue = Queue::open(&Path::new(directory).join("queue.db"), rules).expect("a queue");
    let lock = (how == "single").then(Mutex::default);
    let client = Client { queue: &queue, lock: lock.as_ref() };
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..clients {
            let (client, done, over) = (&client, &done, &over);
            let is_cycle = what == "cycle";
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    client.enqueue(number);
                    if !is_cycle || client.work() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        thread::sleep(limit);
        over.store(true, Ordering::Relaxed);
    });
    // Until the last answer: whoever has begun, finishes.
    let seconds = began.elapsed().as_secs_f64();
    let answer = json!({
        "done": done.into_inner(), "seconds": seconds, "clients": format!("{clients} threads"),
        "durability": "synchronous=FULL",
    });
    println!("{answer}");
}

struct Client<'a> {
    queue: &'a Queue,
    lock: Option<&'a Mutex<()>>,
}

impl Client<'_> {
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.lock.map(|lock| lock.lock().expect("nobody panics"))
    }

    fn enqueue(&self, number: u32) {
        let job = NewJob::of_type("noop", json!({"number": number, "to": "someone@example.org"}));
        let operation = Enqueue { jobs: vec![job], now: now() };
        let _turn = self.turn();
        self.queue.call(operation).expect("enqueued");
    }

    /// Claims a job, does nothing with it, and finishes it; says whether there was one.
    fn work(&self) -> bool {
        let claimed = {
            let _turn = self.turn();
            let claim = Claim { worker_id: "bench".to_owned(), now: now() };
            self.queue.call(claim).expect("claimed")
        };
        let Claimed::Run(claimed) = claimed else { return false };
        let end = RunEnd::new(Outcome::Completed);
        let (run_id, token) = (claimed.run.run_id, claimed.token);
        let _turn = self.turn();
        self.queue.call(Finish { run_id, token, end, now: now() }).expect("finished");
        true
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    Timestamp::from_unix_ms(since.as_millis() as i64).expect("a time")
}
