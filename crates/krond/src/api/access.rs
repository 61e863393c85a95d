//! Who may do what: decided by the peer's credentials, which the kernel vouches for.
//!
//! Root and the daemon's own user may do everything. Members of the socket's group may read. Others
//! may do nothing, even when the socket's mode lets them connect.
//!
//! The kernel tells a peer's user and primary group; which other groups the user belongs to is
//! asked of the name service, as for any login. A question it cannot answer is answered with no.

use std::ffi::CString;
use std::net::IpAddr;

use axum::http::header::HOST;
use axum::http::{HeaderMap, Method};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use super::failure::Failure;

/// What a peer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing.
    Nothing,
    /// Look, but not touch.
    Read,
    /// The same, for somebody nobody vouches for.
    ReadFromNetwork,
    /// Everything.
    Change,
}

impl Access {
    /// Whether a request with this method is allowed.
    pub(super) fn admits(self, method: &Method) -> Result<(), Failure> {
        match self {
            Access::Change => Ok(()),
            Access::Read | Access::ReadFromNetwork
                if matches!(*method, Method::GET | Method::HEAD) =>
            {
                Ok(())
            }
            Access::ReadFromNetwork => {
                Err(Failure::forbidden("nothing can be changed over the network; use the socket"))
            }
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
