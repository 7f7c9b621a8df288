-- Every table of a SQLite file, as storage/core/tables/ describes them: a test holds the two equal.

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

CREATE TABLE daily_calls (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    day BIGINT NOT NULL,
    source TEXT NOT NULL,
    name TEXT NOT NULL,
    calls BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    within_1 BIGINT NOT NULL,
    within_2 BIGINT NOT NULL,
    within_5 BIGINT NOT NULL,
    within_10 BIGINT NOT NULL,
    within_20 BIGINT NOT NULL,
    within_50 BIGINT NOT NULL,
    within_100 BIGINT NOT NULL,
    within_200 BIGINT NOT NULL,
    within_500 BIGINT NOT NULL,
    within_1000 BIGINT NOT NULL,
    within_2000 BIGINT NOT NULL,
    within_5000 BIGINT NOT NULL,
    slower BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, day, source, name)
);

CREATE TABLE daily_usage (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    day BIGINT NOT NULL,
    source TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_nano_usd BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, day, source)
);

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
    pinned_at BIGINT,
    expires_at BIGINT,
    unproven TEXT,
    subject TEXT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, entry_id)
);
CREATE INDEX entries_by_hash ON entries (tenant_id, agent_id, resource_id, content_hash);
CREATE INDEX entries_by_status ON entries (tenant_id, agent_id, resource_id, status, created_at);
CREATE INDEX entries_dropped ON entries (seen_at) WHERE status = 'dropped';
CREATE INDEX entries_pinned ON entries (tenant_id, agent_id, resource_id, pinned_at) WHERE pinned_at IS NOT NULL;

CREATE TABLE idempotency (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    body_hmac TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, "key")
);
CREATE INDEX idempotency_by_time ON idempotency (created_at);

CREATE TABLE installation (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE job_turns (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    served_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id)
);

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
CREATE INDEX jobs_due_of_kind ON jobs (kind, due_at) WHERE requested_seq > done_seq AND dead_at IS NULL;
CREATE INDEX jobs_held ON jobs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX jobs_due_of_tenant ON jobs (tenant_id, due_at) WHERE requested_seq > done_seq AND dead_at IS NULL;

CREATE TABLE resources (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    next_event_seq BIGINT NOT NULL,
    retired_messages BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id)
);

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

CREATE TABLE spending (
    day TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_nano_usd BIGINT NOT NULL,
    PRIMARY KEY (day)
);

CREATE TABLE stored_bytes (
    tenant_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    part BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, resource_id, part)
);

CREATE TABLE tenant_spending (
    tenant_id TEXT NOT NULL,
    day TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day)
);

CREATE TABLE threads (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    title TEXT,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    next_seq BIGINT NOT NULL,
    last_created_at BIGINT NOT NULL,
    message_count BIGINT NOT NULL,
    token_count BIGINT NOT NULL,
    deletion_uid TEXT,
    next_event_seq BIGINT DEFAULT 1 NOT NULL,
    next_step_seq BIGINT DEFAULT 1 NOT NULL,
    window_policy TEXT,
    raw_tokens BIGINT DEFAULT 0 NOT NULL,
    observed_seq BIGINT DEFAULT 0 NOT NULL,
    buffered_seq BIGINT DEFAULT 0 NOT NULL,
    buffered_chars BIGINT DEFAULT 0 NOT NULL,
    entries_seq BIGINT DEFAULT 0 NOT NULL,
    profile_seq BIGINT DEFAULT 0 NOT NULL,
    session_seq BIGINT DEFAULT 0 NOT NULL,
    current_task TEXT,
    next_step TEXT,
    title_by TEXT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid)
);
CREATE INDEX threads_by_update ON threads (tenant_id, agent_id, resource_id, updated_at);
CREATE UNIQUE INDEX threads_live_name ON threads (tenant_id, agent_id, resource_id, thread_id) WHERE deletion_uid IS NULL;

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

CREATE TABLE erased_ids (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    id_hash TEXT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, id_hash),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);

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
    turn TEXT,
    turn_set TEXT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, seq),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);
CREATE UNIQUE INDEX messages_by_id ON messages (tenant_id, agent_id, resource_id, thread_uid, id);
CREATE INDEX messages_by_time ON messages (tenant_id, agent_id, resource_id, said_at, thread_uid, seq);
CREATE INDEX messages_from_user ON messages (tenant_id, agent_id, resource_id, thread_uid, seq) WHERE role = 'user' AND deletion_uid IS NULL;
CREATE INDEX messages_hidden ON messages (tenant_id, agent_id, resource_id, thread_uid, seq) WHERE deletion_uid IS NOT NULL;
CREATE INDEX messages_of_turns ON messages (tenant_id, agent_id, resource_id, thread_uid, turn, seq) WHERE turn IS NOT NULL;

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

CREATE TABLE plans (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    revision BIGINT NOT NULL,
    "plan" TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    is_open INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, revision),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);
CREATE INDEX plans_open ON plans (tenant_id, agent_id, resource_id, created_at) WHERE is_open = 1;

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
    answered TEXT DEFAULT '[]' NOT NULL,
    usage TEXT DEFAULT '[]' NOT NULL,
    parent_run_id TEXT,
    ended_by TEXT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, run_id),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);
CREATE INDEX runs_by_expiry ON runs (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX runs_by_parent ON runs (tenant_id, agent_id, resource_id, parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_by_thread ON runs (tenant_id, agent_id, resource_id, thread_uid);
CREATE INDEX runs_by_time ON runs (tenant_id, agent_id, resource_id, created_at, run_id);
CREATE INDEX runs_suspended ON runs (tenant_id, agent_id, resource_id, updated_at) WHERE status = 'suspended';

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

CREATE TABLE undo_parts (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    undo_id TEXT NOT NULL,
    part INTEGER NOT NULL,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL,
    thread_uid TEXT,
    before_version BIGINT NOT NULL,
    after_version BIGINT NOT NULL,
    tool TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    undone_at BIGINT,
    PRIMARY KEY (tenant_id, agent_id, resource_id, undo_id, part),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid) REFERENCES threads (tenant_id, agent_id, resource_id, thread_uid) ON DELETE CASCADE
);
CREATE INDEX undo_parts_by_ref ON undo_parts (tenant_id, agent_id, resource_id, ref);
CREATE INDEX undo_parts_by_thread ON undo_parts (tenant_id, agent_id, resource_id, thread_uid) WHERE thread_uid IS NOT NULL;
CREATE INDEX undo_parts_by_time ON undo_parts (tenant_id, agent_id, resource_id, created_at);

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

-- The search index. A row's id is the id of its words in search_text, and is never given again.
CREATE TABLE search_rows (
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
    asks INTEGER DEFAULT 0 NOT NULL,
    empty INTEGER DEFAULT 0 NOT NULL,
    content_words INTEGER DEFAULT 0 NOT NULL,
    UNIQUE (tenant_id, agent_id, resource_id, thread_uid, seq, chunk)
);
CREATE INDEX search_rows_stale ON search_rows (row_id) WHERE text_version < 4;

CREATE VIRTUAL TABLE search_text USING fts5 (
    text,
    scope,
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'",
    detail = column,
    columnsize = 0
);

CREATE TABLE search_vectors (
    row_id BIGINT NOT NULL,
    model TEXT NOT NULL,
    scope_token TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    code BLOB NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (row_id, model),
    FOREIGN KEY(row_id) REFERENCES search_rows (row_id) ON DELETE CASCADE
);
CREATE INDEX search_vectors_codes ON search_vectors (scope_token, model, row_id, code);

-- The words go with their row, and the rows with the message or the entry that they were made from.
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

-- Caches in memory look at these counters to learn that rows were removed or changed.
INSERT INTO installation VALUES ('index_rows_removed', '0'), ('vectors_removed', '0');

CREATE TRIGGER search_rows_counted AFTER DELETE ON search_rows BEGIN
    UPDATE installation SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'index_rows_removed';
END;

CREATE TRIGGER search_rows_changed AFTER UPDATE ON search_rows BEGIN
    UPDATE installation SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'index_rows_removed';
END;

CREATE TRIGGER search_vectors_counted AFTER DELETE ON search_vectors BEGIN
    UPDATE installation SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'vectors_removed';
END;

-- The journal only grows. Pruning drops the second trigger for the length of its transaction.
CREATE TABLE journal (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_mark TEXT NOT NULL,
    at BIGINT NOT NULL,
    principal TEXT NOT NULL,
    client TEXT NOT NULL,
    tool TEXT NOT NULL,
    counts TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT
);

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal BEGIN
    SELECT RAISE(ABORT, 'the journal is only appended to');
END;

CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal BEGIN
    SELECT RAISE(ABORT, 'the journal is only appended to');
END;

-- stored_bytes holds the bytes of content of each resource, in one row (part 0), since SQLite has one writer at a time.
-- The row of no resource is the tenant's sum.
CREATE TRIGGER messages_count_insert AFTER INSERT ON messages BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.name AS BLOB)), 0) + coalesce(length(CAST(new.parts AS BLOB)), 0) + coalesce(length(CAST(new.metadata AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER messages_count_update AFTER UPDATE OF name, parts, metadata ON messages BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.name AS BLOB)), 0) + coalesce(length(CAST(new.parts AS BLOB)), 0) + coalesce(length(CAST(new.metadata AS BLOB)), 0) - (coalesce(length(CAST(old.name AS BLOB)), 0) + coalesce(length(CAST(old.parts AS BLOB)), 0) + coalesce(length(CAST(old.metadata AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER messages_count_delete AFTER DELETE ON messages BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.name AS BLOB)), 0) + coalesce(length(CAST(old.parts AS BLOB)), 0) + coalesce(length(CAST(old.metadata AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;

CREATE TRIGGER threads_count_insert AFTER INSERT ON threads BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.title AS BLOB)), 0) + coalesce(length(CAST(new.metadata AS BLOB)), 0) + coalesce(length(CAST(new.window_policy AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER threads_count_update AFTER UPDATE OF title, metadata, window_policy ON threads BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.title AS BLOB)), 0) + coalesce(length(CAST(new.metadata AS BLOB)), 0) + coalesce(length(CAST(new.window_policy AS BLOB)), 0) - (coalesce(length(CAST(old.title AS BLOB)), 0) + coalesce(length(CAST(old.metadata AS BLOB)), 0) + coalesce(length(CAST(old.window_policy AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER threads_count_delete AFTER DELETE ON threads BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.title AS BLOB)), 0) + coalesce(length(CAST(old.metadata AS BLOB)), 0) + coalesce(length(CAST(old.window_policy AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;

CREATE TRIGGER session_memories_count_insert AFTER INSERT ON session_memories BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.content AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER session_memories_count_update AFTER UPDATE OF content ON session_memories BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.content AS BLOB)), 0) - (coalesce(length(CAST(old.content AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER session_memories_count_delete AFTER DELETE ON session_memories BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.content AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;

CREATE TRIGGER user_profiles_count_insert AFTER INSERT ON user_profiles BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.content AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER user_profiles_count_update AFTER UPDATE OF content ON user_profiles BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.content AS BLOB)), 0) - (coalesce(length(CAST(old.content AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER user_profiles_count_delete AFTER DELETE ON user_profiles BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.content AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;

CREATE TRIGGER entries_count_insert AFTER INSERT ON entries BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.content AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER entries_count_update AFTER UPDATE OF content ON entries BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.content AS BLOB)), 0) - (coalesce(length(CAST(old.content AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER entries_count_delete AFTER DELETE ON entries BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.content AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;

CREATE TRIGGER plans_count_insert AFTER INSERT ON plans BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.plan AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER plans_count_update AFTER UPDATE OF plan ON plans BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.plan AS BLOB)), 0) - (coalesce(length(CAST(old.plan AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER plans_count_delete AFTER DELETE ON plans BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.plan AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;

CREATE TRIGGER attempts_count_insert AFTER INSERT ON attempts BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.action AS BLOB)), 0) + coalesce(length(CAST(new.result AS BLOB)), 0) + coalesce(length(CAST(new.error AS BLOB)), 0) + coalesce(length(CAST(new.diagnosis AS BLOB)), 0) + coalesce(length(CAST(new.fix_applied AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER attempts_count_update AFTER UPDATE OF action, result, error, diagnosis, fix_applied ON attempts BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.action AS BLOB)), 0) + coalesce(length(CAST(new.result AS BLOB)), 0) + coalesce(length(CAST(new.error AS BLOB)), 0) + coalesce(length(CAST(new.diagnosis AS BLOB)), 0) + coalesce(length(CAST(new.fix_applied AS BLOB)), 0) - (coalesce(length(CAST(old.action AS BLOB)), 0) + coalesce(length(CAST(old.result AS BLOB)), 0) + coalesce(length(CAST(old.error AS BLOB)), 0) + coalesce(length(CAST(old.diagnosis AS BLOB)), 0) + coalesce(length(CAST(old.fix_applied AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER attempts_count_delete AFTER DELETE ON attempts BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.action AS BLOB)), 0) + coalesce(length(CAST(old.result AS BLOB)), 0) + coalesce(length(CAST(old.error AS BLOB)), 0) + coalesce(length(CAST(old.diagnosis AS BLOB)), 0) + coalesce(length(CAST(old.fix_applied AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;

CREATE TRIGGER runs_count_insert AFTER INSERT ON runs BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.metadata AS BLOB)), 0) + coalesce(length(CAST(new.state AS BLOB)), 0) + coalesce(length(CAST(new.pending AS BLOB)), 0) + coalesce(length(CAST(new.resumed AS BLOB)), 0) + coalesce(length(CAST(new.reason AS BLOB)), 0) + coalesce(length(CAST(new.output AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER runs_count_update AFTER UPDATE OF metadata, state, pending, resumed, reason, output ON runs BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.metadata AS BLOB)), 0) + coalesce(length(CAST(new.state AS BLOB)), 0) + coalesce(length(CAST(new.pending AS BLOB)), 0) + coalesce(length(CAST(new.resumed AS BLOB)), 0) + coalesce(length(CAST(new.reason AS BLOB)), 0) + coalesce(length(CAST(new.output AS BLOB)), 0) - (coalesce(length(CAST(old.metadata AS BLOB)), 0) + coalesce(length(CAST(old.state AS BLOB)), 0) + coalesce(length(CAST(old.pending AS BLOB)), 0) + coalesce(length(CAST(old.resumed AS BLOB)), 0) + coalesce(length(CAST(old.reason AS BLOB)), 0) + coalesce(length(CAST(old.output AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER runs_count_delete AFTER DELETE ON runs BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.metadata AS BLOB)), 0) + coalesce(length(CAST(old.state AS BLOB)), 0) + coalesce(length(CAST(old.pending AS BLOB)), 0) + coalesce(length(CAST(old.resumed AS BLOB)), 0) + coalesce(length(CAST(old.reason AS BLOB)), 0) + coalesce(length(CAST(old.output AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;

CREATE TRIGGER steps_count_insert AFTER INSERT ON steps BEGIN
    INSERT INTO stored_bytes
    SELECT new.tenant_id, whose.value, 0, 256 + coalesce(length(CAST(new.body AS BLOB)), 0) FROM json_each(json_array(new.resource_id, '')) AS whose WHERE true
    ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER steps_count_update AFTER UPDATE OF body ON steps BEGIN
    UPDATE stored_bytes SET bytes = bytes + coalesce(length(CAST(new.body AS BLOB)), 0) - (coalesce(length(CAST(old.body AS BLOB)), 0))
    WHERE tenant_id = new.tenant_id AND resource_id IN (new.resource_id, '') AND part = 0;
END;

CREATE TRIGGER steps_count_delete AFTER DELETE ON steps BEGIN
    UPDATE stored_bytes SET bytes = bytes - (256 + coalesce(length(CAST(old.body AS BLOB)), 0))
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0;
    DELETE FROM stored_bytes
    WHERE tenant_id = old.tenant_id AND resource_id IN (old.resource_id, '') AND part = 0 AND bytes = 0;
END;
