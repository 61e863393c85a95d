//! Watches the engine for regressions: every operation the goals are about, on its own.
//!
//! Comparisons with goals are the business of `ratios`, which measures both sides in turns.

mod cases;

use std::hint::black_box;
use std::str::FromStr as _;
use std::time::Duration;

use cases::{PATTERNS, Schedules};
use criterion::{BenchmarkId, Criterion, Throughput};
use kron_core::{ATTEMPTS_MAX, Host, Load, Pattern, Placement, Seconds, TimingParser, Zone};
use sha2::{Digest as _, Sha256};

fn main() {
    // A hundred benchmarks in a few minutes; the command line can ask for more of each.
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50)
        .configure_from_args();
    decide(&mut criterion);
    next_after(&mut criterion);
    iterate(&mut criterion);
    parse(&mut criterion);
    gap(&mut criterion);
    forecast(&mut criterion);
    criterion.final_summary();
}

/// An operation on one of `inputs` after the other.
fn cycling<I, O>(inputs: &[I], mut operation: impl FnMut(&I) -> O) -> impl FnMut() -> O {
    let mut inputs = inputs.iter().cycle();
    move || operation(black_box(inputs.next().expect("inputs do not run out")))
}

fn decide(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    let inputs: Vec<_> = cases::instants().into_iter().map(cases::seed_input).collect();
    group.bench_function("one SHA-256 of the seed", |bencher| {
        bencher.iter(cycling(&inputs, |input| Sha256::digest(input)));
    });
    for distribution in cases::distributions() {
        let mut bench = |what: &str, placement: &Placement, attempts: u32| {
            let nominals = cases::nominals_with_attempts(placement, attempts);
            group.bench_function(BenchmarkId::new(what, distribution.name()), |bencher| {
                bencher.iter(cycling(&nominals, |&nominal| placement.decide(nominal)));
            });
        };
        bench("unconstrained", &cases::placement(distribution, None), 1);
        let clock = cases::placement(distribution, Some(cases::CLOCK));
        bench("clock, 1 attempt", &clock, 1);
        bench("clock, 8 attempts", &clock, 8);
        let calendar = cases::placement(distribution, Some(cases::CALENDAR));
        bench("calendar, 1 attempt", &calendar, 1);
        bench("calendar, 8 attempts", &calendar, 8);
        let never = cases::placement(distribution, Some(cases::NEVER));
        bench("unschedulable", &never, ATTEMPTS_MAX);
    }
}

fn next_after(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("next_after");
    let (instants, peer_instants) = (cases::instants(), cases::peer_instants());
    for case in &PATTERNS {
        let schedules = Schedules::of(case);
        schedules.check(case.name);
        group.bench_function(BenchmarkId::new("kron", case.name), |bencher| {
            bencher.iter(cycling(&instants, |&t| schedules.kron.next_after(t)));
        });
        if let Some(cron) = &schedules.croner {
            group.bench_function(BenchmarkId::new("croner", case.name), |bencher| {
                bencher.iter(cycling(&peer_instants, |t| cron.find_next_occurrence(t, false)));
            });
        }
        if let Some(cron) = &schedules.cron {
            group.bench_function(BenchmarkId::new("cron", case.name), |bencher| {
                bencher.iter(cycling(&peer_instants, |t| cron.after(t).next()));
            });
        }
    }
}

fn iterate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("iterate");
    let (start, peer_start) = (cases::start(), cases::peer_instant(cases::start()));
    for case in &PATTERNS {
        let schedules = Schedules::of(case);
        group.throughput(Throughput::Elements(case.walked as u64));
        group.bench_function(BenchmarkId::new("kron", case.name), |bencher| {
            bencher.iter(|| schedules.kron.after(black_box(start)).take(case.walked).last());
        });
        if let Some(cron) = &schedules.croner {
            group.bench_function(BenchmarkId::new("croner", case.name), |bencher| {
                bencher.iter(|| cron.iter_after(black_box(peer_start)).take(case.walked).last());
            });
        }
        if let Some(cron) = &schedules.cron {
            group.bench_function(BenchmarkId::new("cron", case.name), |bencher| {
                bencher.iter(|| cron.after(&black_box(peer_start)).take(case.walked).last());
            });
        }
    }
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for case in &PATTERNS {
        group.bench_function(BenchmarkId::new("kron", case.name), |bencher| {
            bencher.iter(|| Pattern::parse(black_box(case.kron), cases::IDENTITY));
        });
        if let Some(text) = case.croner {
            group.bench_function(BenchmarkId::new("croner", case.name), |bencher| {
                bencher.iter(|| croner::Cron::from_str(black_box(text)));
            });
        }
        if let Some(text) = case.cron {
            group.bench_function(BenchmarkId::new("cron", case.name), |bencher| {
                bencher.iter(|| cron::Schedule::from_str(black_box(text)));
            });
        }
    }
    let whole = |parser: &mut TimingParser| {
        parser.parse(black_box(cases::EXPRESSION), cases::IDENTITY, Host::default())
    };
    let mut warm = TimingParser::new();
    group.bench_function("expression, zone known", |bencher| bencher.iter(|| whole(&mut warm)));
    group.bench_function("expression, zone read", |bencher| {
        bencher.iter(|| whole(&mut TimingParser::new()));
    });
    group.bench_function("zone", |bencher| bencher.iter(|| Zone::named(black_box(cases::ZONE))));
}

fn gap(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gap");
    for case in &PATTERNS {
        let schedule = cases::schedule(case.kron);
        group.bench_function(BenchmarkId::new("shortest_gap", case.name), |bencher| {
            bencher.iter(|| black_box(&schedule).shortest_gap());
        });
        group.bench_function(BenchmarkId::new("fits an hour", case.name), |bencher| {
            bencher.iter(|| black_box(&schedule).fits(Seconds::new(3_600)));
        });
    }
}

fn forecast(criterion: &mut Criterion) {
    let jobs = cases::daily_jobs(1_000);
    let mut group = criterion.benchmark_group("forecast");
    group.sample_size(10);
    group.bench_function("a year of 1000 daily jobs", |bencher| {
        let load: Vec<Load<'_>> =
            jobs.iter().map(|timing| Load { timing, duration: None }).collect();
        bencher.iter(|| kron_core::forecast(cases::year(), &load));
    });
}
