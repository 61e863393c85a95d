//! Prints every figure that has a goal, as a table of ratios.
//!
//! Absolute times mean little on a machine that does other things too, so whatever is compared is
//! measured in turns: a round is a number of short batches of each contestant, one after the other
//! in changing order, of which the median counts, and every ratio is taken within its round. Shown
//! is the median of the rounds with the smallest and the greatest.
//!
//! `cargo bench` passes `--bench`; without it every contestant runs for a moment only.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod cases;

use std::hint::black_box;
use std::str::FromStr as _;
use std::time::Duration;

use cases::{PATTERNS, PatternCase, Schedules};
use kron_core::{
    ATTEMPTS_MAX, Distribution, Host, Load, Pattern, Schedule, Seconds, TimingParser, Zone,
};
use sha2::{Digest as _, Sha256};

fn main() {
    let effort = if std::env::args().any(|argument| argument == "--bench") {
        Effort { rounds: 25, turns: 21, batch: Duration::from_micros(200), jobs: 10_000 }
    } else {
        Effort { rounds: 1, turns: 1, batch: Duration::from_micros(50), jobs: 100 }
    };
    println!("| measured | time | compared with | its time | ratio | spread | goal | |");
    println!("|---|--:|---|--:|--:|--:|--:|---|");
    for distribution in cases::distributions() {
        decisions(&effort, distribution);
    }
    for case in &PATTERNS {
        occurrences(&effort, case);
    }
    parsing(&effort);
    gaps(&effort);
    forecast(&effort);
}

struct Effort {
    rounds: usize,
    /// Batches of one contestant in one round.
    turns: usize,
    /// How long a batch takes; much less than the slice of time that the machine gives a process.
    batch: Duration,
    /// Jobs in the forecast.
    jobs: usize,
}

enum Goal {
    AtMost(f64),
    AtLeast(f64),
    None,
}

fn decisions(effort: &Effort, distribution: Distribution) {
    let name = distribution.name();
    let uniform = cases::placement(Distribution::Uniform, None);
    let plain = cases::placement(distribution, None);
    let clock = cases::placement(distribution, Some(cases::CLOCK));
    let calendar = cases::placement(distribution, Some(cases::CALENDAR));
    let never = cases::placement(distribution, Some(cases::NEVER));
    let decide = |placement: &kron_core::Placement, attempts: u32| {
        let nominals = cases::nominals_with_attempts(placement, attempts);
        let placement = placement.clone();
        cycle(nominals, move |&nominal| placement.decide(nominal))
    };
    let inputs: Vec<_> =
        cases::nominals_with_attempts(&plain, 1).into_iter().map(cases::seed_input).collect();
    let times = measure(
        effort,
        &mut [
            cycle(inputs, |input| Sha256::digest(input)),
            decide(&uniform, 1),
            decide(&plain, 1),
            decide(&clock, 1),
            decide(&clock, 8),
            decide(&calendar, 1),
            decide(&calendar, 8),
            decide(&never, ATTEMPTS_MAX),
        ],
    );
    let [sha, uniform, plain, clock_1, clock_8, calendar_1, calendar_8, never] = &times[..] else {
        unreachable!("as many times as contestants");
    };
    let row = |what: &str, time: &Times, goal| {
        Row { what: format!("`decide` {name}{what}"), time, other: ("one SHA-256", sha), goal }
            .print(|t, sha| t / sha);
    };
    if distribution == Distribution::Uniform {
        row("", plain, Goal::AtMost(3.0));
    } else {
        row("", plain, Goal::None);
        row(": more than uniform", &plain.minus(uniform, 1), Goal::AtMost(2.5));
    }
    row(": constraints on the clock, more", &clock_1.minus(plain, 1), Goal::AtMost(2.5));
    row(": each further attempt, clock", &clock_8.minus(clock_1, 7), Goal::AtMost(2.5));
    row(": each further attempt, calendar", &calendar_8.minus(calendar_1, 7), Goal::AtMost(2.5));
    row(": each of 64 attempts", &never.minus(plain, ATTEMPTS_MAX - 1), Goal::AtMost(2.5));
}

fn occurrences(effort: &Effort, case: &PatternCase) {
    let Schedules { kron, croner, cron } = Schedules::of(case);
    Schedules::of(case).check(case.name);

    let mut contestants = vec![cycle(cases::instants(), {
        let kron = kron.clone();
        move |&t| kron.next_after(t)
    })];
    let mut names = Vec::new();
    if let Some(croner) = croner.clone() {
        names.push("croner");
        contestants
            .push(cycle(cases::peer_instants(), move |t| croner.find_next_occurrence(t, false)));
    }
    if let Some(cron) = cron.clone() {
        names.push("cron");
        contestants.push(cycle(cases::peer_instants(), move |t| cron.after(t).next()));
    }
    let times = measure(effort, &mut contestants);
    against_fastest(format!("`next_after` {}", case.name), &times, &names, Goal::AtLeast(2.0));

    let (start, peer_start) = (cases::start(), cases::peer_instant(cases::start()));
    let walked = case.walked;
    let mut contestants = vec![cycle(vec![start], move |&t| kron.after(t).take(walked).last())];
    if let Some(croner) = croner {
        contestants
            .push(cycle(vec![peer_start], move |&t| croner.iter_after(t).take(walked).last()));
    }
    if let Some(cron) = cron {
        contestants.push(cycle(vec![peer_start], move |t| cron.after(t).take(walked).last()));
    }
    let times: Vec<_> = measure(effort, &mut contestants)
        .into_iter()
        .map(|times| times.divided_by(walked as f64))
        .collect();
    against_fastest(format!("iterating {}", case.name), &times, &names, Goal::AtLeast(5.0));
}

fn parsing(effort: &Effort) {
    for case in &PATTERNS {
        let mut contestants = vec![cycle(vec![case.kron], |text| Pattern::parse(text, "any"))];
        let mut names = Vec::new();
        if let Some(text) = case.croner {
            names.push("croner");
            contestants.push(cycle(vec![text], |text| croner::Cron::from_str(text)));
        }
        if let Some(text) = case.cron {
            names.push("cron");
            contestants.push(cycle(vec![text], |text| cron::Schedule::from_str(text)));
        }
        let times = measure(effort, &mut contestants);
        against_fastest(format!("parsing {}", case.name), &times, &names, Goal::None);
    }
    let mut warm = TimingParser::new();
    let whole = |parser: &mut TimingParser, text: &str| {
        parser.parse(text, cases::IDENTITY, Host::default()).is_ok()
    };
    let times = measure(
        effort,
        &mut [
            cycle(vec![cases::EXPRESSION], move |text| whole(&mut warm, text)),
            cycle(vec![cases::EXPRESSION], move |text| whole(&mut TimingParser::new(), text)),
            cycle(vec![cases::ZONE], |name| Zone::named(name)),
        ],
    );
    alone("whole expression, zone known", &times[0]);
    alone("whole expression, zone read", &times[1]);
    alone("`Zone::named`", &times[2]);
}

fn gaps(effort: &Effort) {
    for case in &PATTERNS {
        let schedule = cases::schedule(case.kron);
        let hour = Seconds::new(3_600);
        let times = measure(
            effort,
            &mut [
                cycle(vec![schedule.clone()], Schedule::shortest_gap),
                cycle(vec![schedule], move |schedule| schedule.fits(hour)),
            ],
        );
        alone(&format!("`shortest_gap` {}", case.name), &times[0]);
        alone(&format!("`fits` one hour {}", case.name), &times[1]);
    }
}

fn forecast(effort: &Effort) {
    let jobs = cases::daily_jobs(effort.jobs);
    let forecast = cycle(vec![jobs], |jobs| {
        let load: Vec<Load<'_>> =
            jobs.iter().map(|timing| Load { timing, duration: None }).collect();
        kron_core::forecast(cases::year(), &load).expect("a year of daily jobs").chosen.total
    });
    let few = Effort { rounds: effort.rounds.min(9), turns: 1, ..*effort };
    let times = measure(&few, &mut [forecast]);
    let seconds = times[0].divided_by(1e9);
    let met = verdict(seconds.median(), &Goal::AtMost(3.0));
    println!(
        "| forecast of a year, {} daily jobs | {} | | | | {:.2}–{:.2} s | ≤ 3 s | {met} |",
        effort.jobs,
        shown(times[0].median()),
        seconds.least(),
        seconds.greatest(),
    );
}

/// Runs an operation the given number of times.
type Contestant = Box<dyn FnMut(u64)>;

/// A contestant that applies `operation` to one input after the other, over and over.
fn cycle<I: 'static, O>(
    inputs: Vec<I>,
    mut operation: impl FnMut(&I) -> O + 'static,
) -> Contestant {
    let mut next = 0;
    Box::new(move |times| {
        for _ in 0..times {
            black_box(operation(black_box(&inputs[next])));
            next = if next + 1 < inputs.len() { next + 1 } else { 0 };
        }
    })
}

/// Nanoseconds per operation, one for every round.
struct Times(Vec<f64>);

impl Times {
    fn minus(&self, other: &Times, share: u32) -> Times {
        Times(self.0.iter().zip(&other.0).map(|(a, b)| (a - b) / f64::from(share)).collect())
    }

    fn divided_by(&self, count: f64) -> Times {
        Times(self.0.iter().map(|time| time / count).collect())
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    fn median(&self) -> f64 {
        self.sorted()[self.0.len() / 2]
    }

    fn least(&self) -> f64 {
        self.sorted()[0]
    }

    fn greatest(&self) -> f64 {
        self.sorted()[self.0.len() - 1]
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn time(contestant: &mut Contestant, times: u64) -> Duration {
    let start = std::time::Instant::now();
    contestant(times);
    start.elapsed()
}

/// Measures all contestants in turns.
fn measure(effort: &Effort, contestants: &mut [Contestant]) -> Vec<Times> {
    let batches: Vec<u64> = contestants
        .iter_mut()
        .map(|contestant| {
            let mut times = 1;
            while time(contestant, times) < effort.batch / 2 {
                times *= 2;
            }
            times
        })
        .collect();
    let mut measured: Vec<Times> = contestants.iter().map(|_| Times(Vec::new())).collect();
    for _ in 0..effort.rounds {
        let mut round: Vec<Times> = contestants.iter().map(|_| Times(Vec::new())).collect();
        for turn in 0..effort.turns {
            for place in 0..contestants.len() {
                let index = (turn + place) % contestants.len();
                let taken = time(&mut contestants[index], batches[index]);
                round[index].0.push(taken.as_nanos() as f64 / batches[index] as f64);
            }
        }
        for (all, turns) in measured.iter_mut().zip(round) {
            all.0.push(turns.median());
        }
    }
    measured
}

struct Row<'a> {
    what: String,
    time: &'a Times,
    other: (&'a str, &'a Times),
    goal: Goal,
}

impl Row<'_> {
    fn print(self, ratio: impl Fn(f64, f64) -> f64) {
        let (name, other) = self.other;
        let ratios = Times(self.time.0.iter().zip(&other.0).map(|(&a, &b)| ratio(a, b)).collect());
        let goal = match self.goal {
            Goal::AtMost(goal) => format!("≤ {goal}"),
            Goal::AtLeast(goal) => format!("≥ {goal}"),
            Goal::None => String::new(),
        };
        println!(
            "| {} | {} | {name} | {} | {:.2} | {:.2}–{:.2} | {goal} | {} |",
            self.what,
            shown(self.time.median()),
            shown(other.median()),
            ratios.median(),
            ratios.least(),
            ratios.greatest(),
            verdict(ratios.median(), &self.goal),
        );
    }
}

/// Prints how many times faster the first of `times` is than the fastest of the others.
fn against_fastest(what: String, times: &[Times], names: &[&str], goal: Goal) {
    let (kron, peers) = times.split_first().expect("Kron takes part");
    let fastest = peers.iter().zip(names).min_by(|a, b| a.0.median().total_cmp(&b.0.median()));
    let (peer, name) = fastest.expect("a peer takes part");
    Row { what, time: kron, other: (name, peer), goal }.print(|kron, peer| peer / kron);
}

fn alone(what: &str, time: &Times) {
    println!(
        "| {what} | {} | | | | {}–{} | | |",
        shown(time.median()),
        shown(time.least()),
        shown(time.greatest())
    );
}

fn verdict(value: f64, goal: &Goal) -> &'static str {
    match *goal {
        Goal::AtMost(goal) if value <= goal => "met",
        Goal::AtLeast(goal) if value >= goal => "met",
        Goal::AtMost(_) | Goal::AtLeast(_) => "not met",
        Goal::None => "",
    }
}

fn shown(ns: f64) -> String {
    match ns.abs() {
        small if small < 1e3 => format!("{ns:.1} ns"),
        small if small < 1e6 => format!("{:.2} µs", ns / 1e3),
        small if small < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}
