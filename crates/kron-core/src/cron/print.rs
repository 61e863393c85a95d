//! The canonical text of a pattern: the same set always prints the same way.

use std::fmt;

use super::{ALL_MONTHS, Combination, DaysOfMonth, DaysOfWeek, Pattern, YEARS, bits};

const MONTH_NAMES: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
pub(crate) const WEEKDAY_NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The name of a month, 1 to 12.
pub(crate) fn month_name(month: u32) -> &'static str {
    MONTH_NAMES[(month as usize + 11) % 12]
}

/// The name of a day of the week, 0 = Sunday.
pub(crate) fn weekday_name(weekday: u32) -> &'static str {
    WEEKDAY_NAMES[weekday as usize % 7]
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: u32| value.to_string();
        let mut fields = Vec::with_capacity(7);
        if self.seconds != 1 || self.years.is_some() {
            fields.push(set_text(self.seconds, 0, 59, number));
        }
        fields.push(set_text(self.minutes, 0, 59, number));
        fields.push(set_text(u64::from(self.hours), 0, 23, number));
        fields.push(days_text(&self.days, self.combination));
        fields.push(if self.months == ALL_MONTHS {
            "*".to_owned()
        } else {
            set_text(u64::from(self.months), 1, 12, |month| month_name(month).to_owned())
        });
        fields.push(self.weekdays_text());
        if let Some(years) = &self.years {
            let set: Vec<u32> = years
                .iter()
                .zip(0u32..)
                .flat_map(|(&word, index)| {
                    bits(word).map(move |bit| index * 64 + bit + *YEARS.start() as u32)
                })
                .collect();
            fields.push(list_text(&set, *YEARS.start() as u32, *YEARS.end() as u32, number));
        }
        f.pad(&fields.join(" "))
    }
}

impl Pattern {
    fn weekdays_text(&self) -> String {
        let text = weekday_list_text(&self.weekdays);
        // Both fields narrow the day without an asterisk to say so: `+` is the portable way.
        let both = self.combination == Combination::Both
            && !self.days.is_every_day()
            && !self.weekdays.is_every_day();
        if both { format!("+{text}") } else { text }
    }
}

fn days_text(days: &DaysOfMonth, combination: Combination) -> String {
    let mut items = Vec::new();
    if days.plain != 0 {
        items.push(set_text(u64::from(days.plain), 1, 31, |day| day.to_string()));
    }
    items.extend(bits(u64::from(days.nearest_weekday)).map(|day| format!("{day}W")));
    items.extend(bits(u64::from(days.from_last)).map(|before| match before {
        0 => "L".to_owned(),
        _ => format!("L-{before}"),
    }));
    if days.last_weekday {
        items.push("LW".to_owned());
    }
    // An asterisk at the front would make the field unrestricted: spell its range out.
    if combination == Combination::Either {
        items[0] = items[0].replacen('*', "1-31", 1);
    }
    items.join(",")
}

fn weekday_list_text(weekdays: &DaysOfWeek) -> String {
    if weekdays.is_every_day() {
        return "*".to_owned();
    }
    let mut items = Vec::new();
    let plain: Vec<u32> = bits(u64::from(weekdays.plain)).collect();
    if !plain.is_empty() {
        items.push(runs_text(&plain, |day| weekday_name(day).to_owned()));
    }
    for (occurrence, set) in (1..).zip(weekdays.nth) {
        items.extend(bits(u64::from(set)).map(|day| format!("{}#{occurrence}", weekday_name(day))));
    }
    items.extend(bits(u64::from(weekdays.last)).map(|day| format!("{}#L", weekday_name(day))));
    items.join(",")
}

fn set_text(set: u64, low: u32, high: u32, name: impl Fn(u32) -> String + Copy) -> String {
    list_text(&bits(set).collect::<Vec<_>>(), low, high, name)
}

/// `*`, `*/n`, `a-b/n`, or runs.
fn list_text(values: &[u32], low: u32, high: u32, name: impl Fn(u32) -> String + Copy) -> String {
    if values.len() as u32 == high - low + 1 {
        return "*".to_owned();
    }
    if values.len() >= 3 {
        let step = values[1] - values[0];
        let regular = values.windows(2).all(|pair| pair[1] - pair[0] == step);
        let (first, last) = (values[0], values[values.len() - 1]);
        if regular && step > 1 {
            return if first == low && last + step > high {
                format!("*/{step}")
            } else {
                format!("{}-{}/{step}", name(first), name(last))
            };
        }
    }
    runs_text(values, name)
}

/// `a-b` for runs of three and more, single values otherwise.
pub(crate) fn runs_text(values: &[u32], name: impl Fn(u32) -> String) -> String {
    let mut items = Vec::new();
    let mut index = 0;
    while index < values.len() {
        let mut end = index;
        while end + 1 < values.len() && values[end + 1] == values[end] + 1 {
            end += 1;
        }
        if end - index >= 2 {
            items.push(format!("{}-{}", name(values[index]), name(values[end])));
        } else {
            items.extend(values[index..=end].iter().map(|&value| name(value)));
        }
        index = end + 1;
    }
    items.join(",")
}
