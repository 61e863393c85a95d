//! Becoming the command's user, for good, or not at all.
//!
//! Every change is read back, and whatever could lead back to more privileges is tried and must
//! fail. Runs in the forked process: nothing here allocates.

use nix::unistd::{Gid, Uid, getresgid, getresuid, setfsgid, setfsuid, setgroups};
use nix::unistd::{setresgid, setresuid};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::stage::{Fault, Stage, at};
use crate::plan::Credentials;

/// Who the command is to be.
pub(super) struct Identity {
    uid: Uid,
    gid: Gid,
    /// Sorted, as the kernel keeps them.
    groups: Vec<Gid>,
    /// Room for one group more than there should be.
    groups_found: Vec<libc::gid_t>,
}

/// "Leave it as it is", to the kernel.
const SAME: u32 = u32::MAX;

impl Identity {
    pub(super) fn new(credentials: &Credentials) -> Identity {
        let mut groups = credentials.groups.clone();
        groups.sort_unstable();
        groups.dedup();
        Identity {
            uid: Uid::from_raw(credentials.uid),
            gid: Gid::from_raw(credentials.gid),
            groups_found: vec![0; groups.len() + 1],
            groups: groups.into_iter().map(Gid::from_raw).collect(),
        }
    }

    /// Becomes this identity, for good, or fails.
    pub(super) fn assume(&mut self) -> Result<(), Fault> {
        // Without privileges nothing may be set, not even to what it is.
        if !self.is_assumed() {
            setgroups(&self.groups).map_err(errno).map_err(at(Stage::Groups))?;
            setresgid(self.gid, self.gid, self.gid).map_err(errno).map_err(at(Stage::Group))?;
            setresuid(self.uid, self.uid, self.uid).map_err(errno).map_err(at(Stage::User))?;
        }
        #[cfg(kron_canary)]
        if kron_canary::Canary::PrivilegesKept.is_active() {
            return Ok(());
        }
        if !self.uid.is_root() {
            // Leaving root clears these unless the daemon was started with capabilities instead
            // of root, or with inheritable ones.
            let fault = at(Stage::Capabilities);
            rustix::thread::clear_ambient_capability_set().map_err(&fault)?;
            rustix::thread::set_capabilities(None, NO_CAPABILITIES).map_err(&fault)?;
        }
        self.verify()
    }

    fn verify(&mut self) -> Result<(), Fault> {
        let wrong = Err(Fault { stage: Stage::Verification, errno: 0 });
        // An id that cannot be set answers with the one that holds.
        let file_system_uid = setfsuid(Uid::from_raw(SAME));
        let file_system_gid = setfsgid(Gid::from_raw(SAME));
        if !self.is_assumed() || file_system_uid != self.uid || file_system_gid != self.gid {
            return wrong;
        }
        if self.uid.is_root() {
            return Ok(());
        }
        let (same_uid, same_gid) = (Uid::from_raw(SAME), Gid::from_raw(SAME));
        let root = setresuid(same_uid, Uid::from_raw(0), same_uid).is_ok();
        let root_group =
            self.gid.as_raw() != 0 && setresgid(same_gid, Gid::from_raw(0), same_gid).is_ok();
        let capabilities = rustix::thread::capabilities(None).map_err(at(Stage::Verification))?;
        if root || root_group || capabilities != NO_CAPABILITIES {
            return wrong;
        }
        Ok(())
    }

    fn is_assumed(&mut self) -> bool {
        let user =
            getresuid().is_ok_and(|ids| [ids.real, ids.effective, ids.saved] == [self.uid; 3]);
        let group =
            getresgid().is_ok_and(|ids| [ids.real, ids.effective, ids.saved] == [self.gid; 3]);
        user && group && self.has_groups()
    }

    fn has_groups(&mut self) -> bool {
        let room = self.groups_found.len() as libc::c_int;
        #[expect(unsafe_code, reason = "the safe binding allocates")]
        // SAFETY: there is room for as many groups as the call is told.
        let count = unsafe { libc::getgroups(room, self.groups_found.as_mut_ptr()) };
        let Ok(count) = usize::try_from(count) else { return false };
        let found = &mut self.groups_found[..count];
        found.sort_unstable();
        found.iter().copied().eq(self.groups.iter().map(|gid| gid.as_raw()))
    }
}

const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

fn errno(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}
