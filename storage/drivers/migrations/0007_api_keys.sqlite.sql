CREATE TABLE api_keys (
    key_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    agents TEXT,
    resource_id TEXT,
    rights TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    PRIMARY KEY (key_id),
    UNIQUE (digest)
);
