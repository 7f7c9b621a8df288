ALTER TABLE threads ADD COLUMN raw_tokens BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE threads ADD COLUMN observed_seq BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE threads ADD COLUMN buffered_seq BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE threads ADD COLUMN buffered_chars BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE threads ADD COLUMN entries_seq BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE threads ADD COLUMN profile_seq BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE threads ADD COLUMN session_seq BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE threads ADD COLUMN current_task TEXT;
ALTER TABLE threads ADD COLUMN next_step TEXT;
ALTER TABLE threads ADD COLUMN title_by TEXT;

-- Documents are hidden with the messages that they were made from: deleted ones are looked for in ranges of them.
CREATE INDEX messages_hidden ON messages (tenant_id, agent_id, resource_id, thread_uid, seq) WHERE deletion_uid IS NOT NULL;

-- Nothing is observed yet; and what has a title got it from a caller.
UPDATE threads SET raw_tokens = token_count, title_by = CASE WHEN title IS NOT NULL THEN 'caller' END;

CREATE TABLE jobs (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    kind TEXT NOT NULL,
    requested_seq BIGINT NOT NULL,
    done_seq BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    holder TEXT,
    lease_until BIGINT,
    claimed_seq BIGINT,
    attempts BIGINT NOT NULL,
    dead_at BIGINT,
    error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, kind)
);

CREATE INDEX jobs_due ON jobs (due_at) WHERE requested_seq > done_seq AND dead_at IS NULL;

CREATE TABLE job_turns (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    served_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id)
);

CREATE TABLE spending (
    day TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_nano_usd BIGINT NOT NULL,
    PRIMARY KEY (day)
);

CREATE TABLE observations (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    observation_id BIGINT NOT NULL,
    marker TEXT NOT NULL,
    text TEXT NOT NULL,
    said_at BIGINT NOT NULL,
    refers_to TEXT,
    from_seq BIGINT NOT NULL,
    to_seq BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    parent_id BIGINT,
    status TEXT NOT NULL,
    superseded_by BIGINT,
    trust TEXT NOT NULL,
    level INTEGER NOT NULL,
    batch BIGINT NOT NULL,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, observation_id),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE INDEX observations_by_status ON observations (tenant_id, agent_id, resource_id, thread_uid, status, observation_id);

CREATE TABLE entries (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    content TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    kind TEXT,
    status TEXT NOT NULL,
    superseded_by TEXT,
    origin TEXT NOT NULL,
    trust TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, entry_id)
);

CREATE UNIQUE INDEX entries_by_hash ON entries (tenant_id, agent_id, resource_id, content_hash);

CREATE INDEX entries_by_status ON entries (tenant_id, agent_id, resource_id, status, created_at);

CREATE INDEX entries_dropped ON entries (seen_at) WHERE status = 'dropped';

CREATE TABLE entry_sources (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    message_seq BIGINT NOT NULL,
    revision INTEGER NOT NULL,
    starts BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    label TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, entry_id, thread_uid, message_seq, starts),
    FOREIGN KEY(tenant_id, agent_id, resource_id, entry_id) REFERENCES entries (tenant_id, agent_id, resource_id, entry_id) ON DELETE CASCADE,
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid, message_seq) REFERENCES messages (tenant_id, agent_id, resource_id, thread_uid, seq) ON DELETE CASCADE
);

CREATE INDEX entry_sources_by_message ON entry_sources (tenant_id, agent_id, resource_id, thread_uid, message_seq);

CREATE TABLE session_notes (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    note_id BIGINT NOT NULL,
    category TEXT NOT NULL,
    text TEXT NOT NULL,
    from_seq BIGINT NOT NULL,
    to_seq BIGINT NOT NULL,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, note_id),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE TABLE document_sources (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    version BIGINT NOT NULL,
    source_thread_uid TEXT NOT NULL,
    from_seq BIGINT NOT NULL,
    to_seq BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, version, source_thread_uid, from_seq),
    FOREIGN KEY(tenant_id, agent_id, resource_id, source_thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

CREATE INDEX document_sources_by_source ON document_sources (tenant_id, agent_id, resource_id, source_thread_uid);

CREATE TABLE summaries (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    upto_seq BIGINT NOT NULL,
    from_seq BIGINT NOT NULL,
    text TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, upto_seq),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

-- Entries are searched, too: a row is of a message, or of the entry that its thread_uid names. What was a foreign key
-- to messages is done by triggers. Row ids are never given again, also not those of rows that are gone.
CREATE TABLE search_rows_anew (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    seq BIGINT NOT NULL,
    chunk INTEGER NOT NULL,
    text_version INTEGER NOT NULL,
    role TEXT NOT NULL,
    speaker TEXT,
    said_at BIGINT NOT NULL,
    chars INTEGER NOT NULL,
    session_seq BIGINT NOT NULL,
    session_mark TEXT,
    UNIQUE (tenant_id, agent_id, resource_id, thread_uid, seq, chunk)
);

INSERT INTO search_rows_anew
SELECT row_id, tenant_id, agent_id, resource_id, thread_uid, seq, chunk, text_version, role, speaker, said_at, chars,
       session_seq, session_mark
FROM search_rows;

DELETE FROM sqlite_sequence WHERE name = 'search_rows_anew';

INSERT INTO sqlite_sequence (name, seq) SELECT 'search_rows_anew', seq FROM sqlite_sequence WHERE name = 'search_rows';

DROP TABLE search_rows;

ALTER TABLE search_rows_anew RENAME TO search_rows;

CREATE INDEX search_rows_stale ON search_rows (row_id) WHERE text_version < 2;

CREATE TRIGGER search_rows_deleted AFTER DELETE ON search_rows BEGIN
    DELETE FROM search_text WHERE rowid = old.row_id;
END;

CREATE TRIGGER messages_deleted AFTER DELETE ON messages BEGIN
    DELETE FROM search_rows
    WHERE tenant_id = old.tenant_id AND agent_id = old.agent_id AND resource_id = old.resource_id
      AND thread_uid = old.thread_uid AND seq = old.seq;
END;

CREATE TRIGGER entries_deleted AFTER DELETE ON entries BEGIN
    DELETE FROM search_rows
    WHERE tenant_id = old.tenant_id AND agent_id = old.agent_id AND resource_id = old.resource_id
      AND thread_uid = 'entry:' || old.entry_id;
END;
