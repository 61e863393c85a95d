-- The queue: what JOB-SCHEDULER-PERSISTENCE describes, and the rules it states, kept by the
-- database itself. Times are RFC 3339, UTC, milliseconds: the order of the texts is the order of
-- the times. Whatever is refused here is refused to everybody, also to a shell.

CREATE TABLE job_templates (
  template_id TEXT NOT NULL PRIMARY KEY CHECK (length(template_id) = 36),
  name        TEXT NOT NULL,
  job_type    TEXT NOT NULL,
  params      TEXT NOT NULL CHECK (json_valid(params) AND json_type(params) = 'object'),
  priority    INTEGER NOT NULL,
  created_at  TEXT NOT NULL CHECK (length(created_at) = 24),
  updated_at  TEXT NOT NULL CHECK (length(updated_at) = 24),
  -- Jobs keep naming their template, so its row stays.
  deleted_at  TEXT CHECK (length(deleted_at) = 24)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX job_templates_name ON job_templates (name) WHERE deleted_at IS NULL;

CREATE TABLE schedules (
  schedule_id         TEXT NOT NULL PRIMARY KEY CHECK (length(schedule_id) = 36),
  template_id         TEXT NOT NULL REFERENCES job_templates (template_id),
  name                TEXT NOT NULL,
  cron_expression     TEXT NOT NULL,
  timezone            TEXT NOT NULL,
  enabled             INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  param_overrides     TEXT CHECK (json_valid(param_overrides) AND json_type(param_overrides) = 'object'),
  last_triggered_at   TEXT CHECK (length(last_triggered_at) = 24),
  next_trigger_at     TEXT CHECK (length(next_trigger_at) = 24),
  created_at          TEXT NOT NULL CHECK (length(created_at) = 24),
  updated_at          TEXT NOT NULL CHECK (length(updated_at) = 24),
  -- The nominal time of the latest period with an outcome.
  last_handled_period TEXT CHECK (length(last_handled_period) = 20),
  -- What decides, hashed; when it last became another; when a suspension was last lifted.
  decision_hash       TEXT NOT NULL CHECK (length(decision_hash) = 64),
  effective_from      TEXT CHECK (length(effective_from) = 20),
  resumed_at          TEXT CHECK (length(resumed_at) = 20),
  deleted_at          TEXT CHECK (length(deleted_at) = 24)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX schedules_name ON schedules (name) WHERE deleted_at IS NULL;
CREATE INDEX schedules_due ON schedules (next_trigger_at)
  WHERE enabled = 1 AND deleted_at IS NULL AND next_trigger_at IS NOT NULL;
CREATE INDEX schedules_template ON schedules (template_id) WHERE deleted_at IS NULL;

CREATE TABLE job_groups (
  group_id   TEXT NOT NULL PRIMARY KEY CHECK (length(group_id) = 36),
  name       TEXT,
  mode       TEXT NOT NULL CHECK (mode IN ('parallel', 'sequential')),
  on_failure TEXT NOT NULL CHECK (on_failure IN ('stop', 'continue', 'skip')),
  created_at TEXT NOT NULL CHECK (length(created_at) = 24)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  -- Insertion order, the last tie-break.
  seq                 INTEGER PRIMARY KEY,
  job_id              TEXT NOT NULL UNIQUE CHECK (length(job_id) = 36),
  template_id         TEXT REFERENCES job_templates (template_id),
  schedule_id         TEXT REFERENCES schedules (schedule_id),
  period_id           TEXT CHECK (length(period_id) = 20),
  group_id            TEXT REFERENCES job_groups (group_id),
  group_index         INTEGER CHECK (group_index >= 0),
  job_type            TEXT NOT NULL CHECK (length(job_type) BETWEEN 1 AND 64),
  params              TEXT NOT NULL CHECK (json_valid(params) AND json_type(params) = 'object'),
  status              TEXT NOT NULL CHECK (status IN ('QUEUED', 'RUNNING', 'CANCELLED')),
  priority            INTEGER NOT NULL,
  position            INTEGER NOT NULL,
  retry_of            TEXT REFERENCES jobs (job_id),
  -- How many `retry_of` links lead to the original.
  attempt             INTEGER NOT NULL CHECK (attempt >= 0),
  retry_decision      TEXT CHECK (retry_decision IN
                        ('none', 'retried', 'exhausted', 'lost_exhausted', 'cancelled', 'direct')),
  created_at          TEXT NOT NULL CHECK (length(created_at) = 24),
  queued_at           TEXT NOT NULL CHECK (length(queued_at) = 24),
  started_at          TEXT CHECK (length(started_at) = 24),
  finished_at         TEXT CHECK (length(finished_at) = 24),
  not_before          TEXT CHECK (length(not_before) = 24),
  -- Why a queued job may not be claimed yet: its time has not come, or its group's turn.
  hold                TEXT CHECK (hold IN ('delay', 'group')),
  worker_id           TEXT,
  cancel_requested_at TEXT CHECK (length(cancel_requested_at) = 24),
  idempotency_key     TEXT,
  request_hash        TEXT CHECK (length(request_hash) = 64),
  CHECK ((group_id IS NULL) = (group_index IS NULL)),
  CHECK ((idempotency_key IS NULL) = (request_hash IS NULL)),
  CHECK (status <> 'QUEUED' OR (started_at IS NULL AND finished_at IS NULL)),
  CHECK (status <> 'RUNNING' OR (started_at IS NOT NULL AND hold IS NULL)),
  CHECK (status <> 'CANCELLED' OR finished_at IS NOT NULL),
  CHECK (hold IS NOT 'delay' OR not_before IS NOT NULL)
) STRICT;

-- The queue's order: every queued job, and those that may be claimed, of all types and of one.
CREATE INDEX jobs_order ON jobs (priority DESC, position, created_at) WHERE status = 'QUEUED';
CREATE INDEX jobs_ready ON jobs (priority DESC, position, created_at)
  WHERE status = 'QUEUED' AND hold IS NULL;
CREATE INDEX jobs_ready_of_type ON jobs (job_type, priority DESC, position, created_at)
  WHERE status = 'QUEUED' AND hold IS NULL;
CREATE INDEX jobs_delayed ON jobs (not_before) WHERE status = 'QUEUED' AND hold = 'delay';
CREATE INDEX jobs_active ON jobs (job_type) WHERE status = 'RUNNING' AND finished_at IS NULL;
CREATE INDEX jobs_undecided ON jobs (seq)
  WHERE status = 'RUNNING' AND finished_at IS NOT NULL AND retry_decision IS NULL;
CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_group ON jobs (group_id, group_index) WHERE group_id IS NOT NULL;
CREATE INDEX jobs_of_schedule ON jobs (schedule_id) WHERE schedule_id IS NOT NULL AND finished_at IS NULL;
-- A job has at most one successor; a period is enqueued at most once; a key names one job.
CREATE UNIQUE INDEX jobs_retry_of ON jobs (retry_of) WHERE retry_of IS NOT NULL;
CREATE UNIQUE INDEX jobs_period ON jobs (schedule_id, period_id)
  WHERE period_id IS NOT NULL AND retry_of IS NULL;
CREATE UNIQUE INDEX jobs_idempotency ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE direct_reservations (
  reservation_id TEXT NOT NULL PRIMARY KEY CHECK (length(reservation_id) = 36),
  reserved_at    TEXT NOT NULL CHECK (length(reserved_at) = 24),
  reserved_by    TEXT NOT NULL,
  status         TEXT NOT NULL CHECK (status IN ('ACTIVE', 'RELEASED', 'EXPIRED')),
  expires_at     TEXT NOT NULL CHECK (length(expires_at) = 24),
  ended_at       TEXT CHECK (length(ended_at) = 24),
  -- The daemon that made it, so that its death can be proven.
  boot_id        TEXT NOT NULL,
  pid            INTEGER NOT NULL,
  start_ticks    INTEGER NOT NULL,
  CHECK ((status = 'ACTIVE') = (ended_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX direct_reservations_active ON direct_reservations (status) WHERE status = 'ACTIVE';

CREATE TABLE job_runs (
  run_id          TEXT NOT NULL PRIMARY KEY CHECK (length(run_id) = 36),
  -- A job is executed at most once.
  job_id          TEXT NOT NULL UNIQUE REFERENCES jobs (job_id),
  template_id     TEXT REFERENCES job_templates (template_id),
  params_snapshot TEXT NOT NULL CHECK (json_valid(params_snapshot)),
  status          TEXT CHECK (status IN ('COMPLETED', 'FAILED', 'SKIPPED')),
  started_at      TEXT NOT NULL CHECK (length(started_at) = 24),
  finished_at     TEXT CHECK (length(finished_at) = 24),
  exit_code       INTEGER,
  error           TEXT,
  artifacts       TEXT NOT NULL DEFAULT '[]'
                  CHECK (json_valid(artifacts) AND json_type(artifacts) = 'array'),
  log_path        TEXT,
  worker_id       TEXT NOT NULL,
  claim_token     TEXT NOT NULL CHECK (length(claim_token) = 32),
  -- The supervising process, by which a run is proven alive or dead.
  boot_id         TEXT,
  pid             INTEGER,
  start_ticks     INTEGER,
  -- The command that it supervises, of the same boot.
  command_pid     INTEGER,
  command_start_ticks INTEGER,
  reservation_id  TEXT REFERENCES direct_reservations (reservation_id),
  -- Whether its end was found by recovery and not reported.
  lost            INTEGER NOT NULL DEFAULT 0 CHECK (lost IN (0, 1)),
  CHECK ((status IS NULL) = (finished_at IS NULL)),
  CHECK ((boot_id IS NULL) = (pid IS NULL) AND (boot_id IS NULL) = (start_ticks IS NULL)),
  CHECK ((command_pid IS NULL) = (command_start_ticks IS NULL)),
  CHECK (command_pid IS NULL OR boot_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_runs_finished ON job_runs (finished_at, status) WHERE finished_at IS NOT NULL;
-- A reservation serves for one run.
CREATE UNIQUE INDEX job_runs_reservation ON job_runs (reservation_id) WHERE reservation_id IS NOT NULL;

CREATE TABLE pauses (
  scope     TEXT NOT NULL CHECK (scope IN ('queue', 'type')),
  job_type  TEXT NOT NULL DEFAULT '',
  reason    TEXT NOT NULL,
  paused_at TEXT NOT NULL CHECK (length(paused_at) = 24),
  PRIMARY KEY (scope, job_type),
  CHECK ((scope = 'queue') = (job_type = ''))
) STRICT, WITHOUT ROWID;

-- What became of a schedule's periods; a stretch of passed-over ones is one row.
CREATE TABLE schedule_outcomes (
  schedule_id  TEXT NOT NULL REFERENCES schedules (schedule_id),
  first_period TEXT NOT NULL CHECK (length(first_period) = 20),
  last_period  TEXT NOT NULL CHECK (length(last_period) = 20),
  periods      INTEGER NOT NULL CHECK (periods > 0),
  outcome      TEXT NOT NULL CHECK (outcome IN ('executed', 'skipped', 'missed', 'unschedulable')),
  reason       TEXT,
  job_id       TEXT,
  recorded_at  TEXT NOT NULL CHECK (length(recorded_at) = 24),
  PRIMARY KEY (schedule_id, first_period)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedule_outcomes_age ON schedule_outcomes (recorded_at);

CREATE TRIGGER jobs_insert BEFORE INSERT ON jobs BEGIN
  SELECT RAISE(ABORT, 'rule: a job begins as QUEUED') WHERE NEW.status <> 'QUEUED';
  SELECT RAISE(ABORT, 'rule: a job without `retry_of` is attempt 0')
    WHERE NEW.retry_of IS NULL AND NEW.attempt <> 0;
  SELECT RAISE(ABORT, 'rule: a retry follows a finished job and counts one more attempt')
    WHERE NEW.retry_of IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM jobs WHERE job_id = NEW.retry_of AND finished_at IS NOT NULL
        AND attempt = NEW.attempt - 1);
END;

CREATE TRIGGER jobs_immutable BEFORE UPDATE OF seq, job_id, template_id, schedule_id, period_id,
  group_id, group_index, job_type, retry_of, attempt, created_at, queued_at, idempotency_key,
  request_hash ON jobs
WHEN NEW.seq IS NOT OLD.seq OR NEW.job_id IS NOT OLD.job_id
  OR NEW.template_id IS NOT OLD.template_id OR NEW.schedule_id IS NOT OLD.schedule_id
  OR NEW.period_id IS NOT OLD.period_id OR NEW.group_id IS NOT OLD.group_id
  OR NEW.group_index IS NOT OLD.group_index OR NEW.job_type IS NOT OLD.job_type
  OR NEW.retry_of IS NOT OLD.retry_of OR NEW.attempt IS NOT OLD.attempt
  OR NEW.created_at IS NOT OLD.created_at OR NEW.queued_at IS NOT OLD.queued_at
  OR NEW.idempotency_key IS NOT OLD.idempotency_key OR NEW.request_hash IS NOT OLD.request_hash
BEGIN SELECT RAISE(ABORT, 'rule: this field of a job is immutable'); END;

CREATE TRIGGER jobs_status BEFORE UPDATE OF status ON jobs
WHEN NEW.status <> OLD.status AND NOT (
  (OLD.status = 'QUEUED' AND NEW.status IN ('RUNNING', 'CANCELLED'))
  OR (OLD.status = 'RUNNING' AND NEW.status = 'CANCELLED' AND OLD.finished_at IS NULL))
BEGIN SELECT RAISE(ABORT, 'rule: a job goes from QUEUED to RUNNING or CANCELLED and never back'); END;

CREATE TRIGGER jobs_running BEFORE UPDATE OF status ON jobs
WHEN NEW.status = 'RUNNING' AND OLD.status = 'QUEUED' AND NOT EXISTS (
  SELECT 1 FROM job_runs WHERE job_id = NEW.job_id AND status IS NULL)
BEGIN SELECT RAISE(ABORT, 'rule: a job is RUNNING only with its JobRun'); END;

CREATE TRIGGER jobs_frozen BEFORE UPDATE OF params, priority, position, not_before, hold ON jobs
WHEN OLD.status <> 'QUEUED' AND (NEW.params IS NOT OLD.params OR NEW.priority IS NOT OLD.priority
  OR NEW.position IS NOT OLD.position OR NEW.not_before IS NOT OLD.not_before
  OR NEW.hold IS NOT OLD.hold)
BEGIN SELECT RAISE(ABORT, 'rule: params, priority and position change only while QUEUED'); END;

CREATE TRIGGER jobs_write_once BEFORE UPDATE OF started_at, finished_at, worker_id, retry_decision,
  cancel_requested_at ON jobs
WHEN (OLD.started_at IS NOT NULL AND NEW.started_at IS NOT OLD.started_at)
  OR (OLD.finished_at IS NOT NULL AND NEW.finished_at IS NOT OLD.finished_at)
  OR (OLD.worker_id IS NOT NULL AND NEW.worker_id IS NOT OLD.worker_id)
  OR (OLD.retry_decision IS NOT NULL AND NEW.retry_decision IS NOT OLD.retry_decision)
  OR (OLD.cancel_requested_at IS NOT NULL AND NEW.cancel_requested_at IS NOT OLD.cancel_requested_at)
BEGIN SELECT RAISE(ABORT, 'rule: this field of a job is written once'); END;

-- Otherwise a job could be over while its run goes on.
CREATE TRIGGER jobs_finish BEFORE UPDATE OF finished_at ON jobs
WHEN OLD.status = 'RUNNING' AND OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM job_runs WHERE job_id = NEW.job_id AND status IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'rule: a job finishes after its JobRun'); END;

-- Only the queue's own connection has the function; without it, nothing can be deleted.
CREATE TRIGGER jobs_delete BEFORE DELETE ON jobs
WHEN OLD.finished_at IS NULL OR NOT kron_purge_permitted()
BEGIN SELECT RAISE(ABORT, 'rule: jobs are removed only when finished and by purge'); END;

CREATE TRIGGER job_runs_insert BEFORE INSERT ON job_runs BEGIN
  SELECT RAISE(ABORT, 'rule: a JobRun begins without an end')
    WHERE NEW.status IS NOT NULL OR NEW.lost <> 0;
  SELECT RAISE(ABORT, 'rule: a JobRun belongs to a job that is about to run')
    WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE job_id = NEW.job_id
      AND status IN ('QUEUED', 'RUNNING') AND finished_at IS NULL);
  SELECT RAISE(ABORT, 'rule: a JobRun is told what its job is told')
    WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE job_id = NEW.job_id
      AND params = NEW.params_snapshot AND template_id IS NEW.template_id);
  SELECT RAISE(ABORT, 'rule: a direct run belongs to the active reservation')
    WHERE NEW.reservation_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM direct_reservations
      WHERE reservation_id = NEW.reservation_id AND status = 'ACTIVE');
END;

-- To insert a run is to claim its job, so that no run can lie beside a job that is still queued.
CREATE TRIGGER job_runs_begin AFTER INSERT ON job_runs BEGIN
  UPDATE jobs SET status = 'RUNNING', started_at = NEW.started_at, worker_id = NEW.worker_id,
    hold = NULL WHERE job_id = NEW.job_id AND status = 'QUEUED';
END;

CREATE TRIGGER job_runs_immutable BEFORE UPDATE OF run_id, job_id, template_id, params_snapshot,
  started_at, worker_id, claim_token, reservation_id ON job_runs
WHEN NEW.run_id IS NOT OLD.run_id OR NEW.job_id IS NOT OLD.job_id
  OR NEW.template_id IS NOT OLD.template_id OR NEW.params_snapshot IS NOT OLD.params_snapshot
  OR NEW.started_at IS NOT OLD.started_at OR NEW.worker_id IS NOT OLD.worker_id
  OR NEW.claim_token IS NOT OLD.claim_token OR NEW.reservation_id IS NOT OLD.reservation_id
BEGIN SELECT RAISE(ABORT, 'rule: this field of a JobRun is immutable'); END;

CREATE TRIGGER job_runs_write_once BEFORE UPDATE OF status, finished_at, exit_code, error, log_path,
  boot_id, pid, start_ticks, command_pid, command_start_ticks ON job_runs
WHEN (OLD.status IS NOT NULL AND NEW.status IS NOT OLD.status)
  OR (OLD.finished_at IS NOT NULL AND NEW.finished_at IS NOT OLD.finished_at)
  OR (OLD.exit_code IS NOT NULL AND NEW.exit_code IS NOT OLD.exit_code)
  OR (OLD.error IS NOT NULL AND NEW.error IS NOT OLD.error)
  OR (OLD.log_path IS NOT NULL AND NEW.log_path IS NOT OLD.log_path)
  OR (OLD.boot_id IS NOT NULL AND (NEW.boot_id IS NOT OLD.boot_id OR NEW.pid IS NOT OLD.pid
      OR NEW.start_ticks IS NOT OLD.start_ticks OR NEW.command_pid IS NOT OLD.command_pid
      OR NEW.command_start_ticks IS NOT OLD.command_start_ticks))
BEGIN SELECT RAISE(ABORT, 'rule: this field of a JobRun is written once'); END;

CREATE TRIGGER job_runs_terminal BEFORE UPDATE OF log_path, lost, boot_id, pid, start_ticks,
  command_pid, command_start_ticks ON job_runs
WHEN OLD.status IS NOT NULL AND (NEW.log_path IS NOT OLD.log_path OR NEW.lost IS NOT OLD.lost
  OR NEW.boot_id IS NOT OLD.boot_id OR NEW.pid IS NOT OLD.pid OR NEW.start_ticks IS NOT OLD.start_ticks
  OR NEW.command_pid IS NOT OLD.command_pid
  OR NEW.command_start_ticks IS NOT OLD.command_start_ticks)
BEGIN SELECT RAISE(ABORT, 'rule: a JobRun with its outcome is immutable'); END;

CREATE TRIGGER job_runs_artifacts BEFORE UPDATE OF artifacts ON job_runs
WHEN NEW.artifacts IS NOT OLD.artifacts AND EXISTS (
  SELECT 1 FROM json_each(OLD.artifacts) AS old
  WHERE json_extract(NEW.artifacts, '$[' || old.key || ']') IS NOT old.value)
BEGIN SELECT RAISE(ABORT, 'rule: the artifacts of a JobRun are append-only'); END;

CREATE TRIGGER job_runs_delete BEFORE DELETE ON job_runs
WHEN OLD.status IS NULL OR NOT kron_purge_permitted()
BEGIN SELECT RAISE(ABORT, 'rule: JobRuns are removed only when finished and by purge'); END;

CREATE TRIGGER reservations_insert BEFORE INSERT ON direct_reservations
WHEN NEW.status <> 'ACTIVE'
BEGIN SELECT RAISE(ABORT, 'rule: a reservation begins as ACTIVE'); END;

CREATE TRIGGER reservations_update BEFORE UPDATE ON direct_reservations
WHEN OLD.status <> 'ACTIVE' OR NEW.reservation_id IS NOT OLD.reservation_id
  OR NEW.reserved_at IS NOT OLD.reserved_at OR NEW.reserved_by IS NOT OLD.reserved_by
BEGIN SELECT RAISE(ABORT, 'rule: a reservation ends once, and who made it does not change'); END;

CREATE TRIGGER schedules_immutable BEFORE UPDATE OF schedule_id, created_at ON schedules
WHEN NEW.schedule_id IS NOT OLD.schedule_id OR NEW.created_at IS NOT OLD.created_at
BEGIN SELECT RAISE(ABORT, 'rule: this field of a schedule is immutable'); END;

CREATE TRIGGER schedules_mark BEFORE UPDATE OF last_handled_period ON schedules
WHEN OLD.last_handled_period IS NOT NULL
  AND (NEW.last_handled_period IS NULL OR NEW.last_handled_period < OLD.last_handled_period)
BEGIN SELECT RAISE(ABORT, 'rule: the last handled period never moves back'); END;

CREATE TRIGGER schedule_outcomes_immutable BEFORE UPDATE ON schedule_outcomes
BEGIN SELECT RAISE(ABORT, 'rule: the outcome of a period is immutable'); END;
