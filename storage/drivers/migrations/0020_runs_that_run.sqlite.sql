-- Answers to the calls that a run waits for, what was spent in it, the run whose sub-agent it is, and who ended it.
ALTER TABLE runs ADD COLUMN answered TEXT DEFAULT '[]' NOT NULL;
ALTER TABLE runs ADD COLUMN usage TEXT DEFAULT '[]' NOT NULL;
ALTER TABLE runs ADD COLUMN parent_run_id TEXT;
ALTER TABLE runs ADD COLUMN ended_by TEXT;

CREATE INDEX runs_by_parent ON runs (tenant_id, agent_id, resource_id, parent_run_id) WHERE parent_run_id IS NOT NULL;
