//! What the rules add up to: replicas with stale pictures, lost and late requests, crashes, pauses,
//! terms that overlap, edits and clocks that leap, over many seeds; the real planner in the middle.
//!
//! The [`server`] is a little API server that writes down what happened to it, the [`replica`] does
//! what plans say by the rules of the controller (a claim of its own term, time left of its lease,
//! one step at a time, no look without a cause), and the [`judge`] knows nothing of either: it has
//! the facts, and what the schedule alone says.

mod judge;
mod replica;
mod server;

use kron_core::UtcSecond;
use kron_testkit::chance::Seeded;

use self::judge::Judge;
use self::replica::Replica;
use self::server::Server;
use super::{Definition, Keep, definition};

/// How many histories there are.
const SEEDS: u64 = 400;
/// How long one is, and how long it goes on undisturbed before it is judged.
const STORMY_S: i64 = 600;
const CALM_S: i64 = 150;
const REPLICAS: usize = 3;
/// How long a lease lasts, and what of it a leader does not use.
const LEASE_S: i64 = 15;
const LEASE_MARGIN_S: i64 = 1;
/// How old a picture of the cluster can be.
const STALE_MAX_S: i64 = 5;
/// How much later than its time limit a request can take effect.
const LATE_MAX_S: i64 = 20;
/// How long nothing else breaks after something broke.
const RECOVERY_S: i64 = 45;

/// Random numbers in the type of what they decide here, such as seconds.
struct Dice(Seeded);

impl Dice {
    /// A number below `bound`.
    fn below(&mut self, bound: i64) -> i64 {
        self.0.below(bound.unsigned_abs()).cast_signed()
    }

    /// True so many times of a thousand.
    fn one_of_1000(&mut self, times: i64) -> bool {
        self.below(1000) < times
    }
}

/// What can go wrong in a history.
#[derive(Clone, Copy, Debug)]
struct Weather {
    /// Replicas crash, are stopped for a while, and come back.
    crashes: bool,
    /// Everybody is away for minutes.
    outages: bool,
    /// Requests are lost, or their answers.
    losses: bool,
    /// Requests take effect after the time limit of their sender.
    late: bool,
    /// A replica takes the lease of one that still believes in it.
    overlaps: bool,
    /// Somebody edits what decides, breaks it and mends it.
    edits: bool,
    /// Somebody suspends and resumes.
    suspensions: bool,
    /// The wall clock is set.
    leaps: bool,
}

impl Weather {
    fn of(dice: &mut Dice, specs: &Specs) -> Weather {
        let leaps = dice.one_of_1000(200);
        // A Job that made room for another is gone while young, and an age is worth nothing when
        // the clock is set: then what is late must not be later than the lease.
        let late = !leaps && !specs.replace && dice.one_of_1000(400);
        Weather {
            crashes: dice.one_of_1000(700),
            outages: dice.one_of_1000(200),
            losses: dice.one_of_1000(600),
            late,
            overlaps: !leaps && !specs.replace && dice.one_of_1000(400),
            edits: dice.one_of_1000(300),
            suspensions: dice.one_of_1000(300),
            leaps,
        }
    }

    /// How long after something happened a start can follow from a picture without it.
    fn slack_s(self) -> i64 {
        let paused = if self.crashes { LEASE_S } else { 0 };
        let lost = if self.losses { 4 } else { 0 };
        STALE_MAX_S + paused + lost + if self.late { LATE_MAX_S } else { 0 }
    }
}

/// The definitions that a history goes through.
struct Specs {
    texts: Vec<String>,
    /// Each running and suspended.
    definitions: Vec<[Definition; 2]>,
    replace: bool,
    deadline_s: i64,
}

impl Specs {
    fn of(dice: &mut Dice) -> Specs {
        let concurrency = ["allow", "forbid", "replace"][usize::try_from(dice.below(3)).unwrap()];
        let deadline_s = [0, 20, 120, 120][usize::try_from(dice.below(4)).unwrap()];
        let timings = [
            "* * * * *",
            "*/2 * * * *",
            "* * * * * @win(after,60s)",
            "*/30 * * * * * @win(around,20s)",
            "*/20 * * * * * @win(before,20s) @dist(skewLate)",
            "* * * * * @win(after,40s) @avoid(between=00:04-00:07)",
        ];
        let keep = Keep {
            succeeded: usize::try_from(dice.below(3)).unwrap(),
            failed: usize::try_from(dice.below(2)).unwrap(),
            ttl_s: [None, None, Some(30), Some(0)][usize::try_from(dice.below(4)).unwrap()],
        };
        let mut texts = Vec::new();
        let mut definitions = Vec::new();
        for _ in 0..3 {
            let timing = timings[usize::try_from(dice.below(6)).unwrap()];
            let policy = |suspend| {
                let policy = format!("concurrency={concurrency},deadline={deadline_s}s");
                let text = format!("{timing} @policy({policy},suspend={suspend})");
                Definition { keep, ..definition(&text) }
            };
            texts.push(format!("{timing} {concurrency} {deadline_s}s {keep:?}"));
            definitions.push([policy(false), policy(true)]);
        }
        Specs { texts, definitions, replace: concurrency == "replace", deadline_s }
    }
}

/// The cluster and everybody who works on it.
struct World {
    dice: Dice,
    weather: Weather,
    server: Server,
    replicas: Vec<Replica>,
    /// Until when nothing else may break.
    recovering_until: i64,
    everybody_back: i64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(Seeded(seed));
        let specs = Specs::of(&mut dice);
        let weather = Weather::of(&mut dice, &specs);
        let offset_s = dice.below(120);
        let server = Server::new(specs, offset_s);
        let replicas = (0..REPLICAS).map(|number| Replica::new(number, &server)).collect();
        World { dice, weather, server, replicas, recovering_until: 0, everybody_back: 0 }
    }

    fn run(mut self) -> (Weather, Server) {
        let end = STORMY_S + CALM_S;
        for second in 0..end {
            self.server.set_time(second);
            let stormy = second < STORMY_S;
            if stormy {
                self.disturb(second);
            } else if second == STORMY_S {
                self.calm();
            }
            self.server.settle();
            let mut order: Vec<usize> = (0..REPLICAS).collect();
            for place in (1..REPLICAS).rev() {
                let other = usize::try_from(self.dice.below(i64::try_from(place + 1).unwrap()));
                order.swap(place, other.unwrap());
            }
            for round in 0..8 {
                for &number in &order {
                    let weather = if stormy { self.weather } else { Weather::CLEAR };
                    let replica = &mut self.replicas[number];
                    if round == 0 {
                        replica.begin_second(&mut self.server, &mut self.dice, weather);
                    }
                    replica.step(&mut self.server, &mut self.dice, weather);
                }
            }
        }
        (self.weather, self.server)
    }

    fn disturb(&mut self, second: i64) {
        let weather = self.weather;
        let dice = &mut self.dice;
        if weather.suspensions && dice.one_of_1000(8) {
            let suspend = !self.server.spec.suspend;
            self.server.edit(|spec| spec.suspend = suspend);
        }
        if weather.edits && dice.one_of_1000(8) {
            let place = usize::try_from(dice.below(3)).unwrap();
            let broken = dice.one_of_1000(200);
            self.server.edit(|spec| {
                spec.place = place;
                spec.broken = broken;
            });
        }
        if weather.leaps && dice.one_of_1000(6) {
            let by = dice.below(400) - 150;
            self.server.leap(by);
        }
        if second < self.recovering_until || second < self.everybody_back {
            return;
        }
        if weather.outages && dice.one_of_1000(4) {
            let away = 60 + dice.below(200);
            self.everybody_back = second + away;
            self.recovering_until = self.everybody_back + RECOVERY_S;
            for replica in &mut self.replicas {
                replica.crash(second + away);
            }
            return;
        }
        if weather.crashes && dice.one_of_1000(60) {
            let number = usize::try_from(dice.below(3)).unwrap();
            let away = 1 + dice.below(30);
            let replica = &mut self.replicas[number];
            match dice.below(3) {
                0 => replica.crash(second + away),
                1 => replica.pause(second + away),
                _ => replica.stop(&mut self.server, second + away),
            }
            self.recovering_until = second + RECOVERY_S;
        }
        if weather.overlaps && dice.one_of_1000(30) {
            let number = usize::try_from(dice.below(3)).unwrap();
            self.replicas[number].usurp(&mut self.server);
            self.recovering_until = second + RECOVERY_S;
        }
    }

    /// Somebody mends what is broken; everything is left to itself.
    fn calm(&mut self) {
        if self.server.spec.broken || self.server.spec.suspend {
            self.server.edit(|spec| {
                spec.broken = false;
                spec.suspend = false;
            });
        }
        for replica in &mut self.replicas {
            replica.come_back();
        }
    }
}

impl Weather {
    const CLEAR: Weather = Weather {
        crashes: false,
        outages: false,
        losses: false,
        late: false,
        overlaps: false,
        edits: false,
        suspensions: false,
        leaps: false,
    };
}

fn wall(unix_s: i64) -> UtcSecond {
    UtcSecond::from_unix(unix_s).unwrap()
}

#[test]
fn at_most_one_job_a_period_and_none_missed_that_could_run() {
    let mut totals = judge::Totals::default();
    for seed in 0..SEEDS {
        let (weather, server) = World::new(seed).run();
        let judge = Judge::new(weather, &server);
        if let Err(fault) = judge.verdict(&mut totals) {
            let texts = &server.specs.texts;
            panic!("seed {seed}: {fault}\n{weather:?}\n{texts:#?}\n{}", server.story());
        }
    }
    // A judge that had nothing to judge would be content, too.
    totals.check();
}
