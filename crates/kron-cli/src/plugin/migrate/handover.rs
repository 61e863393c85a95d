//! When to change from a CronJob to its KronJob, so that no run is lost and none is doubled; and how to
//! change back.
//!
//! The CronJob's runs are those with a nominal time before it was suspended, the KronJob's those that
//! were chosen after it was made. So both must happen when the CronJob has started what the KronJob
//! would have chosen before, and before either starts the next one.

use kron_core::{Timing, UtcSecond};
use serde_json::Value;

use super::cronjob::Migrated;
use crate::plugin::kubectl::Kubectl;
use crate::text::duration;

/// How long a quiet time should be for somebody to run two commands in it.
const WISHED_SECONDS: i64 = 120;
/// Below this nobody can do it by hand.
const LEAST_SECONDS: i64 = 5;
/// How long the CronJob controller may take to start a run that is due.
const CONTROLLER_SECONDS: i64 = 10;
/// How many periods ahead such a time is looked for; after that the longest one is taken.
const PERIODS_MAX: usize = 300;

/// A time in which neither the CronJob nor the KronJob starts anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quiet {
    /// The first second.
    pub(super) from: UtcSecond,
    /// The first second that is too late; absent when nothing comes after.
    pub(super) until: Option<UtcSecond>,
}

/// The first quiet time that is long enough, or else the longest of those to come.
pub(super) fn quiet(timing: &Timing, now: UtcSecond) -> Option<Quiet> {
    let decide = |nominal: UtcSecond| {
        let due = timing.placement().decide(nominal).map_or(nominal, |decision| decision.due());
        let over = nominal.saturating_add(CONTROLLER_SECONDS).max(due.saturating_add(1));
        (nominal.min(due), over)
    };
    let schedule = timing.schedule();
    let mut over = schedule.prev_at_or_before(now).map_or(now, |last| decide(last).1).max(now);
    let mut longest: Option<Quiet> = None;
    for nominal in schedule.after(now).take(PERIODS_MAX) {
        let (begins, ends) = decide(nominal);
        let length = |quiet: Quiet| quiet.until.map_or(i64::MAX, |until| until.since(quiet.from));
        let found = Quiet { from: over, until: Some(begins) };
        if length(found) >= WISHED_SECONDS {
            return Some(found);
        }
        if longest.is_none_or(|known| length(known) < length(found)) {
            longest = Some(found);
        }
        over = over.max(ends);
    }
    match longest {
        None => Some(Quiet { from: over, until: None }),
        Some(found) => {
            let length = found.until.map_or(i64::MAX, |until| until.since(found.from));
            (length >= LEAST_SECONDS).then_some(found)
        }
    }
}

/// Whoever lifts a suspension of a CronJob without it has the time started that passed last, however
/// long ago that is. The controller looks back as far as the deadline, and takes a few seconds.
const RESUMING_PATCH: &str =
    "--patch={\"spec\":{\"suspend\":false,\"startingDeadlineSeconds\":10}}";
const SUSPENDING_PATCH: &str = "--patch={\"spec\":{\"suspend\":true}}";

/// What to do, in order: sentences, and commands that begin with two blanks.
pub(super) fn steps(
    migrated: &Migrated,
    kubectl: &Kubectl<'_>,
    file: &str,
    now: UtcSecond,
) -> Vec<String> {
    let Migrated { name, timing, .. } = migrated;
    let namespace = migrated.namespace.as_deref();
    let line = |words: &[&str]| format!("  {}", kubectl.command_line(namespace, words));
    let patch = |patch: &str| line(&["patch", "cronjob", name, "--type=merge", patch]);
    let apply = line(&["apply", "--filename", file]);
    let (delete_old, delete_new) =
        (line(&["delete", "cronjob", name]), line(&["delete", "kronjob", name]));
    let mut steps = Vec::new();
    let mut say = |lines: &[&str]| steps.extend(lines.iter().map(|&line| line.to_owned()));
    if migrated.is_deployed {
        say(&[
            "Whoever deploys the CronJob may undo these commands: do what they do in its source.",
        ]);
    }
    if migrated.is_suspended {
        say(&["The CronJob is suspended, and so is the KronJob; make it at any time:", &apply]);
    } else {
        say_when(migrated, now, &mut say);
        say(&[&patch(SUSPENDING_PATCH), &apply]);
        if timing.policy.concurrency != kron_core::Concurrency::Allow {
            say(&[
                "A Job that the CronJob has started is not the KronJob's: they may run side by \
                   side.",
            ]);
        }
    }
    say(&[
        "When you are content; this removes the Jobs that the CronJob has made, too, and with them",
        "their history:",
        &delete_old,
        "To go back instead, between two runs; this removes the Jobs that the KronJob has made, too:",
        &delete_new,
    ]);
    if migrated.is_suspended {
        return steps;
    }
    if is_interval(&migrated.cronjob) {
        // With a deadline shorter than its interval, `@every` never falls due.
        say(&[
            "and create the CronJob anew, so that it counts from then: lifting the suspension would",
            "start the time that passed last.",
        ]);
    } else {
        say(&[
            &patch(RESUMING_PATCH),
            "Without that deadline the CronJob starts the time that passed last. Give it its own again",
            "after its next run.",
        ]);
    }
    steps
}

/// Says when to change over, and what that is worth.
fn say_when(migrated: &Migrated, now: UtcSecond, say: &mut dyn FnMut(&[&str])) {
    match quiet(&migrated.timing, now) {
        Some(Quiet { from, until: Some(until) }) => {
            let (from, length) = (from.max(now), duration(until.since(from)));
            let when = format!("Run these two from {from} and before {until} ({length}), in this");
            // Nobody knows what a tool does meanwhile.
            let promise = match migrated.is_deployed {
                true => "order:",
                false => "order; then no run is lost and none is doubled:",
            };
            say(&[&when, promise]);
        }
        Some(Quiet { from, until: None }) => {
            say(&[&format!("Run these two from {from} on, in this order:")]);
        }
        None => say(&[
            "It runs too often to change in between by hand: run these two at once, in",
            "this order; a run in between may be lost, and one whose window is open",
            "may be doubled:",
        ]),
    }
}

/// Whether a CronJob counts from its last run.
fn is_interval(cronjob: &Value) -> bool {
    cronjob["spec"]["schedule"].as_str().is_some_and(|schedule| schedule.contains("@every"))
}

#[cfg(test)]
mod tests {
    use kron_core::{Host, TimingParser};
    use serde_json::json;

    use super::*;
    use crate::args::ClusterArgs;
    use crate::plugin::migrate::cronjob::{Wishes, migrate};

    /// The steps for a CronJob, as one text.
    fn told(metadata: Value, spec: Value) -> String {
        let (mut metadata, mut spec) = (metadata, spec);
        metadata["name"] = json!("backup");
        spec["jobTemplate"] = json!({"spec": {}});
        let object = json!({"metadata": metadata, "spec": spec});
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let migrated = migrate(&mut TimingParser::new(), &object, &Wishes::default(), now);
        let Ok(migrated) = migrated else { panic!("{object}") };
        let cluster = ClusterArgs {
            namespace: Some("unsaid".to_owned()),
            token: Some("secret".to_owned().into()),
            ..ClusterArgs::default()
        };
        let steps = steps(&migrated, &Kubectl::new(&cluster), "FILE", now).join("\n");
        assert!(!steps.contains("secret"), "{steps}");
        steps
    }

    const PROMISE: &str = "no run is lost and none is doubled";
    const RESUME: &str = "'--patch={\"spec\":{\"suspend\":false,\"startingDeadlineSeconds\":10}}'";

    #[test]
    fn every_way_there_and_back_is_told() {
        assert_eq!(
            told(json!({}), json!({"schedule": "0 3 * * *"})),
            "Run these two from 2026-03-01T12:00:00Z and before 2026-03-02T03:00:00Z (15h), in this
order; then no run is lost and none is doubled:
  kubectl patch cronjob backup --type=merge '--patch={\"spec\":{\"suspend\":true}}'
  kubectl apply --filename FILE
When you are content; this removes the Jobs that the CronJob has made, too, and with them
their history:
  kubectl delete cronjob backup
To go back instead, between two runs; this removes the Jobs that the KronJob has made, too:
  kubectl delete kronjob backup
  kubectl patch cronjob backup --type=merge \
'--patch={\"spec\":{\"suspend\":false,\"startingDeadlineSeconds\":10}}'
Without that deadline the CronJob starts the time that passed last. Give it its own again
after its next run."
        );
    }

    #[test]
    fn a_cronjob_that_is_suspended_stays_so() {
        assert_eq!(
            told(json!({}), json!({"schedule": "0 3 * * *", "suspend": true})),
            "The CronJob is suspended, and so is the KronJob; make it at any time:
  kubectl apply --filename FILE
When you are content; this removes the Jobs that the CronJob has made, too, and with them
their history:
  kubectl delete cronjob backup
To go back instead, between two runs; this removes the Jobs that the KronJob has made, too:
  kubectl delete kronjob backup"
        );
    }

    #[test]
    fn where_a_tool_may_undo_it_nothing_is_promised() {
        let spec = json!({"schedule": "0 3 * * *"});
        let told_plain = told(json!({}), spec.clone());
        assert!(told_plain.contains(PROMISE) && !told_plain.contains("may undo"), "{told_plain}");
        for metadata in [
            json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}),
            json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop"}}),
            json!({"ownerReferences": [{"kind": "Shop", "name": "s"}]}),
        ] {
            let told = told(metadata, spec.clone());
            assert!(!told.contains(PROMISE), "{told}");
            assert!(told.starts_with("Whoever deploys the CronJob may undo"), "{told}");
            assert!(told.contains("(15h), in this\norder:\n"), "{told}");
        }
    }

    #[test]
    fn with_a_short_deadline_an_interval_would_never_fall_due() {
        let told_cron = told(json!({}), json!({"schedule": "*/5 * * * *"}));
        assert!(told_cron.contains(RESUME), "{told_cron}");
        for schedule in ["@every 5m", "TZ=Asia/Tokyo @every 5m"] {
            let told = told(json!({}), json!({ "schedule": schedule }));
            assert!(!told.contains(RESUME), "{told}");
            assert!(told.contains("create the CronJob anew"), "{told}");
        }
    }

    fn check(expression: &str, now: &str, expected: Option<(&str, Option<&str>)>) {
        let timing = TimingParser::new().parse(expression, "prod/backup", Host::default()).unwrap();
        let found = quiet(&timing, now.parse().unwrap());
        let shown = found.map(|it| (it.from.to_string(), it.until.map(|it| it.to_string())));
        let expected = expected.map(|(from, until)| (from.to_owned(), until.map(str::to_owned)));
        assert_eq!(shown, expected, "{expression} at {now}");
    }

    #[test]
    fn between_two_runs_is_a_quiet_time() {
        let (now, next) = ("2026-03-01T12:00:00Z", "2026-03-02T03:00:00Z");
        check("0 3 * * *", now, Some((now, Some(next))));
        // The controller may not have started it yet.
        check(
            "0 3 * * *",
            "2026-03-01T03:00:00Z",
            Some(("2026-03-01T03:00:10Z", Some("2026-03-02T03:00:00Z"))),
        );
        // Too close to the next one.
        check(
            "0 3 * * *",
            "2026-03-01T02:59:00Z",
            Some(("2026-03-01T03:00:10Z", Some("2026-03-02T03:00:00Z"))),
        );
        check("* * * * * *", now, None);
        check("0 0 0 1 1 * 2020", now, Some((now, None)));
    }

    #[test]
    fn a_period_that_the_cronjob_has_run_must_be_over_for_the_kronjob() {
        let expression = "0 3 * * * @win(after,3h)";
        let timing = TimingParser::new().parse(expression, "prod/backup", Host::default()).unwrap();
        let nominal: UtcSecond = "2026-03-01T03:00:00Z".parse().unwrap();
        let chosen = timing.placement().decide(nominal).unwrap().chosen.unwrap();
        assert!(chosen.since(nominal) > WISHED_SECONDS, "the test needs a chosen time {chosen}");
        let found = quiet(&timing, nominal.saturating_add(10)).unwrap();
        assert_eq!(found.from, chosen.saturating_add(1));
        assert_eq!(found.until.unwrap().to_string(), "2026-03-02T03:00:00Z");
        // With a window before, the KronJob comes first.
        let before = "0 3 * * * @win(before,3h)";
        let timing = TimingParser::new().parse(before, "prod/backup", Host::default()).unwrap();
        let chosen = timing.placement().decide(nominal).unwrap().chosen.unwrap();
        assert!(chosen < nominal, "the test needs a chosen time {chosen}");
        let found = quiet(&timing, chosen.saturating_add(1)).unwrap();
        assert_eq!(found.from, nominal.saturating_add(CONTROLLER_SECONDS));
    }

    #[test]
    fn where_none_is_long_enough_the_longest_is_taken() {
        let found = "0,40 * * * * *";
        let timing = TimingParser::new().parse(found, "a", Host::default()).unwrap();
        let quiet = quiet(&timing, "2026-03-01T12:00:20Z".parse().unwrap()).unwrap();
        assert_eq!(quiet.from.to_string(), "2026-03-01T12:01:10Z");
        assert_eq!(quiet.until.unwrap().to_string(), "2026-03-01T12:01:40Z");
    }
}
