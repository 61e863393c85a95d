//! A proxy between a client and the API server that does to requests what networks and servers do.
//!
//! The client speaks plain HTTP to it (see [`Proxy::kubeconfig`]); it speaks TLS to the API server
//! and passes on the client's token. Every connection of a client has one of its own to the API
//! server, so that a connection that fails there fails here, too: nothing is retried or made up,
//! except what a rule says.
//!
//! Rules are tried in the order of their injection; the first that matches and is not used up
//! strikes. They do not see requests that were under way when they were injected, except
//! [`Proxy::cut_watches`], which is about those only.

mod relay;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::control_plane::{Api, ControlPlane};

/// A running proxy. It ends, with all connections through it, when this is dropped.
#[derive(Debug)]
pub(crate) struct Proxy<'a> {
    plane: &'a ControlPlane,
    address: SocketAddr,
    board: Arc<Board>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What befalls a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request does not reach the API server and is answered with this status. A 409 says that
    /// something changed meanwhile, never that the object exists already: that would be a lie.
    Answer(u16),
    /// The same with the header `Retry-After`, in seconds.
    AnswerRetryAfter(u16, u32),
    /// The request does not reach the API server; the connection is closed.
    Drop,
    /// The API server does what the request says, and the connection is closed without an answer.
    SwallowAnswer,
    /// The answer comes this much later than the API server gave it.
    DelayAnswer(Duration),
    /// The request reaches the API server this much later.
    DelayRequest(Duration),
    /// The request reaches the API server after [`Proxy::release`].
    HoldRequest,
    /// The answer comes after [`Proxy::release`].
    HoldAnswer,
}

/// How many of the requests that match are struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Often {
    /// The next so many.
    Next(usize),
    /// So many of a hundred, evenly mixed.
    Percent(usize),
    /// Every one.
    Always,
}

/// Which requests a rule is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matching {
    /// An HTTP method such as `POST`; any where it is empty.
    pub(crate) method: &'static str,
    /// What the path ends with, without the query, such as `/jobs`; any where it is empty.
    pub(crate) path_end: &'static str,
    /// What the path holds, such as `/leases/`; any where it is empty.
    pub(crate) path_part: &'static str,
}

impl Matching {
    /// All requests.
    pub(crate) const ALL: Matching = Matching { method: "", path_end: "", path_part: "" };

    /// The creations of Jobs.
    pub(crate) const JOB_CREATION: Matching =
        Matching { method: "POST", path_end: "/jobs", path_part: "" };

    /// The writes of the status of KronJobs, by whatever method.
    pub(crate) const STATUS: Matching =
        Matching { method: "", path_end: "/status", path_part: "/kronjobs/" };

    /// Everything about one Lease, but not the watch of it.
    pub(crate) const LEASE: Matching = Matching { method: "", path_end: "", path_part: "/leases/" };

    fn holds(&self, method: &str, path: &str) -> bool {
        (self.method.is_empty() || self.method == method)
            && path.ends_with(self.path_end)
            && path.contains(self.path_part)
    }
}

/// What the tests and the connections share.
#[derive(Debug)]
struct Board {
    rules: Mutex<Vec<Rule>>,
    struck: AtomicUsize,
    /// Counts the cuts; every open watch waits for the next.
    cuts: watch::Sender<u64>,
    /// The paths of the watches that are open.
    open_watches: Mutex<Vec<String>>,
    /// The requests that are held and that their clients still wait for.
    held: AtomicUsize,
    /// Whether requests and answers that are held may go on.
    released: watch::Sender<bool>,
}

/// A request that counts as held.
struct Held<'a>(&'a Board);

impl Drop for Held<'_> {
    /// It goes on, or its client has closed the connection.
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Rule {
    matching: Matching,
    fault: Fault,
    often: Often,
    /// How many have matched.
    seen: usize,
}

impl Board {
    /// Waits until what is held may go on. An end of the proxy ends this, too.
    async fn await_release(&self) {
        let mut released = self.released.subscribe();
        drop(released.wait_for(|released| *released).await);
    }

    /// Holds a request until it may go on.
    async fn hold(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
        let _held = Held(self);
        self.await_release().await;
    }

    /// What befalls this request.
    fn strike(&self, method: &str, path: &str) -> Option<Fault> {
        let mut rules = self.rules.lock().unwrap();
        for rule in rules.iter_mut().filter(|rule| rule.matching.holds(method, path)) {
            rule.seen += 1;
            let strikes = match rule.often {
                Often::Next(count) => rule.seen <= count,
                // Bresenham's line: never two more or fewer than the share.
                Often::Percent(share) => rule.seen * share / 100 > (rule.seen - 1) * share / 100,
                Often::Always => true,
            };
            if strikes {
                self.struck.fetch_add(1, Ordering::Relaxed);
                return Some(rule.fault);
            }
        }
        None
    }
}

impl Proxy<'_> {
    /// Starts a proxy without rules.
    pub(crate) fn start(plane: &ControlPlane) -> Proxy<'_> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let board = Arc::new(Board {
            rules: Mutex::new(Vec::new()),
            struck: AtomicUsize::new(0),
            cuts: watch::Sender::new(0),
            open_watches: Mutex::new(Vec::new()),
            held: AtomicUsize::new(0),
            released: watch::Sender::new(false),
        });
        let upstream = relay::Upstream::new(plane.address(), &plane.certificates());
        let (end, ended) = oneshot::channel();
        let shared = Arc::clone(&board);
        let thread = thread::spawn(move || relay::run(listener, upstream, shared, ended));
        Proxy { plane, address, board, end: Some(end), thread: Some(thread) }
    }

    /// The configuration with which a user reaches the API server through this proxy.
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.plane.kubeconfig_through(self.address, user)
    }

    /// Requests through this proxy.
    pub(crate) fn api(&self, user: &str) -> Api {
        Api::through(self.address, user)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule.
    pub(crate) fn inject(&self, matching: Matching, fault: Fault, often: Often) {
        let rule = Rule { matching, fault, often, seen: 0 };
        self.board.rules.lock().unwrap().push(rule);
    }

    /// Takes all rules away.
    pub(crate) fn heal(&self) {
        self.board.rules.lock().unwrap().clear();
    }

    /// How many requests have been struck so far.
    pub(crate) fn struck(&self) -> usize {
        self.board.struck.load(Ordering::Relaxed)
    }

    /// How many watches are open.
    pub(crate) fn open_watches(&self) -> usize {
        self.board.open_watches.lock().unwrap().len()
    }

    /// Whether a watch is open whose path ends so.
    pub(crate) fn is_watched(&self, path_end: &str) -> bool {
        self.board.open_watches.lock().unwrap().iter().any(|path| path.ends_with(path_end))
    }

    /// How many requests are held now. One that its client no longer waits for is not: it never
    /// reaches the API server.
    pub(crate) fn held(&self) -> usize {
        self.board.held.load(Ordering::Relaxed)
    }

    /// Lets the requests and answers go on that are held, and holds none from now on.
    pub(crate) fn release(&self) {
        self.board.released.send_replace(true);
    }

    /// Breaks the connections of all watches that are open, in the middle of what they say.
    pub(crate) fn cut_watches(&self) {
        self.board.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy<'_> {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
