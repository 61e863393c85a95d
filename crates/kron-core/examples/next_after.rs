//! The next nominal time of many schedules: a line in, a line out.
//!
//! Reads `pattern<TAB>zone<TAB>instant` lines and writes the first nominal time after each
//! instant, `never`, or `error: …`. Other implementations are compared with Kron through it.
//!
//! ```text
//! $ printf '30 2 * * *\tEurope/Paris\t2026-03-28T12:00:00Z\n' | cargo run -q --example next_after
//! 2026-03-29T01:30:00Z
//! ```

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufWriter, Write as _};

use kron_core::{Dst, Finding, Pattern, Schedule, UtcSecond, Zone};

fn main() -> io::Result<()> {
    let mut zones = HashMap::new();
    let mut output = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        match answer(&line?, &mut zones) {
            Ok(Some(next)) => writeln!(output, "{next}")?,
            Ok(None) => writeln!(output, "never")?,
            Err(finding) => writeln!(output, "error: {finding}")?,
        }
    }
    output.flush()
}

fn answer(line: &str, zones: &mut HashMap<String, Zone>) -> Result<Option<UtcSecond>, Finding> {
    let mut columns = line.split('\t');
    let (Some(pattern), Some(name), Some(instant), None) =
        (columns.next(), columns.next(), columns.next(), columns.next())
    else {
        return Err(Finding::configuration(0..line.len(), "expected pattern, zone and instant"));
    };
    let zone = match zones.get(name) {
        Some(zone) => zone.clone(),
        None => zones.entry(name.to_owned()).or_insert(Zone::named(name)?).clone(),
    };
    let pattern = Pattern::parse(pattern, "next_after")?;
    let schedule = Schedule::new(pattern, zone, Dst::default());
    Ok(schedule.next_after(instant.parse()?))
}
