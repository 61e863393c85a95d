//! From the schedule of a CronJob to that of a KronJob.
//!
//! The CronJob controller reads schedules with robfig/cron, which is not quite the cron of the manual
//! pages: `*/2` of a day counts as a restriction, `5/10` begins at 5, `?` is `*` everywhere, and
//! `@every` counts from the last run. What is written here means the same to Kron, or nothing is
//! written.

use kron_core::{Seconds, UtcSecond};

/// A schedule that Kron reads as the CronJob controller reads the old one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    /// Cron fields or a nickname.
    pub(super) schedule: String,
    /// The zone that the schedule itself says.
    pub(super) zone: Option<String>,
    /// What a reader of both will wonder about.
    pub(super) notes: Vec<String>,
}

/// The largest value of each of the five fields, and where the field begins.
const BOUNDS: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
const DAY_OF_MONTH: usize = 2;
const DAY_OF_WEEK: usize = 4;

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// Translates a schedule. `@every` counts from `anchor`: the last run, or the creation.
pub(super) fn translate(text: &str, anchor: Option<UtcSecond>) -> Result<Translated, String> {
    let mut notes = Vec::new();
    let mut rest = text.trim();
    let mut zone = None;
    let prefixed = rest.strip_prefix("CRON_TZ=").or_else(|| rest.strip_prefix("TZ="));
    if let Some(prefixed) = prefixed {
        let (name, fields) = prefixed
            .split_once(char::is_whitespace)
            .ok_or_else(|| format!("`{text}` has a zone and no schedule"))?;
        zone = Some(name.to_owned());
        rest = fields.trim();
        notes.push(format!("the zone `{name}` of the schedule is now `timeZone`"));
    }
    if let Some(interval) = rest.strip_prefix("@every ") {
        let (schedule, note) = every(interval.trim(), anchor)?;
        notes.push(note);
        // A length of time knows no zone.
        return Ok(Translated { schedule, zone: Some("UTC".to_owned()), notes });
    }
    if rest.starts_with('@') {
        return Ok(Translated { schedule: rest.to_owned(), zone, notes });
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let fields: [&str; 5] = fields
        .try_into()
        .map_err(|fields: Vec<&str>| format!("`{rest}` has {} fields, not 5", fields.len()))?;
    let mut written: Vec<String> =
        fields.iter().zip(BOUNDS).map(|(field, bounds)| plain(field, bounds)).collect();
    let days = [DAY_OF_MONTH, DAY_OF_WEEK];
    if days.iter().all(|&day| !is_any(fields[day])) {
        for day in days {
            let (least, most) = BOUNDS[day];
            // Kron, as cron does, takes a field that begins with a star for unrestricted.
            if let Some(step) = written[day].strip_prefix("*/") {
                let range = format!("{least}-{most}/{step}");
                notes.push(format!(
                    "`{}` is written as `{range}`: a CronJob runs when either of its day fields \
                     matches, and so it stays",
                    fields[day]
                ));
                written[day] = range;
            }
        }
    }
    Ok(Translated { schedule: written.join(" "), zone, notes })
}

/// Whether the CronJob controller takes a field for unrestricted.
fn is_any(field: &str) -> bool {
    field.split(',').any(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let low = range.split('-').next().unwrap_or(range);
        (low == "*" || low == "?") && matches!(step.parse(), Ok(0 | 1))
    })
}

/// A field as Kron reads it.
fn plain(field: &str, (_, most): (u32, u32)) -> String {
    if is_any(field) {
        return "*".to_owned();
    }
    let part = |part: &str| match part.split_once('/') {
        Some(("*" | "?", step)) => format!("*/{step}"),
        // From there to the end.
        Some((low, step)) if !low.contains('-') => format!("{low}-{most}/{step}"),
        _ => part.to_owned(),
    };
    let parts: Vec<String> = field.split(',').filter(|it| !it.is_empty()).map(part).collect();
    parts.join(",")
}

/// A length of time as cron fields, with what there is to say about it.
fn every(interval: &str, anchor: Option<UtcSecond>) -> Result<(String, String), String> {
    let length = Seconds::parse(interval)
        .map_err(|finding| format!("`@every {interval}`: {}", finding.message))?
        .get();
    let divides = |whole: u64| length > 0 && whole.is_multiple_of(length);
    let phase = anchor.map_or(0, |at| at.unix().rem_euclid(length.max(1) as i64) as u64);
    let (second, minute, hour) = (phase % MINUTE, phase / MINUTE % 60, phase / HOUR);
    let steps = |first: u64, step: u64, whole: u64| match (first, step) {
        (_, 1) => "*".to_owned(),
        (first, step) if step == whole => first.to_string(),
        (0, step) => format!("*/{step}"),
        (first, step) => format!("{first}-{}/{step}", whole - 1),
    };
    let fields = if divides(MINUTE) {
        format!("{} * * * * *", steps(second, length, MINUTE))
    } else if divides(HOUR) && length.is_multiple_of(MINUTE) {
        format!("{second} {} * * * *", steps(minute, length / MINUTE, 60))
    } else if divides(DAY) && length.is_multiple_of(HOUR) {
        format!("{second} {minute} {} * * *", steps(hour, length / HOUR, 24))
    } else {
        return Err(format!(
            "`@every {interval}` has no equal: it is not an even part of a minute, an hour or a \
             day; give the CronJob cron fields first"
        ));
    };
    // Without seconds, as most people write it.
    let schedule = fields.strip_prefix("0 ").map_or(fields.clone(), str::to_owned);
    let note = match anchor {
        Some(anchor) => format!(
            "`@every {interval}` is written as `{schedule}`: the same times, counted from {anchor}"
        ),
        None => format!(
            "`@every {interval}` is written as `{schedule}`: a CronJob counts from its last run, \
             this does not"
        ),
    };
    Ok((schedule, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let anchor = "2026-03-01T10:17:23Z".parse().ok();
        match (translate(text, anchor), expected) {
            (Ok(translated), Ok(schedule)) => assert_eq!(translated.schedule, schedule, "{text}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
            (other, expected) => panic!("{text}: {other:?}, not {expected:?}"),
        }
    }

    #[test]
    fn schedules_mean_the_same_or_are_refused() {
        check("0 3 * * *", Ok("0 3 * * *"));
        check("  0   3 * *  mon-FRI ", Ok("0 3 * * mon-FRI"));
        check("? ? ? ? ?", Ok("* * * * *"));
        check("5/10 4/6 * 3/2 *", Ok("5-59/10 4-23/6 * 3-12/2 *"));
        check("0,,30 * * * *", Ok("0,30 * * * *"));
        check("1,* * * * *", Ok("* * * * *"));
        check("*/1 * * * *", Ok("* * * * *"));
        check("@daily", Ok("@daily"));
        check("TZ=Asia/Tokyo 0 3 * * *", Ok("0 3 * * *"));
        check("CRON_TZ=Asia/Tokyo @weekly", Ok("@weekly"));
        check("0 3 * *", Err("4 fields"));
        check("TZ=UTC", Err("no schedule"));
    }

    #[test]
    fn a_step_of_a_day_is_a_restriction() {
        check("0 0 */2 * 1", Ok("0 0 1-31/2 * 1"));
        check("0 0 1 * */2", Ok("0 0 1 * 0-6/2"));
        check("0 0 */2 * */3", Ok("0 0 1-31/2 * 0-6/3"));
        // Where the other day is free there is nothing to decide.
        check("0 0 */2 * *", Ok("0 0 */2 * *"));
        check("0 0 * * */2", Ok("0 0 * * */2"));
        check("0 0 1,* * 1", Ok("0 0 * * 1"));
    }

    #[test]
    fn lengths_of_time_keep_their_phase() {
        check("@every 30s", Ok("23-59/30 * * * * *"));
        check("@every 1m", Ok("23 * * * * *"));
        check("@every 5m", Ok("23 2-59/5 * * * *"));
        check("@every 1h", Ok("23 17 * * * *"));
        check("@every 6h", Ok("23 17 4-23/6 * * *"));
        check("@every 24h", Ok("23 17 10 * * *"));
        check("@every 1h30m", Err("no equal"));
        check("@every 7m", Err("no equal"));
        check("@every 45s", Err("no equal"));
        check("@every 48h", Err("no equal"));
        check("@every 0s", Err("no equal"));
        check("@every soon", Err("@every soon"));
    }

    #[test]
    fn without_an_anchor_lengths_begin_at_the_hour() {
        for (text, expected) in [("@every 1s", "* * * * * *"), ("@every 15m", "*/15 * * * *")] {
            assert_eq!(translate(text, None).unwrap().schedule, expected);
        }
    }

    #[test]
    fn a_zone_of_the_schedule_is_taken() {
        let translated = translate("CRON_TZ=Asia/Tokyo 0 3 * * *", None).unwrap();
        assert_eq!(translated.zone.as_deref(), Some("Asia/Tokyo"));
        assert_eq!(translate("@every 1h", None).unwrap().zone.as_deref(), Some("UTC"));
    }

    /// What the library of the CronJob controller has computed, for schedules of all shapes.
    const TIMES: &str = include_str!("../../../tests/fixtures/cronjob-times.tsv");

    #[test]
    fn times_are_those_of_the_cronjob_controller() {
        let mut checked = 0;
        for line in TIMES.lines().filter(|line| !line.starts_with('#')) {
            let mut cells = line.split('\t');
            let (zone, old, times) = (cells.next(), cells.next(), cells.next());
            let (zone, old, times) = (zone.unwrap(), old.unwrap(), times.unwrap());
            let new = translate(old, None).unwrap().schedule;
            let expression = format!("{new} @tz({zone}) @dst(gap=skip,overlap=both)");
            let timing = kron_core::TimingParser::new()
                .parse(&expression, "a", kron_core::Host::default())
                .unwrap_or_else(|error| panic!("{old}: {expression}: {error:?}"));
            let after = "2026-03-28T00:00:00Z".parse().unwrap();
            let found: Vec<String> = timing
                .schedule()
                .after(after)
                .take(times.split(' ').count())
                .map(|t| t.to_string())
                .collect();
            assert_eq!(found.join(" "), times, "{zone}: {old} as {new}");
            checked += 1;
        }
        assert!(checked > 100, "{checked} schedules");
    }
}
