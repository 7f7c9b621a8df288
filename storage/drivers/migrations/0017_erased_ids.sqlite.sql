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
