//! What becomes of every field of a CronJob.

use super::*;

const NOW: &str = "2026-03-01T00:00:00Z";

fn cronjob(spec: Value) -> Value {
    let mut spec = spec;
    spec["jobTemplate"] = json!({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}});
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "backup", "namespace": "prod"},
        "spec": spec,
    })
}

fn taken(object: &Value, wishes: &Wishes) -> Migrated {
    let now = NOW.parse().unwrap();
    match migrate(&mut TimingParser::new(), object, wishes, now) {
        Ok(migrated) => migrated,
        Err(LeftOut { identity, reason }) => panic!("{identity}: {reason}"),
    }
}

fn refused(object: &Value) -> String {
    let now = NOW.parse().unwrap();
    match migrate(&mut TimingParser::new(), object, &Wishes::default(), now) {
        Ok(migrated) => panic!("taken: {}", migrated.kronjob),
        Err(LeftOut { reason, .. }) => reason,
    }
}

fn has_note(migrated: &Migrated, part: &str) -> bool {
    migrated.notes.iter().any(|note| note.contains(part))
}

#[test]
fn every_field_is_taken_over() {
    let object = cronjob(json!({
        "schedule": "0 3 * * *",
        "timeZone": "Asia/Tokyo",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 600,
        "suspend": true,
        "successfulJobsHistoryLimit": 5,
        "failedJobsHistoryLimit": 0,
    }));
    let migrated = taken(&object, &Wishes::default());
    assert_eq!(
        migrated.kronjob,
        json!({
            "apiVersion": "kron.dev/v1alpha1",
            "kind": "KronJob",
            "metadata": {"name": "backup", "namespace": "prod"},
            "spec": {
                "schedule": "0 3 * * *",
                "timeZone": "Asia/Tokyo",
                "policy": {"concurrency": "forbid", "deadline": "10m", "suspend": true},
                "successfulJobsHistoryLimit": 5,
                "failedJobsHistoryLimit": 0,
                "jobTemplate": object["spec"]["jobTemplate"],
            },
        })
    );
    assert!(migrated.is_suspended);
    assert!(!migrated.is_deployed);
    assert_eq!(migrated.notes, [FORBID]);
}

#[test]
fn a_run_that_is_kept_back_is_told_for_forbid_alone() {
    for (policy, expected) in [("Forbid", true), ("Allow", false), ("Replace", false)] {
        let object = cronjob(json!({"schedule": "0 3 * * *", "concurrencyPolicy": policy}));
        let migrated = taken(&object, &Wishes::default());
        assert_eq!(has_note(&migrated, "records it as `skipped`"), expected, "{policy}");
    }
}

#[test]
fn times_of_a_namespace_that_nobody_said_are_told() {
    let mut object = cronjob(json!({"schedule": "0 3 * * *"}));
    object["metadata"] = json!({"name": "backup"});
    let window = Some(("after".to_owned(), Seconds::new(3_600)));
    let spread = Wishes { window: window.clone(), ..Wishes::default() };
    let told = "those of the namespace `default`";
    let unsaid = taken(&object, &spread);
    assert!(has_note(&unsaid, told), "{:?}", unsaid.notes);
    assert_eq!(unsaid.timing.placement().identity(), "default/backup");
    // Without a window there is nothing to choose.
    assert!(!has_note(&taken(&object, &Wishes::default()), told));
    let said = Wishes { window, namespace: Some("prod".to_owned()), ..Wishes::default() };
    let said = taken(&object, &said);
    assert!(!has_note(&said, told), "{:?}", said.notes);
    assert_eq!(said.timing.placement().identity(), "prod/backup");
}

#[test]
fn what_a_cronjob_leaves_open_is_what_its_controller_does() {
    let migrated = taken(&cronjob(json!({"schedule": "*/10 * * * *"})), &Wishes::default());
    let spec = &migrated.kronjob["spec"];
    assert_eq!(spec["timeZone"], "UTC");
    assert_eq!(spec["policy"], json!({"concurrency": "allow", "deadline": "10m"}));
    assert!(spec.get("successfulJobsHistoryLimit").is_none(), "3 is the default of both");
    assert!(has_note(&migrated, "says no `timeZone`"), "{:?}", migrated.notes);
    assert!(has_note(&migrated, "within 10m, the shortest time"), "{:?}", migrated.notes);
    // Between the first and the second of a month, and between months.
    let uneven = taken(&cronjob(json!({"schedule": "0 0 1,2 * *"})), &Wishes::default());
    assert_eq!(uneven.kronjob["spec"]["policy"]["deadline"], "1d");
    let zoned = Wishes { zone: Some("Europe/Paris".to_owned()), ..Wishes::default() };
    let zoned = taken(&cronjob(json!({"schedule": "0 3 * * *"})), &zoned);
    assert_eq!(zoned.kronjob["spec"]["timeZone"], "Europe/Paris");
}

#[test]
fn a_zone_in_the_schedule_comes_first() {
    let object = cronjob(json!({"schedule": "CRON_TZ=Asia/Tokyo 0 3 * * *", "timeZone": "UTC"}));
    let migrated = taken(&object, &Wishes::default());
    assert_eq!(migrated.kronjob["spec"]["timeZone"], "Asia/Tokyo");
    assert_eq!(migrated.kronjob["spec"]["schedule"], "0 3 * * *");
}

#[test]
fn lengths_of_time_count_from_the_last_run() {
    let mut object = cronjob(json!({"schedule": "@every 1h", "timeZone": "Europe/Paris"}));
    object["metadata"]["creationTimestamp"] = json!("2026-02-01T10:17:23Z");
    let created = taken(&object, &Wishes::default());
    assert_eq!(created.kronjob["spec"]["schedule"], "23 17 * * * *");
    assert_eq!(created.kronjob["spec"]["timeZone"], "UTC");
    object["status"] = json!({"lastScheduleTime": "2026-02-28T23:05:00Z"});
    let ran = taken(&object, &Wishes::default());
    assert_eq!(ran.kronjob["spec"]["schedule"], "5 * * * *");
}

#[test]
fn a_window_is_never_longer_than_periods_are_apart() {
    let wishes = Wishes {
        window: Some(("around".to_owned(), Seconds::new(1_800))),
        distribution: Some(json!({"name": "skewEarly", "params": {"shape": 3}})),
        ..Wishes::default()
    };
    let daily = taken(&cronjob(json!({"schedule": "0 3 * * *"})), &wishes);
    let spec = &daily.kronjob["spec"];
    assert_eq!(spec["window"], json!({"mode": "around", "duration": "30m"}));
    assert_eq!(spec["distribution"], json!({"name": "skewEarly", "params": {"shape": 3}}));
    let often = taken(&cronjob(json!({"schedule": "*/5 * * * *"})), &wishes);
    assert_eq!(often.kronjob["spec"]["window"]["duration"], "5m");
    assert!(has_note(&often, "the window is 5m, not 30m"), "{:?}", often.notes);
}

#[test]
fn changes_of_the_clock_are_told_where_they_matter() {
    let note = |schedule: &str, zone: &str| {
        let object = cronjob(json!({"schedule": schedule, "timeZone": zone}));
        let migrated = taken(&object, &Wishes::default());
        migrated.notes.into_iter().find(|note| note.contains("clocks are changed"))
    };
    // 2:30 does not exist on 29 March, and comes twice on 25 October.
    assert_eq!(
        note("30 2 * * *", "Europe/Paris").as_deref(),
        Some(
            "where clocks are changed, a time that the clocks jump over is left out by the CronJob \
             and run by the KronJob, first at 2026-03-29 03:30:00+02:00; a time that the clocks show \
             twice is run twice by the CronJob and once by the KronJob, first at 2026-10-25 \
             02:30:00+01:00. `dst: {gap: skip, overlap: both}` is the way of the CronJob"
        )
    );
    // No more is said than differs.
    let gap = note("30 2 * 3 *", "Europe/Paris").expect("it is told");
    assert!(gap.contains("`dst: {gap: skip}`") && !gap.contains("twice"), "{gap}");
    let overlap = note("30 2 * 10 *", "Europe/Paris").expect("it is told");
    assert!(overlap.contains("`dst: {overlap: both}`") && !overlap.contains("jump"), "{overlap}");
    assert_eq!(note("*/30 * * * *", "Europe/Paris"), None);
    assert_eq!(note("30 12 * * *", "Europe/Paris"), None);
    assert_eq!(note("30 2 * * *", "Asia/Tokyo"), None);
    assert_eq!(note("30 2 * * *", "UTC"), None);
}

#[test]
fn what_is_told_about_clocks_makes_the_times_the_same() {
    for (schedule, dst) in [
        ("30 2 * * *", json!({"gap": "skip", "overlap": "both"})),
        ("30 2 * 3 *", json!({"gap": "skip"})),
        ("30 2 * 10 *", json!({"overlap": "both"})),
    ] {
        let object = cronjob(json!({"schedule": schedule, "timeZone": "Europe/Paris"}));
        let mut migrated = taken(&object, &Wishes::default());
        migrated.kronjob["spec"]["dst"] = dst;
        let spec = serde_json::from_value(migrated.kronjob["spec"].clone()).unwrap();
        let same = timing(&mut TimingParser::new(), "prod/backup", &spec).unwrap();
        let now: UtcSecond = NOW.parse().unwrap();
        let end = now.saturating_add(366 * 86_400);
        let times = |schedule: &Schedule| -> Vec<UtcSecond> {
            schedule.after(now).take_while(|t| *t < end).collect()
        };
        let (old, new) = (times(&migrated.old_times), times(migrated.timing.schedule()));
        assert_ne!(new, old, "{schedule}");
        assert_eq!(times(same.schedule()), old, "{schedule}");
    }
}

#[test]
fn labels_of_deployment_tools_stay_behind() {
    let mut object = cronjob(json!({"schedule": "0 3 * * *"}));
    object["metadata"]["labels"] = json!({
        "app": "shop",
        "app.kubernetes.io/instance": "shop",
        "app.kubernetes.io/managed-by": "Helm",
        "kustomize.toolkit.fluxcd.io/name": "shop",
    });
    object["metadata"]["annotations"] = json!({
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "argocd.argoproj.io/tracking-id": "shop:batch/CronJob:prod/backup",
        "argocd.argoproj.io/sync-wave": "2",
        "meta.helm.sh/release-name": "shop",
    });
    object["metadata"]["uid"] = json!("1");
    object["metadata"]["ownerReferences"] = json!([{"kind": "Shop", "name": "s"}]);
    object["metadata"]["finalizers"] = json!(["a/b"]);
    let migrated = taken(&object, &Wishes::default());
    assert_eq!(
        migrated.kronjob["metadata"],
        json!({
            "name": "backup",
            "namespace": "prod",
            "labels": {"app": "shop"},
            "annotations": {"argocd.argoproj.io/sync-wave": "2"},
        })
    );
    for part in [
        "`app.kubernetes.io/managed-by`",
        "`meta.helm.sh/release-name`",
        "deployed by a tool, which may undo a suspension",
        "Shop `s`",
        "a/b",
    ] {
        assert!(has_note(&migrated, part), "{part}: {:?}", migrated.notes);
    }
    assert!(!has_note(&migrated, "last-applied"));
    assert!(migrated.is_deployed);
    // Whoever manages it otherwise says so in the same label.
    object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "me"});
    object["metadata"]["annotations"] = json!({"owner": "me"});
    let mine = taken(&object, &Wishes::default());
    assert_eq!(mine.kronjob["metadata"]["labels"]["app.kubernetes.io/managed-by"], "me");
    assert!(mine.is_deployed, "it belongs to a Shop");
    assert!(!has_note(&mine, "deployed by a tool"), "{:?}", mine.notes);
    object["metadata"]["ownerReferences"] = json!([]);
    assert!(!taken(&object, &Wishes::default()).is_deployed);
}

#[test]
fn what_has_no_counterpart_is_told() {
    let object = cronjob(json!({
        "schedule": "0 3 * * *",
        "newThing": {"a": 1},
        "successfulJobsHistoryLimit": 5000,
        "startingDeadlineSeconds": null,
    }));
    let migrated = taken(&object, &Wishes::default());
    assert!(has_note(&migrated, "`spec.newThing` has no counterpart"), "{:?}", migrated.notes);
    assert!(has_note(&migrated, "1000, the most there is, not 5000"), "{:?}", migrated.notes);
}

#[test]
fn the_template_loses_nothing_but_nulls() {
    let mut object = cronjob(json!({"schedule": "0 3 * * *"}));
    object["spec"]["jobTemplate"] = json!({
        "metadata": {"creationTimestamp": null, "labels": {"a": "b"}},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "args": ["", "null"]}]}}},
    });
    let migrated = taken(&object, &Wishes::default());
    assert_eq!(
        migrated.kronjob["spec"]["jobTemplate"],
        json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "args": ["", "null"]}]}}},
        })
    );
}

#[test]
fn what_cannot_be_said_is_left_out() {
    for (spec, part) in [
        (json!({"schedule": "@every 7m"}), "no equal"),
        (json!({"schedule": "61 * * * *"}), "spec.schedule"),
        (json!({"schedule": "0 3 * * *", "timeZone": "Mars/Olympus"}), "spec.timeZone"),
        (json!({"schedule": "0 3 * * *", "concurrencyPolicy": "Maybe"}), "concurrencyPolicy"),
        (json!({"schedule": "0 3 * * *", "suspend": "yes"}), "spec.suspend"),
        (json!({"schedule": "0 3 * * *", "startingDeadlineSeconds": -1}), "startingDeadline"),
        (json!({}), "no schedule"),
    ] {
        let reason = refused(&cronjob(spec));
        assert!(reason.contains(part), "{reason}");
    }
    let mut nameless = cronjob(json!({"schedule": "0 3 * * *"}));
    for name in ["", "../../etc/passwd", "A", "-a", "a/b"] {
        nameless["metadata"]["name"] = json!(name);
        assert!(refused(&nameless).contains("no name"), "{name}");
    }
}
