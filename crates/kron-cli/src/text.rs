//! Texts for people: columns, counts, differences of time.

use std::io;

use kron_core::{Seconds, UtcSecond, Wall, Zone};
use serde::Serialize;

/// Writes rows with their columns aligned, two blanks apart.
pub(crate) fn write_table(
    out: &mut dyn io::Write,
    indent: &str,
    rows: &[Vec<String>],
) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let mut line = String::from(indent);
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// `1 period`, `2 periods`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A difference of time with its sign, such as `+12m45s`.
pub(crate) fn signed(seconds: i64) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    format!("{sign}{}", Seconds::new(seconds.unsigned_abs()))
}

/// The day of the week in `zone`, three letters.
pub(crate) fn weekday(t: UtcSecond, zone: &Zone) -> &'static str {
    let names = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    names[usize::from(zone.wall_at(t).date().weekday())]
}

/// What a clock on the wall shows, `HH:MM:SS`.
pub(crate) fn clock_face(wall: Wall) -> String {
    let second = wall.second_of_day();
    format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// Writes a list of words after `label`, broken into lines that begin below the first word.
pub(crate) fn write_wrapped(
    out: &mut dyn io::Write,
    label: &str,
    words: &[String],
) -> io::Result<()> {
    const LINE_CHARS_MAX: usize = 100;
    let indent = label.chars().count();
    let mut line = String::from(label);
    let mut used = indent;
    for word in words {
        let length = word.chars().count() + 1;
        if used > indent && used + length > LINE_CHARS_MAX {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
            used = indent;
        }
        line.push_str(word);
        line.push(' ');
        used += length;
    }
    writeln!(out, "{}", line.trim_end())
}

/// Writes a text broken into lines at its blanks.
pub(crate) fn write_paragraph(out: &mut dyn io::Write, text: &str) -> io::Result<()> {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    write_wrapped(out, "", &words)
}

/// Writes a value as one line of JSON.
pub(crate) fn write_json(out: &mut dyn io::Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

/// A length of time, such as `2h13m`.
pub(crate) fn duration(seconds: i64) -> String {
    Seconds::new(seconds.unsigned_abs()).to_string()
}

/// A length of time to the two greatest units, such as `2h13m` or `3d4h`.
pub(crate) fn brief(seconds: i64) -> String {
    let seconds = seconds.unsigned_abs();
    let kept = match seconds {
        0..3_600 => seconds,
        3_600..86_400 => seconds - seconds % 60,
        _ => seconds - seconds % 3_600,
    };
    Seconds::new(kept).to_string()
}

/// How long ago something was, or how far ahead when clocks disagree.
pub(crate) fn ago(at: UtcSecond, now: UtcSecond) -> String {
    let seconds = now.since(at);
    if seconds < 0 { until(at, now) } else { format!("{} ago", duration(seconds)) }
}

/// How far ahead something is; with a sign when it is past.
pub(crate) fn until(at: UtcSecond, now: UtcSecond) -> String {
    let seconds = at.since(now);
    if seconds < 0 { format!("-{}", duration(seconds)) } else { duration(seconds) }
}

/// A time on the clocks of a zone; in UTC when this build does not know the zone.
pub(crate) fn local(at: UtcSecond, zone: &str) -> String {
    match Zone::named(zone) {
        Ok(zone) if zone.name() != "UTC" => zone.wall_at(at).to_string(),
        _ => at.to_string(),
    }
}

/// A time on the clocks of a zone and, where that is another, in UTC.
pub(crate) fn local_and_utc(at: UtcSecond, zone: &str) -> String {
    let (local, utc) = (local(at, zone), at.to_string());
    if local == utc { utc } else { format!("{local} ({utc})") }
}

/// Words as a shell would take them.
pub(crate) fn command_line(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte))
    };
    let quoted = |word: &String| {
        if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
