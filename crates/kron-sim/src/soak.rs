//! Many histories on several threads, every one of them judged.
//!
//! Which seeds are played depends on what was asked for alone, not on how fast threads are: they
//! are handed out in order until enough job-years are on their way. Some of them are played a
//! second time, and must come out the same. A history that panics has a fault like any other.

use std::any::Any;
use std::io::{self, Write};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::checker::Fault;
use crate::scenario::{Sabotage, Scenario};
use crate::tally::{Happening, Tally};
use crate::world::{Outcome, Tell, run};

/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);
/// Faulty histories after which no more are played.
const FAULTY_MAX: usize = 20;
/// Faults that are told of one history.
const TOLD_MAX: usize = 5;

/// What is to be played.
#[derive(Clone, Debug)]
pub struct Soak {
    /// The first seed.
    pub from: u64,
    /// How many seeds at most.
    pub seeds_max: u64,
    /// How many job-years, at least, unless there are not enough seeds.
    pub job_years: f64,
    /// How many histories at the same time.
    pub threads: NonZero<usize>,
    /// One in so many histories is played twice and compared.
    pub repeat_one_in: NonZero<u64>,
    /// The worlds to play.
    pub worlds: Worlds,
    /// What is broken on purpose in all of them.
    pub sabotage: Sabotage,
}

/// Which kinds of worlds are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worlds {
    /// [`Scenario::new`]: both, in turn.
    Both,
    /// [`Scenario::busy`] only.
    Busy,
    /// [`Scenario::long`] only.
    Long,
}

impl Worlds {
    /// The scenario of a seed.
    #[must_use]
    pub fn scenario(self, seed: u64) -> Scenario {
        match self {
            Worlds::Both => Scenario::new(seed),
            Worlds::Busy => Scenario::busy(seed),
            Worlds::Long => Scenario::long(seed),
        }
    }

    const fn option(self) -> &'static str {
        match self {
            Worlds::Both => "",
            Worlds::Busy => " --only busy",
            Worlds::Long => " --only long",
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Histories that were played and judged.
    pub histories: u64,
    /// Those of them that were played a second time and compared.
    pub repeated: u64,
    /// Years of all jobs of all histories together.
    pub job_years: f64,
    /// How often what happened.
    pub tally: Tally,
    /// Seeds with faults, and what they are.
    pub faulty: Vec<(u64, Vec<Fault>)>,
}

/// One history that was played.
struct Played {
    seed: u64,
    job_years: f64,
    tally: Tally,
    faults: Vec<Fault>,
    repeated: bool,
}

/// Hands out seeds.
struct Seeds {
    next: u64,
    end: u64,
    job_years_left: f64,
}

impl Soak {
    /// Plays all of it, and tells about it as it goes on.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn play(&self, out: &mut impl Write) -> io::Result<Verdict> {
        let begun = now();
        let seeds = Mutex::new(Seeds {
            next: self.from,
            end: self.from.saturating_add(self.seeds_max),
            job_years_left: self.job_years,
        });
        thread::scope(|scope| {
            let (sender, receiver) = channel();
            for _ in 0..self.threads.get() {
                let (sender, seeds) = (sender.clone(), &seeds);
                scope.spawn(move || self.work(seeds, &sender));
            }
            drop(sender);
            let mut verdict = Verdict::default();
            let mut told = begun;
            for played in receiver {
                let faults = verdict.take_in(played);
                if let Some((seed, faults)) = faults {
                    tell_faults(out, *seed, faults)?;
                    if verdict.faulty.len() >= FAULTY_MAX {
                        lock(&seeds).end = 0;
                    }
                }
                if told.elapsed() >= PROGRESS_EVERY {
                    told = now();
                    verdict.tell_progress(out, begun.elapsed())?;
                }
            }
            verdict.tell(out, begun.elapsed(), self.worlds)?;
            Ok(verdict)
        })
    }

    /// Plays seeds until there are no more.
    fn work(&self, seeds: &Mutex<Seeds>, sender: &Sender<Played>) {
        loop {
            let Some(mut scenario) = lock(seeds).next(self.worlds) else { return };
            scenario.sabotage = self.sabotage;
            let (seed, job_years) = (scenario.seed, scenario.job_years());
            let repeated = seed.is_multiple_of(self.repeat_one_in.get());
            let again = repeated.then(|| scenario.clone());
            let first = play_one(scenario);
            let mut faults = first.faults;
            if let Some(again) = again {
                let second = play_one(again);
                if (first.trace, &first.tally) != (second.trace, &second.tally) {
                    let what = "the same seed led to another history".to_owned();
                    faults.push(Fault::new("", what));
                }
            }
            let played = Played { seed, job_years, tally: first.tally, faults, repeated };
            // Nobody listens any more when the output is gone.
            if sender.send(played).is_err() {
                return;
            }
        }
    }
}

impl Seeds {
    fn next(&mut self, worlds: Worlds) -> Option<Scenario> {
        if self.next >= self.end || self.job_years_left <= 0.0 {
            return None;
        }
        let scenario = worlds.scenario(self.next);
        self.next += 1;
        self.job_years_left -= scenario.job_years();
        Some(scenario)
    }
}

impl Verdict {
    fn take_in(&mut self, played: Played) -> Option<&(u64, Vec<Fault>)> {
        self.histories += 1;
        self.repeated += u64::from(played.repeated);
        self.job_years += played.job_years;
        self.tally.add(&played.tally);
        if played.faults.is_empty() {
            return None;
        }
        self.faulty.push((played.seed, played.faults));
        self.faulty.last()
    }

    fn tell_progress(&self, out: &mut impl Write, time: Duration) -> io::Result<()> {
        writeln!(
            out,
            "{:>6} s: {} histories, {:.0} job-years, {} executions, {} daemons, {} with faults",
            time.as_secs(),
            self.histories,
            self.job_years,
            self.tally.of(Happening::Executed),
            self.tally.of(Happening::Daemon),
            self.faulty.len(),
        )?;
        out.flush()
    }

    fn tell(&self, out: &mut impl Write, time: Duration, worlds: Worlds) -> io::Result<()> {
        let seconds = time.as_secs_f64();
        writeln!(out, "{:>12} histories, each judged", self.histories)?;
        writeln!(out, "{:>12} of them played twice and compared", self.repeated)?;
        writeln!(out, "{:>12.1} job-years", self.job_years)?;
        for (name, count) in self.tally.iter() {
            writeln!(out, "{count:>12} {name}")?;
        }
        writeln!(out, "{seconds:>12.1} seconds")?;
        writeln!(out, "{:>12.1} job-years a second", self.job_years / seconds)?;
        writeln!(out, "{:>12} histories with faults", self.faulty.len())?;
        for (seed, _) in &self.faulty {
            let option = worlds.option();
            writeln!(out, "repeat: cargo run --release -p kron-sim --{option} --tell {seed}")?;
        }
        let word = if self.faulty.is_empty() { "no fault was found" } else { "FAULTS were found" };
        writeln!(out, "verdict: {word}")?;
        out.flush()
    }
}

fn tell_faults(out: &mut impl Write, seed: u64, faults: &[Fault]) -> io::Result<()> {
    for fault in faults.iter().take(TOLD_MAX) {
        writeln!(out, "seed {seed}: {fault}")?;
    }
    if faults.len() > TOLD_MAX {
        writeln!(out, "seed {seed}: {} more", faults.len() - TOLD_MAX)?;
    }
    out.flush()
}

fn play_one(scenario: Scenario) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| run(scenario, Tell::Nothing))).unwrap_or_else(|panic| {
        Outcome {
            faults: vec![Fault::new("", format!("panicked: {}", message_of(&*panic)))],
            trace: 0,
            tally: Tally::default(),
            story: Vec::new(),
        }
    })
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

fn lock(seeds: &Mutex<Seeds>) -> std::sync::MutexGuard<'_, Seeds> {
    seeds.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "how long a soak takes is told, and decides nothing")]
fn now() -> Instant {
    Instant::now()
}
