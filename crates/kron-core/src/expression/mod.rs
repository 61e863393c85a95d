//! Schedule expressions: a cron pattern and its modifiers, as one line of text.
//!
//! ```text
//! 0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly) @only(dow=MON-FRI)
//! ```
//!
//! The same settings may come from elsewhere, such as the keys of a job file; whoever reads those
//! fills a [`Draft`] and lets a [`TimingParser`] finish it. Unknown modifiers and words are
//! errors, never ignored.

mod arguments;
mod print;
mod settings;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

pub(crate) use arguments::word;
use arguments::{opens_modifier, split_arguments, split_modifier};
pub(crate) use settings::distribution_of;
use settings::{apply_distribution, apply_dst, apply_policy, apply_seed, apply_window};

use crate::constraint::{ConstraintParser, Side};
use crate::cron::{self, Pattern};
use crate::decision::Placement;
use crate::distribution::Distribution;
use crate::duration::Seconds;
use crate::finding::{Finding, Piece};
use crate::policy::Policy;
use crate::schedule::{Dst, Schedule, ShortestGap};
use crate::seed::SeedStrategy;
use crate::time::UtcSecond;
use crate::timing::Timing;
use crate::window::Window;
use crate::zone::{self, HORIZON, Zone};

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
        let satisfiable = pattern.is_satisfiable();
        let schedule = Schedule::new(pattern, zone, draft.dst);
        if !satisfiable {
            sink.findings.push(
                Finding::warning(pattern_span, "this schedule never fires")
                    .help("no date matches its day and month fields"),
            );
        } else if schedule.next_after(UtcSecond::clamped(HORIZON.start - 1)).is_none() {
            sink.findings.push(
                Finding::warning(pattern_span, "this schedule has no period from 2026-01-01 on")
                    .help("all years that its year field names are past"),
            );
        }
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
