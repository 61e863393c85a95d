//! Cron text → [`Pattern`].
//!
//! The grammar is that of the Open Cron Pattern Specification 1.0 to 1.4 (five, six or seven
//! fields, nicknames, `L`, `W`, `#`, `+`, `?`) with three additions: `L-n`, `W` inside lists, and
//! `H`, which a job's identity turns into a value of its own. Unlike some crons, `5/15` is
//! refused, because they disagree on what it means.

use sha2::{Digest as _, Sha256};

use super::print::{WEEKDAY_NAMES, month_name};
use super::{ALL_DAYS, ALL_WEEKDAYS, Combination, DaysOfMonth, DaysOfWeek, Pattern, YEAR_WORDS};
use crate::finding::{Finding, Piece, nearest};

/// Items a field's list may have; a list of every minute has 60.
const LIST_ITEMS_MAX: usize = 256;

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

pub(super) fn parse(
    piece: Piece<'_>,
    identity: &str,
    findings: &mut Vec<Finding>,
) -> Option<Pattern> {
    let trimmed = piece.trim();
    if trimmed.text.starts_with('@') {
        return parse_nickname(trimmed, findings);
    }
    // One more than the most that can be valid is enough to know that it is not.
    let fields: Vec<Piece<'_>> = words(trimmed).take(9).collect();
    parse_fields(trimmed, &fields, identity, findings)
}

/// The stretches between blanks.
fn words(piece: Piece<'_>) -> impl Iterator<Item = Piece<'_>> {
    piece.split(' ').flat_map(|part| part.split('\t')).filter(|word| !word.text.is_empty())
}

/// Parses a nickname such as `@daily`.
pub(crate) fn parse_nickname(piece: Piece<'_>, findings: &mut Vec<Finding>) -> Option<Pattern> {
    if let Some((_, fields)) = NICKNAMES.iter().find(|(name, _)| *name == piece.text) {
        return Pattern::parse(fields, "").ok();
    }
    let finding = if piece.text == "@reboot" {
        Finding::configuration(piece.span(), "`@reboot` is not a time")
            .help("Kron runs jobs at times; start what must run at boot from your init system")
    } else {
        Finding::configuration(piece.span(), format!("unknown nickname `{}`", piece.shown()))
            .nearest(
                piece.text,
                NICKNAMES.iter().map(|(name, _)| *name),
                "expected @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually",
            )
    };
    findings.push(finding);
    None
}

/// Parses the fields of a pattern; `whole` is the place to point at when their number is wrong.
pub(crate) fn parse_fields(
    whole: Piece<'_>,
    fields: &[Piece<'_>],
    identity: &str,
    findings: &mut Vec<Finding>,
) -> Option<Pattern> {
    let (second, rest, year) = match fields {
        rest if rest.len() == 5 => (None, rest, None),
        [second, rest @ ..] if rest.len() == 5 => (Some(second), rest, None),
        [second, rest @ .., year] if rest.len() == 5 => (Some(second), rest, Some(year)),
        _ => {
            let count = match fields.len() {
                0 => "no fields".to_owned(),
                1 => "only 1 field".to_owned(),
                few @ 2..=4 => format!("only {few} fields"),
                _ => "more than 7 fields".to_owned(),
            };
            findings.push(
                Finding::configuration(whole.span(), format!("a schedule with {count}")).help(
                    "expected `minute hour day-of-month month day-of-week`, such as `0 3 * * *`; \
                     six fields begin with seconds, seven end with the year",
                ),
            );
            return None;
        }
    };
    let before = findings.len();
    let mut set = |field: &Field, piece: &Piece<'_>| {
        let mut parser = FieldParser { field, identity, findings };
        parser.plain_set(*piece)
    };
    let seconds = second.map_or(1, |piece| set(&SECOND, piece).low());
    let minutes = set(&MINUTE, &rest[0]).low();
    let hours = set(&HOUR, &rest[1]).low() as u32;
    let months = set(&MONTH, &rest[3]).low() as u16;
    let years = year.map(|piece| set(&YEAR, piece));
    let (days, days_restricted) = parse_days(rest[2], identity, findings);
    let (weekdays, weekdays_restricted, and) = parse_weekdays(rest[4], identity, findings);
    if findings[before..].iter().any(Finding::is_error) {
        return None;
    }
    let mut pattern = Pattern {
        seconds,
        minutes,
        hours,
        months,
        days,
        weekdays,
        combination: if days_restricted && weekdays_restricted && !and {
            Combination::Either
        } else {
            Combination::Both
        },
        years: years.filter(|set| !set.is_full(&YEAR)).map(|set| Box::new(set.0)),
    };
    pattern.normalise();
    Some(pattern)
}

impl Pattern {
    /// Gives patterns that match the same days for obvious reasons the same form.
    fn normalise(&mut self) {
        let days_every = self.days.is_every_day();
        let weekdays_every = self.weekdays.is_every_day();
        if self.combination == Combination::Either && (days_every || weekdays_every) {
            self.days.plain = ALL_DAYS;
            self.weekdays.plain = ALL_WEEKDAYS;
            self.combination = Combination::Both;
        }
        if self.days.is_every_day() {
            self.days = DaysOfMonth { plain: ALL_DAYS, ..DaysOfMonth::default() };
        }
        if self.weekdays.is_every_day() {
            self.weekdays = DaysOfWeek { plain: ALL_WEEKDAYS, ..DaysOfWeek::default() };
        }
        let covered = self.weekdays.plain;
        for set in &mut self.weekdays.nth {
            *set &= !covered;
        }
        self.weekdays.last &= !covered;
    }
}

/// A field: what it is called, which values it takes and by which names.
struct Field {
    name: &'static str,
    /// The name that goes into the hash of `H`.
    hash_name: &'static str,
    low: u32,
    high: u32,
    /// The largest value `H` may take; not every month has a 29th.
    hash_high: u32,
    value_of_name: fn(&str) -> Option<u32>,
    examples: &'static str,
}

fn no_names(_: &str) -> Option<u32> {
    None
}

pub(crate) fn month_of_name(name: &str) -> Option<u32> {
    (1..=12).find(|&month| month_name(month).eq_ignore_ascii_case(name))
}

pub(crate) fn weekday_of_name(name: &str) -> Option<u32> {
    (0u32..).zip(WEEKDAY_NAMES).find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(d, _)| d)
}

macro_rules! field {
    ($name:literal, $hash:literal, $low:literal..=$high:literal, $names:expr, $examples:literal) => {
        Field {
            name: $name,
            hash_name: $hash,
            low: $low,
            high: $high,
            hash_high: $high,
            value_of_name: $names,
            examples: $examples,
        }
    };
}

static SECOND: Field = field!("second", "second", 0..=59, no_names, "`0`, `*/10` or `15,45`");
static MINUTE: Field = field!("minute", "minute", 0..=59, no_names, "`0`, `*/5` or `H`");
static HOUR: Field = field!("hour", "hour", 0..=23, no_names, "`3`, `*/2` or `9-17`");
static MONTH: Field = field!("month", "month", 1..=12, month_of_name, "`*`, `1-6` or `MAR,SEP`");
// Years take no `H`.
static YEAR: Field = field!("year", "year", 1970..=2199, no_names, "`*`, `2027` or `2026-2030`");
static DAY: Field = Field {
    name: "day-of-month",
    hash_name: "dom",
    low: 1,
    high: 31,
    hash_high: 28,
    value_of_name: no_names,
    examples: "`*`, `1`, `L`, `15W` or `1-7`",
};
static WEEKDAY: Field = Field {
    name: "day-of-week",
    hash_name: "dow",
    low: 0,
    high: 7,
    hash_high: 6,
    value_of_name: weekday_of_name,
    examples: "`*`, `MON-FRI`, `5`, `MON#2` or `FRI#L`",
};

/// A set of field values, counted from zero, or from 1970 for years.
#[derive(Clone, Copy, Default)]
struct Set([u64; YEAR_WORDS]);

impl Set {
    fn insert(&mut self, field: &Field, value: u32) {
        let index = (value - if field.high > 255 { field.low } else { 0 }) as usize;
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn low(&self) -> u64 {
        self.0[0]
    }

    fn is_full(&self, field: &Field) -> bool {
        self.0.iter().map(|word| word.count_ones()).sum::<u32>() == field.high - field.low + 1
    }
}

struct FieldParser<'a> {
    field: &'a Field,
    identity: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl FieldParser<'_> {
    fn fault(&mut self, piece: Piece<'_>, message: String) {
        let help = format!(
            "the {} field takes {} to {}, such as {}",
            self.field.name, self.field.low, self.field.high, self.field.examples
        );
        self.findings.push(Finding::configuration(piece.span(), message).help(help));
    }

    /// A field of values, ranges and steps only.
    fn plain_set(&mut self, piece: Piece<'_>) -> Set {
        let mut set = Set::default();
        for item in self.items(piece) {
            self.plain_item(item, &mut set);
        }
        set
    }

    /// The items of a list; too many are one fault.
    fn items<'p>(&mut self, piece: Piece<'p>) -> Vec<Piece<'p>> {
        let items: Vec<_> = piece.split(',').take(LIST_ITEMS_MAX + 1).collect();
        if items.len() > LIST_ITEMS_MAX {
            self.fault(piece, format!("a list of more than {LIST_ITEMS_MAX} items"));
            return Vec::new();
        }
        items
    }

    /// One item: `*`, a value, a range, either with a step, or a form of `H`.
    fn plain_item(&mut self, item: Piece<'_>, set: &mut Set) {
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(step)),
            None => (item, None),
        };
        if base.text.starts_with('H') && self.field.low != YEAR.low {
            self.hashed_item(item, base, step, set);
            return;
        }
        let range = if base.text == "*" {
            (self.field.low, if self.field.high == 7 { 6 } else { self.field.high })
        } else if base.text == "?" {
            self.fault(base, "`?` stands alone, and only in the two day fields".to_owned());
            return;
        } else if let Some((from, to)) = base.split_once('-') {
            let (Some(from), Some(mut to)) = (self.value(from), self.value(to)) else { return };
            // Sunday is 0 and 7, so that `FRI-SUN` is a range.
            if self.field.high == 7 && to == 0 && from > 0 {
                to = 7;
            }
            if from > to {
                self.fault(base, format!("the range `{}` runs backwards", base.shown()));
                return;
            }
            (from, to)
        } else {
            let Some(value) = self.value(base) else { return };
            if step.is_some() {
                self.fault(
                    item,
                    format!("a step needs `*` or a range before it, not `{}`", base.shown()),
                );
                return;
            }
            (value, value)
        };
        let Some(step) = self.step(step, range.1 - range.0) else { return };
        for value in (range.0..=range.1).step_by(step as usize) {
            set.insert(self.field, if self.field.high == 7 { value % 7 } else { value });
        }
    }

    /// The step after a slash. One that leaves only the first value is what cron accepts, and
    /// hardly ever what was meant.
    fn step(&mut self, step: Option<Piece<'_>>, width: u32) -> Option<u32> {
        let Some(piece) = step else { return Some(1) };
        match crate::civil::digits(piece.text.as_bytes()) {
            None if !piece.text.is_empty() && piece.text.bytes().all(|b| b.is_ascii_digit()) => {
                self.fault(piece, format!("the step `{}` is too large", piece.shown()));
                None
            }
            None => {
                self.fault(piece, format!("`{}` is not a step", piece.shown()));
                None
            }
            Some(0) => {
                self.fault(piece, "a step of 0 never moves".to_owned());
                None
            }
            Some(step) => {
                if step > width {
                    self.findings.push(
                        Finding::warning(
                            piece.span(),
                            format!(
                                "a step of {step} leaves only the first value of the {} field",
                                self.field.name
                            ),
                        )
                        .help("write that value alone if it is what you mean"),
                    );
                }
                Some(step)
            }
        }
    }

    fn value(&mut self, piece: Piece<'_>) -> Option<u32> {
        let text = piece.text;
        if text.is_empty() {
            self.fault(piece, format!("an empty value in the {} field", self.field.name));
            return None;
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let value = crate::civil::digits(text.as_bytes());
            let inside = value.filter(|value| (self.field.low..=self.field.high).contains(value));
            if inside.is_none() {
                self.fault(
                    piece,
                    format!("`{}` is outside the {} field", piece.shown(), self.field.name),
                );
            }
            return inside;
        }
        if let Some(value) = (self.field.value_of_name)(text) {
            return Some(value);
        }
        if text.contains('~') {
            self.findings.push(
                Finding::configuration(piece.span(), format!("`{}`: random ranges are not reproducible", piece.shown()))
                    .help("`H(a-b)` gives each job a fixed value of its own, `@win` a new one every period"),
            );
            return None;
        }
        let message = format!("`{}` is not a {}", piece.shown(), self.field.name);
        match self.suggestion(text) {
            Some(name) => self.findings.push(
                Finding::configuration(piece.span(), message)
                    .help(format!("did you mean `{name}`?")),
            ),
            None => self.fault(piece, message),
        }
        None
    }

    fn suggestion(&self, text: &str) -> Option<&'static str> {
        if (self.field.value_of_name)("JAN").is_some() {
            nearest(text, (1..=12).map(month_name))
        } else if (self.field.value_of_name)("SUN").is_some() {
            nearest(text, WEEKDAY_NAMES)
        } else {
            None
        }
    }

    /// `H`, `H(a-b)`, `H/n` or `H(a-b)/n`.
    fn hashed_item(
        &mut self,
        item: Piece<'_>,
        base: Piece<'_>,
        step: Option<Piece<'_>>,
        set: &mut Set,
    ) {
        if self.identity.is_empty() {
            self.findings.push(
                Finding::configuration(item.span(), "`H` needs to know the job")
                    .help("its value is derived from the job's identity"),
            );
            return;
        }
        let inner = base.slice(1..base.text.len());
        let (low, high) = if inner.text.is_empty() {
            (self.field.low, self.field.hash_high)
        } else if inner.text.starts_with('(') && inner.text.ends_with(')') && inner.text.len() >= 2
        {
            let range = inner.slice(1..inner.text.len() - 1);
            let Some((from, to)) = range.split_once('-') else {
                self.fault(item, format!("`{}` lacks a range, as in `H(0-29)`", item.shown()));
                return;
            };
            let (Some(from), Some(to)) = (self.value(from), self.value(to)) else { return };
            if from > to {
                self.fault(range, format!("the range `{}` runs backwards", range.shown()));
                return;
            }
            (from, to)
        } else {
            self.fault(item, format!("`{}` is not a {}", item.shown(), self.field.name));
            return;
        };
        let hash = field_hash(self.identity, self.field.hash_name);
        let width = high - low + 1;
        let within = |modulus: u32| low + (hash % u64::from(modulus)) as u32;
        let fold = |value: u32| if self.field.high == 7 { value % 7 } else { value };
        let Some(step_piece) = step else {
            set.insert(self.field, fold(within(width)));
            return;
        };
        match crate::civil::digits(step_piece.text.as_bytes()) {
            Some(step) if (1..=width).contains(&step) => {
                for value in (within(step)..=high).step_by(step as usize) {
                    set.insert(self.field, fold(value));
                }
            }
            _ => self.fault(step_piece, format!("the step of `H` must be 1 to {width}")),
        }
    }
}

/// The number `H` takes its values from.
fn field_hash(identity: &str, field: &str) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(identity.as_bytes());
    hasher.update(b"\nH\n");
    hasher.update(field.as_bytes());
    let digest = hasher.finalize();
    digest.iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The day-of-month field, and whether it restricts.
fn parse_days(
    piece: Piece<'_>,
    identity: &str,
    findings: &mut Vec<Finding>,
) -> (DaysOfMonth, bool) {
    let mut parser = FieldParser { field: &DAY, identity, findings };
    if piece.text == "?" {
        return (DaysOfMonth { plain: ALL_DAYS, ..DaysOfMonth::default() }, false);
    }
    let mut days = DaysOfMonth::default();
    let mut set = Set::default();
    for item in parser.items(piece) {
        if item.text == "L" {
            days.from_last |= 1;
        } else if item.text == "LW" {
            days.last_weekday = true;
        } else if item.text.starts_with("L-") {
            let number = item.slice(2..item.text.len());
            if let Some(before) = parser.value(number) {
                if before > 30 {
                    parser.fault(item, "no month has that many days before its last".to_owned());
                } else {
                    days.from_last |= 1 << before;
                }
            }
        } else if item.text.ends_with('W') && !item.text.starts_with('H') {
            let number = item.slice(0..item.text.len() - 1);
            if number.text.contains('-') {
                parser.fault(item, "`W` goes with a single day, not a range".to_owned());
            } else if let Some(day) = parser.value(number) {
                days.nearest_weekday |= 1 << day;
            }
        } else {
            parser.plain_item(item, &mut set);
        }
    }
    days.plain = set.low() as u32;
    (days, !piece.text.starts_with('*'))
}

/// The day-of-week field, whether it restricts, and whether `+` asked for both day fields.
fn parse_weekdays(
    piece: Piece<'_>,
    identity: &str,
    findings: &mut Vec<Finding>,
) -> (DaysOfWeek, bool, bool) {
    let mut parser = FieldParser { field: &WEEKDAY, identity, findings };
    let (piece, and) = match piece.text.strip_prefix('+') {
        Some(_) => (piece.slice(1..piece.text.len()), true),
        None => (piece, false),
    };
    if piece.text == "?" {
        return (DaysOfWeek { plain: ALL_WEEKDAYS, ..DaysOfWeek::default() }, false, and);
    }
    let mut weekdays = DaysOfWeek::default();
    let mut set = Set::default();
    for item in parser.items(piece) {
        if let Some((day, occurrence)) = item.split_once('#') {
            let Some(day) = parser.value(day) else { continue };
            let bit = 1 << (day % 7);
            match occurrence.text {
                "L" => weekdays.last |= bit,
                "1" | "2" | "3" | "4" | "5" => {
                    weekdays.nth[usize::from(occurrence.text.as_bytes()[0] - b'1')] |= bit;
                }
                _ => parser.fault(
                    occurrence,
                    format!("`{}` is no occurrence: expected 1 to 5 or `L`", occurrence.shown()),
                ),
            }
        } else if item.text == "L" {
            parser.fault(item, "`L` alone names no day of the week; write `SAT#L`".to_owned());
        } else if item.text.ends_with('L') && weekday_of_name(item.text).is_none() {
            let Some(day) = parser.value(item.slice(0..item.text.len() - 1)) else { continue };
            weekdays.last |= 1 << (day % 7);
        } else {
            parser.plain_item(item, &mut set);
        }
    }
    weekdays.plain = set.low() as u8;
    (weekdays, !piece.text.starts_with('*'), and)
}
