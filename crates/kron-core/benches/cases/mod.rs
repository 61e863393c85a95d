//! What both benchmarks measure: the same patterns, instants and jobs for Kron and its peers.

use std::str::FromStr as _;

use chrono::{DateTime, TimeZone as _};
use chrono_tz::Tz;
use kron_core::{
    Constraints, Direction, Distribution, Dst, Host, Pattern, Placement, Schedule, Seconds, Timing,
    TimingParser, UtcSecond, Window, WindowMode, Zone,
};

/// A zone with daylight saving.
pub(crate) const ZONE: &str = "Europe/Paris";
pub(crate) const IDENTITY: &str = "prod/db-backup";
pub(crate) const SALT: &str = "backup";

/// 2026-01-01.
const FIRST_INSTANT: i64 = 1_767_225_600;
/// 2031-01-01.
const LAST_INSTANT: i64 = 1_924_992_000;

/// One schedule as each crate writes it; `None` where a crate has no way to say it.
pub(crate) struct PatternCase {
    pub(crate) name: &'static str,
    pub(crate) kron: &'static str,
    pub(crate) croner: Option<&'static str>,
    pub(crate) cron: Option<&'static str>,
    /// Occurrences to iterate over: what fits in the years up to 2085.
    pub(crate) walked: usize,
}

pub(crate) const PATTERNS: [PatternCase; 7] = [
    PatternCase {
        name: "daily",
        kron: "0 3 * * *",
        croner: Some("0 3 * * *"),
        cron: Some("0 0 3 * * *"),
        walked: 1_000,
    },
    PatternCase {
        name: "every five minutes",
        kron: "*/5 * * * *",
        croner: Some("*/5 * * * *"),
        cron: Some("0 */5 * * * *"),
        walked: 1_000,
    },
    PatternCase {
        name: "weekdays",
        kron: "0 9 * * 1-5",
        croner: Some("0 9 * * 1-5"),
        cron: Some("0 0 9 * * Mon-Fri"),
        walked: 1_000,
    },
    PatternCase {
        name: "monthly",
        kron: "0 0 1 * *",
        croner: Some("0 0 1 * *"),
        cron: Some("0 0 0 1 * *"),
        walked: 700,
    },
    PatternCase {
        name: "29 February",
        kron: "0 0 29 2 *",
        croner: Some("0 0 29 2 *"),
        cron: Some("0 0 0 29 2 *"),
        walked: 14,
    },
    PatternCase {
        name: "last Friday",
        kron: "0 18 * * FRI#L",
        croner: Some("0 18 * * FRI#L"),
        cron: None,
        walked: 700,
    },
    PatternCase {
        name: "last weekday",
        kron: "0 18 LW * *",
        croner: Some("0 18 LW * *"),
        cron: None,
        walked: 700,
    },
];

/// A pattern case made ready in every crate.
pub(crate) struct Schedules {
    pub(crate) kron: Schedule,
    pub(crate) croner: Option<croner::Cron>,
    pub(crate) cron: Option<cron::Schedule>,
}

impl Schedules {
    pub(crate) fn of(case: &PatternCase) -> Schedules {
        Schedules {
            kron: schedule(case.kron),
            croner: case.croner.map(|text| croner::Cron::from_str(text).expect("croner's syntax")),
            cron: case.cron.map(|text| cron::Schedule::from_str(text).expect("cron's syntax")),
        }
    }

    /// Kron and the peers must do the same work, so all must find the same instants.
    pub(crate) fn check(&self, name: &str) {
        for (&t, peer_t) in instants().iter().zip(peer_instants()) {
            let expected = self.kron.next_after(t).map(UtcSecond::unix);
            if let Some(cron) = &self.croner {
                let found = cron.find_next_occurrence(&peer_t, false).ok();
                assert_eq!(found.map(|t| t.timestamp()), expected, "croner, {name}, after {t}");
            }
            if let Some(cron) = &self.cron {
                let found = cron.after(&peer_t).next();
                assert_eq!(found.map(|t| t.timestamp()), expected, "cron, {name}, after {t}");
            }
        }
    }
}

pub(crate) fn schedule(pattern: &str) -> Schedule {
    Schedule::new(
        Pattern::parse(pattern, IDENTITY).expect("a pattern"),
        Zone::named(ZONE).expect("a zone"),
        Dst::default(),
    )
}

/// How many instants there are: a power of two, so that cycling over them is a mask.
pub(crate) const INSTANTS: usize = 1_024;

/// Instants strewn over five years, in no order.
pub(crate) fn instants() -> Vec<UtcSecond> {
    let mut state: u64 = 1;
    std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (state >> 33) as i64 % (LAST_INSTANT - FIRST_INSTANT);
        second(FIRST_INSTANT + offset)
    })
    .take(INSTANTS)
    .collect()
}

/// The same instants as the peers take them, with their offset already looked up.
pub(crate) fn peer_instants() -> Vec<DateTime<Tz>> {
    instants().into_iter().map(peer_instant).collect()
}

pub(crate) fn peer_instant(t: UtcSecond) -> DateTime<Tz> {
    let zone: Tz = ZONE.parse().expect("a zone");
    zone.timestamp_opt(t.unix(), 0).single().expect("an instant")
}

/// Where iterations begin.
pub(crate) fn start() -> UtcSecond {
    second(FIRST_INSTANT)
}

fn second(unix: i64) -> UtcSecond {
    UtcSecond::from_unix(unix).expect("a year before 9999")
}

/// Every distribution. The shape is not the default 2, for which a power is one multiplication.
pub(crate) fn distributions() -> [Distribution; 5] {
    [
        Distribution::Uniform,
        Distribution::SkewEarly { shape: 2.5 },
        Distribution::SkewLate { shape: 2.5 },
        Distribution::Exponential { lambda: 1.0, direction: Direction::Early },
        Distribution::Normal { mu: None, sigma: None },
    ]
}

/// Constraints that look at the clock only; one candidate in six passes under `uniform`.
pub(crate) const CLOCK: &str = "hours=5-8";
/// Constraints that look at the calendar; one candidate in seven passes under `uniform`.
pub(crate) const CALENDAR: &str = "dow=WED";
/// Constraints that no candidate passes.
pub(crate) const NEVER: &str = "dates=2000-01-01..2000-12-31";

/// A placement with a window of one week.
pub(crate) fn placement(distribution: Distribution, only: Option<&str>) -> Placement {
    let window = Window::new(WindowMode::After, Seconds::new(7 * 86_400)).expect("a window");
    Placement::new(IDENTITY, Zone::named(ZONE).expect("a zone"))
        .and_then(|placement| placement.with_spread(window, distribution))
        .and_then(|placement| placement.with_salt(SALT))
        .expect("a placement")
        .with_constraints(Constraints::parse(only.unwrap_or(""), "").expect("constraints"))
}

/// Nominal times that `placement` decides in exactly this many attempts.
pub(crate) fn nominals_with_attempts(placement: &Placement, attempts: u32) -> Vec<UtcSecond> {
    (0..)
        .map(|hour| second(FIRST_INSTANT + hour * 3_600))
        .filter(|&nominal| {
            placement.decide(nominal).is_ok_and(|decision| decision.attempts == attempts)
        })
        .take(256)
        .collect()
}

/// The bytes that the seed of a period is the SHA-256 of.
pub(crate) fn seed_input(nominal: UtcSecond) -> Vec<u8> {
    format!("{IDENTITY}\n{nominal}\n{SALT}").into_bytes()
}

/// An expression with every kind of modifier that decides.
pub(crate) const EXPRESSION: &str = "0 3 * * * @tz(Europe/Paris) @win(around,90m) \
    @dist(skewLate,shape=2.5) @seed(daily,salt=msgs) @avoid(dow=SAT,SUN; between=12:00-13:00)";

/// Jobs with daily periods: every distribution, several zones, some constraints.
pub(crate) fn daily_jobs(count: usize) -> Vec<Timing> {
    let zones = ["UTC", "Europe/Paris", "America/New_York", "Asia/Tokyo"];
    let mut parser = TimingParser::new();
    (0..count)
        .map(|index| {
            let text = format!(
                "{} {} * * * @tz({}) @win(after,{}h) @dist({}){}",
                index % 60,
                index % 24,
                zones[index % zones.len()],
                1 + index % 8,
                Distribution::NAMES[index % Distribution::NAMES.len()],
                if index % 10 == 0 { " @avoid(dow=SUN)" } else { "" },
            );
            parser.parse(&text, &format!("fleet/job-{index}"), Host::default()).expect("a job")
        })
        .collect()
}

/// The year that jobs are forecast over, in hours.
pub(crate) fn year() -> kron_core::Horizon {
    let from = second(FIRST_INSTANT);
    kron_core::Horizon::new(from, second(FIRST_INSTANT + 365 * 86_400), Seconds::new(3_600))
        .expect("a horizon")
}
