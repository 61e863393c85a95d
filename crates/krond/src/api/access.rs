//! Who may do what: decided by the peer's credentials, which the kernel vouches for.
//!
//! Root and the daemon's own user may do everything. Members of the socket's group may read. Others
//! may do nothing, even when the socket's mode lets them connect.
//!
//! The kernel tells a peer's user and primary group; which other groups the user belongs to is
//! asked of the name service, as for any login. A question it cannot answer is answered with no.

use std::ffi::CString;
use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderMap, Method};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use sha2::{Digest as _, Sha256};

use super::failure::Failure;
use crate::daemon::Handle;

/// What a peer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing.
    Nothing,
    /// Look, but not touch.
    Read,
    /// The same, for somebody nobody vouches for.
    ReadFromNetwork(Token),
    /// Everything.
    Change,
}

/// Whether somebody on the network could be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Yes, by the token.
    Wanted,
    /// No: there is none.
    Absent,
}

impl Token {
    /// Refuses who does not bear the token.
    pub(super) fn refusal(self, what: &str) -> Failure {
        match self {
            Token::Wanted => {
                Failure::unauthorised(&format!("over a network {what} needs the token"))
            }
            Token::Absent => Failure::forbidden(&format!(
                "over a network {what} needs a token, and `[api]` names no `token_file`; use the socket"
            )),
        }
    }
}

impl Access {
    /// Whether a request with this method is allowed.
    pub(super) fn admits(self, method: &Method) -> Result<(), Failure> {
        match self {
            Access::Change => Ok(()),
            Access::Read | Access::ReadFromNetwork(_)
                if matches!(*method, Method::GET | Method::HEAD) =>
            {
                Ok(())
            }
            Access::ReadFromNetwork(token) => Err(token.refusal("changing anything")),
            Access::Read => {
                Err(Failure::forbidden("only root and the daemon's own user may change anything"))
            }
            Access::Nothing => Err(Failure::forbidden(
                "only root, the daemon's own user and the socket's group may ask",
            )),
        }
    }
}

/// Whether a request that came over the network names this machine by a number or as `localhost`.
/// A page in somebody's browser can make a name of its own mean this machine, and then read on.
pub(super) fn is_plain_host(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let number = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || number.parse::<IpAddr>().is_ok()
}

/// Who is on the other end of a connection.
#[derive(Debug)]
pub(super) enum Peer {
    /// Somebody on this machine, whom the kernel vouches for.
    Local(Access),
    /// Somebody on the network, who may bear the token.
    Remote(Handle),
}

impl Peer {
    /// What this request may do.
    pub(super) fn access(&self, headers: &HeaderMap) -> Result<Access, Failure> {
        let handle = match self {
            Peer::Local(access) => return Ok(*access),
            Peer::Remote(handle) => handle,
        };
        let Some(presented) = headers.get(AUTHORIZATION) else {
            return Ok(Access::ReadFromNetwork(match handle.token() {
                Some(_) => Token::Wanted,
                None => Token::Absent,
            }));
        };
        let presented = presented.as_bytes();
        let scheme = b"bearer ";
        let token = presented
            .split_at_checked(scheme.len())
            .filter(|(start, _)| start.eq_ignore_ascii_case(scheme))
            .map(|(_, token)| token.trim_ascii());
        match (token, handle.token()) {
            (Some(token), Some(known)) if is_same(token, known.as_bytes()) => Ok(Access::Change),
            (_, Some(_)) => Err(Failure::unauthorised("the token is wrong")),
            (_, None) => Err(Failure::unauthorised("there is no token that could be borne")),
        }
    }
}

/// Compares without telling, by the time it takes, how much was right.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let hash = |bytes| Sha256::digest(bytes);
    let differences = hash(one).iter().zip(hash(other)).fold(0, |sum, (a, b)| sum | (a ^ b));
    differences == 0
}

/// Who a peer is, as far as that can be told without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Root or the daemon's own user, who may change things.
    Owner,
    /// Anybody else.
    Other,
}

impl Rank {
    /// The rank of this user.
    pub(super) fn of(uid: u32) -> Rank {
        let own = rustix::process::geteuid().as_raw();
        if uid == 0 || uid == own { Rank::Owner } else { Rank::Other }
    }
}

/// What the peer with this user and primary group may do.
pub(super) async fn of(uid: u32, gid: u32, socket_group: String) -> Access {
    if Rank::of(uid) == Rank::Owner {
        return Access::Change;
    }
    // The name service may ask the network.
    let reads = tokio::task::spawn_blocking(move || is_member(uid, gid, &socket_group));
    match reads.await {
        Ok(true) => Access::Read,
        Ok(false) | Err(_) => Access::Nothing,
    }
}

fn is_member(uid: u32, gid: u32, group: &str) -> bool {
    let Ok(Some(group)) = Group::from_name(group) else { return false };
    if group.gid == Gid::from_raw(gid) {
        return true;
    }
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else { return false };
    let Ok(name) = CString::new(user.name) else { return false };
    getgrouplist(&name, user.gid).is_ok_and(|groups| groups.contains(&group.gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_look_and_strangers_do_not() {
        let admitted = |access: Access| {
            [Method::GET, Method::HEAD, Method::POST, Method::DELETE]
                .map(|method| access.admits(&method).is_ok())
        };
        assert_eq!(admitted(Access::Change), [true; 4]);
        assert_eq!(admitted(Access::Read), [true, true, false, false]);
        assert_eq!(admitted(Access::Nothing), [false; 4]);
    }

    #[test]
    fn membership_is_by_primary_group_or_by_the_name_service() {
        let Ok(Some(root)) = User::from_uid(Uid::from_raw(0)) else { return };
        let group = Group::from_gid(root.gid).unwrap().unwrap();
        assert!(is_member(12_345, root.gid.as_raw(), &group.name), "by the peer's own group");
        assert!(is_member(0, 54_321, &group.name), "by the user's groups");
        assert!(!is_member(12_345, 54_321, &group.name), "a user nobody knows");
        assert!(!is_member(0, root.gid.as_raw(), "no-such-group-here"));
    }

    #[test]
    fn only_numbers_and_localhost_name_this_machine() {
        let plain = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            is_plain_host(&headers)
        };
        for host in
            ["127.0.0.1:8620", "127.0.0.1", "localhost:1", "localhost", "[::1]:8620", "[::1]"]
        {
            assert!(plain(host), "{host}");
        }
        for host in
            ["example.org", "example.org:8620", "127.0.0.1.example.org", "localhost.evil:80", ""]
        {
            assert!(!plain(host), "{host}");
        }
        assert!(!is_plain_host(&HeaderMap::new()));
    }
}
