-- `INSERT OR REPLACE` removes a row without asking the triggers that guard its removal.

CREATE TRIGGER jobs_replace BEFORE INSERT ON jobs
WHEN EXISTS (SELECT 1 FROM jobs WHERE job_id = NEW.job_id)
BEGIN SELECT RAISE(ABORT, 'rule: a job is never replaced'); END;

CREATE TRIGGER job_runs_replace BEFORE INSERT ON job_runs
WHEN EXISTS (SELECT 1 FROM job_runs WHERE run_id = NEW.run_id)
BEGIN SELECT RAISE(ABORT, 'rule: a JobRun is never replaced'); END;

CREATE TRIGGER reservations_replace BEFORE INSERT ON direct_reservations
WHEN EXISTS (SELECT 1 FROM direct_reservations WHERE reservation_id = NEW.reservation_id)
BEGIN SELECT RAISE(ABORT, 'rule: a reservation is never replaced'); END;

-- Reservations that have ended go when they are old.
CREATE INDEX direct_reservations_ended ON direct_reservations (ended_at) WHERE status <> 'ACTIVE';
