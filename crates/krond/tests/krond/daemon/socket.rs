//! The control socket: whom it can be reached by, and who can keep others from it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use kron_testkit::krond::{Krond, World, seldom};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::{PATIENCE, eventually, now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::new_world;

fn harmless() -> String {
    format!("[job.a]\nschedule = \"{}\"\ncommand = [\"/bin/true\"]\n", seldom())
}
/// Nobody's number, on every system this runs on.
const STRANGER: u32 = 65_534;
/// The number of the group `daemon`, on every system this runs on.
const GROUP: u32 = 1;

/// Where a daemon of this world has its socket when it is told so.
fn elsewhere(world: &World, name: &str) -> PathBuf {
    world.state_dir().parent().unwrap().join(name)
}

fn start_at(world: &World, socket: &Path) -> Krond {
    let mut krond = Krond::spawn(world.command().arg("--socket").arg(socket));
    krond.wait_for("ready");
    krond
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn every_directory_made_for_the_socket_lets_everybody_through() {
    let world = new_world(&harmless());
    let krond = start_at(&world, &elsewhere(&world, "a/b/c/krond.sock"));
    for made in ["a", "a/b", "a/b/c"] {
        assert_eq!(mode(&elsewhere(&world, made)), 0o755, "{made}");
    }
    krond.stop();
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_explained() {
    let world = new_world(&harmless());
    let socket = elsewhere(&world, &"x".repeat(120));
    let mut krond = Krond::spawn(world.command().arg("--socket").arg(&socket));
    assert_eq!(krond.wait().code(), Some(6));
    let refused = &krond.events("refused_to_start")[0];
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains(&format!("has {} bytes", socket.as_os_str().len())), "{refused}");
    assert!(message.contains("at most 107"), "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("`--socket`"), "{refused}");
}

/// Connections of a member of the socket's group who is nobody else, each with this request and
/// none with a reader.
fn strangers(socket: PathBuf, count: usize, path: String) -> Vec<UnixStream> {
    // Only this thread becomes somebody else.
    let stranger = std::thread::spawn(move || {
        let (uid, gid) = (Uid::from_raw(STRANGER), Gid::from_raw(GROUP));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        let connect = |_| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: krond\r\nConnection: close\r\n\r\n")
                .unwrap();
            stream
        };
        (0..count).map(connect).collect()
    });
    stranger.join().unwrap()
}

fn ask_as_root(socket: &Path, method: &str, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: krond\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("root is answered");
    answer
}

/// Whether the daemon has closed this connection, however much is left to read.
fn is_closed(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default())).unwrap();
    fds[0].revents().contains(PollFlags::HUP)
}

#[test]
fn whoever_may_only_look_cannot_lock_out_who_may_change() {
    // Only root can connect as another user.
    if left_out("connections of other users", &[Need::Root]) {
        return;
    }
    let world = new_world(&format!(
        "[daemon]\nsocket_group = \"daemon\"\n\
         [job.loud]\nschedule = \"{}\"\nshell = true\n\
         command = \"head -c 2000000 /dev/zero\"\n",
        seldom()
    ));
    let socket = elsewhere(&world, "open/krond.sock");
    fs::set_permissions(elsewhere(&world, ""), fs::Permissions::from_mode(0o755)).unwrap();
    let mut krond = start_at(&world, &socket);
    assert!(
        ask_as_root(&socket, "POST", "/api/v1/scheduler/jobs/loud/run").starts_with("HTTP/1.1 200")
    );
    krond.wait_for("finished");

    // More than are served at once, each with an answer that is longer than a socket holds.
    let log = "/api/v1/scheduler/jobs/loud/runs/latest/log";
    let deadline = now() + PATIENCE;
    // That the first of them is still held when root was answered shows that root need not wait for
    // them. Each is given up after a while, which on a busy machine may be before that; then others
    // take their places.
    let mut greedy = loop {
        let greedy = strangers(socket.clone(), 160, log.to_owned());
        for _ in 0..3 {
            let answer = ask_as_root(&socket, "GET", "/api/v1/status");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        if !is_closed(&greedy[0]) {
            break greedy;
        }
        assert!(now() < deadline, "root is answered only after others were given up");
    };
    let mut begun = [0; 12];
    greedy[0].read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    eventually("who takes nothing is given up", || is_closed(&greedy[0]).then_some(()));
    drop(greedy);
    let mut reader = strangers(socket.clone(), 1, "/api/v1/status".to_owned()).remove(0);
    reader.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = String::new();
    reader.read_to_string(&mut answer).expect("there is room again");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    krond.stop();
}
