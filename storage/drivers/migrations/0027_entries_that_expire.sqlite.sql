-- When an entry ends, so that it is not shown after that.
ALTER TABLE entries ADD COLUMN expires_at BIGINT;
-- The hash folds case, and "PATH" and "path" are two entries.
DROP INDEX entries_by_hash;
CREATE INDEX entries_by_hash ON entries (tenant_id, agent_id, resource_id, content_hash);
-- A kind of job that is no more.
DELETE FROM jobs WHERE kind = 'corrections';
