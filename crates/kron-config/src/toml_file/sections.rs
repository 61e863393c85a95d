//! Cutting a TOML text into the tables of its jobs and of the daemon, before any of them is parsed.

use std::ops::Range;

/// The parts of a header that say whose tables follow, unquoted: `job` and `a` of both `[job.a]` and
/// `[job."a".env]`; of the queue's and spools' headers, where handlers lie deeper, the first three and
/// four.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Name(Parts);

type Parts = [String; 4];

impl Name {
    /// How many parts count, after this first one.
    fn parts_max(first: &str) -> usize {
        match first {
            "queue" => 3,
            "spool" => 4,
            _ => 2,
        }
    }

    /// Whether it is one of the daemon's tables, and not a job's.
    pub(super) fn is_of_daemon(&self) -> bool {
        matches!(self.0[0].as_str(), "daemon" | "hook" | "queue" | "api" | "spool")
    }

    /// Whether it is one of the queue's tables.
    pub(super) fn is_of_queue(&self) -> bool {
        self.0[0] == "queue"
    }

    /// The type whose handler in the queue it is.
    pub(super) fn queue_handler(&self) -> Option<&str> {
        let [first, second, third, _] = &self.0;
        (first == "queue" && second == "handler" && !third.is_empty()).then_some(third)
    }

    /// The spool one of whose tables it is; an empty name when it is of all, `[spool]`.
    pub(super) fn spool(&self) -> Option<&str> {
        let [first, second, ..] = &self.0;
        (first == "spool").then_some(second)
    }

    /// Whether it is the tables of a job.
    pub(super) fn is_of_job(&self) -> bool {
        self.0[0] == "job"
    }

    /// What its tables are called that must stand together.
    pub(super) fn kept_together(&self) -> &'static str {
        match self.0.each_ref().map(String::as_str) {
            ["daemon" | "api", ..] | ["queue", _, "", _] | ["spool", .., ""] => "its keys",
            ["hook", ..] => "the tables of a hook",
            ["queue", "webhook", ..] => "the tables of a webhook",
            ["queue" | "spool", ..] => "the tables of a handler",
            _ => "the tables of a job",
        }
    }
}

/// The tables of one job, and their place.
pub(super) struct Section<'t> {
    pub(super) name: Name,
    /// Those parts of the header as they are written.
    pub(super) title: &'t str,
    pub(super) range: Range<usize>,
    /// The opening quotes of a string that it ends in.
    pub(super) open_string: Option<Range<usize>>,
}

/// What a line such as `[job.a]` inside a string of several lines is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strings {
    /// A part of the string, as TOML has it.
    HideHeaders,
    /// A sign that the string was left open.
    EndAtHeaders,
}

/// Cuts a text into sections. A header is a line that begins with `[` outside strings and arrays;
/// one that begins as Kron's own do can be nothing else, so an array left open ends there.
pub(super) struct Sections<'t> {
    text: &'t str,
    at: usize,
    end: usize,
    strings: Strings,
    name: Name,
    title: &'t str,
}

impl<'t> Sections<'t> {
    pub(super) fn of(text: &'t str, range: Range<usize>, strings: Strings) -> Sections<'t> {
        let Range { start: at, end } = range;
        Sections { text, at, end, strings, name: Name::default(), title: "" }
    }
}

impl<'t> Iterator for Sections<'t> {
    type Item = Section<'t>;

    fn next(&mut self) -> Option<Section<'t>> {
        let start = self.at;
        let mut state = Nesting::default();
        while self.at < self.end {
            let rest = &self.text[self.at..self.end];
            let line = &rest[..rest.find('\n').map_or(rest.len(), |end| end + 1)];
            let hidden = match (state.string, state.brackets) {
                (None, 0) => false,
                (None, _) => !is_own_header(line),
                (Some(_), _) => self.strings == Strings::HideHeaders || !is_own_header(line),
            };
            if let Some(header) = line.trim_start().strip_prefix('[').filter(|_| !hidden) {
                let (name, title) = section_name(header);
                if name != self.name {
                    let name = std::mem::replace(&mut self.name, name);
                    let title = std::mem::replace(&mut self.title, title);
                    if self.at > start {
                        let open_string = state.open_string();
                        return Some(Section { name, title, range: start..self.at, open_string });
                    }
                }
                state = Nesting::default();
            } else {
                state.pass(line, self.at);
            }
            self.at += line.len();
        }
        let name = std::mem::take(&mut self.name);
        let open_string = state.open_string();
        let range = start..self.at;
        (self.at > start).then_some(Section { name, title: self.title, range, open_string })
    }
}

/// Whether a line is plainly the header of a table that Kron knows, and not an array's item.
fn is_own_header(line: &str) -> bool {
    ["[job.", "[hook.", "[daemon]", "[queue.", "[queue]", "[api]", "[spool."]
        .iter()
        .any(|header| line.starts_with(header))
}

/// The parts of the header that follows a `[` which name its section, unquoted and as they stand.
fn section_name(header: &str) -> (Name, &str) {
    // A list of tables, as in `[[job.a.enqueue.params.files]]`, belongs to its job like any other.
    let header = header.strip_prefix('[').unwrap_or(header);
    let mut parts = Parts::default();
    let mut part = 0;
    let mut quote = None;
    let mut characters = header.char_indices();
    let mut end = header.len();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '.') if part + 1 < Name::parts_max(&parts[0]) => part += 1,
            (None, ']' | '\n' | '.') => {
                end = at;
                break;
            }
            (None, blank) if blank.is_whitespace() => {}
            (_, plain) => {
                parts[part].push(plain);
                if quote == Some('"') && plain == '\\' {
                    parts[part].extend(characters.next().map(|(_, escaped)| escaped));
                }
            }
        }
    }
    (Name(parts), header[..end].trim())
}

/// Where in a TOML text a line ends: inside a long string, inside brackets, or at the top.
#[derive(Default)]
struct Nesting {
    /// The three quotes that close the string.
    string: Option<&'static str>,
    /// The byte the string begins at.
    string_at: usize,
    brackets: usize,
}

impl Nesting {
    /// The opening quotes of the string that is open.
    fn open_string(&self) -> Option<Range<usize>> {
        self.string.map(|_| self.string_at..self.string_at + 3)
    }

    /// Goes over a line, which begins at byte `start`.
    fn pass(&mut self, line: &str, start: usize) {
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
                        self.string_at = start + at;
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
