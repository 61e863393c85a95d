//! TOML job files: one table per job, and some for the daemon; unknown keys are errors.

mod enqueue;
mod json;
mod secrets;
mod sections;
mod spool;
mod tables;
mod texts;
mod values;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Argument, Draft, Finding, Modifier, Piece};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::secrets::{may_show_secret, secrets};
use self::sections::{Name, Section, Sections, Strings};
use self::texts::Texts;
use self::values::{in_file_order, kind_of, scalar, setting_value};
use crate::load::{Loader, check_name};
use crate::queue::tables::Kind;
use crate::settings::{KEYS, Settings};
use crate::source::Source;

/// Keys that say what a modifier of the expression would.
const TIMING_KEYS: [(&str, Modifier); 8] = [
    ("timezone", Modifier::Tz),
    ("window", Modifier::Win),
    ("distribution", Modifier::Dist),
    ("seed", Modifier::Seed),
    ("policy", Modifier::Policy),
    ("only", Modifier::Only),
    ("avoid", Modifier::Avoid),
    ("dst", Modifier::Dst),
];

/// Bytes the tables of one job may have. The parser needs up to fifty times as much.
const SECTION_BYTES_MAX: usize = 1024 * 1024;

/// Reads a file job by job. That bounds the memory a file can cost, and it keeps one missing
/// bracket or quote from burying every other error: each job tells its own first syntax error.
pub(crate) fn load(loader: &mut Loader, source: &Source) {
    let text = source.text();
    let mut file = JobFile { source, seen: HashMap::new() };
    for section in Sections::of(text, 0..text.len(), Strings::HideHeaders) {
        if loader.is_cut_short() {
            return;
        }
        file.read(loader, section, Strings::HideHeaders);
    }
}

/// Where a key that the parser calls a duplicate stands first, if that is easily seen.
fn first_of_duplicate(text: &str, message: &str, span: &Range<usize>) -> Option<usize> {
    if !message.starts_with("duplicate key") {
        return None;
    }
    let key = text.get(span.clone())?;
    let mut at = 0;
    for line in text.get(..span.start)?.split_inclusive('\n') {
        let blanks = line.len() - line.trim_start().len();
        let after_key = line.trim_start().strip_prefix(key);
        if after_key.is_some_and(|rest| rest.trim_start().starts_with('=')) {
            return Some(at + blanks);
        }
        at += line.len();
    }
    None
}

struct JobFile<'s> {
    source: &'s Source,
    /// The sections so far, and the byte each begins at.
    seen: HashMap<Name, usize>,
}

impl JobFile<'_> {
    fn read(&mut self, loader: &mut Loader, section: Section<'_>, strings: Strings) {
        let Section { name, title, range, open_string } = section;
        let header = range.start..range.start + title.len() + usize::from(!title.is_empty());
        let text = &self.source.text()[range.clone()];
        if name.is_of_queue() {
            // Also when it is at fault, so that nobody is told to add what is there.
            loader.queue().note();
        }
        if range.len() > SECTION_BYTES_MAX {
            if strings == Strings::EndAtHeaders || !self.read_apart(loader, &range, range.end) {
                let what = if name.is_of_daemon() { "a table" } else { "a job" };
                let message = format!("{what} of more than {} KiB", SECTION_BYTES_MAX / 1024);
                Self::note_unread(loader, &name);
                loader.report(self.source, Finding::validation(header, message));
            }
            return;
        }
        let (root, faults) = DeTable::parse_recoverable(text);
        let fault = faults.first().map(|fault| {
            let span = fault.span().unwrap_or(0..0);
            let first = first_of_duplicate(text, fault.message(), &span);
            let span = range.start + span.start..range.start + span.end;
            let finding = Finding::configuration(span, fault.message().to_owned());
            match first {
                None => finding,
                Some(first) => finding.help(format!(
                    "it is first defined at {}",
                    self.source.location(range.start + first)
                )),
            }
        });
        if let (Some(fault), Strings::HideHeaders) = (&fault, strings)
            && self.read_apart(loader, &range, fault.span.start)
        {
            return;
        }
        let hides_fault = !name.is_of_job()
            && fault.as_ref().is_some_and(|it| may_show_secret(text, it.span.start - range.start));
        loader.hide(if hides_fault { vec![range.clone()] } else { Vec::new() });
        if let Some(&first) = self.seen.get(&name) {
            let place = self.source.location(first);
            let message = format!("`[{}]` stands in two places", excerpt(title));
            let together = name.kept_together();
            Self::note_unread(loader, &name);
            loader.report(
                self.source,
                Finding::configuration(header, message)
                    .help(format!("it begins at {place}; keep {together} together")),
            );
            return;
        }
        match fault {
            Some(fault) => {
                Self::note_unread(loader, &name);
                if let Some(job_type) = name.queue_handler() {
                    let place = self.source.location(range.start);
                    let taken = loader.queue().name(Kind::Handler, job_type, place, &header);
                    taken.err().into_iter().for_each(|it| loader.report(self.source, it));
                }
                // The parser only notices at the end, where the next job stands.
                let open = open_string.map(|quotes| {
                    Finding::configuration(quotes, "this string is never closed")
                        .help("add the three quotes that end it")
                });
                loader.report(self.source, open.unwrap_or(fault));
            }
            None => {
                Document { source: self.source, base: range.start }.load(loader, root.get_ref());
            }
        }
        self.seen.insert(name, range.start);
    }

    /// Notes that a section could not be read.
    fn note_unread(loader: &mut Loader, name: &Name) {
        if let Some(spool) = name.spool() {
            loader.spools().note_unread(spool);
        }
    }

    /// Reads a faulty section anew, in case a string that was never closed made one of several;
    /// `false` when it is one, or was already faulty before `fault`.
    fn read_apart(&mut self, loader: &mut Loader, range: &Range<usize>, fault: usize) -> bool {
        let source = self.source;
        let mut parts =
            Sections::of(source.text(), range.clone(), Strings::EndAtHeaders).peekable();
        if parts.peek().is_none_or(|first| first.range.end == range.end || fault < first.range.end)
        {
            return false;
        }
        for part in parts {
            if loader.is_cut_short() {
                break;
            }
            self.read(loader, part, Strings::EndAtHeaders);
        }
        true
    }
}

/// A TOML text that stands in a source from byte `base` on.
struct Document<'s> {
    source: &'s Source,
    base: usize,
}

impl Document<'_> {
    fn text(&self) -> &str {
        &self.source.text()[self.base..]
    }

    /// A place of this text as a place of the source.
    fn place(&self, span: Range<usize>) -> Range<usize> {
        self.base + span.start..self.base + span.end
    }

    fn report(&self, loader: &mut Loader, mut finding: Finding) {
        finding.span = self.place(finding.span);
        loader.report(self.source, finding);
    }

    fn load(&self, loader: &mut Loader, root: &DeTable<'_>) {
        loader.hide(secrets(root).into_iter().map(|span| self.place(span)).collect());
        for (key, value) in in_file_order(root) {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("job", DeValue::Table(jobs)) => {
                    for (name, table) in in_file_order(jobs) {
                        self.load_job(loader, name, table);
                    }
                }
                ("job", _) => self.report(
                    loader,
                    Finding::configuration(key.span(), "`job` is not a table")
                        .help("a job is a table of its own: `[job.NAME]`"),
                ),
                ("daemon", DeValue::Table(table)) => self.load_daemon(loader, table),
                ("hook", DeValue::Table(hooks)) => {
                    for (name, table) in in_file_order(hooks) {
                        self.load_hook(loader, name, table);
                    }
                }
                ("queue", value) => {
                    loader.queue().note();
                    match value {
                        DeValue::Table(table) => self.load_queue(loader, table),
                        _ => self.report(loader, not_a_table(key, "queue")),
                    }
                }
                ("spool", DeValue::Table(spools)) => {
                    for (name, table) in in_file_order(spools) {
                        self.load_spool(loader, name, table);
                    }
                }
                ("api", DeValue::Table(table)) => self.load_api(loader, table),
                (word @ ("daemon" | "hook" | "api" | "spool"), _) => {
                    self.report(loader, not_a_table(key, word));
                }
                (other, _) => self.report(
                    loader,
                    Finding::configuration(
                        key.span(),
                        format!("unknown table or key `{}`", excerpt(other)),
                    )
                    .nearest(
                        other,
                        ["job", "daemon", "hook", "queue", "api", "spool"],
                        "expected `[daemon]`, `[api]`, `[queue]` and tables such as `[job.NAME]`, `[hook.NAME]` and `[spool.NAME]`",
                    ),
                ),
            }
        }
    }

    fn load_job(
        &self,
        loader: &mut Loader,
        name: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let DeValue::Table(table) = value.get_ref() else {
            let message = format!("`job.{}` is not a table", excerpt(name.get_ref()));
            let finding = Finding::configuration(name.span(), message)
                .help("a job is a table of its own: `[job.NAME]`");
            return self.report(loader, finding);
        };
        if let Err(finding) = check_name("job", name.get_ref(), &name.span()) {
            return self.report(loader, finding);
        }
        let mut findings = Vec::new();
        let options = loader.options().clone();
        let mut draft = Draft::new(name.get_ref(), options.host());
        let mut settings = Settings::default();
        let mut texts = Texts::from(self.text().len() + 1);
        let mut has_schedule = false;
        for (key, value) in in_file_order(table) {
            let word = key.get_ref().as_ref();
            if word == "schedule" {
                has_schedule = true;
                self.read_schedule(loader, &mut draft, (value, &mut texts), &mut findings);
            } else if let Some(&timing) = TIMING_KEYS.iter().find(|(known, _)| *known == word) {
                let (key, modifier) = timing;
                let before = findings.len();
                let value = (value, &mut texts);
                self.read_modifier(loader, &mut draft, modifier, value, &mut findings);
                let found = findings[before..].iter_mut();
                found.for_each(|finding| say_as_key(finding, key, modifier));
            } else if word == "enqueue" {
                settings.set_enqueue(enqueue::read(value, &mut findings), value.span());
            } else if word == "spool" {
                settings.set_spool(spool::read_drop(value, &mut findings), value.span());
            } else if let Some(known) = setting_keys().find(|known| *known == word) {
                let setting = setting_value(value.get_ref());
                settings.set(known, &setting, value.span(), &mut findings);
            } else {
                let known = ["schedule"]
                    .into_iter()
                    .chain(TIMING_KEYS.iter().map(|(known, _)| *known))
                    .chain(setting_keys())
                    .chain(["enqueue", "spool"]);
                findings.push(
                    Finding::configuration(key.span(), format!("unknown key `{}`", excerpt(word)))
                        .nearest(word, known.clone(), {
                            let known: Vec<&str> = known.collect();
                            format!("the keys of a job are {}", known.join(", "))
                        }),
                );
            }
        }
        if !has_schedule {
            let message = format!("job `{}` has no `schedule`", excerpt(name.get_ref()));
            findings.push(
                Finding::configuration(name.span(), message)
                    .help("as in `schedule = \"0 3 * * *\"`"),
            );
        }
        let timing = loader.parser().finish(draft, &mut findings);
        let missing = || {
            let message = "a job with none of `command`, `enqueue` and `spool`";
            Finding::configuration(name.span(), message).help(
                "a job needs something to do, as in `command = [\"/usr/bin/backup\", \"--full\"]`",
            )
        };
        let action = settings.action(missing, &mut findings);
        for finding in &mut findings {
            finding.span = self.place(texts.place(self.text(), finding.span.clone()));
        }
        let sound = loader.report_all(self.source, findings);
        if let (Some(timing), Some(action), true) = (timing, action, sound) {
            let name_span = self.place(name.span());
            let origin = self.source.location(name_span.start);
            let job = settings.into_job(timing, action, origin, loader);
            loader.define(self.source, job, name_span);
        }
    }

    fn read_schedule<'v>(
        &self,
        loader: &mut Loader,
        draft: &mut Draft<'_>,
        (value, texts): (&'v Spanned<DeValue<'_>>, &mut Texts<'v>),
        findings: &mut Vec<Finding>,
    ) {
        let Some(text) = value.get_ref().as_str() else {
            findings.push(
                Finding::configuration(
                    value.span(),
                    format!("expected a text, found {}", kind_of(value.get_ref())),
                )
                .help("as in `schedule = \"0 3 * * *\"`"),
            );
            return;
        };
        loader.parser().whole_expression(draft, texts.piece(value, text), findings);
    }

    fn read_modifier<'v>(
        &self,
        loader: &mut Loader,
        draft: &mut Draft<'_>,
        modifier: Modifier,
        (value, texts): (&'v Spanned<DeValue<'_>>, &mut Texts<'v>),
        findings: &mut Vec<Finding>,
    ) {
        match value.get_ref() {
            DeValue::String(text) => {
                loader.parser().modifier_text(draft, modifier, texts.piece(value, text), findings);
            }
            DeValue::Table(table)
                if !matches!(modifier, Modifier::Tz | Modifier::Only | Modifier::Avoid) =>
            {
                let mut arguments = Vec::new();
                for (key, entry) in in_file_order(table) {
                    match scalar(entry) {
                        Some(text) => arguments.push(Argument {
                            key: Some(Piece { text: key.get_ref(), at: key.span().start }),
                            value: text,
                            span: entry.span(),
                        }),
                        None => findings.push(Finding::configuration(
                            entry.span(),
                            format!(
                                "expected a text or a number, found {}",
                                kind_of(entry.get_ref())
                            ),
                        )),
                    }
                }
                loader.parser().modifier(draft, modifier, &arguments, value.span(), findings);
            }
            DeValue::Array(items) if matches!(modifier, Modifier::Only | Modifier::Avoid) => {
                for item in items {
                    match item.get_ref().as_str() {
                        Some(text) => {
                            let piece = texts.piece(item, text);
                            loader.parser().modifier_text(draft, modifier, piece, findings);
                        }
                        None => findings.push(Finding::configuration(
                            item.span(),
                            format!("expected a clause, found {}", kind_of(item.get_ref())),
                        )),
                    }
                }
            }
            other => {
                let expected = match modifier {
                    Modifier::Tz => "a text",
                    Modifier::Only | Modifier::Avoid => "a text or a list of texts",
                    _ => "a text or a table",
                };
                findings.push(Finding::configuration(
                    value.span(),
                    format!("expected {expected}, found {}", kind_of(other)),
                ));
            }
        }
    }
}

/// Says that a top-level key is no table.
fn not_a_table(key: &Spanned<Cow<'_, str>>, word: &str) -> Finding {
    let help = match word {
        "hook" => "a hook is a table of its own: `[hook.NAME]`",
        "queue" => "the queue's settings are tables: `[queue]`, `[queue.handler.TYPE]`",
        "spool" => "a spool is a table of its own: `[spool.NAME]`",
        "api" => "the API's settings are one table: `[api]`",
        _ => "the daemon's settings are one table: `[daemon]`",
    };
    Finding::configuration(key.span(), format!("`{word}` is not a table")).help(help)
}

/// The keys of a job that are not about time.
fn setting_keys() -> impl Iterator<Item = &'static str> + Clone {
    KEYS.into_iter().chain(["limits"])
}

/// Says what a finding says of a modifier of the key that stands for it.
fn say_as_key(finding: &mut Finding, key: &str, modifier: Modifier) {
    finding.message = with_key(&finding.message, key, modifier);
    finding.help = finding.help.as_deref().map(|help| with_key(help, key, modifier));
}

/// The text with `window` for `@win`, and with `window = "after,2h"` for `@win(after,2h)`.
fn with_key(text: &str, key: &str, modifier: Modifier) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(modifier.name()) {
        let after = &rest[at + modifier.name().len()..];
        said += &rest[..at];
        said += key;
        rest = match after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            Some((arguments, after)) => {
                said += &format!(" = \"{arguments}\"");
                after
            }
            None => after,
        };
    }
    said + rest
}
