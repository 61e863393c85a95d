//! What a daemon and a supervisor say to each other.
//!
//! One packet socket per run. The first packet carries the protocol's version and, attached, a
//! sealed file with the plan: so handing over a large plan never waits for the supervisor. The
//! daemon's orders after that are one byte each; reports are JSON. Both ends are one version of
//! one program as long as the daemon starts its own image, and the version makes every other
//! case a clear refusal.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use kron_state::RunEnd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::plan::PLAN_BYTES_MAX;
use crate::process::ProcessId;

/// The version of the protocol spoken here.
pub(crate) const VERSION: u32 = 1;
/// Bytes that a report may have.
pub(crate) const REPORT_BYTES_MAX: usize = 8 << 10;
/// Bytes that the message of a failure may have; two of them fit into a report, whatever is
/// escaped in them.
pub(crate) const FAILURE_BYTES_MAX: usize = 1 << 10;

const MAGIC: [u8; 4] = *b"kron";
const HELLO_BYTES: usize = 12;

/// What a supervisor reports.
///
/// [`Message::Refused`] after [`Message::Armed`], [`Message::ExecFailed`] and [`Message::Ended`]
/// are a run's last words: once they are durable they are acknowledged, and a supervisor that
/// cannot be acknowledged records them itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The command's process is ready and waits at the gate.
    Armed {
        /// The supervisor.
        supervisor: ProcessId,
        /// The command's process.
        command: ProcessId,
    },
    /// The command was not executed and will not be: something failed before its release, or the
    /// run was asked to end before it.
    Refused {
        /// What was attempted.
        stage: String,
        /// The system's error number; zero when it was no call that failed.
        errno: i32,
        /// What happened, for people.
        message: String,
    },
    /// The command was released and is executing.
    Executing,
    /// The command was released and could not be executed.
    ExecFailed {
        /// What was attempted.
        stage: String,
        /// The system's error number.
        errno: i32,
        /// What happened, for people.
        message: String,
    },
    /// The command ended.
    Ended(RunEnd),
    /// Nothing more will come: the supervisor is gone.
    #[serde(skip)]
    Closed,
}

/// What a daemon orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Execute the command.
    Release,
    /// The last words are durable.
    Acknowledge,
}

impl Order {
    fn byte(self) -> u8 {
        match self {
            Order::Release => b'R',
            Order::Acknowledge => b'A',
        }
    }
}

/// What came from the other side.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received<T> {
    /// This.
    Packet(T),
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come.
    Closed,
}

/// Why a supervisor cannot use its first packet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelloError {
    #[error("the control socket is closed")]
    Closed,
    #[error("the daemon speaks version {0} of the protocol, this supervisor speaks {VERSION}")]
    Version(u32),
    #[error("the first packet is not a plan")]
    NotAPlan,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A sealed file without a name that holds `bytes`, read from its start.
pub(crate) fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag.
        Err(Errno::INVAL) => memfd_create(name, flags)?,
        result => result?,
    };
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    file.rewind()?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Greets in a version that there never was, which every supervisor refuses by telling its own.
pub(crate) fn send_probe(socket: impl AsFd) -> io::Result<()> {
    let mut hello = [0; HELLO_BYTES];
    hello[..4].copy_from_slice(&MAGIC);
    send(socket, &hello, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Whether a report answers [`send_probe`] as a supervisor of this version does.
pub(crate) fn answers_probe(message: &Message) -> bool {
    let expected = HelloError::Version(0).to_string();
    matches!(message, Message::Refused { message, .. } if *message == expected)
}

pub(crate) fn send_hello(socket: impl AsFd, plan: &[u8]) -> io::Result<()> {
    let file = sealed("kron-plan", plan)?;
    let bytes = u32::try_from(plan.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut hello = [0; HELLO_BYTES];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4..8].copy_from_slice(&VERSION.to_le_bytes());
    hello[8..].copy_from_slice(&bytes.to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(&hello)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The bytes of the plan.
pub(crate) fn receive_hello(socket: impl AsFd) -> Result<Vec<u8>, HelloError> {
    let mut hello = [0; HELLO_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut hello)];
    let received = recvmsg(socket, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(io::Error::from)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    if received.bytes == 0 {
        return Err(HelloError::Closed);
    }
    // The version comes first in every version.
    if received.bytes < 8 || hello[..4] != MAGIC {
        return Err(HelloError::NotAPlan);
    }
    let version = u32::from_le_bytes([hello[4], hello[5], hello[6], hello[7]]);
    if version != VERSION {
        return Err(HelloError::Version(version));
    }
    let bytes = u32::from_le_bytes([hello[8], hello[9], hello[10], hello[11]]) as usize;
    let (Some(file), true) = (file, received.bytes == HELLO_BYTES && bytes <= PLAN_BYTES_MAX)
    else {
        return Err(HelloError::NotAPlan);
    };
    let mut plan = vec![0; bytes];
    std::fs::File::from(file).read_exact(&mut plan)?;
    Ok(plan)
}

pub(crate) fn send_order(socket: impl AsFd, order: Order) -> io::Result<()> {
    send(socket, &[order.byte()], SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn receive_order(socket: impl AsFd) -> io::Result<Received<Order>> {
    let mut byte = [0];
    Ok(match receive(socket, &mut byte)? {
        Received::Packet(_) if byte == [Order::Release.byte()] => Received::Packet(Order::Release),
        Received::Packet(_) if byte == [Order::Acknowledge.byte()] => {
            Received::Packet(Order::Acknowledge)
        }
        Received::Packet(_) => return Err(invalid("an unknown order")),
        Received::Nothing => Received::Nothing,
        Received::Closed => Received::Closed,
    })
}

pub(crate) fn send_report(socket: impl AsFd, report: &Message) -> io::Result<()> {
    let bytes = serde_json::to_vec(report)?;
    send(socket, &bytes, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn receive_report(socket: impl AsFd) -> io::Result<Received<Message>> {
    let mut bytes = [0; REPORT_BYTES_MAX];
    Ok(match receive(socket, &mut bytes)? {
        Received::Packet(length) => {
            let report = serde_json::from_slice(&bytes[..length]);
            Received::Packet(report.map_err(|_| invalid("an unreadable report"))?)
        }
        Received::Nothing => Received::Nothing,
        Received::Closed => Received::Closed,
    })
}

/// One packet into `buffer`: its length.
fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received<usize>> {
    loop {
        return match recv(&socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Ok(Received::Closed),
            Ok((length, _)) => Ok(Received::Packet(length)),
            Err(Errno::AGAIN) => Ok(Received::Nothing),
            // The other side went away without having read everything. It is told once and comes
            // before the packets that were sent earlier, which still count.
            Err(Errno::INTR | Errno::CONNRESET) => continue,
            Err(errno) => Err(errno.into()),
        };
    }
}

/// At most [`FAILURE_BYTES_MAX`] of `message`, cut between characters.
pub(crate) fn bounded(mut message: String) -> String {
    if message.len() > FAILURE_BYTES_MAX {
        let end = (0..=FAILURE_BYTES_MAX).rfind(|&end| message.is_char_boundary(end));
        message.truncate(end.unwrap_or_default());
    }
    message
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("a pair of sockets")
    }

    #[test]
    fn the_largest_plan_is_handed_over_before_anybody_reads() {
        let (daemon, supervisor) = pair();
        let plan = vec![b'x'; PLAN_BYTES_MAX];
        send_hello(&daemon, &plan).expect("sent");
        assert_eq!(receive_hello(&supervisor).expect("received"), plan);
    }

    #[test]
    fn first_packets_that_are_no_plan_are_refused() {
        let mut newer = [0; 16];
        newer[..4].copy_from_slice(&MAGIC);
        newer[4] = 2;
        let without_file = [b'k', b'r', b'o', b'n', 1, 0, 0, 0, 1, 0, 0, 0];
        let rows: [(&[u8], &str); 4] = [
            (b"R", "the first packet is not a plan"),
            (b"GET / HTTP/1.1", "the first packet is not a plan"),
            (&newer, "the daemon speaks version 2 of the protocol, this supervisor speaks 1"),
            (&without_file, "the first packet is not a plan"),
        ];
        for (packet, message) in rows {
            let (daemon, supervisor) = pair();
            send(&daemon, packet, SendFlags::NOSIGNAL).expect("sent");
            assert_eq!(receive_hello(&supervisor).expect_err(message).to_string(), message);
        }
        let (daemon, supervisor) = pair();
        drop(daemon);
        assert!(matches!(receive_hello(&supervisor), Err(HelloError::Closed)));
    }

    #[test]
    fn an_order_counts_even_when_the_daemon_left_reports_unread() {
        let (daemon, supervisor) = pair();
        send_report(&supervisor, &Message::Executing).expect("sent");
        send_order(&daemon, Order::Release).expect("sent");
        drop(daemon);
        let receive = || receive_order(&supervisor).expect("received");
        assert_eq!(receive(), Received::Packet(Order::Release));
        assert_eq!(receive(), Received::Closed);
        assert_eq!(receive(), Received::Closed);
    }

    #[test]
    fn the_longest_failure_fits_into_a_report() {
        let (daemon, supervisor) = pair();
        let message = bounded("\u{1}".repeat(REPORT_BYTES_MAX));
        let report = Message::Refused { stage: "x".repeat(64), errno: -1, message };
        send_report(&supervisor, &report).expect("sent");
        assert_eq!(receive_report(&daemon).expect("received"), Received::Packet(report));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let cut = bounded(format!("x{}", "é".repeat(FAILURE_BYTES_MAX)));
        assert_eq!(cut.len(), FAILURE_BYTES_MAX - 1);
        assert!(cut.ends_with('é'));
    }
}
