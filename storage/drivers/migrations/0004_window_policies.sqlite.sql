-- JSON: the name of a profile, or a whole policy; null: the server's default.
ALTER TABLE threads ADD COLUMN window_policy TEXT;

CREATE INDEX messages_from_user ON messages (tenant_id, agent_id, resource_id, thread_uid, seq) WHERE role = 'user' AND deletion_uid IS NULL;
