-- The ids of messages that were erased, as hashes: a list that is sent again does not bring them back.
CREATE TABLE erased_ids (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    id_hash TEXT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, id_hash),
    FOREIGN KEY (tenant_id, agent_id, resource_id, thread_uid)
        REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

ALTER TABLE erased_ids ENABLE ROW LEVEL SECURITY;
ALTER TABLE erased_ids FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON erased_ids USING (
    tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), ''))
    AND ((SELECT current_setting('layerlore.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('layerlore.agent', true))
             AND resource_id = (SELECT current_setting('layerlore.resource', true)))));
CREATE POLICY across ON erased_ids TO CURRENT_USER USING ((SELECT current_setting('layerlore.across', true)) = 'yes');
