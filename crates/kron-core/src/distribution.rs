//! Where in its window a chosen time tends to lie.
//!
//! A [`Distribution`] is what a user writes; a [`Sampler`] is the same made ready for one window,
//! with every constant computed once. All floating point goes through a pinned software `libm`,
//! in one fixed order, so that the same input gives the same bits on every machine.

use std::fmt;

use crate::duration::Seconds;
use crate::finding::Finding;
use crate::window::{Window, WindowMode};

/// A named curve with its parameters; absent ones have defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Every second of the window is equally likely.
    #[default]
    Uniform,
    /// Towards the start of the window: `u^shape`.
    SkewEarly {
        /// 1 is uniform; larger is stronger. 0.01 to 100, 2 by default.
        shape: f64,
    },
    /// Towards the end of the window: `1 − (1 − u)^shape`.
    SkewLate {
        /// 1 is uniform; larger is stronger. 0.01 to 100, 2 by default.
        shape: f64,
    },
    /// Falls off exponentially from one end of the window.
    Exponential {
        /// How steeply. 0.01 to 100, 1 by default.
        lambda: f64,
        /// From which end.
        direction: Direction,
    },
    /// A bell, cut off at the window's ends.
    Normal {
        /// Where its middle is; by default the nominal time for `around` and the middle otherwise.
        mu: Option<Mu>,
        /// Its width, from 1 s to 10 windows; a sixth of the window by default.
        sigma: Option<Seconds>,
    },
}

/// The end of the window an exponential distribution prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The start.
    #[default]
    Early,
    /// The end.
    Late,
}

/// The middle of a normal distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mu {
    /// The nominal time.
    Nominal,
    /// The start of the window.
    Start,
    /// The middle of the window.
    Mid,
    /// The end of the window.
    End,
}

impl Direction {
    /// The word used for `dir=`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Direction::Early => "early",
            Direction::Late => "late",
        }
    }
}

impl Mu {
    /// The word used for `mu=`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Mu::Nominal => "nominal",
            Mu::Start => "start",
            Mu::Mid => "mid",
            Mu::End => "end",
        }
    }
}

/// A parameter's name and value, ready to print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameter {
    /// A plain number.
    Number(f64),
    /// A word.
    Word(&'static str),
    /// A duration.
    Duration(Seconds),
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Number(number) => write!(f, "{number}"),
            Parameter::Word(word) => f.write_str(word),
            Parameter::Duration(duration) => write!(f, "{duration}"),
        }
    }
}

/// The spelling of the default `sigma` where it is no whole number of seconds.
pub(crate) const SIGMA_DEFAULT: &str = "W/6";

impl Distribution {
    /// The names of all distributions.
    pub const NAMES: [&'static str; 5] =
        ["uniform", "skewEarly", "skewLate", "exponential", "normal"];

    /// The distribution's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::SkewEarly { .. } => "skewEarly",
            Distribution::SkewLate { .. } => "skewLate",
            Distribution::Exponential { .. } => "exponential",
            Distribution::Normal { .. } => "normal",
        }
    }

    /// The parameters with defaults filled in for `window`, in the order they are printed.
    #[must_use]
    pub fn parameters(&self, window: Window) -> Vec<(&'static str, Parameter)> {
        match *self {
            Distribution::Uniform => Vec::new(),
            Distribution::SkewEarly { shape } | Distribution::SkewLate { shape } => {
                vec![("shape", Parameter::Number(shape))]
            }
            Distribution::Exponential { lambda, direction } => vec![
                ("lambda", Parameter::Number(lambda)),
                ("dir", Parameter::Word(direction.as_str())),
            ],
            Distribution::Normal { mu, sigma } => {
                let mu = mu.unwrap_or(default_mu(window));
                let width = window.length().get();
                let sigma = match sigma {
                    Some(sigma) => Parameter::Duration(sigma),
                    // `0s` would not be accepted back.
                    None if width > 0 && width.is_multiple_of(6) => {
                        Parameter::Duration(Seconds::new(width / 6))
                    }
                    None => Parameter::Word(SIGMA_DEFAULT),
                };
                vec![("mu", Parameter::Word(mu.as_str())), ("sigma", sigma)]
            }
        }
    }

    /// The distribution made ready for `window`.
    ///
    /// # Errors
    /// A validation error when a parameter is out of its range.
    pub fn sampler(&self, window: Window) -> Result<Sampler, Finding> {
        let within = |name: &str, value: f64| {
            if (0.01..=100.0).contains(&value) {
                return Ok(());
            }
            Err(Finding::validation(0..0, format!("{name} {value} is out of range"))
                .help(format!("{name} goes from 0.01 to 100")))
        };
        let width = window.length().get() as f64;
        let curve = match *self {
            Distribution::Uniform => Curve::Uniform,
            Distribution::SkewEarly { shape } => {
                within("shape", shape)?;
                Curve::SkewEarly { shape }
            }
            Distribution::SkewLate { shape } => {
                within("shape", shape)?;
                Curve::SkewLate { shape }
            }
            Distribution::Exponential { lambda, direction } => {
                within("lambda", lambda)?;
                let scale = libm::expm1(-lambda);
                Curve::Exponential(Box::new(Exponential { lambda, direction, scale }))
            }
            Distribution::Normal { mu, sigma } => {
                let longest = window.length().get().saturating_mul(10);
                if let Some(sigma) = sigma
                    && !(1..=longest).contains(&sigma.get())
                {
                    return Err(Finding::validation(
                        0..0,
                        format!("sigma {sigma} is out of range"),
                    )
                    .help(format!(
                        "sigma goes from 1s to 10 times the window, here {}",
                        Seconds::new(longest)
                    )));
                }
                if window.length() == Seconds::ZERO {
                    // Never sampled, and the quotients below would make it unequal to itself.
                    return Ok(Sampler { curve: Curve::Uniform, width });
                }
                let m = match mu.unwrap_or(default_mu(window)) {
                    Mu::Nominal => window.lead().get() as f64,
                    Mu::Start => 0.0,
                    Mu::Mid => width / 2.0,
                    Mu::End => width,
                };
                let sigma = sigma.map_or(width / 6.0, |sigma| sigma.get() as f64);
                let a = normal_cdf(-m / sigma);
                let b = normal_cdf((width - m) / sigma);
                Curve::Normal(Box::new(Normal { m, sigma, a, b }))
            }
        };
        Ok(Sampler { curve, width })
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Distribution::Uniform => Ok(()),
            Distribution::SkewEarly { shape } | Distribution::SkewLate { shape } => {
                write!(f, ",shape={shape}")
            }
            Distribution::Exponential { lambda, direction } => {
                write!(f, ",lambda={lambda},dir={}", direction.as_str())
            }
            Distribution::Normal { mu, sigma } => {
                if let Some(mu) = mu {
                    write!(f, ",mu={}", mu.as_str())?;
                }
                if let Some(sigma) = sigma {
                    write!(f, ",sigma={sigma}")?;
                }
                Ok(())
            }
        }
    }
}

fn default_mu(window: Window) -> Mu {
    match window.mode() {
        WindowMode::Around => Mu::Nominal,
        WindowMode::After | WindowMode::Before => Mu::Mid,
    }
}

/// A distribution made ready for one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampler {
    curve: Curve,
    width: f64,
}

/// There is one for every job, and most are uniform: those that need more have it elsewhere.
#[derive(Clone, Debug, PartialEq)]
enum Curve {
    Uniform,
    SkewEarly { shape: f64 },
    SkewLate { shape: f64 },
    Exponential(Box<Exponential>),
    Normal(Box<Normal>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Exponential {
    lambda: f64,
    direction: Direction,
    scale: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Normal {
    m: f64,
    sigma: f64,
    a: f64,
    b: f64,
}

/// The largest double below 1.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

impl Sampler {
    /// The share of the window that `u`, a number in [0, 1), falls on: in [0, 1).
    #[must_use]
    pub fn position(&self, u: f64) -> f64 {
        let x = match &self.curve {
            Curve::Uniform => u,
            Curve::SkewEarly { shape } => libm::pow(u, *shape),
            Curve::SkewLate { shape } => 1.0 - libm::pow(1.0 - u, *shape),
            Curve::Exponential(curve) => {
                let Exponential { lambda, direction, scale } = **curve;
                let early = -libm::log1p(u * scale) / lambda;
                match direction {
                    Direction::Early => early,
                    Direction::Late => 1.0 - early,
                }
            }
            Curve::Normal(curve) => {
                let Normal { m, sigma, a, b } = **curve;
                (m + sigma * normal_quantile(a + u * (b - a))) / self.width
            }
        };
        // Also turns −0 into 0.
        if x > 0.0 { x.min(BELOW_ONE) } else { 0.0 }
    }

    /// The offset in seconds from the window's start that `u` falls on.
    #[must_use]
    pub fn offset(&self, u: f64) -> u64 {
        let seconds = self.position(u) * (self.width + 1.0);
        libm::floor(seconds).min(self.width) as u64
    }

    /// The probability that a position is below `x`: the inverse of [`Sampler::position`].
    #[must_use]
    pub fn cumulative(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        if x >= 1.0 {
            return 1.0;
        }
        match &self.curve {
            Curve::Uniform => x,
            Curve::SkewEarly { shape } => libm::pow(x, 1.0 / shape),
            Curve::SkewLate { shape } => 1.0 - libm::pow(1.0 - x, 1.0 / shape),
            Curve::Exponential(curve) => {
                let Exponential { lambda, direction, scale } = **curve;
                match direction {
                    Direction::Early => libm::expm1(-lambda * x) / scale,
                    Direction::Late => 1.0 - libm::expm1(-lambda * (1.0 - x)) / scale,
                }
            }
            Curve::Normal(curve) => {
                let Normal { m, sigma, a, b } = **curve;
                (normal_cdf((x * self.width - m) / sigma) - a) / (b - a)
            }
        }
    }

    /// The probability that an offset lies in `first..=last`.
    #[must_use]
    pub fn mass(&self, first: u64, last: u64) -> f64 {
        let seconds = self.width + 1.0;
        (self.cumulative((last as f64 + 1.0) / seconds) - self.cumulative(first as f64 / seconds))
            .clamp(0.0, 1.0)
    }
}

/// Φ: the standard normal distribution.
fn normal_cdf(t: f64) -> f64 {
    libm::erfc(-t / std::f64::consts::SQRT_2) / 2.0
}

/// Φ⁻¹ by algorithm AS 241, routine PPND16 (Wichura 1988): about 16 digits.
#[expect(clippy::excessive_precision, reason = "the coefficients as published")]
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 8] = [
        3.387_132_872_796_366_608,
        133.141_667_891_784_377_45,
        1_971.590_950_306_551_442_7,
        13_731.693_765_509_461_125,
        45_921.953_931_549_871_457,
        67_265.770_927_008_700_853,
        33_430.575_583_588_128_105,
        2_509.080_928_730_122_672_7,
    ];
    const B: [f64; 8] = [
        1.0,
        42.313_330_701_600_911_252,
        687.187_007_492_057_908_3,
        5_394.196_021_424_751_107_7,
        21_213.794_301_586_595_867,
        39_307.895_800_092_710_61,
        28_729.085_735_721_942_674,
        5_226.495_278_852_854_561,
    ];
    const C: [f64; 8] = [
        1.423_437_110_749_683_577_34,
        4.630_337_846_156_545_295_9,
        5.769_497_221_460_691_405_5,
        3.647_848_324_763_204_605_04,
        1.270_458_252_452_368_382_58,
        0.241_780_725_177_450_611_77,
        0.022_723_844_989_269_184_583_3,
        0.000_774_545_014_278_341_407_64,
    ];
    const D: [f64; 8] = [
        1.0,
        2.053_191_626_637_758_821_87,
        1.676_384_830_183_803_849_4,
        0.689_767_334_985_100_004_55,
        0.148_103_976_427_480_074_59,
        0.015_198_666_563_616_457_196_6,
        0.000_547_593_808_499_534_494_6,
        0.000_000_001_050_750_071_644_416_843_24,
    ];
    const E: [f64; 8] = [
        6.657_904_643_501_103_777_2,
        5.463_784_911_164_114_369_9,
        1.784_826_539_917_291_335_8,
        0.296_560_571_828_504_891_23,
        0.026_532_189_526_576_123_093,
        0.001_242_660_947_388_078_438_6,
        0.000_027_115_555_687_434_875_781_5,
        0.000_000_201_033_439_929_228_813_265,
    ];
    const F: [f64; 8] = [
        1.0,
        0.599_832_206_555_887_937_69,
        0.136_929_880_922_735_805_31,
        0.014_875_361_290_850_614_852_5,
        0.000_786_869_131_145_613_259_1,
        0.000_018_463_183_175_100_546_818,
        0.000_000_142_151_175_831_644_588_87,
        0.000_000_000_000_002_044_263_103_389_939_785_64,
    ];
    fn ratio(numerator: &[f64; 8], denominator: &[f64; 8], r: f64) -> f64 {
        let horner = |coefficients: &[f64; 8]| {
            coefficients.iter().rev().copied().reduce(|sum, c| sum * r + c).unwrap_or(0.0)
        };
        horner(numerator) / horner(denominator)
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(&A, &B, 0.180_625 - q * q);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = libm::sqrt(-libm::log(tail));
    let value = if r <= 5.0 { ratio(&C, &D, r - 1.6) } else { ratio(&E, &F, r - 5.0) };
    if q < 0.0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(length: u64) -> Window {
        Window::new(WindowMode::After, Seconds::new(length)).unwrap()
    }

    #[test]
    fn the_quantile_meets_the_values_published_with_the_algorithm() {
        let check = |p: f64, expected: f64| {
            assert!((normal_quantile(p) - expected).abs() < 1e-13 * expected.abs().max(1.0), "{p}");
        };
        check(0.25, -0.674_489_750_196_081_7);
        check(0.001, -3.090_232_306_167_813_5);
        check(1e-20, -9.262_340_089_798_408);
        check(0.5, 0.0);
        check(0.975, 1.959_963_984_540_054);
    }

    #[test]
    fn positions_stay_in_the_window_and_undo_the_curve() {
        let shapes = [0.01, 0.5, 1.0, 2.0, 100.0];
        let mut all = vec![Distribution::Uniform];
        for shape in shapes {
            all.push(Distribution::SkewEarly { shape });
            all.push(Distribution::SkewLate { shape });
            all.push(Distribution::Exponential { lambda: shape, direction: Direction::Early });
            all.push(Distribution::Exponential { lambda: shape, direction: Direction::Late });
        }
        for mu in [None, Some(Mu::Nominal), Some(Mu::Start), Some(Mu::Mid), Some(Mu::End)] {
            for sigma in [None, Some(Seconds::new(1)), Some(Seconds::new(36_000))] {
                all.push(Distribution::Normal { mu, sigma });
            }
        }
        for distribution in all {
            let sampler = distribution.sampler(window(3_600)).unwrap();
            for step in 0..1_000 {
                let u = f64::from(step) / 1_000.0;
                let x = sampler.position(u);
                assert!((0.0..1.0).contains(&x), "{distribution} {u} {x}");
                assert!(sampler.offset(u) <= 3_600);
                // A position too close to an end to be told from it cannot be undone.
                if x > 1e-9 && x < 1.0 - 1e-9 {
                    let back = sampler.cumulative(x);
                    let mirrored = matches!(
                        distribution,
                        Distribution::Exponential { direction: Direction::Late, .. }
                    );
                    let expected = if mirrored { 1.0 - u } else { u };
                    assert!((back - expected).abs() < 1e-6, "{distribution} {u} {x} {back}");
                }
            }
            assert!((sampler.mass(0, 3_600) - 1.0).abs() < 1e-9, "{distribution}");
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused_even_without_a_window() {
        for bad in [0.0, 0.009, 100.1, f64::NAN, f64::INFINITY, -1.0] {
            for length in [0, 60] {
                assert!(Distribution::SkewEarly { shape: bad }.sampler(window(length)).is_err());
            }
        }
        let normal = |sigma| Distribution::Normal { mu: None, sigma: Some(Seconds::new(sigma)) };
        assert!(normal(0).sampler(window(60)).is_err());
        assert!(normal(600).sampler(window(60)).is_ok());
        assert!(normal(601).sampler(window(60)).is_err());
        assert!(normal(1).sampler(window(0)).is_err());
    }
}
