//! A schedule as people say it: `every 5 minutes`, `daily at 03:00 Europe/Paris within 2h`.
//!
//! Only for looking at. What cannot be said shortly and truly keeps its pattern: a wrong sentence
//! is worse than a cron field. Nothing is checked here; a schedule of a newer daemon may hold
//! anything.

/// The words for a schedule with its modifiers.
pub(crate) fn words(expression: &str) -> String {
    let (pattern, modifiers) = split(expression);
    let fields: Vec<&str> = pattern.split_whitespace().collect();
    let mut words = pattern_words(&fields).unwrap_or_else(|| fields.join(" "));
    let mut say = |more: String| {
        words.push(' ');
        words.push_str(&more);
    };
    if let Some(zone) = argument(&modifiers, "tz").filter(|zone| *zone != "UTC") {
        say(zone.to_owned());
    }
    match argument(&modifiers, "win").and_then(|window| window.split_once(',')) {
        Some((_, "0s")) | None => {}
        Some(("after", length)) => say(format!("within {length}")),
        Some(("before", length)) => say(format!("up to {length} before")),
        Some((mode, length)) => say(format!("within {length} {mode}")),
    }
    if argument(&modifiers, "only").is_some() || argument(&modifiers, "avoid").is_some() {
        say("where allowed".to_owned());
    }
    words
}

/// The pattern, and each modifier's name and arguments.
fn split(expression: &str) -> (&str, Vec<(&str, &str)>) {
    let is_nickname = |rest: &str| {
        let name = rest.split_whitespace().next().unwrap_or(rest);
        !name.contains('(')
    };
    let start = expression
        .match_indices('@')
        .map(|(at, _)| at)
        .find(|&at| !is_nickname(&expression[at..]))
        .unwrap_or(expression.len());
    let (pattern, mut rest) = expression.split_at(start);
    let mut modifiers = Vec::new();
    while let Some(open) = rest.find('(') {
        let name = rest[..open].trim().trim_start_matches('@');
        let arguments = &rest[open + 1..];
        let close = closing(arguments);
        modifiers.push((name, &arguments[..close]));
        rest = arguments.get(close + 1..).unwrap_or("");
    }
    (pattern, modifiers)
}

/// Where the parenthesis closes that is open at the start. Quoted text may hold others.
fn closing(text: &str) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b')' if !is_quoted => return at,
            _ => {}
        }
    }
    text.len()
}

fn argument<'a>(modifiers: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    modifiers.iter().find(|(known, _)| *known == name).map(|(_, arguments)| *arguments)
}

/// A field, as far as there are words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Any,
    Every(u32),
    One(u32),
}

impl Field {
    /// Reads a field that has `whole` values from 0 on.
    fn read(text: &str, whole: u32) -> Option<Field> {
        match text {
            "*" | "?" => return Some(Field::Any),
            _ => {}
        }
        if let Some(step) = text.strip_prefix("*/") {
            return step.parse().ok().map(Field::Every);
        }
        let values: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
        match *values.ok()?.as_slice() {
            [value] => Some(Field::One(value)),
            // Steps are also written as the list that they are.
            [0, step, ref rest @ ..] => {
                let is_even =
                    (2..).zip(rest).all(|(nth, value)| step.checked_mul(nth) == Some(*value));
                let count = rest.len() as u32 + 2;
                (is_even && step.checked_mul(count) == Some(whole)).then_some(Field::Every(step))
            }
            _ => None,
        }
    }
}

/// When in a day.
enum Times {
    /// Again and again.
    Repeated(String),
    /// At one time of the day.
    At(String),
}

fn pattern_words(fields: &[&str]) -> Option<String> {
    let (second, rest) = match *fields {
        ["@hourly"] => return Some("hourly".to_owned()),
        ["@daily" | "@midnight"] => return Some("daily at 00:00".to_owned()),
        ["@weekly"] => return Some("Sun at 00:00".to_owned()),
        ["@monthly"] => return Some("monthly on day 1 at 00:00".to_owned()),
        ["@yearly" | "@annually"] => return Some("yearly on Jan 1 at 00:00".to_owned()),
        [_, _, _, _, _] => ("0", fields),
        [second, _, _, _, _, _] | [second, _, _, _, _, _, "*"] => (second, &fields[1..6]),
        _ => return None,
    };
    let [minute, hour, day, month, weekday] = *rest else { return None };
    let times = times(Field::read(second, 60)?, Field::read(minute, 60)?, Field::read(hour, 24)?)?;
    let days = match (Field::read(day, 0), month, weekday) {
        (Some(Field::Any), "*", "*" | "?") => None,
        (Some(Field::Any), "*", weekday) => Some(weekdays(weekday)?),
        (Some(Field::One(day)), "*", "*" | "?") => Some(format!("monthly on day {day}")),
        (Some(Field::One(day)), month, "*" | "?") => {
            Some(format!("yearly on {} {day}", name_of(month, &MONTHS, 1)?))
        }
        _ => return None,
    };
    Some(match (times, days) {
        (Times::Repeated(often), None) => often,
        (Times::Repeated(often), Some(days)) => format!("{often}, {days}"),
        (Times::At(time), None) => format!("daily at {time}"),
        (Times::At(time), Some(days)) => format!("{days} at {time}"),
    })
}

fn times(second: Field, minute: Field, hour: Field) -> Option<Times> {
    use Field::{Any, Every, One};
    let past = |second: u32| match second {
        0 => String::new(),
        second => format!(" at second {second}"),
    };
    let clock = |minute: u32, second: u32| match second {
        0 => format!(":{minute:02}"),
        second => format!(":{minute:02}:{second:02}"),
    };
    Some(Times::Repeated(match (second, minute, hour) {
        (Any | Every(1), Any, Any) => "every second".to_owned(),
        // A step that does not divide its field is not the same distance every time.
        (Every(step), Any, Any) if divides(step, 60) => format!("every {step} seconds"),
        (One(second), Any | Every(1), Any) => format!("every minute{}", past(second)),
        (One(second), Every(step), Any) if divides(step, 60) => {
            format!("every {step} minutes{}", past(second))
        }
        (One(0), One(0), Any | Every(1)) => "hourly".to_owned(),
        (One(second), One(minute), Any | Every(1)) => {
            format!("hourly at {}", clock(minute, second))
        }
        (One(0), One(0), Every(step)) if divides(step, 24) => format!("every {step} hours"),
        (One(second), One(minute), Every(step)) if divides(step, 24) => {
            format!("every {step} hours at {}", clock(minute, second))
        }
        (One(second), One(minute), One(hour)) => {
            return Some(Times::At(format!("{hour:02}{}", clock(minute, second))));
        }
        _ => return None,
    }))
}

fn divides(step: u32, whole: u32) -> bool {
    step > 1 && whole.is_multiple_of(step)
}

const WEEKDAYS: [&str; 8] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Days of the week, ranges and lists of them.
fn weekdays(text: &str) -> Option<String> {
    let name = |day: &str| name_of(day, &WEEKDAYS, 0);
    let range = |range: &str| match range.split_once('-') {
        Some((first, last)) => Some(format!("{}-{}", name(first)?, name(last)?)),
        None => Some(name(range)?.to_owned()),
    };
    let ranges: Option<Vec<String>> = text.split(',').map(range).collect();
    Some(ranges?.join(","))
}

/// The name of a day or a month that is given by its name or its number.
fn name_of(text: &str, names: &[&'static str], first: usize) -> Option<&'static str> {
    let by_number = |number: usize| names.get(number.checked_sub(first)?).copied();
    let by_name = || names.iter().find(|name| name.eq_ignore_ascii_case(text)).copied();
    text.parse().ok().and_then(by_number).or_else(by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_words_or_keep_their_pattern() {
        for (expression, expected) in [
            ("* * * * * *", "every second"),
            ("*/5 * * * * *", "every 5 seconds"),
            ("*/20 * * * * * @win(after,15s)", "every 20 seconds within 15s"),
            ("*/7 * * * * *", "*/7 * * * * *"),
            ("* * * * *", "every minute"),
            ("30 * * * * *", "every minute at second 30"),
            ("*/5 * * * *", "every 5 minutes"),
            ("*/5 * * * MON-FRI", "every 5 minutes, Mon-Fri"),
            ("*/50 * * * *", "*/50 * * * *"),
            ("0 * * * *", "hourly"),
            ("15 * * * *", "hourly at :15"),
            ("0 */6 * * *", "every 6 hours"),
            ("30 */6 * * *", "every 6 hours at :30"),
            ("0 */5 * * *", "0 */5 * * *"),
            ("0 3 * * *", "daily at 03:00"),
            ("5 0 3 * * * *", "daily at 03:00:05"),
            ("0 0 3 * * * 2027", "0 0 3 * * * 2027"),
            ("30 7 * * 1-5", "Mon-Fri at 07:30"),
            ("30 7 * * sat,7", "Sat,Sun at 07:30"),
            ("0 9 * * MON#2", "0 9 * * MON#2"),
            ("0 0 1 * *", "monthly on day 1 at 00:00"),
            ("0 0 L * *", "0 0 L * *"),
            ("0 0 1 JAN *", "yearly on Jan 1 at 00:00"),
            ("0 0 1 12 ?", "yearly on Dec 1 at 00:00"),
            // Either of them counts, which no short word says.
            ("0 0 1 * MON", "0 0 1 * MON"),
            ("0 0 1 1-3 *", "0 0 1 1-3 *"),
            ("H 3 * * *", "H 3 * * *"),
            ("H(0-29) 3 * * * @tz(Asia/Tokyo)", "H(0-29) 3 * * * Asia/Tokyo"),
            ("0,30 * * * *", "every 30 minutes"),
            ("0,20,40 * * * * *", "every 20 seconds"),
            ("0 0,8,16 * * *", "every 8 hours"),
            ("0,20 * * * *", "0,20 * * * *"),
            ("10,40 * * * *", "10,40 * * * *"),
            ("@daily @win(before,1h)", "daily at 00:00 up to 1h before"),
            ("@hourly", "hourly"),
            (
                "0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly,shape=2)",
                "daily at 03:00 Europe/Paris within 2h",
            ),
            (
                "0 3 * * * @win(around,2h) @avoid(dow=SUN)",
                "daily at 03:00 within 2h around where allowed",
            ),
            (
                r#"0 3 * * * @seed(stable,salt="\")@tz(x") @win(after,1m)"#,
                "daily at 03:00 within 1m",
            ),
            ("something @new(of=a", "something"),
            ("", ""),
        ] {
            assert_eq!(words(expression), expected, "{expression}");
        }
    }
}
