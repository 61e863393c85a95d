//! Limits on what a job's process may use, as the system knows them (`setrlimit`).
//!
//! Only what Kron hands on is here, and only names and numbers: nothing is compared with what the
//! machine would allow, since that depends on the user and is known when the process starts.

use std::ops::Range;

use kron_core::Finding;
use kron_core::finding::excerpt;

use crate::value::{self, Value, wrong_kind};

/// The highest number a limit may have; above it the system has only `unlimited`.
const AMOUNT_MAX: u64 = i64::MAX as u64;

/// What the settings of krontab lines begin with.
const SETTING_PREFIX: &str = "limit_";

/// How much of a resource a process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// What is limited.
    pub resource: Resource,
    /// The limit that holds; `None` is unlimited. Never above `hard`.
    pub soft: Option<u64>,
    /// What the process itself may raise it to; `None` is unlimited.
    pub hard: Option<u64>,
}

/// What can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Bytes of address space.
    As,
    /// Bytes of a core file.
    Core,
    /// Seconds of processor time.
    Cpu,
    /// Bytes of data.
    Data,
    /// Bytes of a file that it writes.
    Fsize,
    /// Bytes locked in memory.
    Memlock,
    /// Open descriptors, counted as the highest number plus one.
    Nofile,
    /// Processes of its user.
    Nproc,
    /// Bytes of stack.
    Stack,
}

impl Resource {
    /// Every resource.
    pub const ALL: [Resource; 9] = [
        Resource::As,
        Resource::Core,
        Resource::Cpu,
        Resource::Data,
        Resource::Fsize,
        Resource::Memlock,
        Resource::Nofile,
        Resource::Nproc,
        Resource::Stack,
    ];

    /// Its name: `nofile` for what the system calls `RLIMIT_NOFILE`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        // The end of the setting's name is the resource's.
        &self.setting()[SETTING_PREFIX.len()..]
    }

    /// The setting of a krontab line that limits it.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Resource::As => "limit_as",
            Resource::Core => "limit_core",
            Resource::Cpu => "limit_cpu",
            Resource::Data => "limit_data",
            Resource::Fsize => "limit_fsize",
            Resource::Memlock => "limit_memlock",
            Resource::Nofile => "limit_nofile",
            Resource::Nproc => "limit_nproc",
            Resource::Stack => "limit_stack",
        }
    }

    /// The resource of this name.
    pub(crate) fn named(name: &str) -> Option<Resource> {
        Resource::ALL.into_iter().find(|resource| resource.as_str() == name)
    }

    /// The resource that this setting of a krontab line limits.
    pub(crate) fn of_setting(setting: &str) -> Option<Resource> {
        Resource::ALL.into_iter().find(|resource| resource.setting() == setting)
    }

    const fn is_in_bytes(self) -> bool {
        match self {
            Resource::As
            | Resource::Core
            | Resource::Data
            | Resource::Fsize
            | Resource::Memlock
            | Resource::Stack => true,
            Resource::Cpu | Resource::Nofile | Resource::Nproc => false,
        }
    }
}

/// The limit that `value` puts on `resource`: a number for both, `unlimited`, or `soft:hard`.
pub(crate) fn limit(
    resource: Resource,
    value: &Value<'_>,
    span: &Range<usize>,
) -> Result<Limit, Finding> {
    let written = match value {
        Value::Integer { text, radix } => {
            let amount =
                u64::from_str_radix(text, *radix).map_err(|_| not_a_limit(resource, text, span))?;
            let amount = Some(checked(amount, text, span)?);
            return Ok(Limit { resource, soft: amount, hard: amount });
        }
        Value::Text(_) => value::text(value, span)?,
        other => return Err(wrong_kind(other, span, "a number or a text such as `64:128`")),
    };
    let (soft, hard) = match written.split_once(':') {
        Some((soft, hard)) => (amount(resource, soft, span)?, amount(resource, hard, span)?),
        None => {
            let both = amount(resource, written, span)?;
            (both, both)
        }
    };
    if soft.unwrap_or(u64::MAX) > hard.unwrap_or(u64::MAX) {
        let message = format!("the soft limit of `{}` is above the hard one", excerpt(written));
        return Err(Finding::validation(span.clone(), message)
            .help("the soft limit comes first, as in `64:128`"));
    }
    Ok(Limit { resource, soft, hard })
}

/// One side of a limit; `None` is unlimited.
fn amount(resource: Resource, text: &str, span: &Range<usize>) -> Result<Option<u64>, Finding> {
    if text == "unlimited" {
        return Ok(None);
    }
    let amount = value::size(text, span)?
        .filter(|_| resource.is_in_bytes() || text.bytes().all(|byte| byte.is_ascii_digit()));
    let amount = amount.ok_or_else(|| not_a_limit(resource, text, span))?;
    checked(amount, text, span).map(Some)
}

fn checked(amount: u64, text: &str, span: &Range<usize>) -> Result<u64, Finding> {
    if amount > AMOUNT_MAX {
        let message = format!("`{}` is too large for a limit", excerpt(text));
        return Err(Finding::validation(span.clone(), message).help("write `unlimited` for none"));
    }
    Ok(amount)
}

fn not_a_limit(resource: Resource, text: &str, span: &Range<usize>) -> Finding {
    let number = match resource {
        Resource::Cpu => "a number of seconds",
        _ if resource.is_in_bytes() => "a size such as `512MiB`",
        _ => "a number",
    };
    let message = format!("`{}` is not a limit for `{}`", excerpt(text), resource.as_str());
    let expected =
        format!("expected {number}, `unlimited`, or a soft and a hard one with `:` between");
    Finding::configuration(span.clone(), message).nearest(text, ["unlimited"], expected)
}

/// An unknown name among the limits of a job.
pub(crate) fn unknown(name: &str, span: Range<usize>) -> Finding {
    let known = Resource::ALL.map(Resource::as_str);
    Finding::configuration(span, format!("unknown limit `{}`", excerpt(name))).nearest(
        name,
        known,
        format!("the limits are {}", known.join(", ")),
    )
}
