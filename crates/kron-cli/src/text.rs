//! Texts for people: columns, counts, differences of time.

use std::io;

use kron_core::{Seconds, UtcSecond, Wall, Zone};

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
