//! What each modifier's arguments mean.

use std::ops::Range;

use super::arguments::{duration_of, each_key, leading, word};
use super::{Argument, Draft, Host, at};
use crate::distribution::{Direction, Distribution, Mu, SIGMA_DEFAULT};
use crate::finding::{Finding, excerpt};
use crate::policy::Concurrency;
use crate::schedule::{Gap, Overlap};
use crate::seed::SeedStrategy;
use crate::window::{Window, WindowMode};

pub(super) fn apply_window(
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

pub(super) fn apply_distribution(
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

pub(super) fn apply_seed(draft: &mut Draft<'_>, arguments: &[Argument<'_>]) -> Result<(), Finding> {
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
                .help(format!("commands that look ahead take `{flag}`"))
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

pub(super) fn apply_policy(
    draft: &mut Draft<'_>,
    arguments: &[Argument<'_>],
) -> Result<(), Finding> {
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

pub(super) fn apply_dst(draft: &mut Draft<'_>, arguments: &[Argument<'_>]) -> Result<(), Finding> {
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
