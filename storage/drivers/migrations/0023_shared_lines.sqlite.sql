-- What a resource shares with others through a file: each line by its id, and of what was forgotten nothing but that.
CREATE TABLE shared_lines (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    share_id TEXT NOT NULL,
    entry_id TEXT,
    own INTEGER NOT NULL,
    line TEXT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, share_id)
);
CREATE INDEX shared_lines_by_entry ON shared_lines (tenant_id, agent_id, resource_id, entry_id);
