-- What one call did that can be undone: places of what is kept, never content.
CREATE TABLE undo_parts (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    undo_id TEXT NOT NULL,
    part INTEGER NOT NULL,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL,
    thread_uid TEXT,
    before_version BIGINT NOT NULL,
    after_version BIGINT NOT NULL,
    tool TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    undone_at BIGINT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, undo_id, part),
    FOREIGN KEY (tenant_id, agent_id, resource_id, thread_uid)
        REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);
CREATE INDEX undo_parts_by_time ON undo_parts (tenant_id, agent_id, resource_id, created_at);
CREATE INDEX undo_parts_by_ref ON undo_parts (tenant_id, agent_id, resource_id, ref);
CREATE INDEX undo_parts_by_thread ON undo_parts (tenant_id, agent_id, resource_id, thread_uid)
    WHERE thread_uid IS NOT NULL;

ALTER TABLE undo_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE undo_parts FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON undo_parts USING (
    tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), ''))
    AND ((SELECT current_setting('layerlore.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('layerlore.agent', true))
             AND resource_id = (SELECT current_setting('layerlore.resource', true)))));
CREATE POLICY across ON undo_parts TO CURRENT_USER USING ((SELECT current_setting('layerlore.across', true)) = 'yes');
