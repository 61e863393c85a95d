//! Whom a command runs as, by name, and the clean environment it starts with.
//!
//! The name service is asked here, in the daemon: a supervisor gets numbers. What an account's
//! entry says is taken as it is; whether its home or shell exist is not looked at.

use std::ffi::CString;
use std::io;

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, getgrouplist};

use crate::plan::Credentials;

/// The search path of a command whose job gives none.
pub const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Variables whose names start so are Kron's to set.
pub const RESERVED_PREFIX: &str = "KRON_";

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: String,
    /// The home directory.
    pub home: String,
    /// The login shell.
    pub shell: String,
    /// The numbers.
    pub credentials: Credentials,
}

/// Why nobody can be named.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// There is no such user.
    #[error("there is no user `{0}`")]
    NoUser(String),
    /// There is no such group.
    #[error("there is no group `{0}`")]
    NoGroup(String),
    /// The name service failed.
    #[error("could not look up `{name}`")]
    Lookup {
        /// What was looked up.
        name: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// Looks up a user, the daemon's own when none is named, and optionally another primary group.
///
/// A text that is no name but a number is taken for an id of an existing entry.
///
/// # Errors
/// There is no such user or group, or the name service failed.
pub fn account(user: Option<&str>, group: Option<&str>) -> Result<Account, AccountError> {
    let entry = match user {
        Some(name) => find_user(name)?,
        None => {
            let uid = geteuid();
            let found = User::from_uid(uid).map_err(|errno| lookup(&uid.to_string(), errno))?;
            found.ok_or_else(|| AccountError::NoUser(uid.to_string()))?
        }
    };
    let gid = match group {
        Some(name) => find_group(name)?,
        None => entry.gid,
    };
    let name =
        CString::new(entry.name.as_str()).map_err(|_| AccountError::NoUser(entry.name.clone()))?;
    let groups = getgrouplist(&name, gid).map_err(|errno| lookup(&entry.name, errno))?;
    let mut groups: Vec<u32> = groups.into_iter().map(Gid::as_raw).collect();
    groups.sort_unstable();
    groups.dedup();
    Ok(Account {
        name: entry.name,
        home: entry.dir.to_string_lossy().into_owned(),
        shell: entry.shell.to_string_lossy().into_owned(),
        credentials: Credentials { uid: entry.uid.as_raw(), gid: gid.as_raw(), groups },
    })
}

impl Account {
    /// What a plan's credentials are to be: absent when the daemon is not root and is this
    /// account already, because then there is nothing to change and no right to change it.
    ///
    /// Where the daemon lacks the right to become somebody else they are present all the same,
    /// and the supervisor refuses the run.
    #[must_use]
    pub fn to_assume(&self) -> Option<Credentials> {
        let is_me = !geteuid().is_root()
            && geteuid().as_raw() == self.credentials.uid
            && getegid().as_raw() == self.credentials.gid;
        (!is_me).then(|| self.credentials.clone())
    }
}

/// The whole environment of a command: `HOME`, `LOGNAME`, `USER`, `SHELL` and `PATH` of its
/// account, then the job's own variables, which may replace those, then Kron's, which nothing
/// replaces.
#[must_use]
pub fn clean_environment(
    account: &Account,
    job: &[(String, String)],
    kron: &[(&str, String)],
) -> Vec<(String, String)> {
    let mut environment: Vec<(String, String)> = [
        ("HOME", account.home.as_str()),
        ("LOGNAME", &account.name),
        ("USER", &account.name),
        ("SHELL", if account.shell.is_empty() { "/bin/sh" } else { &account.shell }),
        ("PATH", PATH_DEFAULT),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let job = job.iter().filter(|(name, _)| !name.starts_with(RESERVED_PREFIX));
    let job = job.map(|(name, value)| (name.as_str(), value));
    for (name, value) in job.chain(kron.iter().map(|(name, value)| (*name, value))) {
        match environment.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.clone_from(value),
            None => environment.push((name.to_owned(), value.clone())),
        }
    }
    environment
}

fn find_user(name: &str) -> Result<User, AccountError> {
    let found = User::from_name(name).map_err(|errno| lookup(name, errno))?;
    if let Some(user) = found {
        return Ok(user);
    }
    let missing = || AccountError::NoUser(name.to_owned());
    let uid = Uid::from_raw(number(name).ok_or_else(missing)?);
    User::from_uid(uid).map_err(|errno| lookup(name, errno))?.ok_or_else(missing)
}

fn find_group(name: &str) -> Result<Gid, AccountError> {
    let found = Group::from_name(name).map_err(|errno| lookup(name, errno))?;
    if let Some(group) = found {
        return Ok(group.gid);
    }
    let missing = || AccountError::NoGroup(name.to_owned());
    let gid = Gid::from_raw(number(name).ok_or_else(missing)?);
    let found = Group::from_gid(gid).map_err(|errno| lookup(name, errno))?;
    Ok(found.ok_or_else(missing)?.gid)
}

/// A plain decimal number; signs and the kernel's "no id" are none.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| plain && number != u32::MAX)
}

fn lookup(name: &str, errno: nix::errno::Errno) -> AccountError {
    AccountError::Lookup { name: name.to_owned(), source: errno.into() }
}
