//! TOML job files: one table per job, unknown keys are errors.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Argument, Draft, Finding, Modifier, Piece};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::job::Job;
use crate::load::{Loader, check_name};
use crate::settings::{KEYS, Settings, Value};
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
/// bracket from burying every other error: each job tells its own first syntax error.
pub(crate) fn load(loader: &mut Loader, source: &Source) {
    let mut seen: HashMap<&str, Range<usize>> = HashMap::new();
    for Section { name, range } in Sections::of(source.text()) {
        if loader.is_cut_short() {
            return;
        }
        let header = range.start..range.start + name.len().min(SECTION_BYTES_MAX);
        if range.len() > SECTION_BYTES_MAX {
            let message = format!("a job of more than {} KiB", SECTION_BYTES_MAX / 1024);
            loader.report(source, Finding::validation(header, message));
            continue;
        }
        if let Some(first) = seen.insert(name, header.clone())
            && !name.is_empty()
        {
            let place = source.location(first.start);
            let message = format!("`[{}]` stands in two places", excerpt(name));
            loader.report(
                source,
                Finding::configuration(header, message)
                    .help(format!("it begins at {place}; keep the tables of a job together")),
            );
            continue;
        }
        let (root, faults) = DeTable::parse_recoverable(&source.text()[range.clone()]);
        match faults.first() {
            Some(fault) => {
                let span = fault.span().unwrap_or(0..0);
                let span = range.start + span.start..range.start + span.end;
                loader.report(source, Finding::configuration(span, fault.message().to_owned()));
            }
            None => Document { source, base: range.start }.load(loader, root.get_ref()),
        }
    }
}

/// The tables of one job: their common name, such as `job.backup`, and their place.
struct Section<'t> {
    name: &'t str,
    range: Range<usize>,
}

/// Cuts a text into sections. A header is a line that begins with `[` outside strings and arrays;
/// one that begins with `[job.` can be nothing else, so an array left open ends there.
struct Sections<'t> {
    text: &'t str,
    at: usize,
    name: &'t str,
}

impl<'t> Sections<'t> {
    fn of(text: &'t str) -> Sections<'t> {
        Sections { text, at: 0, name: "" }
    }
}

impl<'t> Iterator for Sections<'t> {
    type Item = Section<'t>;

    fn next(&mut self) -> Option<Section<'t>> {
        let start = self.at;
        let mut state = Nesting::default();
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let line = &rest[..rest.find('\n').map_or(rest.len(), |end| end + 1)];
            if let Some(header) = line.trim_start().strip_prefix('[')
                && state.string.is_none()
                && (state.brackets == 0 || line.starts_with("[job."))
            {
                let name = section_name(header);
                if name != self.name {
                    let previous = std::mem::replace(&mut self.name, name);
                    if self.at > start {
                        return Some(Section { name: previous, range: start..self.at });
                    }
                }
                state.brackets = 0;
            } else {
                state.pass(line);
            }
            self.at += line.len();
        }
        (self.at > start).then_some(Section { name: self.name, range: start..self.at })
    }
}

/// The first two parts of a header: `job.a` of both `job.a]` and `job.a.env]`.
fn section_name(header: &str) -> &str {
    let mut dots = 0;
    let mut quote = None;
    for (at, byte) in header.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b']' | b'\n') => return header[..at].trim(),
            (None, b'.') if dots == 1 => return header[..at].trim(),
            (None, b'.') => dots += 1,
            (None, _) => {}
        }
    }
    header.trim()
}

/// Where in a TOML text a line ends: inside a long string, inside brackets, or at the top.
#[derive(Default)]
struct Nesting {
    /// The three quotes that close the string.
    string: Option<&'static str>,
    brackets: usize,
}

impl Nesting {
    fn pass(&mut self, line: &str) {
        let bytes = line.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if let Some(close) = self.string {
                if line[at..].starts_with(close) {
                    self.string = None;
                    at += 3;
                } else {
                    // In basic strings a backslash takes the next character with it.
                    let escape = bytes[at] == b'\\' && close == "\"\"\"";
                    at += if escape { 2 } else { 1 };
                    while at < bytes.len() && !line.is_char_boundary(at) {
                        at += 1;
                    }
                }
                continue;
            }
            match bytes[at] {
                b'#' => return,
                b'[' | b'{' => self.brackets += 1,
                b']' | b'}' => self.brackets = self.brackets.saturating_sub(1),
                quote @ (b'"' | b'\'') => {
                    let triple = if quote == b'"' { "\"\"\"" } else { "'''" };
                    if line[at..].starts_with(triple) {
                        self.string = Some(triple);
                        at += 3;
                    } else {
                        at += 1 + short_string(&bytes[at + 1..], quote);
                    }
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// Bytes up to and with the quote that closes a string, or all when none does.
fn short_string(bytes: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == quote {
            return at + 1;
        }
        at += if bytes[at] == b'\\' && quote == b'"' { 2 } else { 1 };
    }
    bytes.len()
}

/// A TOML text that stands in a source from byte `base` on.
struct Document<'s> {
    source: &'s Source,
    base: usize,
}

impl Document<'_> {
    /// A place of this text as a place of the source.
    fn place(&self, span: Range<usize>) -> Range<usize> {
        self.base + span.start..self.base + span.end
    }

    fn report(&self, loader: &mut Loader, mut finding: Finding) {
        finding.span = self.place(finding.span);
        loader.report(self.source, finding);
    }

    fn load(&self, loader: &mut Loader, root: &DeTable<'_>) {
        for (key, value) in root {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("job", DeValue::Table(jobs)) => {
                    let mut jobs: Vec<_> = jobs.iter().collect();
                    jobs.sort_by_key(|(name, _)| name.span().start);
                    for (name, table) in jobs {
                        self.load_job(loader, name, table);
                    }
                }
                ("job", _) => self.report(
                    loader,
                    Finding::configuration(key.span(), "`job` is not a table")
                        .help("a job is a table of its own: `[job.NAME]`"),
                ),
                (other, _) => self.report(
                    loader,
                    Finding::configuration(
                        key.span(),
                        format!("unknown table or key `{}`", excerpt(other)),
                    )
                    .nearest(
                        other,
                        ["job"],
                        "expected tables such as `[job.NAME]`",
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
        if let Err(finding) = check_name(name.get_ref(), &name.span()) {
            return self.report(loader, finding);
        }
        let mut findings = Vec::new();
        let options = loader.options().clone();
        let mut draft = Draft::new(name.get_ref(), options.host());
        let mut settings = Settings::default();
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut has_schedule = false;
        for (key, value) in entries {
            let word = key.get_ref().as_ref();
            if word == "schedule" {
                has_schedule = true;
                self.read_schedule(loader, &mut draft, value, &mut findings);
            } else if let Some(&(_, modifier)) =
                TIMING_KEYS.iter().find(|(known, _)| *known == word)
            {
                self.read_modifier(loader, &mut draft, modifier, value, &mut findings);
            } else if KEYS.contains(&word) && word != "name" {
                let result = setting_value(value)
                    .and_then(|setting| settings.set(word, &setting, value.span()));
                findings.extend(result.err());
            } else {
                let known = ["schedule"]
                    .into_iter()
                    .chain(TIMING_KEYS.iter().map(|(known, _)| *known))
                    .chain(KEYS)
                    .filter(|known| *known != "name");
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
        let action = settings.action(&name.span());
        findings.extend(action.as_ref().err().cloned());
        let faulty = findings.iter().any(Finding::is_error);
        for finding in findings {
            self.report(loader, finding);
        }
        if let (Some(timing), Ok(action), false) = (timing, action, faulty) {
            let name_span = self.place(name.span());
            let job = Job {
                timing,
                action,
                execution: settings.execution(),
                duration: settings.duration,
                description: settings.description,
                origin: self.source.location(name_span.start),
            };
            loader.define(self.source, job, name_span);
        }
    }

    /// Runs `read` on the content of a text value, with findings placed exactly when the text
    /// stands in the file as it is, and on the whole value when escapes or line ends make that
    /// impossible.
    fn placed(
        &self,
        value: &Spanned<DeValue<'_>>,
        text: &str,
        findings: &mut Vec<Finding>,
        read: impl FnOnce(Piece<'_>, &mut Vec<Finding>),
    ) {
        let span = value.span();
        let raw = self.source.text().get(self.place(span.clone())).unwrap_or("");
        let quote = if raw.starts_with("\"\"\"") || raw.starts_with("'''") { 3 } else { 1 };
        let exact = raw.get(quote..).is_some_and(|inner| inner.starts_with(text));
        let mut found = Vec::new();
        read(Piece { text, at: if exact { span.start + quote } else { 0 } }, &mut found);
        if !exact {
            for finding in &mut found {
                finding.span = span.clone();
            }
        }
        findings.append(&mut found);
    }
    fn read_schedule(
        &self,
        loader: &mut Loader,
        draft: &mut Draft<'_>,
        value: &Spanned<DeValue<'_>>,
        findings: &mut Vec<Finding>,
    ) {
        let Some(text) = value.get_ref().as_str() else {
            findings.push(
                Finding::configuration(
                    value.span(),
                    format!("expected a text, found {}", value.get_ref().type_str()),
                )
                .help("as in `schedule = \"0 3 * * *\"`"),
            );
            return;
        };
        self.placed(value, text, findings, |piece, found| {
            loader.parser().whole_expression(draft, piece, found);
        });
    }

    fn read_modifier(
        &self,
        loader: &mut Loader,
        draft: &mut Draft<'_>,
        modifier: Modifier,
        value: &Spanned<DeValue<'_>>,
        findings: &mut Vec<Finding>,
    ) {
        match value.get_ref() {
            DeValue::String(text) => self.placed(value, text, findings, |piece, found| {
                loader.parser().modifier_text(draft, modifier, piece, found);
            }),
            DeValue::Table(table)
                if !matches!(modifier, Modifier::Tz | Modifier::Only | Modifier::Avoid) =>
            {
                let mut arguments = Vec::new();
                for (key, entry) in table {
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
                                entry.get_ref().type_str()
                            ),
                        )),
                    }
                }
                loader.parser().modifier(draft, modifier, &arguments, value.span(), findings);
            }
            DeValue::Array(items) if matches!(modifier, Modifier::Only | Modifier::Avoid) => {
                for item in items {
                    match item.get_ref().as_str() {
                        Some(text) => self.placed(item, text, findings, |piece, found| {
                            loader.parser().modifier_text(draft, modifier, piece, found);
                        }),
                        None => findings.push(Finding::configuration(
                            item.span(),
                            format!("expected a clause, found {}", item.get_ref().type_str()),
                        )),
                    }
                }
            }
            other => findings.push(Finding::configuration(
                value.span(),
                format!("expected a text, found {}", other.type_str()),
            )),
        }
    }
}

/// The text of a value that has no parts.
fn scalar<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<Cow<'a, str>> {
    match value.get_ref() {
        DeValue::String(text) => Some(Cow::Borrowed(text.as_ref())),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().into()),
        DeValue::Float(number) => Some(number.as_str().into()),
        DeValue::Boolean(value) => Some(value.to_string().into()),
        _ => None,
    }
}

fn setting_value<'a>(value: &'a Spanned<DeValue<'_>>) -> Result<Value<'a>, Finding> {
    let texts_only = |span: Range<usize>, found: &DeValue<'_>| {
        Finding::configuration(span, format!("expected a text, found {}", found.type_str()))
    };
    Ok(match value.get_ref() {
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(number) => Value::Integer { text: number.as_str(), radix: number.radix() },
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| {
                    let text = item.get_ref().as_str();
                    text.map(|text| (text, item.span()))
                        .ok_or_else(|| texts_only(item.span(), item.get_ref()))
                })
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => Value::Table(
            table
                .iter()
                .map(|(key, entry)| {
                    let text = entry.get_ref().as_str();
                    let key = Piece { text: key.get_ref(), at: key.span().start };
                    text.map(|text| (key, text, entry.span()))
                        .ok_or_else(|| texts_only(entry.span(), entry.get_ref()))
                })
                .collect::<Result<_, _>>()?,
        ),
        other => return Err(texts_only(value.span(), other)),
    })
}
