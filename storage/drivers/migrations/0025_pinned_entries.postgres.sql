-- When a person pinned an entry, so that it is told whatever is asked.
ALTER TABLE entries ADD COLUMN pinned_at BIGINT;
CREATE INDEX entries_pinned ON entries (tenant_id, agent_id, resource_id, pinned_at) WHERE pinned_at IS NOT NULL;
