//! The rules that the database keeps against everybody.

use kron_queue::{Outcome, Rules};

use crate::support::{World, at, many_workers};

/// What a shell is told that deletes: it lacks what only the queue's own connection has.
const PURGE_ONLY: &str = "no such function: kron_purge_permitted";

/// Runs a statement as a shell would, and expects to be told the rule.
fn refused(world: &World, sql: &str, rule: &str) {
    let shell = world.shell();
    let error = shell.execute_batch(sql).expect_err(sql).to_string();
    assert!(error.contains(rule), "`{sql}` said `{error}`, not `{rule}`");
}

#[test]
fn immutable_fields_of_jobs() {
    let world = World::new(many_workers());
    world.story();
    for (field, value) in [
        ("job_id", "'01900000-0000-7000-8000-000000000000'"),
        ("seq", "99"),
        ("template_id", "'x'"),
        ("schedule_id", "'x'"),
        ("period_id", "'2026-03-01T00:00:00Z'"),
        ("group_id", "'x'"),
        ("job_type", "'other'"),
        ("retry_of", "'x'"),
        ("attempt", "1"),
        ("created_at", "'2026-03-01T00:00:00.000Z'"),
        ("queued_at", "'2026-03-01T00:00:00.000Z'"),
        ("idempotency_key", "'k'"),
    ] {
        refused(&world, &format!("UPDATE jobs SET {field} = {value}"), "immutable");
    }
}

#[test]
fn status_goes_one_way_and_needs_its_run() {
    let world = World::new(many_workers());
    world.story();
    let running = "UPDATE jobs SET status = 'RUNNING', started_at = '2026-03-01T00:00:00.000Z'";
    refused(&world, running, "only with its JobRun");
    refused(&world, "UPDATE jobs SET status = 'DONE'", "never back");
    world.claim(1);
    refused(&world, "UPDATE jobs SET status = 'QUEUED'", "never back");
    for change in ["params = '{}'", "priority = 5", "position = 5", "not_before = queued_at"] {
        refused(&world, &format!("UPDATE jobs SET {change}"), "only while QUEUED");
    }
    let over = "UPDATE jobs SET finished_at = '2026-03-01T00:00:00.000Z'";
    refused(&world, over, "finishes after its JobRun");
}

#[test]
fn fields_written_once() {
    let world = World::new(many_workers());
    world.story();
    let run = world.claim(1);
    refused(&world, "UPDATE jobs SET started_at = queued_at", "written once");
    refused(&world, "UPDATE jobs SET worker_id = 'another'", "written once");
    world.finish(&run, Outcome::Completed, 2).unwrap();
    refused(&world, "UPDATE jobs SET finished_at = NULL", "written once");
    refused(&world, "UPDATE jobs SET finished_at = queued_at", "written once");
    refused(&world, "UPDATE jobs SET retry_decision = 'retried'", "written once");
    refused(
        &world,
        "UPDATE jobs SET status = 'CANCELLED'",
        "from QUEUED to RUNNING or CANCELLED and never back",
    );
}

#[test]
fn a_run_with_its_outcome_is_final() {
    let world = World::new(many_workers());
    world.story();
    let run = world.claim(1);
    for change in [
        "run_id = 'x'",
        "params_snapshot = '{}'",
        "started_at = '2026-03-01T00:00:00.000Z'",
        "claim_token = 'x'",
        "worker_id = 'x'",
        "template_id = 'x'",
    ] {
        refused(&world, &format!("UPDATE job_runs SET {change}"), "immutable");
    }
    let shell = world.shell();
    shell.execute_batch("UPDATE job_runs SET artifacts = '[{\"a\":1}]'").unwrap();
    shell.execute_batch("UPDATE job_runs SET artifacts = '[{\"a\":1}, 2]'").unwrap();
    refused(&world, "UPDATE job_runs SET artifacts = '[2, {\"a\":1}]'", "append-only");
    refused(&world, "UPDATE job_runs SET artifacts = '[{\"a\":1}]'", "append-only");
    shell.execute_batch("UPDATE job_runs SET artifacts = '[{\"a\":1}, 2, 3]'").unwrap();
    // What a shell wrote there is not what `artifacts` are; start again for the rest.
    drop(shell);
    let world = World::new(many_workers());
    world.story();
    let _ = run;
    let run = world.claim(1);
    world.finish(&run, Outcome::Failed, 2).unwrap();
    for change in ["status = 'COMPLETED'", "status = NULL", "finished_at = started_at"] {
        refused(&world, &format!("UPDATE job_runs SET {change}"), "written once");
    }
    for change in ["log_path = 'x'", "lost = 1", "boot_id = 'x', pid = 1, start_ticks = 1"] {
        refused(&world, &format!("UPDATE job_runs SET {change}"), "outcome is immutable");
    }
}

#[test]
fn no_orphans_no_second_run_no_deletes() {
    let world = World::new(many_workers());
    let job = world.story();
    let insert = |job_id: &str, run_id: &str| {
        format!(
            "INSERT INTO job_runs (run_id, job_id, params_snapshot, started_at, worker_id, \
             claim_token) VALUES ('{run_id}', '{job_id}', '{{\"n\":1}}', '2026-03-01T00:00:00.000Z', 'w', \
             '00000000000000000000000000000000')"
        )
    };
    let nobody = "01900000-0000-7000-8000-000000000000";
    refused(&world, &insert(nobody, nobody), "about to run");
    refused(&world, "DELETE FROM jobs", PURGE_ONLY);
    world.claim(1);
    refused(&world, &insert(&job.job_id.to_string(), nobody), "UNIQUE");
    refused(&world, "DELETE FROM job_runs", PURGE_ONLY);
    refused(&world, "DELETE FROM jobs", PURGE_ONLY);
}

#[test]
fn new_rows_begin_at_the_beginning() {
    let world = World::new(many_workers());
    let job = world.story();
    let insert = |status: &str, retry_of: &str, attempt: i64| {
        format!(
            "INSERT INTO jobs (job_id, job_type, params, status, priority, position, retry_of, \
             attempt, created_at, queued_at, started_at) SELECT \
             '01900000-0000-7000-8000-000000000000', 't', '{{}}', '{status}', 0, 0, {retry_of}, \
             {attempt}, created_at, created_at, CASE '{status}' WHEN 'RUNNING' THEN created_at END \
             FROM jobs LIMIT 1"
        )
    };
    refused(&world, &insert("RUNNING", "NULL", 0), "begins as QUEUED");
    refused(&world, &insert("QUEUED", "NULL", 1), "attempt 0");
    let of = format!("'{}'", job.job_id);
    refused(&world, &insert("QUEUED", &of, 1), "follows a finished job");
    let run = world.claim(1);
    world.finish(&run, Outcome::Completed, 2).unwrap();
    refused(&world, &insert("QUEUED", &of, 2), "counts one more attempt");
    world.shell().execute_batch(&insert("QUEUED", &of, 1)).unwrap();
    let second = insert("QUEUED", &of, 1).replace("01900000", "01900001");
    refused(&world, &second, "UNIQUE constraint failed: jobs.retry_of");
}

#[test]
fn one_reservation_is_active() {
    let world = World::new(Rules::default());
    let insert = |n: u32, status: &str| {
        format!(
            "INSERT INTO direct_reservations (reservation_id, reserved_at, reserved_by, status, \
             expires_at, boot_id, pid, start_ticks) VALUES \
             ('0190000{n}-0000-7000-8000-000000000000', '{0}', 'x', '{status}', '{0}', 'b', 1, 1)",
            at(0)
        )
    };
    refused(&world, &insert(1, "RELEASED"), "begins as ACTIVE");
    world.shell().execute_batch(&insert(1, "ACTIVE")).unwrap();
    refused(&world, &insert(2, "ACTIVE"), "UNIQUE");
    refused(&world, "UPDATE direct_reservations SET reserved_by = 'y'", "does not change");
    let over = format!("UPDATE direct_reservations SET status = 'EXPIRED', ended_at = '{}'", at(1));
    world.shell().execute_batch(&over).unwrap();
    let again = "UPDATE direct_reservations SET status = 'ACTIVE', ended_at = NULL";
    refused(&world, again, "ends once");
}
