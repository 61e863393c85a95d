-- Lists: what is asked for by one filter is found without walking the table. Within an index of
-- `jobs` rows are in the order of `seq`, within one of `job_runs` in that of `run_id`.

CREATE INDEX jobs_typed ON jobs (job_type);
CREATE INDEX jobs_templated ON jobs (template_id) WHERE template_id IS NOT NULL;
CREATE INDEX jobs_scheduled ON jobs (schedule_id) WHERE schedule_id IS NOT NULL;
CREATE INDEX jobs_members ON jobs (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX jobs_blocked ON jobs (status) WHERE status = 'QUEUED' AND hold = 'group';
CREATE INDEX jobs_cancelled ON jobs (status) WHERE status = 'CANCELLED';
CREATE INDEX job_runs_ended ON job_runs (status) WHERE status IS NOT NULL;
CREATE INDEX webhook_deliveries_status ON webhook_deliveries (status);
