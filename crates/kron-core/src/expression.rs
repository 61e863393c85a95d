//! Schedule expressions: a cron pattern and its modifiers, as one line of text.
//!
//! ```text
//! 0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly) @only(dow=MON-FRI)
//! ```
//!
//! The same settings may come from elsewhere, such as the keys of a job file; whoever reads those
//! fills a [`Draft`] and lets a [`TimingParser`] finish it. Unknown modifiers and words are
//! errors, never ignored.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use crate::constraint::{ConstraintParser, Side};
use crate::cron::{self, Pattern};
use crate::decision::Placement;
use crate::distribution::{Direction, Distribution, Mu, SIGMA_DEFAULT};
use crate::duration::{self, Seconds};
use crate::finding::{Finding, Piece, excerpt};
use crate::policy::{Concurrency, Policy};
use crate::schedule::{Dst, Gap, Overlap, Schedule, ShortestGap};
use crate::seed::SeedStrategy;
use crate::timing::Timing;
use crate::window::{Window, WindowMode};
use crate::zone::{self, Zone};

/// A setting that may follow a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modifier {
    /// `@tz(Zone)`
    Tz,
    /// `@win(mode,duration)`
    Win,
    /// `@dist(name,k=v…)`
    Dist,
    /// `@seed(strategy,salt=…)`
    Seed,
    /// `@policy(concurrency=…,deadline=…,suspend=…)`
    Policy,
    /// `@only(clause;…)`
    Only,
    /// `@avoid(clause;…)`
    Avoid,
    /// `@dst(gap=…,overlap=…)`
    Dst,
}

impl Modifier {
    /// All modifiers by their names.
    pub const ALL: [(&'static str, Modifier); 8] = [
        ("@tz", Modifier::Tz),
        ("@win", Modifier::Win),
        ("@dist", Modifier::Dist),
        ("@seed", Modifier::Seed),
        ("@policy", Modifier::Policy),
        ("@only", Modifier::Only),
        ("@avoid", Modifier::Avoid),
        ("@dst", Modifier::Dst),
    ];

    /// The modifier's name, with its `@`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Clauses add up; everything else is said once.
    fn merges(self) -> bool {
        matches!(self, Modifier::Only | Modifier::Avoid)
    }
}

/// The machine a definition is read for, as far as salts may name it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host<'a> {
    /// What `%H` stands for.
    pub name: Option<&'a str>,
    /// What `%m` stands for.
    pub machine_id: Option<&'a str>,
}

/// How many fields an expression's pattern has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Five, six or seven: all words up to the first modifier or `key=`.
    Any,
    /// Exactly five, as in a crontab, whatever follows.
    Five,
}

/// One argument of a modifier: a bare value or `key=value`.
#[derive(Clone, Debug)]
pub struct Argument<'a> {
    /// The key, when there is one.
    pub key: Option<Piece<'a>>,
    /// The value, unquoted.
    pub value: Cow<'a, str>,
    /// Where the value stands.
    pub span: Range<usize>,
}

/// A timing in the making: what has been said so far, and where.
#[derive(Debug)]
pub struct Draft<'a> {
    identity: &'a str,
    host: Host<'a>,
    pattern: Option<(Pattern, Range<usize>)>,
    zone: Option<Zone>,
    window: Option<Window>,
    distribution: Option<Distribution>,
    seed: Option<(SeedStrategy, String)>,
    /// What the job allows when it falls due.
    pub policy: Policy,
    dst: Dst,
    constraints: ConstraintParser,
    said: [Option<Range<usize>>; Modifier::ALL.len()],
    /// Whether anything was wrong; then there is nothing to finish.
    faulty: bool,
}

impl<'a> Draft<'a> {
    /// A draft with every default, for the job `identity` on `host`.
    #[must_use]
    pub fn new(identity: &'a str, host: Host<'a>) -> Draft<'a> {
        Draft {
            identity,
            host,
            pattern: None,
            zone: None,
            window: None,
            distribution: None,
            seed: None,
            policy: Policy::default(),
            dst: Dst::default(),
            constraints: ConstraintParser::default(),
            said: Default::default(),
            faulty: false,
        }
    }

    /// The zone, unless something said another: the default that a file declares.
    pub fn default_zone(&mut self, zone: &Zone) {
        if self.zone.is_none() {
            self.zone = Some(zone.clone());
        }
    }

    /// Whether this modifier has been said.
    #[must_use]
    pub fn has(&self, modifier: Modifier) -> bool {
        self.said[modifier as usize].is_some()
    }
}

/// Reads expressions, and remembers zones and shortest gaps between them, so that a hundred
/// thousand jobs load in seconds.
#[derive(Debug, Default)]
pub struct TimingParser {
    zones: HashMap<Box<str>, Zone>,
    gaps: HashMap<(Pattern, Box<str>, Dst), Option<ShortestGap>>,
}

/// A finding list that knows which of its findings belong to the present task.
struct Sink<'f> {
    findings: &'f mut Vec<Finding>,
    start: usize,
}

impl<'f> Sink<'f> {
    fn new(findings: &'f mut Vec<Finding>) -> Sink<'f> {
        let start = findings.len();
        Sink { findings, start }
    }

    fn has_errors(&self) -> bool {
        self.findings[self.start..].iter().any(Finding::is_error)
    }

    /// The value, or `None` and its finding on the list.
    fn keep<T>(&mut self, result: Result<T, Finding>) -> Option<T> {
        result.map_err(|finding| self.findings.push(finding)).ok()
    }
}

/// A finding about `span` that did not know its place.
fn at(span: &Range<usize>, mut finding: Finding) -> Finding {
    finding.span = span.clone();
    finding
}

impl TimingParser {
    /// A parser that remembers nothing yet.
    #[must_use]
    pub fn new() -> TimingParser {
        TimingParser::default()
    }

    /// Reads a whole expression.
    ///
    /// # Errors
    /// All faults, in the order they were found.
    pub fn parse(
        &mut self,
        text: &str,
        identity: &str,
        host: Host<'_>,
    ) -> Result<Timing, Vec<Finding>> {
        let mut findings = Vec::new();
        let mut draft = Draft::new(identity, host);
        self.whole_expression(&mut draft, Piece::whole(text), &mut findings);
        let timing = self.finish(draft, &mut findings);
        findings.retain(Finding::is_error);
        match timing {
            Some(timing) if findings.is_empty() => Ok(timing),
            _ => Err(findings),
        }
    }

    /// The zone of this name, remembered.
    ///
    /// # Errors
    /// As [`Zone::named`].
    pub fn zone(&mut self, piece: Piece<'_>) -> Result<Zone, Finding> {
        if let Some(zone) = self.zones.get(piece.text) {
            return Ok(zone.clone());
        }
        let zone = zone::parse(piece)?;
        self.zones.insert(piece.text.into(), zone.clone());
        Ok(zone)
    }

    /// Reads a text that is an expression and nothing else into `draft`.
    pub fn whole_expression(
        &mut self,
        draft: &mut Draft<'_>,
        text: Piece<'_>,
        findings: &mut Vec<Finding>,
    ) {
        let rest = self.expression(draft, text, Fields::Any, findings);
        if !rest.text.is_empty() {
            findings.push(
                Finding::configuration(
                    rest.span(),
                    format!("unexpected `{}` after the schedule", rest.shown()),
                )
                .help("only modifiers such as `@tz(…)` or `@win(…)` may follow the fields"),
            );
            draft.faulty = true;
        }
    }

    /// Reads a pattern and the modifiers after it into `draft`, and returns what follows them.
    pub fn expression<'t>(
        &mut self,
        draft: &mut Draft<'_>,
        text: Piece<'t>,
        fields: Fields,
        findings: &mut Vec<Finding>,
    ) -> Piece<'t> {
        let mut sink = Sink::new(findings);
        let mut rest = text.trim_start();
        let (pattern_text, pattern);
        if rest.text.starts_with('@') && !opens_modifier(rest) {
            let (word, after) = rest.split_word();
            pattern_text = word;
            pattern = cron::parse_nickname(word, sink.findings);
            rest = after;
        } else {
            let begin = rest;
            let mut words = Vec::new();
            let mut end = rest.at;
            while !rest.text.is_empty() && words.len() < FIELD_WORDS_MAX {
                let enough = fields == Fields::Five && words.len() == 5;
                let (word, after) = rest.split_word();
                if enough || word.text.starts_with('@') || word.text.contains('=') {
                    break;
                }
                words.push(word);
                end = word.at + word.text.len();
                rest = after;
            }
            pattern_text = begin.slice(0..end.saturating_sub(begin.at));
            pattern = cron::parse_fields(pattern_text, &words, draft.identity, sink.findings);
        }
        draft.pattern = pattern.map(|pattern| (pattern, pattern_text.span()));
        let mut modifier_count = 0;
        while opens_modifier(rest) || (rest.text.starts_with('@') && fields == Fields::Any) {
            modifier_count += 1;
            if modifier_count > MODIFIERS_MAX {
                sink.findings.push(Finding::configuration(
                    rest.span(),
                    format!("more than {MODIFIERS_MAX} modifiers"),
                ));
                rest = rest.slice(rest.text.len()..rest.text.len());
                break;
            }
            match split_modifier(rest) {
                Ok((name, arguments, after)) => {
                    rest = after.trim_start();
                    self.named_modifier(draft, name, arguments, &mut sink);
                }
                Err(finding) => {
                    sink.findings.push(finding);
                    rest = rest.slice(rest.text.len()..rest.text.len());
                }
            }
        }
        draft.faulty |= sink.has_errors();
        rest
    }

    fn named_modifier(
        &mut self,
        draft: &mut Draft<'_>,
        name: Piece<'_>,
        arguments: Piece<'_>,
        sink: &mut Sink<'_>,
    ) {
        let known = Modifier::ALL.iter().find(|(known, _)| *known == name.text);
        match known {
            Some(&(_, modifier)) => self.modifier_text(draft, modifier, arguments, sink.findings),
            None => sink.findings.push(
                Finding::configuration(name.span(), format!("unknown modifier `{}`", name.shown()))
                    .nearest(
                        name.text,
                        Modifier::ALL.iter().map(|(known, _)| *known),
                        "expected @tz, @win, @dist, @seed, @policy, @only, @avoid or @dst",
                    ),
            ),
        }
    }

    /// Applies a modifier whose arguments are the text between its parentheses.
    pub fn modifier_text(
        &mut self,
        draft: &mut Draft<'_>,
        modifier: Modifier,
        text: Piece<'_>,
        findings: &mut Vec<Finding>,
    ) {
        let mut sink = Sink::new(findings);
        if let Modifier::Only | Modifier::Avoid = modifier {
            self.say(draft, modifier, text.span(), &mut sink);
            let side = if modifier == Modifier::Only { Side::Only } else { Side::Avoid };
            if text.trim().text.is_empty() {
                sink.findings.push(
                    Finding::configuration(
                        text.span(),
                        format!("`{}` without a clause", modifier.name()),
                    )
                    .help("expected clauses such as `hours=9-17;dow=MON-FRI`"),
                );
            }
            draft.constraints.side(side, text, sink.findings);
        } else if let Some(arguments) = sink.keep(split_arguments(text)) {
            self.modifier(draft, modifier, &arguments, text.span(), sink.findings);
        }
        draft.faulty |= sink.has_errors();
    }

    /// Applies a modifier with these arguments; `span` is where they stand.
    pub fn modifier(
        &mut self,
        draft: &mut Draft<'_>,
        modifier: Modifier,
        arguments: &[Argument<'_>],
        span: Range<usize>,
        findings: &mut Vec<Finding>,
    ) {
        let mut sink = Sink::new(findings);
        if self.say(draft, modifier, span.clone(), &mut sink) {
            let result = match modifier {
                Modifier::Tz => self.apply_zone(draft, arguments, &span),
                Modifier::Win => apply_window(draft, arguments, &span),
                Modifier::Dist => apply_distribution(draft, arguments, &span),
                Modifier::Seed => apply_seed(draft, arguments),
                Modifier::Policy => apply_policy(draft, arguments),
                Modifier::Dst => apply_dst(draft, arguments),
                Modifier::Only | Modifier::Avoid => arguments.iter().try_for_each(|argument| {
                    let side = if modifier == Modifier::Only { Side::Only } else { Side::Avoid };
                    let piece = Piece { text: &argument.value, at: argument.span.start };
                    let mut found = Vec::new();
                    draft.constraints.side(side, piece, &mut found);
                    found.into_iter().next().map_or(Ok(()), Err)
                }),
            };
            sink.keep(result);
        }
        draft.faulty |= sink.has_errors();
    }

    /// Notes that a modifier was said; `false`, with a finding, when it may not be said again.
    fn say(
        &mut self,
        draft: &mut Draft<'_>,
        modifier: Modifier,
        span: Range<usize>,
        sink: &mut Sink<'_>,
    ) -> bool {
        let said = &mut draft.said[modifier as usize];
        if said.is_some() && !modifier.merges() {
            sink.findings.push(
                Finding::configuration(span, format!("`{}` is given twice", modifier.name()))
                    .help("only `@only` and `@avoid` may be repeated; their clauses add up"),
            );
            return false;
        }
        *said = Some(span);
        true
    }

    fn apply_zone(
        &mut self,
        draft: &mut Draft<'_>,
        arguments: &[Argument<'_>],
        span: &Range<usize>,
    ) -> Result<(), Finding> {
        let [Argument { key: None, value, span }] = arguments else {
            return Err(Finding::configuration(span.clone(), "`@tz` takes one zone")
                .help("as in `@tz(Europe/Paris)`"));
        };
        draft.zone = Some(self.zone(Piece { text: value, at: span.start })?);
        Ok(())
    }

    /// Makes a timing of a draft, unless something was wrong with it.
    pub fn finish(&mut self, draft: Draft<'_>, findings: &mut Vec<Finding>) -> Option<Timing> {
        let mut sink = Sink::new(findings);
        let identity_span = draft.pattern.as_ref().map_or(0..0, |(_, span)| span.clone());
        let zone = match draft.zone {
            Some(zone) => zone,
            None => sink.keep(self.zone(Piece::whole("UTC")))?,
        };
        let span_of = |modifier: Modifier| {
            draft.said[modifier as usize].clone().unwrap_or_else(|| identity_span.clone())
        };
        let constraints = draft.constraints.finish();
        if let Some(why) = constraints.contradiction() {
            let side = if draft.said[Modifier::Only as usize].is_some() {
                Modifier::Only
            } else {
                Modifier::Avoid
            };
            sink.findings.push(
                Finding::validation(
                    span_of(side),
                    format!("the constraints can never match: {why}"),
                )
                .help("every period would be unschedulable"),
            );
        }
        let window = draft.window.unwrap_or_default();
        let distribution = draft.distribution.unwrap_or_default();
        let (strategy, salt) = draft.seed.unwrap_or_default();
        let placement = Placement::new(draft.identity, zone.clone())
            .map_err(|finding| at(&identity_span, finding))
            .and_then(|placement| {
                placement
                    .with_spread(window, distribution)
                    .map_err(|finding| at(&span_of(Modifier::Dist), finding))
            })
            .and_then(|placement| {
                placement.with_salt(&salt).map_err(|finding| at(&span_of(Modifier::Seed), finding))
            });
        let placement = sink.keep(placement);
        let (pattern, pattern_span) = draft.pattern?;
        if !pattern.is_satisfiable() {
            sink.findings.push(
                Finding::warning(pattern_span, "this schedule never fires")
                    .help("no date matches its day and month fields"),
            );
        }
        let schedule = Schedule::new(pattern, zone, draft.dst);
        let placement = placement?.with_seed_strategy(strategy).with_constraints(constraints);
        let fit = self.fits(&schedule, window.length());
        let timing = Timing::checked(schedule, placement, draft.policy, fit)
            .map_err(|finding| at(&span_of(Modifier::Win), finding));
        let timing = sink.keep(timing)?;
        (!draft.faulty && !sink.has_errors()).then_some(timing)
    }

    /// [`Schedule::fits`], with the shortest gap remembered per pattern, zone and policy.
    fn fits(&mut self, schedule: &Schedule, length: Seconds) -> Result<(), ShortestGap> {
        if schedule.surely_fits(length) {
            return Ok(());
        }
        let key = (schedule.pattern().clone(), schedule.zone().name().into(), schedule.dst());
        let gap = *self.gaps.entry(key).or_insert_with(|| schedule.shortest_gap());
        match gap {
            Some(gap) if gap.length() < length => Err(gap),
            _ => Ok(()),
        }
    }
}

/// One more than a pattern can have, so that too many are seen as such.
const FIELD_WORDS_MAX: usize = 8;
/// Modifiers an expression may have; only `@only` and `@avoid` can be repeated to good effect.
const MODIFIERS_MAX: usize = 256;

/// Whether a text begins like `@name(`.
fn opens_modifier(piece: Piece<'_>) -> bool {
    let Some(rest) = piece.text.strip_prefix('@') else { return false };
    let name = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
    name > 0 && rest.as_bytes().get(name) == Some(&b'(')
}

/// Splits `@name(arguments) rest`.
fn split_modifier(piece: Piece<'_>) -> Result<(Piece<'_>, Piece<'_>, Piece<'_>), Finding> {
    if !opens_modifier(piece) {
        let (word, _) = piece.split_word();
        return Err(Finding::configuration(
            word.span(),
            format!("`{}` is not a modifier", word.shown()),
        )
        .help("a modifier has parentheses, as in `@win(after,2h)`; a nickname stands first"));
    }
    let open = piece.text.find('(').unwrap_or(0);
    let name = piece.slice(0..open);
    let mut quoted = false;
    let mut escaped = false;
    for (index, character) in piece.text.char_indices().skip(open + 1) {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ')' if !quoted => {
                let after = piece.slice(index + 1..piece.text.len());
                if let Some(next) = after.text.chars().next().filter(|c| !c.is_whitespace()) {
                    return Err(Finding::configuration(
                        after.at..after.at + next.len_utf8(),
                        format!("`{}` right after `)`", excerpt(next.encode_utf8(&mut [0; 4]))),
                    )
                    .help("put a blank between modifiers"));
                }
                return Ok((name, piece.slice(open + 1..index), after));
            }
            _ => {}
        }
    }
    Err(Finding::configuration(name.span(), format!("`{}(` is never closed", name.shown()))
        .help("add the missing `)`"))
}

/// Splits arguments at commas outside quotes, and keys from values.
fn split_arguments(piece: Piece<'_>) -> Result<Vec<Argument<'_>>, Finding> {
    const ARGUMENTS_MAX: usize = 16;
    let mut arguments = Vec::new();
    if piece.text.trim().is_empty() {
        return Ok(arguments);
    }
    let mut start = 0;
    let mut quoted = false;
    let mut escaped = false;
    let ends = piece.text.char_indices().map(Some).chain([None]);
    for step in ends {
        let end = match step {
            Some((_, _)) if escaped => {
                escaped = false;
                continue;
            }
            Some((_, '\\')) if quoted => {
                escaped = true;
                continue;
            }
            Some((_, '"')) => {
                quoted = !quoted;
                continue;
            }
            Some((index, ',')) if !quoted => index,
            Some(_) => continue,
            None => piece.text.len(),
        };
        arguments.push(argument(piece.slice(start..end).trim())?);
        if arguments.len() > ARGUMENTS_MAX {
            return Err(Finding::configuration(piece.span(), "too many arguments"));
        }
        start = end + 1;
    }
    Ok(arguments)
}

fn argument(piece: Piece<'_>) -> Result<Argument<'_>, Finding> {
    let (key, value) = match piece.split_once('=') {
        Some((key, value)) if !key.text.contains('"') => (Some(key.trim()), value.trim()),
        _ => (None, piece),
    };
    let span = value.span();
    let value = match value.text.strip_prefix('"') {
        None => Cow::Borrowed(value.text),
        Some(inner) => Cow::Owned(unquote(inner).ok_or_else(|| {
            Finding::configuration(
                value.span(),
                format!("`{}` is not a quoted text", value.shown()),
            )
            .help("quotes open and close with `\"`; `\\\"` and `\\\\` stand for themselves")
        })?),
    };
    Ok(Argument { key, value, span })
}

/// The text up to the closing quote, which must be the end.
fn unquote(text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return characters.next().is_none().then_some(value),
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => value.push(escaped),
                _ => return None,
            },
            plain => value.push(plain),
        }
    }
}

/// The value that goes with a word.
pub(crate) fn word<T: Copy>(
    what: &str,
    text: &str,
    span: &Range<usize>,
    words: &[(&'static str, T)],
) -> Result<T, Finding> {
    match words.iter().find(|(known, _)| *known == text) {
        Some(&(_, value)) => Ok(value),
        None => {
            let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
            Err(Finding::configuration(span.clone(), format!("unknown {what} `{}`", excerpt(text)))
                .nearest(text, known.iter().copied(), format!("expected {}", known.join(", "))))
        }
    }
}

fn duration_of(argument: &Argument<'_>) -> Result<Seconds, Finding> {
    duration::parse(Piece { text: &argument.value, at: argument.span.start })
        .map_err(|finding| at(&argument.span, finding))
}

/// Splits arguments into the leading bare one and the `key=value` ones.
fn leading<'r, 'a>(
    arguments: &'r [Argument<'a>],
) -> (Option<&'r Argument<'a>>, &'r [Argument<'a>]) {
    match arguments.split_first() {
        Some((first, rest)) if first.key.is_none() => (Some(first), rest),
        _ => (None, arguments),
    }
}

/// Goes over `key=value` arguments, each key once.
fn each_key<'a>(
    what: &str,
    arguments: &[Argument<'a>],
    keys: &[&str],
    mut apply: impl FnMut(&str, &Argument<'a>) -> Result<(), Finding>,
) -> Result<(), Finding> {
    let mut seen: Vec<&str> = Vec::new();
    for argument in arguments {
        let Some(key) = &argument.key else {
            return Err(Finding::configuration(
                argument.span.clone(),
                format!("`{}` is not a parameter of {what}", excerpt(&argument.value)),
            )
            .help(if keys.is_empty() {
                format!("{what} takes no more parameters")
            } else {
                format!("expected `key=value` with {}", keys.join(", "))
            }));
        };
        let Some(known) = keys.iter().find(|known| **known == key.text) else {
            return Err(Finding::configuration(
                key.span(),
                format!("unknown parameter `{}` of {what}", key.shown()),
            )
            .nearest(
                key.text,
                keys.iter().copied(),
                if keys.is_empty() {
                    format!("{what} takes no parameters")
                } else {
                    format!("expected {}", keys.join(", "))
                },
            ));
        };
        if seen.contains(known) {
            return Err(Finding::configuration(key.span(), format!("`{known}` is given twice")));
        }
        seen.push(known);
        apply(known, argument)?;
    }
    Ok(())
}

fn apply_window(
    draft: &mut Draft<'_>,
    arguments: &[Argument<'_>],
    span: &Range<usize>,
) -> Result<(), Finding> {
    let malformed = || {
        Finding::configuration(span.clone(), "`@win` takes a mode and a duration")
            .help("as in `@win(after,2h)`, `@win(around,30m)` or `@win(before,1h)`")
    };
    let (mode, length) = match arguments {
        [mode, length] => {
            let named = |argument: &Argument<'_>, name: &str| {
                argument.key.is_none_or(|key| key.text == name)
            };
            if named(mode, "mode") && named(length, "duration") {
                (mode, length)
            } else if named(length, "mode") && named(mode, "duration") {
                (length, mode)
            } else {
                return Err(malformed());
            }
        }
        _ => return Err(malformed()),
    };
    let mode = word("window mode", &mode.value, &mode.span, &WindowMode::WORDS)?;
    let length_span = length.span.clone();
    let window = Window::new(mode, duration_of(length)?);
    draft.window = Some(window.map_err(|finding| at(&length_span, finding))?);
    Ok(())
}

/// A distribution from its name and its parameters as texts; shared with JSON requests.
pub(crate) fn distribution_of(
    name: &str,
    name_span: &Range<usize>,
    arguments: &[Argument<'_>],
) -> Result<Distribution, Finding> {
    let kinds: Vec<(&'static str, &'static str)> =
        Distribution::NAMES.iter().map(|&name| (name, name)).collect();
    let name = word("distribution", name, name_span, &kinds)?;
    let what = format!("`{name}`");
    let number = |argument: &Argument<'_>| {
        decimal(&argument.value).ok_or_else(|| {
            Finding::configuration(
                argument.span.clone(),
                format!("`{}` is not a number", excerpt(&argument.value)),
            )
        })
    };
    let ranged = |argument: &Argument<'_>| {
        let value = number(argument)?;
        if (0.01..=100.0).contains(&value) {
            return Ok(value);
        }
        Err(Finding::validation(
            argument.span.clone(),
            format!("`{}` is out of range", excerpt(&argument.value)),
        )
        .help("expected a number from 0.01 to 100"))
    };
    let mut shape = 2.0;
    let mut lambda = 1.0;
    let mut direction = Direction::Early;
    let (mut mu, mut sigma) = (None, None);
    let keys: &[&str] = match name {
        "skewEarly" | "skewLate" => &["shape"],
        "exponential" => &["lambda", "dir"],
        "normal" => &["mu", "sigma"],
        _ => &[],
    };
    each_key(&what, arguments, keys, |key, argument| {
        match key {
            "shape" => shape = ranged(argument)?,
            "lambda" => lambda = ranged(argument)?,
            "dir" => {
                let words = [("early", Direction::Early), ("late", Direction::Late)];
                direction = word("direction", &argument.value, &argument.span, &words)?;
            }
            "mu" => {
                let words = [
                    ("nominal", Mu::Nominal),
                    ("start", Mu::Start),
                    ("mid", Mu::Mid),
                    ("end", Mu::End),
                ];
                mu = Some(word("mu", &argument.value, &argument.span, &words)?);
            }
            _ => {
                if argument.value != SIGMA_DEFAULT {
                    sigma = Some(duration_of(argument)?);
                }
            }
        }
        Ok(())
    })?;
    Ok(match name {
        "skewEarly" => Distribution::SkewEarly { shape },
        "skewLate" => Distribution::SkewLate { shape },
        "exponential" => Distribution::Exponential { lambda, direction },
        "normal" => Distribution::Normal { mu, sigma },
        _ => Distribution::Uniform,
    })
}

/// A decimal number; not `inf`, not `nan`, no hexadecimal.
fn decimal(text: &str) -> Option<f64> {
    const NUMBER_BYTES_MAX: usize = 400;
    let plain =
        text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if !plain || text.len() > NUMBER_BYTES_MAX {
        return None;
    }
    text.parse().ok()
}

fn apply_distribution(
    draft: &mut Draft<'_>,
    arguments: &[Argument<'_>],
    span: &Range<usize>,
) -> Result<(), Finding> {
    let name_at = arguments
        .iter()
        .position(|argument| argument.key.is_none_or(|key| key.text == "name"))
        .filter(|&index| index == 0 || arguments[index].key.is_some());
    let Some(name_at) = name_at else {
        return Err(Finding::configuration(span.clone(), "`@dist` without a name")
            .help(format!("expected {}", Distribution::NAMES.join(", "))));
    };
    let name = &arguments[name_at];
    let parameters: Vec<Argument<'_>> = arguments
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != name_at)
        .map(|(_, argument)| argument.clone())
        .collect();
    draft.distribution = Some(distribution_of(&name.value, &name.span, &parameters)?);
    Ok(())
}

fn apply_seed(draft: &mut Draft<'_>, arguments: &[Argument<'_>]) -> Result<(), Finding> {
    let (first, rest) = leading(arguments);
    let mut strategy = SeedStrategy::default();
    let mut salt = String::new();
    if let Some(first) = first {
        strategy = word("seed strategy", &first.value, &first.span, &SeedStrategy::WORDS)?;
    }
    let keys: &[&str] = if first.is_some() { &["salt"] } else { &["strategy", "salt"] };
    each_key("`@seed`", rest, keys, |key, argument| {
        if key == "strategy" {
            strategy =
                word("seed strategy", &argument.value, &argument.span, &SeedStrategy::WORDS)?;
        } else {
            salt = expand_salt(&argument.value, draft.host)
                .map_err(|finding| at(&argument.span, finding))?;
        }
        Ok(())
    })?;
    draft.seed = Some((strategy, salt));
    Ok(())
}

/// Replaces `%H`, `%m` and `%%` in a salt.
fn expand_salt(text: &str, host: Host<'_>) -> Result<String, Finding> {
    let mut salt = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            salt.push(character);
            continue;
        }
        let unknown = |flag: &str, what: &str| {
            Finding::configuration(0..0, format!("the salt names {what}, which is not known here"))
                .help(format!("give `{flag}`"))
        };
        match characters.next() {
            Some('%') => salt.push('%'),
            Some('H') => {
                salt.push_str(host.name.ok_or_else(|| unknown("--host NAME", "the host (`%H`)"))?);
            }
            Some('m') => salt.push_str(
                host.machine_id
                    .ok_or_else(|| unknown("--machine-id ID", "the machine id (`%m`)"))?,
            ),
            _ => {
                return Err(Finding::configuration(0..0, "a lone `%` in a salt")
                    .help("`%H` is the host name, `%m` the machine id, `%%` a percent sign"));
            }
        }
    }
    Ok(salt)
}

fn apply_policy(draft: &mut Draft<'_>, arguments: &[Argument<'_>]) -> Result<(), Finding> {
    let policy = &mut draft.policy;
    each_key("`@policy`", arguments, &["concurrency", "deadline", "suspend"], |key, argument| {
        match key {
            "concurrency" => {
                policy.concurrency =
                    word("concurrency", &argument.value, &argument.span, &Concurrency::WORDS)?;
            }
            "deadline" => policy.deadline = duration_of(argument)?,
            _ => {
                let words = [("true", true), ("false", false)];
                policy.suspend = word("truth value", &argument.value, &argument.span, &words)?;
            }
        }
        Ok(())
    })
}

fn apply_dst(draft: &mut Draft<'_>, arguments: &[Argument<'_>]) -> Result<(), Finding> {
    let dst = &mut draft.dst;
    each_key("`@dst`", arguments, &["gap", "overlap"], |key, argument| {
        if key == "gap" {
            let words = [("shift", Gap::Shift), ("skip", Gap::Skip)];
            dst.gap = word("gap policy", &argument.value, &argument.span, &words)?;
        } else {
            let words = [
                ("auto", Overlap::Auto),
                ("first", Overlap::First),
                ("last", Overlap::Last),
                ("both", Overlap::Both),
            ];
            dst.overlap = word("overlap policy", &argument.value, &argument.span, &words)?;
        }
        Ok(())
    })
}

impl Timing {
    /// The canonical expression of everything that decides.
    #[must_use]
    pub fn deciding_expression(&self) -> String {
        use fmt::Write as _;
        let placement = self.placement();
        let mut text = self.schedule().pattern().to_string();
        let mut add = |modifier: Modifier, arguments: &str| {
            // Writing to a `String` cannot fail.
            let _ = write!(text, " {}({arguments})", modifier.name());
        };
        if placement.zone().name() != "UTC" {
            add(Modifier::Tz, placement.zone().name());
        }
        let window = placement.window();
        if window != Window::default() {
            add(Modifier::Win, &format!("{},{}", window.mode(), window.length()));
        }
        if placement.distribution() != Distribution::default() {
            add(Modifier::Dist, &placement.distribution().to_string());
        }
        match (placement.seed_strategy(), placement.salt()) {
            (SeedStrategy::Stable, "") => {}
            (strategy, "") => add(Modifier::Seed, strategy.as_str()),
            (strategy, salt) => {
                let salt = salt.replace('%', "%%");
                let quoted = salt.replace('\\', "\\\\").replace('"', "\\\"");
                add(Modifier::Seed, &format!("{strategy},salt=\"{quoted}\""));
            }
        }
        for side in [Side::Only, Side::Avoid] {
            let clauses = placement.constraints().clauses(side);
            if !clauses.is_empty() {
                let modifier = if side == Side::Only { Modifier::Only } else { Modifier::Avoid };
                add(modifier, &clauses.join(";"));
            }
        }
        let Dst { gap, overlap } = self.schedule().dst();
        if (gap, overlap) != (Gap::Shift, Overlap::Auto) {
            add(Modifier::Dst, &format!("gap={},overlap={}", gap.as_str(), overlap.as_str()));
        }
        text
    }
}

/// The canonical expression: what [`TimingParser::parse`] reads back as the same timing.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.deciding_expression())?;
        let Policy { concurrency, deadline, suspend } = self.policy;
        let mut settings = Vec::new();
        if concurrency != Concurrency::default() {
            settings.push(format!("concurrency={concurrency}"));
        }
        if deadline != Seconds::ZERO {
            settings.push(format!("deadline={deadline}"));
        }
        if suspend {
            settings.push("suspend=true".to_owned());
        }
        if !settings.is_empty() {
            write!(f, " {}({})", Modifier::Policy.name(), settings.join(","))?;
        }
        Ok(())
    }
}
