//! Clauses as people write them.

use super::{Clauses, Compiled, Constraints, Side};
use crate::civil::parse_date;
use crate::cron::{month_of_name, weekday_of_name};
use crate::finding::{Finding, Piece};

/// Clauses both sides together may have.
const CLAUSES_MAX: usize = 128;
/// Items one clause's list may have.
const LIST_ITEMS_MAX: usize = 512;
const KINDS: [&str; 7] = ["hours", "dow", "months", "dom", "between", "date", "dates"];

/// Collects clauses from as many texts as there are, then compiles them.
#[derive(Debug, Default)]
pub(crate) struct ConstraintParser {
    only: Clauses,
    avoid: Clauses,
    clause_count: usize,
}

impl ConstraintParser {
    /// Adds the clauses of one text, separated by `;`.
    pub(crate) fn side(&mut self, side: Side, piece: Piece<'_>, findings: &mut Vec<Finding>) {
        for clause in piece.split(';') {
            let clause = clause.trim();
            if clause.text.is_empty() {
                continue;
            }
            self.clause_count += 1;
            if self.clause_count > CLAUSES_MAX {
                findings.push(Finding::validation(
                    clause.span(),
                    format!("more than {CLAUSES_MAX} clauses"),
                ));
                return;
            }
            let clauses = match side {
                Side::Only => &mut self.only,
                Side::Avoid => &mut self.avoid,
            };
            if let Err(finding) = clauses.add(clause) {
                findings.push(finding);
            }
        }
    }

    pub(crate) fn finish(self) -> Constraints {
        if self.only.is_empty() && self.avoid.is_empty() {
            return Constraints(None);
        }
        Constraints(Some(Box::new(Compiled::new(self.only, self.avoid))))
    }
}

/// A malformed clause: a validation error by the error model.
fn malformed(piece: Piece<'_>, what: &str, expected: &str) -> Finding {
    Finding::validation(piece.span(), format!("`{}` is not {what}", piece.shown()))
        .help(format!("expected {expected}"))
}

impl Clauses {
    fn add(&mut self, clause: Piece<'_>) -> Result<(), Finding> {
        let Some((kind, list)) = clause.split_once('=') else {
            return Err(malformed(
                clause,
                "a clause",
                "one such as `hours=9-17`, `dow=MON-FRI`, `between=22:30-04:00` or `date=2026-12-25`",
            ));
        };
        let (kind, list) = (kind.trim(), list.trim());
        let items: Vec<Piece<'_>> =
            list.split(',').take(LIST_ITEMS_MAX + 1).map(|p| p.trim()).collect();
        if items.len() > LIST_ITEMS_MAX {
            return Err(Finding::validation(
                list.span(),
                format!("a list of more than {LIST_ITEMS_MAX} items"),
            ));
        }
        for item in items {
            match kind.text {
                "hours" => *self.hours.get_or_insert(0) |= circle(item, &HOURS)? as u32,
                "dow" => {
                    let set = circle(item, &WEEKDAYS)?;
                    *self.weekdays.get_or_insert(0) |= (set & 0x7F) as u8;
                }
                "months" => *self.months.get_or_insert(0) |= circle(item, &MONTHS)? as u16,
                "dom" => *self.days.get_or_insert(0) |= circle(item, &DAYS)? as u32,
                "between" => self.between.push(clock_range(item)?),
                "date" | "dates" => self.dates.push(date_range(item)?),
                _ => {
                    return Err(Finding::validation(
                        kind.span(),
                        format!("unknown constraint `{}`", kind.shown()),
                    )
                    .nearest(
                        kind.text,
                        KINDS,
                        "expected hours, dow, months, dom, between, date or dates",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Values a list clause takes.
struct Values {
    what: &'static str,
    low: u32,
    high: u32,
    /// The value that is written in a second way, and what it means: Sunday as 7.
    alias: Option<(u32, u32)>,
    wraps: bool,
    of_name: fn(&str) -> Option<u32>,
    expected: &'static str,
}

static HOURS: Values = Values {
    what: "an hour",
    low: 0,
    high: 23,
    alias: None,
    wraps: true,
    of_name: |_| None,
    expected: "hours from 0 to 23, such as `9`, `9-17` or `22-4`",
};
static WEEKDAYS: Values = Values {
    what: "a day of the week",
    low: 0,
    high: 6,
    alias: Some((7, 0)),
    wraps: true,
    of_name: weekday_of_name,
    expected: "days such as `MON`, `1-5` or `FRI-MON`",
};
static MONTHS: Values = Values {
    what: "a month",
    low: 1,
    high: 12,
    alias: None,
    wraps: true,
    of_name: month_of_name,
    expected: "months such as `DEC`, `6-8` or `NOV-FEB`",
};
static DAYS: Values = Values {
    what: "a day of the month",
    low: 1,
    high: 31,
    alias: None,
    wraps: false,
    of_name: |_| None,
    expected: "days from 1 to 31, such as `1` or `25-31`",
};

fn circle(item: Piece<'_>, values: &Values) -> Result<u64, Finding> {
    let value = |piece: Piece<'_>| {
        let piece = piece.trim();
        let number = crate::civil::digits(piece.text.as_bytes()).map(|number| match values.alias {
            Some((written, meant)) if number == written => meant,
            _ => number,
        });
        number
            .filter(|number| (values.low..=values.high).contains(number))
            .or_else(|| (values.of_name)(piece.text))
            .ok_or_else(|| malformed(piece, values.what, values.expected))
    };
    let Some((from, to)) = item.split_once('-') else {
        return Ok(1 << value(item)?);
    };
    let (from, mut to) = (value(from)?, value(to)?);
    if from > to {
        if !values.wraps {
            return Err(Finding::validation(
                item.span(),
                format!("the range `{}` runs backwards", item.shown()),
            ));
        }
        to += values.high - values.low + 1;
    }
    let size = values.high - values.low + 1;
    Ok((from..=to).fold(0, |set, value| set | 1 << (values.low + (value - values.low) % size)))
}

fn clock_range(item: Piece<'_>) -> Result<(u16, u16), Finding> {
    let expected = "two times of day, such as `22:30-04:00`";
    let clock = |piece: Piece<'_>| {
        let piece = piece.trim();
        let parts = piece.text.split_once(':').filter(|(h, m)| h.len() == 2 && m.len() == 2);
        parts
            .and_then(|(h, m)| {
                Some((crate::civil::digits(h.as_bytes())?, crate::civil::digits(m.as_bytes())?))
            })
            .filter(|&(hour, minute)| hour <= 23 && minute <= 59)
            .map(|(hour, minute)| (hour * 60 + minute) as u16)
            .ok_or_else(|| malformed(piece, "a time of day", expected))
    };
    let (from, to) =
        item.split_once('-').ok_or_else(|| malformed(item, "a range of times", expected))?;
    Ok((clock(from)?, clock(to)?))
}

fn date_range(item: Piece<'_>) -> Result<(i32, i32), Finding> {
    let expected = "a date such as `2026-12-25`, or a range such as `2026-12-24..2027-01-02`";
    let date = |piece: Piece<'_>| {
        let piece = piece.trim();
        parse_date(piece.text)
            .map(|date| date.to_days() as i32)
            .ok_or_else(|| malformed(piece, "a date", expected))
    };
    let (first, last) = match item.text.find("..") {
        None => {
            let day = date(item)?;
            (day, day)
        }
        Some(dots) => (date(item.slice(0..dots))?, date(item.slice(dots + 2..item.text.len()))?),
    };
    if first > last {
        return Err(Finding::validation(
            item.span(),
            format!("the range `{}` runs backwards", item.shown()),
        ));
    }
    Ok((first, last))
}
