//! The daemon's log while its terminal shows something else: a file in the state directory.
//!
//! Standard error itself is turned there, so that it is the one way for everything that is said.
//! The file is bounded: a full one is renamed, and a new one begun, by a thread that looks from
//! time to time. Only one full one is kept.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;

const NAME: &str = "krond.log";
/// The name of the one before it.
const OLDER_NAME: &str = "krond.log.1";
const MODE: u32 = 0o600;
/// How long a log may become before it is put aside.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The part of the log that is read for the last words.
const LAST_WORDS_BYTES_MAX: u64 = 256 * 1024;
/// What is told by the last words of a daemon.
const TOLD: [&str; 3] = ["diagnostic", "refused_to_start", "fatal"];

/// The log, while standard error goes there.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    /// Where standard error went before.
    terminal: OwnedFd,
    /// How long the log was.
    began_at: u64,
}

impl LogFile {
    /// Lets standard error go to the log in this directory.
    pub(super) fn take_standard_error(directory: &Path) -> Result<LogFile, Failure> {
        let path = directory.join(NAME);
        let failed = |source| Failure::NotMade { path: path.clone(), source };
        put_aside_if_full(directory).map_err(failed)?;
        let file = open(&path).map_err(failed)?;
        let began_at = file.metadata().map_err(failed)?.len();
        let terminal = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)
            .map_err(|errno| failed(errno.into()))?;
        rustix::stdio::dup2_stderr(&file).map_err(|errno| failed(errno.into()))?;
        let directory = directory.to_owned();
        std::thread::Builder::new()
            .name("log-size".to_owned())
            .spawn(move || {
                loop {
                    std::thread::sleep(LOOK_INTERVAL);
                    // A log that cannot be put aside goes on as it is.
                    if let Ok(true) = put_aside_if_full(&directory)
                        && let Ok(file) = open(&directory.join(NAME))
                    {
                        let _ = rustix::stdio::dup2_stderr(&file);
                    }
                }
            })
            .map_err(failed)?;
        Ok(LogFile { path, terminal, began_at })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets standard error go to the terminal again.
    pub(super) fn give_back(&self) -> io::Result<()> {
        Ok(rustix::stdio::dup2_stderr(&self.terminal)?)
    }

    /// Why the daemon ended, in its own words, for people.
    pub(super) fn last_words(&self) -> String {
        let text = self.written().unwrap_or_default();
        text.lines().filter_map(words).flat_map(|words| [words, "\n".to_owned()]).collect()
    }

    /// What has been written since, as far as it is not too long.
    fn written(&self) -> io::Result<String> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        let from = self.began_at.min(length).max(length.saturating_sub(LAST_WORDS_BYTES_MAX));
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(LAST_WORDS_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(MODE)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// Renames a log that is too long; tells whether it was.
fn put_aside_if_full(directory: &Path) -> io::Result<bool> {
    let path = directory.join(NAME);
    match path.symlink_metadata() {
        Ok(metadata) if metadata.len() > BYTES_MAX => {
            std::fs::rename(path, directory.join(OLDER_NAME))?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// A line of the log for people: what is meant for them as it is, and of events those that tell
/// why there is no daemon.
fn words(line: &str) -> Option<String> {
    let told = |event: Option<String>| event.is_some_and(|event| TOLD.contains(&event.as_str()));
    let (message, hint) = if let Ok(Value::Object(fields)) = serde_json::from_str(line) {
        let field = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
        if !told(field("event")) {
            return None;
        }
        (field("message"), field("hint").or_else(|| field("help")))
    } else if line.contains(" component=krond event=") {
        if !told(text_field(line, "event")) {
            return None;
        }
        (text_field(line, "message"), text_field(line, "hint").or_else(|| text_field(line, "help")))
    } else {
        return Some(line.to_owned());
    };
    let hint = hint.map_or(String::new(), |hint| format!("\nhint: {hint}"));
    Some(format!("error: {}{hint}", message.unwrap_or_default()))
}

/// A field of a line of `key=value` pairs; texts with blanks are quoted as in JSON.
fn text_field(line: &str, name: &str) -> Option<String> {
    let (_, value) = line.split_once(&format!(" {name}="))?;
    if value.starts_with('"') {
        return serde_json::Deserializer::from_str(value).into_iter().next()?.ok();
    }
    Some(value.split(' ').next().unwrap_or(value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_for_people() {
        let time = "2026-03-01T00:00:00.000000001Z";
        for (line, expected) in [
            ("error: unknown key `timout`", Some("error: unknown key `timout`")),
            (&format!("{time} level=info component=krond event=ready pid=1"), None),
            (
                &format!(
                    "{time} level=error component=krond event=refused_to_start category=system \
                     message=\"the \\\"lock\\\"\" hint=\"try `kron status`\""
                ),
                Some("error: the \"lock\"\nhint: try `kron status`"),
            ),
            (
                &format!("{time} level=error component=krond event=fatal message=full"),
                Some("error: full"),
            ),
            (r#"{"event":"refused_to_start","message":"no"}"#, Some("error: no")),
            (r#"{"event":"decision","message":"no"}"#, None),
        ] {
            assert_eq!(words(line).as_deref(), expected, "{line}");
        }
    }
}
