CREATE TABLE tenant_spending (
    tenant_id TEXT NOT NULL,
    day TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day)
);

CREATE INDEX jobs_due_of_tenant ON jobs (tenant_id, due_at) WHERE requested_seq > done_seq AND dead_at IS NULL;

ALTER TABLE tenant_spending ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_spending FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON tenant_spending USING (tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), '')));
CREATE POLICY across ON tenant_spending TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');
