//! Environment lines: what they set for the entries below them.

use std::sync::Arc;

use kron_core::finding::excerpt;
use kron_core::{Finding, Piece, Zone};

use crate::load::Loader;
use crate::settings::{ENV_MAX, check_variable};
use crate::source::Source;

/// Bytes that the environments of one file's entries may have together.
const ENV_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What an environment's variable costs beside its text.
const VARIABLE_BYTES: usize = 64;

/// The shell, and the variable `SHELL`, of entries that no line gives another.
const SHELL_DEFAULT: &str = "/bin/sh";
/// The search path of entries that no line gives another: cron's own, not the daemon's, so that an
/// entry finds the programs that it found before.
const PATH_DEFAULT: &str = "/usr/bin:/bin";

/// What the lines so far have set for those that follow.
pub(super) struct Surroundings {
    env: Vec<(String, String)>,
    /// The same, shared by the entries that follow; `None` after a change.
    shared_env: Option<Arc<[(String, String)]>>,
    /// Bytes of all environments shared so far.
    shared_bytes: usize,
    /// The zone of entries that no `CRON_TZ` governs.
    default_zone: Option<Zone>,
    zone: Option<Zone>,
    /// The last `CRON_TZ`, if it is no zone; then nobody knows when the entries below it run.
    unknown_zone: Option<UnknownZone>,
    /// The entries under zones that are none, where that was not told.
    untold_entries: usize,
    /// Whether the file's reader has been told that nobody is sent mail.
    mail_told: bool,
}

/// A `CRON_TZ` that is no zone.
struct UnknownZone {
    /// The diagnostic that tells so.
    told: Option<usize>,
    /// The entries below it that are left out because of it, and of nothing else.
    entries: usize,
}

impl Surroundings {
    /// What holds at the start of a file.
    pub(super) fn new(zone: Option<Zone>) -> Surroundings {
        let env = [("SHELL", SHELL_DEFAULT), ("PATH", PATH_DEFAULT)];
        Surroundings {
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            shared_env: None,
            shared_bytes: 0,
            default_zone: zone.clone(),
            zone,
            unknown_zone: None,
            untold_entries: 0,
            mail_told: false,
        }
    }

    /// The environment of the next entry, or why there is none.
    pub(super) fn shared_env(&mut self) -> Result<Arc<[(String, String)]>, String> {
        if let Some(env) = &self.shared_env {
            return Ok(env.clone());
        }
        let size = |(name, value): &(String, String)| name.len() + value.len() + VARIABLE_BYTES;
        self.shared_bytes += self.env.iter().map(size).sum::<usize>();
        if self.shared_bytes > ENV_BYTES_MAX {
            return Err(format!("environments of more than {} MiB", ENV_BYTES_MAX / 1024 / 1024));
        }
        Ok(self.shared_env.insert(self.env.clone().into()).clone())
    }

    /// The zone of the next entry, if any is known.
    pub(super) fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref().filter(|_| self.unknown_zone.is_none())
    }

    /// Whether a zone was given for the next entry that is none.
    pub(super) fn is_zone_unknown(&self) -> bool {
        self.unknown_zone.is_some()
    }

    /// Counts an entry that would run if its zone were known.
    pub(super) fn count_entry_without_zone(&mut self) {
        if let Some(unknown) = &mut self.unknown_zone {
            unknown.entries += 1;
        }
    }

    /// Ends what a `CRON_TZ` that is no zone governs, and says how much that was.
    pub(super) fn forget_zone(&mut self, loader: &mut Loader) {
        let Some(UnknownZone { told, entries }) = self.unknown_zone.take() else { return };
        let Some(told) = told else {
            self.untold_entries += entries;
            return;
        };
        let (entries, are) = match entries {
            0 => return,
            1 => ("1 entry".to_owned(), "is"),
            many => (format!("{many} entries"), "are"),
        };
        loader.add_to(told, &format!("; {entries} up to the next `CRON_TZ` {are} left out"));
    }

    /// How many entries are left out without anything that tells why.
    pub(super) fn untold_entries(&self) -> usize {
        self.untold_entries
    }

    /// Tells why a line sets nothing. After such a `CRON_TZ` it is not known when entries run.
    pub(super) fn refuse(
        &mut self,
        loader: &mut Loader,
        source: &Source,
        name: Piece<'_>,
        finding: Finding,
    ) {
        let told = loader.report_for_later(source, finding);
        if name.text == "CRON_TZ" {
            self.forget_zone(loader);
            self.unknown_zone = Some(UnknownZone { told, entries: 0 });
        }
    }

    /// The program that runs the next entry's command.
    pub(super) fn shell(&self) -> &str {
        self.variable("SHELL").unwrap_or(SHELL_DEFAULT)
    }

    /// Where the next entry's command starts, if not at its user's home.
    pub(super) fn home(&self) -> Option<&str> {
        self.variable("HOME").filter(|home| home.starts_with('/'))
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Applies an environment line.
    pub(super) fn set(
        &mut self,
        loader: &mut Loader,
        source: &Source,
        name: Piece<'_>,
        value: Piece<'_>,
    ) {
        let Some(value) = unquoted(value) else {
            let message = "a value that is only partly in quotes";
            let finding = Finding::configuration(value.span(), message);
            let finding = finding.help("quotes go round the whole value");
            return self.refuse(loader, source, name, finding);
        };
        if let Err(finding) = check_variable(name.text, &name.span()) {
            return loader.report(source, finding);
        }
        let finding = match name.text {
            "CRON_TZ" if value.text.is_empty() => {
                self.forget_zone(loader);
                self.zone = self.default_zone.clone();
                let zone = self.zone.as_ref().map_or("UTC", Zone::name);
                Some(
                    Finding::warning(
                        name.span(),
                        format!("`CRON_TZ` is empty: the entries below it are read in {zone}"),
                    )
                    .help("as if it were not set, which is how cron takes it"),
                )
            }
            "CRON_TZ" => match loader.parser().zone(value) {
                Ok(zone) => {
                    self.forget_zone(loader);
                    self.zone = Some(zone);
                    None
                }
                Err(finding) => return self.refuse(loader, source, name, finding),
            },
            "SHELL" if !value.text.starts_with('/') => Some(
                Finding::validation(
                    value.span(),
                    format!("`{}` is not an absolute path", excerpt(value.text)),
                )
                .help("`SHELL` is the program that runs the commands, such as `/bin/bash`"),
            ),
            _ => self.doubt(name, value),
        };
        // What is refused sets nothing, and neither does what no cron lets a file set.
        let refused = finding.as_ref().is_some_and(Finding::is_error) || name.text == "LOGNAME";
        if let Some(finding) = finding {
            loader.report(source, finding);
        }
        if !refused {
            self.put(loader, source, name, value);
        }
    }

    /// What is to be said about a variable that is set and does not do what it did.
    fn doubt(&mut self, name: Piece<'_>, value: Piece<'_>) -> Option<Finding> {
        let (message, help) = match name.text {
            // An empty MAILTO asks for no mail, which is what happens.
            "MAILTO" | "MAILFROM" if !value.text.is_empty() && !self.mail_told => {
                self.mail_told = true;
                (
                    format!("`{}` is set, but Kron sends no mail", name.text),
                    "the output of a run is kept with it: `kron logs` shows it".to_owned(),
                )
            }
            "RANDOM_DELAY" => (
                "`RANDOM_DELAY` delays nothing here".to_owned(),
                format!(
                    "`@win(after,{}m)` after the five fields spreads reproducibly",
                    excerpt(value.text)
                ),
            ),
            "TZ" => (
                "`TZ` is set for the commands, and does not move the schedule".to_owned(),
                "`CRON_TZ` is the zone the schedule is read in".to_owned(),
            ),
            "LOGNAME" => (
                "`LOGNAME` is always the name of the user, and this changes nothing".to_owned(),
                "cron does not let a file set it either".to_owned(),
            ),
            "HOME" if !value.text.starts_with('/') => (
                format!(
                    "`{}` is not an absolute path, so commands start at their user's home",
                    excerpt(value.text)
                ),
                "variables and `~` mean nothing in an environment line".to_owned(),
            ),
            _ => return None,
        };
        Some(Finding::warning(name.span(), message).help(help))
    }

    fn put(&mut self, loader: &mut Loader, source: &Source, name: Piece<'_>, value: Piece<'_>) {
        let full = self.env.len() == ENV_MAX;
        match self.env.iter_mut().find(|(known, _)| known == name.text) {
            Some((_, known)) => value.text.clone_into(known),
            None if full => {
                let message = format!("more than {ENV_MAX} variables");
                return loader.report(source, Finding::validation(name.span(), message));
            }
            None => self.env.push((name.text.to_owned(), value.text.to_owned())),
        }
        self.shared_env = None;
    }
}

/// `NAME = value`, either of them possibly in quotes; `None` when the line is an entry.
pub(super) fn assignment(line: Piece<'_>) -> Option<(Piece<'_>, Piece<'_>)> {
    let bytes = line.text.as_bytes();
    let name_end = match bytes[0] {
        quote @ (b'"' | b'\'') => line.text[1..].find(quote as char)? + 2,
        _ => line.text.find(|c: char| c.is_whitespace() || c == '=')?,
    };
    let after = line.text[name_end..].trim_start();
    let value = after.strip_prefix('=')?.trim();
    let value_at = line.at + (value.as_ptr() as usize - line.text.as_ptr() as usize);
    let name = Piece { text: &line.text[..name_end], at: line.at };
    Some((unquoted(name).unwrap_or(name), Piece { text: value, at: value_at }))
}

/// The piece without the quotes around it, if it has any; `None` when what begins with a quote does
/// not end with the next one.
fn unquoted(piece: Piece<'_>) -> Option<Piece<'_>> {
    let Some(quote) = piece.text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Some(piece);
    };
    let close = piece.text[1..].find(quote)? + 1;
    (close + 1 == piece.text.len()).then(|| piece.slice(1..close))
}
