//! Pages: every row once, whatever comes and goes between them.

use std::collections::BTreeSet;

use kron_queue::{RetryPolicy, Rules};
use serde_json::{Value, json};

use crate::world::{World, ids};

/// Reads a list to its end, doing something after each page.
async fn walk(world: &World, path: &str, key: &str, mut between: impl AsyncFnMut()) -> Vec<String> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.get(&format!("{path}{cursor}")).await.expect(200);
        all.extend(ids(&page, key));
        match page["next"].as_str() {
            None => return all,
            Some(next) => cursor = format!("&cursor={next}"),
        }
        between().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_is_seen_once_while_rows_come_and_go() {
    let world = World::new().await;
    let mut stay = BTreeSet::new();
    let mut go = Vec::new();
    for n in 0..30 {
        let id = world.add(json!({"job_type": "story", "priority": n % 3})).await;
        if n % 3 == 0 {
            go.push(id);
        } else {
            stay.insert(id);
        }
    }
    for path in
        ["/jobs?limit=4", "/jobs?order=queue&limit=4", "/jobs?state=queued&job_type=story&limit=4"]
    {
        let mut left = go.clone();
        let seen = walk(&world, path, "job_id", async || {
            world.add(json!({"job_type": "story", "priority": 5})).await;
            if let Some(id) = left.pop() {
                world.delete(&format!("/jobs/{id}")).await;
            }
        })
        .await;
        let once: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(once.len(), seen.len(), "{path}: a row twice");
        assert!(stay.iter().all(|id| once.contains(id)), "{path}: a row was lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_find_what_they_name() {
    // The retry of what fails is not claimed in the place of another, however long this takes.
    let retry = RetryPolicy { backoff_first_ms: 3_600_000, ..RetryPolicy::default() };
    let world = World::with(Rules { retry, workers_max: 100, ..Rules::default() }).await;
    let template = json!({"name": "t", "job_type": "research"});
    let template = world.post("/job-templates", template).await.expect(201);
    let template = template["template_id"].as_str().unwrap();
    let failed =
        world.add(json!({"job_type": "story", "params": {"fail": 1}, "priority": 9})).await;
    let completed = world.add(json!({"job_type": "story", "priority": 9})).await;
    let skipped =
        world.add(json!({"job_type": "research", "params": {"skip": 1}, "priority": 9})).await;
    for _ in 0..3 {
        let run = world.claim().await;
        world.finish(run).await;
    }
    let running = world.add(json!({"job_type": "story", "priority": 9})).await;
    world.claim().await;
    let delayed =
        world.add(json!({"job_type": "story", "not_before": "2999-01-01T00:00:00Z"})).await;
    let later =
        world.add(json!({"template_id": template, "not_before": "2999-01-02T00:00:00Z"})).await;
    let cancelled = world.add(json!({"job_type": "story"})).await;
    world.delete(&format!("/jobs/{cancelled}")).await.expect(200);
    let group =
        json!({"mode": "sequential", "jobs": [{"job_type": "story"}, {"job_type": "story"}]});
    let group = world.post("/job-groups", group).await.expect(201);
    let group_id = group["group_id"].as_str().unwrap();
    let member = |n: usize| group["jobs"][n]["job_id"].as_str().unwrap().to_owned();
    // The failed one has a successor, which waits.
    let retries = world.get("/jobs?state=delayed").await.expect(200);
    let retry = ids(&retries, "job_id")[0].clone();
    let rows: Vec<(String, Vec<&String>)> = vec![
        ("state=failed".into(), vec![&failed]),
        ("state=completed".into(), vec![&completed]),
        ("state=skipped".into(), vec![&skipped]),
        ("state=running".into(), vec![&running]),
        ("state=delayed".into(), vec![&retry, &delayed, &later]),
        ("state=cancelled".into(), vec![&cancelled]),
        ("state=completed&job_type=story".into(), vec![&completed]),
        ("state=failed&job_type=research".into(), vec![]),
        ("job_type=research".into(), vec![&later, &skipped]),
        (format!("template_id={template}"), vec![&later]),
        (format!("template_id={template}&state=queued"), vec![]),
        ("job_type=nothing".into(), vec![]),
    ];
    for (query, expected) in rows {
        let page = world.get(&format!("/jobs?{query}")).await.expect(200);
        assert_eq!(ids(&page, "job_id").iter().collect::<Vec<_>>(), expected, "{query}");
        let paged = walk(&world, &format!("/jobs?{query}&limit=1"), "job_id", async || {}).await;
        assert_eq!(paged.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    let by_group = world.get(&format!("/jobs?group_id={group_id}")).await.expect(200);
    assert_eq!(ids(&by_group, "job_id"), [member(1), member(0)]);
    let blocked = world.get("/jobs?state=blocked").await.expect(200);
    assert_eq!(ids(&blocked, "job_id"), [member(1)]);
    let queued = world.get(&format!("/jobs?state=queued&group_id={group_id}")).await.expect(200);
    assert_eq!(ids(&queued, "job_id"), [member(0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_ends_before_it_is_too_large() {
    let world = World::new().await;
    let text = "x".repeat(200 * 1024);
    let jobs: Vec<Value> =
        (0..30).map(|_| json!({"job_type": "story", "params": {"text": text}})).collect();
    world.post("/jobs/batch", json!({"jobs": jobs})).await.expect(201);
    let got = world.get("/jobs?limit=1000").await;
    assert!(got.bytes.len() < 5 * 1024 * 1024, "{} bytes", got.bytes.len());
    let page = got.expect(200);
    assert!(!page["next"].is_null());
    let all = walk(&world, "/jobs?limit=1000", "job_id", async || {}).await;
    assert_eq!(all.len(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_of_others_are_refused() {
    let world = World::new().await;
    for _ in 0..3 {
        world.add(json!({"job_type": "story"})).await;
    }
    let page = world.get("/jobs?limit=1").await.expect(200);
    let ours = page["next"].as_str().unwrap();
    for path in [
        "/jobs?order=queue",
        "/job-runs?limit=1",
        "/job-groups?limit=2",
        "/jobs?state=failed",
        "/jobs?state=delayed",
        "/schedules?limit=1",
    ] {
        world.get(&format!("{path}&cursor={ours}")).await.problem(400, "bad-cursor");
    }
    for bad in ["", "x", "%00", "73", "737", "7378", "s1", "ZZ", &"7".repeat(4_000)] {
        let got = world.get(&format!("/jobs?cursor={bad}")).await;
        assert_eq!(got.problem(400, "bad-cursor")["field"], "cursor", "{bad}");
    }
}
