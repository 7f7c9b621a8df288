ALTER TABLE threads ADD COLUMN next_event_seq BIGINT DEFAULT 1 NOT NULL;

ALTER TABLE threads ADD COLUMN next_step_seq BIGINT DEFAULT 1 NOT NULL;

CREATE TABLE resources (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    next_event_seq BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id)
);

CREATE TABLE events (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    actor TEXT NOT NULL,
    tool TEXT NOT NULL,
    payload TEXT NOT NULL,
    message_seq BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, seq),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE,
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid, message_seq) REFERENCES messages (tenant_id, agent_id, resource_id, thread_uid, seq) ON DELETE CASCADE
);

CREATE INDEX events_by_message ON events (tenant_id, agent_id, resource_id, thread_uid, message_seq) WHERE message_seq IS NOT NULL;

CREATE TABLE resource_events (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    actor TEXT NOT NULL,
    tool TEXT NOT NULL,
    payload TEXT NOT NULL,
    thread_uid TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, seq),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE INDEX resource_events_by_thread ON resource_events (tenant_id, agent_id, resource_id, thread_uid) WHERE thread_uid IS NOT NULL;

CREATE TABLE session_memories (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    version BIGINT NOT NULL,
    content TEXT NOT NULL,
    change TEXT NOT NULL,
    actor TEXT NOT NULL,
    tool TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, version),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE INDEX session_memories_cleared ON session_memories (created_at) WHERE change = 'clear';

CREATE TABLE user_profiles (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    content TEXT NOT NULL,
    change TEXT NOT NULL,
    actor TEXT NOT NULL,
    tool TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, version)
);

CREATE INDEX user_profiles_cleared ON user_profiles (created_at) WHERE change = 'clear';

CREATE TABLE plans (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    revision BIGINT NOT NULL,
    "plan" TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, revision),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE TABLE attempts (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    task_key TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    action TEXT NOT NULL,
    result TEXT NOT NULL,
    error TEXT,
    diagnosis TEXT,
    fix_applied TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, task_key, attempt),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE TABLE runs (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    status TEXT NOT NULL,
    metadata TEXT NOT NULL,
    state TEXT,
    pending TEXT NOT NULL,
    resumed TEXT NOT NULL,
    reason TEXT,
    output TEXT,
    epoch BIGINT NOT NULL,
    claim TEXT,
    claimed_by TEXT,
    claimed_at BIGINT,
    claimed_until BIGINT,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, run_id),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE INDEX runs_by_expiry ON runs (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX runs_by_thread ON runs (tenant_id, agent_id, resource_id, thread_uid);

CREATE INDEX runs_by_time ON runs (tenant_id, agent_id, resource_id, created_at, run_id);

CREATE TABLE steps (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    seq BIGINT NOT NULL,
    operation_id TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    message_seq BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, seq),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE,
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid, message_seq) REFERENCES messages (tenant_id, agent_id, resource_id, thread_uid, seq) ON DELETE CASCADE
);

CREATE INDEX steps_by_message ON steps (tenant_id, agent_id, resource_id, thread_uid, message_seq) WHERE message_seq IS NOT NULL;

CREATE INDEX steps_by_operation ON steps (tenant_id, agent_id, resource_id, thread_uid, operation_id, seq);

CREATE TABLE usage (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    model TEXT NOT NULL,
    source TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_nano_usd BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, model, source)
);
