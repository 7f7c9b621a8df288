CREATE TABLE idempotency (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hmac TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, key)
);

CREATE INDEX idempotency_by_time ON idempotency (created_at);

CREATE TABLE installation (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE threads (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    title TEXT COLLATE "C",
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    next_seq BIGINT NOT NULL,
    last_created_at BIGINT NOT NULL,
    message_count BIGINT NOT NULL,
    token_count BIGINT NOT NULL,
    deletion_uid TEXT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid)
);

CREATE INDEX threads_by_update ON threads (tenant_id, agent_id, resource_id, updated_at);

CREATE UNIQUE INDEX threads_live_name ON threads (tenant_id, agent_id, resource_id, thread_id) WHERE deletion_uid IS NULL;

CREATE TABLE deletions (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    deletion_uid TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    kind TEXT NOT NULL,
    message_count BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, deletion_uid),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE INDEX deletions_by_time ON deletions (deleted_at);

CREATE TABLE messages (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT,
    parts TEXT NOT NULL,
    hidden_calls TEXT,
    metadata TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    said_at BIGINT NOT NULL,
    revision INTEGER NOT NULL,
    deletion_uid TEXT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, seq),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE UNIQUE INDEX messages_by_id ON messages (tenant_id, agent_id, resource_id, thread_uid, id);

-- Snowball's English stems without its stop words: which words count is decided in one place, for both databases.
CREATE TEXT SEARCH DICTIONARY memstrata_stem (TEMPLATE = snowball, Language = english);

-- What is searched: a row here for each indexed message. Lexemes are made from words that we cut, never by a parser,
-- whose idea of a word depends on the database's locale.
CREATE TABLE search_rows (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    seq BIGINT NOT NULL,
    text_version INTEGER NOT NULL,
    lexemes tsvector NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, seq),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid, seq)
        REFERENCES messages (tenant_id, agent_id, resource_id, thread_uid, seq) ON DELETE CASCADE
);

-- Without a pending list: while it is long, the planner takes the index for slow and reads every row instead.
CREATE INDEX search_rows_lexemes ON search_rows USING gin (lexemes) WITH (fastupdate = off);

-- The last write that each of our connections committed, written with it: a COMMIT that got no answer is looked up
-- here. A transaction id would not do, for after a crash the server gives the ids again that were not yet on its disk.
CREATE TABLE last_writes (
    slot TEXT NOT NULL,
    unit TEXT NOT NULL,
    written_at BIGINT NOT NULL,
    PRIMARY KEY (slot)
) WITH (fillfactor = 50);
