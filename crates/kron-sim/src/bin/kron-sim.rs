//! Plays seeded histories and says what is wrong with them.
//!
//! `kron-sim --from 0 --seeds 1000` plays a thousand; `--job-years 1000000` goes on until that
//! many have passed; `--tell SEED` tells one in words.

use std::io::{self, Write as _};
use std::process::ExitCode;

use kron_sim::{Scenario, Tell, run};

fn main() -> io::Result<ExitCode> {
    let mut from = 0;
    let mut seeds = u64::MAX;
    let mut years = f64::INFINITY;
    let mut tell = None;
    let mut arguments = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        let number = value.parse::<u64>().map_err(io::Error::other)?;
        match name.as_str() {
            "--from" => from = number,
            "--seeds" => seeds = number,
            "--job-years" => years = number as f64,
            "--tell" => tell = Some(number),
            _ => return Err(io::Error::other(format!("unknown option `{name}`"))),
        }
    }
    let mut out = io::stdout().lock();
    if let Some(seed) = tell {
        let outcome = run(Scenario::new(seed), Tell::Everything);
        for line in &outcome.story {
            writeln!(out, "{line}")?;
        }
        for fault in &outcome.faults {
            writeln!(out, "FAULT {fault}")?;
        }
        return Ok(ExitCode::from(u8::from(!outcome.faults.is_empty())));
    }
    let (mut played, mut passed_years, mut executed, mut lives, mut bad) =
        (0_u64, 0.0, 0, 0, 0_u64);
    while played < seeds && passed_years < years && (seeds != u64::MAX || years.is_finite()) {
        let scenario = Scenario::new(from + played);
        passed_years += scenario.job_years();
        let outcome = run(scenario, Tell::Nothing);
        executed += outcome.executed;
        lives += outcome.lives;
        for fault in &outcome.faults {
            writeln!(out, "seed {}: {fault}", from + played)?;
        }
        bad += u64::from(!outcome.faults.is_empty());
        played += 1;
        if played.is_multiple_of(10_000) {
            writeln!(out, "{played} histories, {passed_years:.0} job-years, {bad} with faults")?;
        }
    }
    writeln!(
        out,
        "{played} histories, {passed_years:.1} job-years, {executed} executions, {lives} daemons, {bad} with faults"
    )?;
    Ok(ExitCode::from(u8::from(bad > 0)))
}
