//! The judge: has the facts that the server wrote down, and what the schedule alone says.

use kron_core::{Decision, Outcome};

use super::server::{Era, Server};
use super::{CALM_S, LEASE_S, RECOVERY_S, STORMY_S, Weather};

pub(super) struct Judge<'a> {
    weather: Weather,
    server: &'a Server,
}

/// How often each rule was looked at, over all histories.
#[derive(Debug, Default)]
pub(super) struct Totals {
    made: usize,
    cleaned: usize,
    punctual: usize,
    never_missed: usize,
    accounted: usize,
    missed: usize,
    skipped: usize,
    unschedulable: usize,
}

impl Totals {
    pub(super) fn check(&self) {
        let Totals { made, cleaned, punctual, never_missed, accounted, .. } = *self;
        let least = [made, cleaned, punctual, never_missed, accounted].into_iter().min();
        assert!(least > Some(200), "{self:?}");
        let others = [self.missed, self.skipped, self.unschedulable].into_iter().min();
        assert!(others > Some(100), "{self:?}");
    }
}

impl<'a> Judge<'a> {
    pub(super) fn new(weather: Weather, server: &'a Server) -> Judge<'a> {
        Judge { weather, server }
    }

    pub(super) fn verdict(&self, totals: &mut Totals) -> Result<(), String> {
        if let Some(fault) = self.server.faults.first() {
            return Err(fault.clone());
        }
        totals.made += self.server.made.len();
        totals.cleaned += self.server.made.len() - self.server.jobs().len();
        for record in self.server.outcomes.values() {
            match record.outcome {
                Outcome::Executed => {}
                Outcome::Missed => totals.missed += 1,
                Outcome::Skipped => totals.skipped += 1,
                Outcome::Unschedulable => totals.unschedulable += 1,
            }
        }
        self.no_run_without_a_record()?;
        if self.weather.leaps {
            // Times of the wall clock mean nothing then.
            return Ok(());
        }
        self.starts(totals)?;
        self.misses(totals)?;
        self.accounts(totals)
    }

    /// Every Job's period is recorded in the end, and what is recorded as executed had a Job.
    fn no_run_without_a_record(&self) -> Result<(), String> {
        let handled = self.server.read().status.last_handled_period;
        for made in &self.server.made {
            if handled < Some(made.period) {
                return Err(format!("the Job of {} is not recorded", made.period));
            }
        }
        for record in self.server.outcomes.values() {
            let made = self.server.made.iter().any(|made| made.period == record.period_id);
            if record.outcome == Outcome::Executed && !made {
                return Err(format!("{} is executed without a Job", record.period_id));
            }
        }
        Ok(())
    }

    /// No Job of a period that was chosen at or before the creation, an edit or a resume; none
    /// before its second or after its deadline; none while suspended.
    fn starts(&self, totals: &mut Totals) -> Result<(), String> {
        let slack_s = self.weather.slack_s();
        for made in &self.server.made {
            let period = made.period;
            let Some(chosen) = made.chosen else {
                return Err(format!("{period} ran and nothing was chosen"));
            };
            if chosen <= self.server.created_at {
                return Err(format!("{period} was chosen before the creation"));
            }
            let late_s = made.wall.since(chosen);
            if late_s < 0 {
                return Err(format!("{period} ran {} s early", -late_s));
            }
            // Judged in time; carried out when requests got through.
            let allowed_s = self.server.specs.deadline_s + slack_s + LEASE_S;
            if late_s > allowed_s && !self.server.specs.replace {
                return Err(format!("{period} ran {late_s} s late"));
            }
            let chosen_second = self.server.second_of(chosen);
            for (before, after) in self.changes() {
                // What was seen, it must have heeded; only a replacement that had begun goes on.
                let seen = after.since < made.second - slack_s
                    || (after.generation <= made.generation && self.was_seen(before, after));
                let past = chosen_second <= after.since;
                let decides = before.spec.place != after.spec.place || before.spec.broken;
                let resumes = before.spec.suspend && !after.spec.suspend;
                if seen && past && (decides || resumes) && !self.server.specs.replace {
                    return Err(format!("{period} ran though it was changed at {}", after.since));
                }
            }
            let era = self.era_at(made.second - slack_s - 1);
            let since = self.era_at(made.second);
            let suspended = era.spec.suspend && since.since < made.second - slack_s;
            if suspended && since.spec.suspend && !self.server.specs.replace {
                return Err(format!("{period} ran while suspended"));
            }
            totals.punctual += 1;
        }
        Ok(())
    }

    /// Whether the spec was there for long enough that a leader must have read it.
    fn was_seen(&self, before: Era, after: Era) -> bool {
        let long_s = LEASE_S + RECOVERY_S + self.weather.slack_s();
        !self.weather.outages && after.since - before.since > long_s
    }

    fn changes(&self) -> impl Iterator<Item = (Era, Era)> + '_ {
        self.server.eras.windows(2).map(|pair| (pair[0], pair[1]))
    }

    fn era_at(&self, second: i64) -> Era {
        let eras = self.server.eras.iter().take_while(|era| era.since <= second.max(0));
        *eras.last().unwrap_or(&self.server.eras[0])
    }

    /// The periods of the definition that was there when they fell due, nothing having been edited
    /// around that time.
    fn plain_periods(&self) -> Vec<(Decision, i64)> {
        let around_s = LEASE_S + RECOVERY_S + self.weather.slack_s();
        let mut periods = Vec::new();
        for (place, era) in self.server.eras.iter().enumerate() {
            let until = self.server.eras.get(place + 1).map_or(STORMY_S + CALM_S, |era| era.since);
            if era.spec.broken || era.spec.suspend {
                continue;
            }
            let timing = &self.server.specs.definitions[era.spec.place][0].timing;
            for decision in timing.due_after(self.server.created_at) {
                let second = self.server.second_of(decision.due());
                if second > until - around_s {
                    break;
                }
                let edited = era.since > 0;
                if second > era.since + if edited { around_s } else { 0 } {
                    periods.push((decision, second));
                }
            }
        }
        periods
    }

    /// Where a leader comes back before the deadline and before the next period, nothing is missed.
    fn misses(&self, totals: &mut Totals) -> Result<(), String> {
        let specs = &self.server.specs;
        // An outage is longer than any deadline here; what is late is not seen in time.
        if self.weather.outages || self.weather.late || specs.deadline_s < 120 {
            return Ok(());
        }
        let mut periods = self.plain_periods();
        periods.sort_by_key(|(_, second)| *second);
        for pair in periods.windows(2) {
            let [(decision, second), (_, next)] = pair else { continue };
            if next - second < RECOVERY_S {
                continue;
            }
            let outcome = self.server.outcomes.get(&decision.nominal).map(|record| record.outcome);
            if !matches!(
                outcome,
                Some(Outcome::Executed | Outcome::Skipped | Outcome::Unschedulable)
            ) {
                return Err(format!("{} is {outcome:?}, though it could run", decision.nominal));
            }
            totals.never_missed += 1;
        }
        Ok(())
    }

    /// Every period that should have an outcome has one, by itself or in a stretch.
    fn accounts(&self, totals: &mut Totals) -> Result<(), String> {
        // Nobody was there to see what was edited during an outage.
        if self.weather.outages && self.server.eras.len() > 1 {
            return Ok(());
        }
        for (decision, _) in self.plain_periods() {
            let period = decision.nominal;
            let covered = self.server.outcomes.values().any(|record| {
                record.first_period_id.unwrap_or(record.period_id) <= period
                    && period <= record.period_id
            });
            if !covered {
                return Err(format!("{period} has no outcome"));
            }
            totals.accounted += 1;
        }
        Ok(())
    }
}
