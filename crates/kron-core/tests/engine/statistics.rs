//! Chosen times have the distribution that was asked for, and jobs do not move together.
//!
//! The expected curves are written here from the definitions, not asked of the engine. The inputs
//! are fixed, so a test that passes once passes always; the critical values are those that pure
//! chance would exceed once in about ten thousand.

use kron_core::{
    Direction, Distribution, Mu, Placement, Seconds, SeedStrategy, UtcSecond, Window, WindowMode,
    Zone,
};

const DECISIONS: usize = 100_000;
/// A window so long that whole seconds hardly show.
const LONG: u64 = 366 * 86_400;

fn placement(identity: &str, mode: WindowMode, length: u64, by: Distribution) -> Placement {
    Window::new(mode, Seconds::new(length))
        .and_then(|window| Placement::new(identity, Zone::utc())?.with_spread(window, by))
        .expect("a valid placement")
}

fn period(index: usize, spacing: i64) -> UtcSecond {
    UtcSecond::from_unix(1_767_225_600 + index as i64 * spacing).expect("a year before 9999")
}

fn offset(placement: &Placement, nominal: UtcSecond) -> u64 {
    let decision = placement.decide(nominal).expect("a decision");
    decision
        .chosen
        .expect("a time, since nothing constrains")
        .since(decision.window_start)
        .unsigned_abs()
}

fn offsets(placement: &Placement) -> Vec<u64> {
    (0..DECISIONS).map(|index| offset(placement, period(index, 3_600))).collect()
}

/// The Kolmogorov-Smirnov distance of offsets from a curve over [0, 1]. The offset `k` stands for
/// all positions from `k` to `k + 1` of `length + 1` parts, so the curve is read at those ends
/// only; for a discrete variable the usual critical value errs on the side of acceptance.
fn distance(mut offsets: Vec<u64>, length: u64, curve: impl Fn(f64) -> f64) -> f64 {
    offsets.sort_unstable();
    let count = offsets.len() as f64;
    let parts = (length + 1) as f64;
    let mut farthest: f64 = 0.0;
    let mut below = 0;
    for run in offsets.chunk_by(|a, b| a == b) {
        let k = run[0] as f64;
        let upto = below + run.len();
        farthest = farthest
            .max((below as f64 / count - curve(k / parts)).abs())
            .max((upto as f64 / count - curve((k + 1.0) / parts)).abs());
        below = upto;
    }
    farthest
}

/// The distance that chance exceeds once in ten thousand: sqrt(ln(2 / 0.0001) / 2 / n).
fn critical(count: usize) -> f64 {
    (libm::log(20_000.0) / 2.0 / count as f64).sqrt()
}

fn check(mode: WindowMode, by: Distribution, curve: impl Fn(f64) -> f64) {
    let found = distance(offsets(&placement("statistics", mode, LONG, by)), LONG, curve);
    assert!(found < critical(DECISIONS), "{by} {mode}: {found}");
}

/// The normal curve by a formula of Abramowitz and Stegun (7.1.26), good to seven digits.
fn normal(t: f64) -> f64 {
    let x = t.abs() / std::f64::consts::SQRT_2;
    let k = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let sum = series.iter().rev().fold(0.0, |sum, c| (sum + c) * k);
    let upper = sum * libm::exp(-x * x) / 2.0;
    if t > 0.0 { 1.0 - upper } else { upper }
}

#[test]
fn uniform() {
    for mode in [WindowMode::After, WindowMode::Around, WindowMode::Before] {
        check(mode, Distribution::Uniform, |x| x);
    }
}

#[test]
fn skewed() {
    for shape in [0.01, 0.3, 1.0, 2.0, 7.5, 100.0] {
        let early = move |x: f64| libm::pow(x, 1.0 / shape);
        check(WindowMode::After, Distribution::SkewEarly { shape }, early);
        check(WindowMode::After, Distribution::SkewLate { shape }, move |x| 1.0 - early(1.0 - x));
    }
}

#[test]
fn exponential() {
    for lambda in [0.01, 1.0, 5.0, 100.0] {
        let early = move |x: f64| (1.0 - libm::exp(-lambda * x)) / (1.0 - libm::exp(-lambda));
        let by = |direction| Distribution::Exponential { lambda, direction };
        check(WindowMode::After, by(Direction::Early), early);
        check(WindowMode::After, by(Direction::Late), move |x| 1.0 - early(1.0 - x));
    }
}

#[test]
fn truncated_normal() {
    let rows = [
        (WindowMode::After, None, None, 0.5, 1.0 / 6.0),
        (WindowMode::Around, None, None, 0.5, 1.0 / 6.0),
        (WindowMode::Before, Some(Mu::Nominal), Some(0.25), 1.0, 0.25),
        (WindowMode::After, Some(Mu::Nominal), Some(0.25), 0.0, 0.25),
        (WindowMode::After, Some(Mu::Start), Some(1.0), 0.0, 1.0),
        (WindowMode::After, Some(Mu::Mid), Some(0.05), 0.5, 0.05),
        (WindowMode::Around, Some(Mu::End), Some(10.0), 1.0, 10.0),
    ];
    for (mode, mu, share, mean, sigma) in rows {
        let seconds = share.map(|share: f64| Seconds::new((share * LONG as f64) as u64));
        let by = Distribution::Normal { mu, sigma: seconds };
        let (low, high) = (normal(-mean / sigma), normal((1.0 - mean) / sigma));
        check(mode, by, move |x| (normal((x - mean) / sigma) - low) / (high - low));
    }
}

#[test]
fn distinct_identities_are_as_good_as_distinct_periods() {
    let nominal = period(0, 1);
    let found = (0..DECISIONS)
        .map(|index| {
            let identity = format!("team/job-{index}");
            let by = Distribution::Uniform;
            offset(&placement(&identity, WindowMode::After, LONG, by), nominal)
        })
        .collect();
    let found = distance(found, LONG, |x| x);
    assert!(found < critical(DECISIONS), "{found}");
}

#[test]
fn a_wrong_curve_is_rejected() {
    let uniform = || offsets(&placement("canary", WindowMode::After, LONG, Distribution::Uniform));
    assert!(distance(uniform(), LONG, |x| x) < critical(DECISIONS));
    let slightly_skewed = |x: f64| libm::pow(x, 1.0 / 1.05);
    assert!(distance(uniform(), LONG, slightly_skewed) > critical(DECISIONS));
    assert!(distance(uniform(), LONG, |x| x * x) > 10.0 * critical(DECISIONS));
    // One second in a hundred thousand left out at the front is not seen, one in a hundred is.
    let shifted = |share: f64| move |x: f64| ((x - share) / (1.0 - share)).max(0.0);
    assert!(distance(uniform(), LONG, shifted(0.000_01)) < critical(DECISIONS));
    assert!(distance(uniform(), LONG, shifted(0.01)) > critical(DECISIONS));
}

#[test]
fn every_second_of_a_short_window_is_as_likely() {
    // The chi-square values that 59 and 1 degrees of freedom exceed once in ten thousand.
    for (length, limit) in [(59, 108.3), (1, 15.2)] {
        let by = Distribution::Uniform;
        let found = offsets(&placement("short", WindowMode::Around, length, by));
        let mut counts = vec![0u32; length as usize + 1];
        for offset in found {
            counts[offset as usize] += 1;
        }
        let expected = DECISIONS as f64 / counts.len() as f64;
        let chi_square: f64 =
            counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi_square < limit, "{length}: {chi_square}");
    }
}

fn correlation(pairs: &[(u64, u64)]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |side: fn(&(u64, u64)) -> u64| {
        pairs.iter().map(|pair| side(pair) as f64).sum::<f64>() / count
    };
    let (left, right) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let mut sums = (0.0, 0.0, 0.0);
    for &(a, b) in pairs {
        let (a, b) = (a as f64 - left, b as f64 - right);
        sums = (sums.0 + a * b, sums.1 + a * a, sums.2 + b * b);
    }
    sums.0 / (sums.1 * sums.2).sqrt()
}

#[test]
fn jobs_do_not_move_together() {
    const PERIODS: usize = 20_000;
    // 3.9 standard errors.
    let limit = 3.9 / (PERIODS as f64).sqrt();
    let job = |identity: &str, salt: &str, strategy| {
        placement(identity, WindowMode::After, 3_600, Distribution::Uniform)
            .with_salt(salt)
            .unwrap()
            .with_seed_strategy(strategy)
    };
    let check = |what: &str, pairs: Vec<(u64, u64)>| {
        let r = correlation(&pairs);
        assert!(r.abs() < limit, "{what}: {r}");
    };
    for (strategy, spacing) in [
        (SeedStrategy::Stable, 3_600),
        (SeedStrategy::Daily, 86_400),
        (SeedStrategy::Weekly, 7 * 86_400),
    ] {
        let (a, b) = (job("job-1", "", strategy), job("job-2", "", strategy));
        let salted = job("job-1", "salt", strategy);
        let over = |left: &Placement, right: &Placement, lag: usize| {
            (0..PERIODS)
                .map(|i| {
                    (offset(left, period(i, spacing)), offset(right, period(i + lag, spacing)))
                })
                .collect()
        };
        check(&format!("{strategy:?}: two jobs"), over(&a, &b, 0));
        check(&format!("{strategy:?}: two salts"), over(&a, &salted, 0));
        check(&format!("{strategy:?}: one job and its next period"), over(&a, &a, 1));
    }
    // A fixed seed never changes for one job; what can differ is the job and the salt.
    let fixed = |i: usize, salt: &str| {
        offset(&job(&format!("job-{i}"), salt, SeedStrategy::Fixed), period(0, 1))
    };
    check(
        "fixed: neighbouring jobs",
        (0..PERIODS).map(|i| (fixed(i, ""), fixed(i + 1, ""))).collect(),
    );
    check("fixed: two salts", (0..PERIODS).map(|i| (fixed(i, ""), fixed(i, "salt"))).collect());
    let same: Vec<_> = (0..PERIODS).map(|i| (fixed(i, ""), fixed(i, ""))).collect();
    assert!(correlation(&same) > 0.999, "the measure sees jobs that do move together");
}
