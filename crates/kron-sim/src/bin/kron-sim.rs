//! Plays seeded histories and says what is wrong with them.
//!
//! `kron-sim --from 0 --seeds 1000` plays a thousand; `--job-years 1000000` goes on until that
//! many have passed; `--tell SEED` tells one in words. `--threads N` says how many are played at
//! the same time, `--only busy` or `--only long` leaves out the other kind of world, and
//! `--repeat N` says that one in `N` is played twice and compared.

use std::io::{self, Write as _};
use std::num::NonZero;
use std::process::ExitCode;
use std::thread::available_parallelism;

use kron_sim::{Sabotage, Soak, Tell, Worlds, run};

/// One in so many histories is played twice where nothing else is said.
const REPEAT_ONE_IN: NonZero<u64> = NonZero::new(25).expect("it is not 0");

fn main() -> io::Result<ExitCode> {
    let mut soak = Soak {
        from: 0,
        seeds_max: u64::MAX,
        job_years: f64::INFINITY,
        threads: available_parallelism().unwrap_or(NonZero::<usize>::MIN),
        repeat_one_in: REPEAT_ONE_IN,
        worlds: Worlds::Both,
        sabotage: Sabotage::Nothing,
    };
    let mut tell = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| wrong(format!("`{name}` needs a value")))?;
        let number = value.parse::<u64>().map_err(|_| wrong(format!("`{value}` is no number")));
        let zero = || wrong(format!("`{name}` must not be 0"));
        match name.as_str() {
            "--from" => soak.from = number?,
            "--seeds" => soak.seeds_max = number?,
            "--job-years" => soak.job_years = number? as f64,
            "--threads" => {
                let threads = usize::try_from(number?).map_err(wrong)?;
                soak.threads = NonZero::new(threads).ok_or_else(zero)?;
            }
            "--repeat" => soak.repeat_one_in = NonZero::new(number?).ok_or_else(zero)?,
            "--only" => {
                soak.worlds = match value.as_str() {
                    "busy" => Worlds::Busy,
                    "long" => Worlds::Long,
                    _ => return Err(wrong(format!("worlds are `busy` or `long`, not `{value}`"))),
                }
            }
            "--tell" => tell = Some(number?),
            _ => return Err(wrong(format!("unknown option `{name}`"))),
        }
    }
    if tell.is_none() && soak.seeds_max == u64::MAX && soak.job_years.is_infinite() {
        return Err(wrong("say `--seeds N`, `--job-years N` or `--tell SEED`"));
    }
    let mut out = io::stdout().lock();
    let Some(seed) = tell else {
        let verdict = soak.play(&mut out)?;
        return Ok(ExitCode::from(u8::from(!verdict.faulty.is_empty())));
    };
    let outcome = run(soak.worlds.scenario(seed), Tell::Everything);
    for line in &outcome.story {
        writeln!(out, "{line}")?;
    }
    for fault in &outcome.faults {
        writeln!(out, "FAULT {fault}")?;
    }
    Ok(ExitCode::from(u8::from(!outcome.faults.is_empty())))
}

fn wrong(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
