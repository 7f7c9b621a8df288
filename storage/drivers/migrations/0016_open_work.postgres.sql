-- Which plan of a thread is open: the newest revision, while something in it is still to be done.
ALTER TABLE plans ADD COLUMN is_open INTEGER DEFAULT 0 NOT NULL;

SELECT set_config('layerlore.across', 'yes', true);
UPDATE plans SET is_open = 1
WHERE (plan LIKE '%"status":"pending"%' OR plan LIKE '%"status":"in\_progress"%' ESCAPE '\' OR plan LIKE '%"steps":[]%')
AND revision = (
    SELECT max(newest.revision) FROM plans AS newest
    WHERE newest.tenant_id = plans.tenant_id AND newest.agent_id = plans.agent_id
    AND newest.resource_id = plans.resource_id AND newest.thread_uid = plans.thread_uid
);
SELECT set_config('layerlore.across', '', true);

CREATE INDEX plans_open ON plans (tenant_id, agent_id, resource_id, created_at) WHERE is_open = 1;
CREATE INDEX runs_suspended ON runs (tenant_id, agent_id, resource_id, updated_at) WHERE status = 'suspended';
