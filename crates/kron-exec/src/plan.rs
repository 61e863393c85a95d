//! What is to be run, and how: everything a supervisor needs to know.
//!
//! A plan is plain data. The daemon makes it, [`Plan::check`] refuses on the daemon's side what no
//! kernel could carry out, and the supervisor follows it without asking anybody anything: it never
//! looks up a user, reads the daemon's environment or searches the daemon's path.
//!
//! A plan travels as JSON. Fields may be added, each with a default: a supervisor passes over those
//! it does not know and does without those it is not given.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kron_state::RunId;
use serde::{Deserialize, Serialize};

use crate::log_line::LogFormat;

/// Bytes that a whole plan may have when it is handed over.
pub const PLAN_BYTES_MAX: usize = 1 << 20;
/// Bytes that one argument, or one variable with its name, may have: the kernel's own limit,
/// without the byte that ends the text.
pub const ARGUMENT_BYTES_MAX: usize = (128 << 10) - 1;
/// Supplementary groups that a process may have: the kernel's own limit.
pub const GROUPS_MAX: usize = 65_536;
/// Bytes that the tag of syslog messages may have.
pub const TAG_BYTES_MAX: usize = 64;

/// One run of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The run.
    pub run: RunId,
    /// The program and its arguments. A program without a slash is searched for in the absolute
    /// directories of the `PATH` of [`Plan::env`], as the command's user.
    pub argv: Vec<String>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Who it runs as; the daemon's own user when absent.
    pub credentials: Option<Credentials>,
    /// Keeps the command from gaining privileges by executing set-user-id programs.
    pub no_new_privileges: bool,
    /// Where it starts; `/` when absent.
    pub cwd: Option<PathBuf>,
    /// The file mode mask.
    pub umask: u32,
    /// The scheduling priority, −20 to 19; the daemon's own when absent.
    pub nice: Option<i8>,
    /// Resource limits; the daemon's own where absent. A daemon that raised its own number of
    /// open files should put the usual one back here.
    pub limits: Vec<Limit>,
    /// What it reads on standard input; nothing when absent.
    pub stdin: Option<String>,
    /// Where its output goes.
    pub output: Output,
    /// How long it may run, on the monotonic clock from its release.
    pub timeout: Option<Duration>,
    /// How long it has between being asked to end and being killed.
    pub grace: Duration,
    /// Where the run is recorded when nobody is there to be told.
    pub state_dir: PathBuf,
    /// The job's identity. It is only told, in the record and in the log, never acted on; as are
    /// the next two.
    #[serde(default)]
    pub identity: Option<String>,
    /// The id of the period, or the name of the run by hand.
    #[serde(default)]
    pub period_id: Option<String>,
    /// How the log is written that the daemon's standard error carries, and the supervisor's with
    /// it.
    #[serde(default)]
    pub log_format: LogFormat,
}

/// Who a command runs as, in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

/// Where a command's output goes, standard output and standard error alike.
///
/// Where the supervisor carries the output, it does so until the command itself ends: background
/// processes that the command leaves behind find the pipe closed from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Into a new file; what goes beyond `bytes_max` is dropped and counted.
    Log {
        /// The file. Its directory is made when it is missing; nothing may be there yet.
        path: PathBuf,
        /// Bytes of output that are kept.
        bytes_max: u64,
    },
    /// To where the daemon's own goes.
    Inherit,
    /// Nowhere.
    Discard,
    /// To the system log, one message per line.
    Syslog {
        /// What the messages are marked with.
        tag: String,
    },
}

/// A limit on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// What is limited.
    pub resource: Resource,
    /// What holds; unlimited when absent.
    pub soft: Option<u64>,
    /// What the command may raise it to; unlimited when absent.
    pub hard: Option<u64>,
}

/// What can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Bytes of address space.
    AddressSpace,
    /// Bytes of a core file.
    CoreSize,
    /// Seconds of processor time.
    CpuSeconds,
    /// Bytes of data segment.
    DataSize,
    /// Bytes of any file written.
    FileSize,
    /// Bytes locked into memory.
    LockedMemory,
    /// Open descriptors.
    OpenFiles,
    /// Processes of the user.
    Processes,
    /// Bytes of stack.
    StackSize,
}

/// Why a plan cannot be carried out by any supervisor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is no program.
    #[error("there is no program to run")]
    NoProgram,
    /// A text holds a zero byte.
    #[error("{0} holds a zero byte")]
    ZeroByte(String),
    /// A text is longer than the kernel passes on.
    #[error("{what} has {bytes} bytes, and the system passes on at most {ARGUMENT_BYTES_MAX}")]
    TooLong {
        /// Which text.
        what: String,
        /// How long it is.
        bytes: usize,
    },
    /// A variable's name is none.
    #[error("`{0}` cannot be the name of a variable")]
    VariableName(String),
    /// A path does not start at the root.
    #[error("{what} `{}` is not an absolute path", path.display())]
    RelativePath {
        /// Which path.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A number lies outside its range.
    #[error("{what} {value} is out of range")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// The number.
        value: i64,
    },
    /// The syslog tag is unusable.
    #[error(
        "`{0}` cannot be a syslog tag: 1 to {TAG_BYTES_MAX} printable ASCII characters, no space, `:`, `[` or `]`"
    )]
    Tag(String),
}

impl Plan {
    /// Refuses what no supervisor could carry out.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(PlanError::NoProgram);
        }
        for (index, argument) in self.argv.iter().enumerate() {
            check_text(argument, argument.len(), || format!("argument {index}"))?;
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains('=') {
                return Err(PlanError::VariableName(name.clone()));
            }
            check_text(name, name.len(), || format!("the name of variable `{name}`"))?;
            check_text(value, name.len() + 1 + value.len(), || format!("variable `{name}`"))?;
        }
        if let Some(cwd) = &self.cwd {
            check_path("the working directory", cwd)?;
        }
        check_path("the state directory", &self.state_dir)?;
        match &self.output {
            Output::Log { path, .. } => check_path("the log file", path)?,
            Output::Syslog { tag } => check_tag(tag)?,
            Output::Inherit | Output::Discard => {}
        }
        if self.umask > 0o777 {
            return Err(out_of_range("the umask", i64::from(self.umask)));
        }
        if let Some(nice) = self.nice.filter(|nice| !(-20..=19).contains(nice)) {
            return Err(out_of_range("the priority", i64::from(nice)));
        }
        match &self.credentials {
            Some(Credentials { groups, .. }) if groups.len() > GROUPS_MAX => {
                Err(out_of_range("the number of groups", groups.len() as i64))
            }
            // The kernel takes this number for "leave it as it is".
            Some(Credentials { uid: u32::MAX, .. }) => Err(out_of_range("the user", -1)),
            Some(Credentials { gid: u32::MAX, .. }) => Err(out_of_range("the group", -1)),
            Some(_) | None => Ok(()),
        }
    }

    /// The `PATH` of the command, if it has one.
    pub(crate) fn search_path(&self) -> Option<&str> {
        self.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str())
    }
}

fn check_text(text: &str, bytes: usize, what: impl Fn() -> String) -> Result<(), PlanError> {
    if text.contains('\0') {
        return Err(PlanError::ZeroByte(what()));
    }
    if bytes > ARGUMENT_BYTES_MAX {
        return Err(PlanError::TooLong { what: what(), bytes });
    }
    Ok(())
}

fn check_path(what: &'static str, path: &Path) -> Result<(), PlanError> {
    if !path.is_absolute() {
        return Err(PlanError::RelativePath { what, path: path.to_owned() });
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(PlanError::ZeroByte(what.to_owned()));
    }
    Ok(())
}

fn check_tag(tag: &str) -> Result<(), PlanError> {
    let plain = tag.bytes().all(|byte| byte.is_ascii_graphic() && !b":[]".contains(&byte));
    if plain && (1..=TAG_BYTES_MAX).contains(&tag.len()) {
        return Ok(());
    }
    Err(PlanError::Tag(tag.to_owned()))
}

fn out_of_range(what: &'static str, value: i64) -> PlanError {
    PlanError::OutOfRange { what, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            run: RunId::from_bits(7),
            argv: vec!["true".to_owned()],
            env: vec![("PATH".to_owned(), "/bin".to_owned())],
            credentials: None,
            no_new_privileges: false,
            cwd: None,
            umask: 0o022,
            nice: None,
            limits: Vec::new(),
            stdin: None,
            output: Output::Discard,
            timeout: None,
            grace: Duration::from_secs(10),
            state_dir: "/state".into(),
            identity: Some("job".to_owned()),
            period_id: Some("2026-03-01T00:00:00Z".to_owned()),
            log_format: LogFormat::Json,
        }
    }

    #[test]
    fn what_no_kernel_could_carry_out_is_refused_by_name() {
        type Edit = fn(&mut Plan);
        let rows: &[(Edit, &str)] = &[
            (|plan| plan.argv.clear(), "there is no program to run"),
            (|plan| plan.argv[0].clear(), "there is no program to run"),
            (|plan| plan.argv.push("a\0b".into()), "argument 1 holds a zero byte"),
            (
                |plan| plan.argv.push("x".repeat(ARGUMENT_BYTES_MAX + 1)),
                "argument 1 has 131072 bytes, and the system passes on at most 131071",
            ),
            (|plan| plan.env[0].0 = "A=B".into(), "`A=B` cannot be the name of a variable"),
            (|plan| plan.env[0].0.clear(), "`` cannot be the name of a variable"),
            (|plan| plan.env[0].1 = "\0".into(), "variable `PATH` holds a zero byte"),
            (
                |plan| plan.env[0].1 = "x".repeat(ARGUMENT_BYTES_MAX - 4),
                "variable `PATH` has 131072 bytes, and the system passes on at most 131071",
            ),
            (
                |plan| plan.cwd = Some("tmp".into()),
                "the working directory `tmp` is not an absolute path",
            ),
            (|plan| plan.state_dir = "s".into(), "the state directory `s` is not an absolute path"),
            (
                |plan| plan.output = Output::Log { path: "x".into(), bytes_max: 1 },
                "the log file `x` is not an absolute path",
            ),
            (|plan| plan.umask = 0o1000, "the umask 512 is out of range"),
            (|plan| plan.nice = Some(20), "the priority 20 is out of range"),
            (
                |plan| {
                    plan.credentials =
                        Some(Credentials { uid: u32::MAX, gid: 1, groups: Vec::new() });
                },
                "the user -1 is out of range",
            ),
        ];
        assert_eq!(plan().check(), Ok(()));
        for (edit, message) in rows {
            let mut plan = plan();
            edit(&mut plan);
            assert_eq!(plan.check().expect_err(message).to_string(), *message);
        }
        for tag in ["", "two words", "a:b", "a[1]", "é"] {
            let plan = Plan { output: Output::Syslog { tag: tag.into() }, ..plan() };
            assert_eq!(plan.check(), Err(PlanError::Tag(tag.into())));
        }
    }

    #[test]
    fn the_longest_texts_that_the_kernel_takes_are_accepted() {
        let mut plan = plan();
        plan.argv.push("x".repeat(ARGUMENT_BYTES_MAX));
        plan.env[0].1 = "x".repeat(ARGUMENT_BYTES_MAX - 5);
        assert_eq!(plan.check(), Ok(()));
    }

    #[test]
    fn plans_of_older_and_newer_daemons_are_understood() {
        let mut value = serde_json::to_value(plan()).expect("a plan is JSON");
        let fields = value.as_object_mut().expect("an object");
        fields.insert("from_the_future".to_owned(), true.into());
        let read: Plan = serde_json::from_value(value.clone()).expect("more than is known");
        assert_eq!(read, plan());
        for field in ["identity", "period_id", "log_format"] {
            let fields = value.as_object_mut().expect("an object");
            assert!(fields.remove(field).is_some(), "{field}");
        }
        let read: Plan = serde_json::from_value(value).expect("as before there were these");
        let older = Plan { identity: None, period_id: None, log_format: LogFormat::Text, ..plan() };
        assert_eq!(read, older);
    }
}
