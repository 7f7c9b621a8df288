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

ALTER TABLE shared_lines ENABLE ROW LEVEL SECURITY;
ALTER TABLE shared_lines FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON shared_lines USING (
    tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), ''))
    AND ((SELECT current_setting('layerlore.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('layerlore.agent', true))
             AND resource_id = (SELECT current_setting('layerlore.resource', true)))));
CREATE POLICY across ON shared_lines TO CURRENT_USER USING ((SELECT current_setting('layerlore.across', true)) = 'yes');
