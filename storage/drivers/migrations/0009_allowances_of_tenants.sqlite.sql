CREATE TABLE tenant_spending (
    tenant_id TEXT NOT NULL,
    day TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day)
);

CREATE INDEX jobs_due_of_tenant ON jobs (tenant_id, due_at) WHERE requested_seq > done_seq AND dead_at IS NULL;
