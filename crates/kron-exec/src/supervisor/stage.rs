//! The steps between fork and `execve`, and how the command's process tells its supervisor about
//! them.

use std::io;

use rustix::io::Errno;

/// A step of the command's process on its way to `execve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    Descriptors = 1,
    Signals,
    Session,
    Limits,
    Priority,
    Groups,
    Group,
    User,
    Capabilities,
    Verification,
    NoNewPrivileges,
    Directory,
    Exec,
}

impl Stage {
    const ALL: [Stage; 13] = [
        Stage::Descriptors,
        Stage::Signals,
        Stage::Session,
        Stage::Limits,
        Stage::Priority,
        Stage::Groups,
        Stage::Group,
        Stage::User,
        Stage::Capabilities,
        Stage::Verification,
        Stage::NoNewPrivileges,
        Stage::Directory,
        Stage::Exec,
    ];

    /// The name that is reported.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Stage::Descriptors => "descriptors",
            Stage::Signals => "signals",
            Stage::Session => "session",
            Stage::Limits => "limits",
            Stage::Priority => "priority",
            Stage::Groups => "groups",
            Stage::Group => "group",
            Stage::User => "user",
            Stage::Capabilities => "capabilities",
            Stage::Verification => "verification",
            Stage::NoNewPrivileges => "no new privileges",
            Stage::Directory => "directory",
            Stage::Exec => "exec",
        }
    }

    /// What could not be done, for people.
    pub(super) const fn attempt(self) -> &'static str {
        match self {
            Stage::Descriptors => "set up its descriptors",
            Stage::Signals => "reset its signals",
            Stage::Session => "start a session",
            Stage::Limits => "set its resource limits",
            Stage::Priority => "set its priority",
            Stage::Groups => "set its supplementary groups",
            Stage::Group => "set its group",
            Stage::User => "set its user",
            Stage::Capabilities => "drop its capabilities",
            Stage::Verification => "verify that its privileges are what they should be",
            Stage::NoNewPrivileges => "forbid it new privileges",
            Stage::Directory => "enter its directory",
            Stage::Exec => "execute it",
        }
    }
}

/// A step that failed. The error is zero when the step found something wrong by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) stage: Stage,
    pub(super) errno: i32,
}

impl Fault {
    /// The stage, the system's error and the words for people; `hint` is added where it helps.
    pub(super) fn explain(&self, hint: &str) -> (&'static str, i32, String) {
        let Fault { stage, errno } = *self;
        let reason = match (errno, stage) {
            (0, Stage::Verification) => "they are not".to_owned(),
            (0, _) => "it did not take effect".to_owned(),
            (errno, _) => io::Error::from_raw_os_error(errno).to_string(),
        };
        (stage.as_str(), errno, format!("could not {}: {reason}{hint}", stage.attempt()))
    }
}

/// What the command's process says to its supervisor, in [`WORD_BYTES`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It waits at the gate.
    Ready,
    /// It is about to end without having executed anything.
    Failed(Fault),
}

pub(super) const WORD_BYTES: usize = 5;

impl Word {
    pub(super) fn to_bytes(self) -> [u8; WORD_BYTES] {
        let (stage, errno) = match self {
            Word::Ready => (0, 0_i32),
            Word::Failed(Fault { stage, errno }) => (stage as u8, errno),
        };
        let [a, b, c, d] = errno.to_le_bytes();
        [stage, a, b, c, d]
    }

    /// `None` for what no process of ours says.
    pub(super) fn from_bytes([stage, a, b, c, d]: [u8; WORD_BYTES]) -> Option<Word> {
        if stage == 0 {
            return Some(Word::Ready);
        }
        let stage = Stage::ALL.into_iter().find(|known| *known as u8 == stage)?;
        Some(Word::Failed(Fault { stage, errno: i32::from_le_bytes([a, b, c, d]) }))
    }
}

/// Names the step of an error.
pub(super) fn at(stage: Stage) -> impl Fn(Errno) -> Fault {
    move |errno| Fault { stage, errno: errno.raw_os_error() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_said() {
        let failures = Stage::ALL.map(|stage| Word::Failed(Fault { stage, errno: 13 }));
        for word in failures.into_iter().chain([Word::Ready]) {
            assert_eq!(Word::from_bytes(word.to_bytes()), Some(word));
        }
        assert_eq!(Word::from_bytes([99, 0, 0, 0, 0]), None);
    }
}
