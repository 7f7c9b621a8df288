-- Every table of a Postgres database, as storage/core/tables/ describes them: a test holds the two equal.

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
    title TEXT COLLATE "C",
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
    plan TEXT NOT NULL,
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

-- The search index: a row's id is never given again, and its words are its lexemes. The words of all tenants are in one
-- index, as only an extension could put the tenant before them: each query begins with the token of its scope.
CREATE TEXT SEARCH DICTIONARY layerlore_stem (TEMPLATE = snowball, language = 'english');

CREATE TABLE search_rows (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY,
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_uid TEXT NOT NULL,
    seq BIGINT NOT NULL,
    text_version INTEGER NOT NULL,
    lexemes TSVECTOR NOT NULL,
    chunk INTEGER NOT NULL,
    role TEXT NOT NULL,
    speaker TEXT,
    said_at BIGINT NOT NULL,
    chars INTEGER NOT NULL,
    session_seq BIGINT NOT NULL,
    session_mark TEXT,
    asks INTEGER DEFAULT 0 NOT NULL,
    empty INTEGER DEFAULT 0 NOT NULL,
    content_words INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, seq, chunk),
    UNIQUE (tenant_id, row_id)
);
-- For the passes over the rows of all tenants.
CREATE INDEX search_rows_in_order ON search_rows (row_id);
CREATE INDEX search_rows_lexemes ON search_rows USING gin (lexemes) WITH (fastupdate = on, gin_pending_list_limit = 64);
CREATE INDEX search_rows_stale ON search_rows (row_id) WHERE text_version < 4;

CREATE TABLE search_vectors (
    tenant_id TEXT NOT NULL,
    row_id BIGINT NOT NULL,
    model TEXT NOT NULL,
    scope_token TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    code BIT VARYING NOT NULL,
    vector BYTEA NOT NULL,
    PRIMARY KEY (tenant_id, row_id, model),
    FOREIGN KEY (tenant_id, row_id) REFERENCES search_rows (tenant_id, row_id) ON DELETE CASCADE
);
CREATE INDEX search_vectors_codes ON search_vectors (tenant_id, scope_token, model) INCLUDE (row_id, code);

-- The rows of the index go with the message or the entry that they were made from.
CREATE FUNCTION forget_search_rows_of_message() RETURNS trigger
LANGUAGE plpgsql
AS $body$
BEGIN
    DELETE FROM search_rows
    WHERE tenant_id = old.tenant_id AND agent_id = old.agent_id AND resource_id = old.resource_id
      AND thread_uid = old.thread_uid AND seq = old.seq;
    RETURN NULL;
END
$body$;

CREATE TRIGGER messages_deleted AFTER DELETE ON messages
    FOR EACH ROW EXECUTE FUNCTION forget_search_rows_of_message();

CREATE FUNCTION forget_search_rows_of_entry() RETURNS trigger
LANGUAGE plpgsql
AS $body$
BEGIN
    DELETE FROM search_rows
    WHERE tenant_id = old.tenant_id AND agent_id = old.agent_id AND resource_id = old.resource_id
      AND thread_uid = 'entry:' || old.entry_id;
    RETURN NULL;
END
$body$;

CREATE TRIGGER entries_deleted AFTER DELETE ON entries
    FOR EACH ROW EXECUTE FUNCTION forget_search_rows_of_entry();

-- Where the tenants of an installation on several clusters are. On the home cluster: the shard of each tenant ('': home). On
-- every cluster: whether the tenant is served there. A tenant without a row is at home. The epoch counts the moves.
CREATE TABLE tenant_places (
    tenant_id TEXT PRIMARY KEY,
    shard TEXT NOT NULL,
    epoch BIGINT NOT NULL
);

-- Called at the start of a transaction of a tenant by servers of several clusters; "here" is the cluster's own name. A
-- write holds the tenant's lock until it ends. A move takes that lock alone: it waits for the writes under way, and those
-- that come meanwhile are refused without a wait.
CREATE FUNCTION layerlore_expect_tenant(tenant text, here text, writes boolean) RETURNS void
LANGUAGE plpgsql
AS $body$
BEGIN
    IF writes AND NOT pg_try_advisory_xact_lock_shared(hashtextextended(tenant, 13)) THEN
        RAISE EXCEPTION 'the tenant is being moved' USING ERRCODE = 'LL001';
    END IF;
    IF coalesce((SELECT shard FROM tenant_places WHERE tenant_id = tenant), '') <> here THEN
        RAISE EXCEPTION 'the tenant is on another cluster' USING ERRCODE = 'LL001';
    END IF;
END
$body$;

-- Each connection's newest write: it tells whether a COMMIT that got no answer was done.
CREATE TABLE last_writes (
    slot TEXT PRIMARY KEY,
    unit TEXT NOT NULL,
    written_at BIGINT NOT NULL
) WITH (fillfactor = 50);

-- The journal only grows. Pruning says so by a setting of its transaction; a role without the right to delete cannot
-- make use of that.
CREATE TABLE journal (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY,
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_mark TEXT NOT NULL,
    at BIGINT NOT NULL,
    principal TEXT NOT NULL,
    client TEXT NOT NULL,
    tool TEXT NOT NULL,
    counts TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    PRIMARY KEY (tenant_id, row_id)
);
-- For an operator who reads the newest lines of all tenants.
CREATE INDEX journal_in_order ON journal (row_id);
CREATE INDEX journal_by_time ON journal (tenant_id, at);

CREATE FUNCTION journal_only_grows() RETURNS trigger
LANGUAGE plpgsql
AS $body$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('layerlore.prune', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the journal is only appended to';
END
$body$;

CREATE TRIGGER journal_no_change BEFORE UPDATE OR DELETE ON journal
    FOR EACH ROW EXECUTE FUNCTION journal_only_grows();

CREATE TRIGGER journal_no_truncate BEFORE TRUNCATE ON journal
    FOR EACH STATEMENT EXECUTE FUNCTION journal_only_grows();

-- stored_bytes holds the bytes of content of each resource, in one row (part) for each transaction that changed them, so
-- that no two transactions wait for each other. The sum of the parts counts. Every 16th transaction folds the parts of
-- those before it into one (its number below zero). The rows of no resource are the tenant's sum.
CREATE FUNCTION layerlore_fold_bytes(tenant text, resource text, mine bigint, leaves bigint) RETURNS void
LANGUAGE plpgsql
AS $body$
DECLARE folded BIGINT;
BEGIN
    -- What another transaction is at is left to that.
    WITH others AS (
        SELECT part FROM stored_bytes
        WHERE tenant_id = tenant AND resource_id = resource AND part <> leaves AND part <> -mine
        FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM stored_bytes USING others
        WHERE tenant_id = tenant AND resource_id = resource AND stored_bytes.part = others.part
        RETURNING stored_bytes.bytes
    )
    SELECT sum(bytes) INTO folded FROM gone;
    IF folded <> 0 THEN
        INSERT INTO stored_bytes AS kept VALUES (tenant, resource, -mine, folded)
        ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = kept.bytes + excluded.bytes;
    END IF;
END
$body$;

CREATE FUNCTION layerlore_add_bytes(tenant text, resource text, more bigint) RETURNS void
LANGUAGE plpgsql
AS $body$
DECLARE
    mine BIGINT := txid_current();
    whose TEXT;
BEGIN
    FOREACH whose IN ARRAY ARRAY[resource, ''] LOOP
        INSERT INTO stored_bytes AS kept VALUES (tenant, whose, mine, more)
        ON CONFLICT (tenant_id, resource_id, part) DO UPDATE SET bytes = kept.bytes + excluded.bytes;
        IF mine % 16 = 0 THEN
            PERFORM layerlore_fold_bytes(tenant, whose, mine, mine);
        END IF;
    END LOOP;
END
$body$;

DO $do$
DECLARE
    counted RECORD;
    size TEXT;
BEGIN
    FOR counted IN
        SELECT * FROM (VALUES
            ('messages', ARRAY['name', 'parts', 'metadata']),
            ('threads', ARRAY['title', 'metadata', 'window_policy']),
            ('session_memories', ARRAY['content']),
            ('user_profiles', ARRAY['content']),
            ('entries', ARRAY['content']),
            ('plans', ARRAY['plan']),
            ('attempts', ARRAY['action', 'result', 'error', 'diagnosis', 'fix_applied']),
            ('runs', ARRAY['metadata', 'state', 'pending', 'resumed', 'reason', 'output']),
            ('steps', ARRAY['body'])
        ) AS content (table_name, column_names)
    LOOP
        SELECT '256' || string_agg(format(' + coalesce(octet_length(%I), 0)', column_name), '')
        INTO size
        FROM unnest(counted.column_names) AS column_name;
        EXECUTE format($count$
CREATE FUNCTION layerlore_stored_%1$s() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, %2$s AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, %2$s AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, %2$s AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(%2$s) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$
        $count$, counted.table_name, size);
        EXECUTE format($trigger$
            CREATE TRIGGER %1$s_count_insert AFTER INSERT ON %1$s
                REFERENCING NEW TABLE AS added
                FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_%1$s()
        $trigger$, counted.table_name);
        EXECUTE format($trigger$
            CREATE TRIGGER %1$s_count_update AFTER UPDATE ON %1$s
                REFERENCING OLD TABLE AS removed NEW TABLE AS added
                FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_%1$s()
        $trigger$, counted.table_name);
        EXECUTE format($trigger$
            CREATE TRIGGER %1$s_count_delete AFTER DELETE ON %1$s
                REFERENCING OLD TABLE AS removed
                FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_%1$s()
        $trigger$, counted.table_name);
    END LOOP;
END
$do$;

-- Row-level security stands behind the conditions of the statements: a transaction sees the rows of the scope, or of the
-- whole tenant, that it is bound to, and without a binding it sees no rows. The owner of the tables is held to it as well,
-- except in the functions below. They look at all tenants, and give places and counts, never content.
DO $do$
DECLARE name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'attempts', 'daily_calls', 'daily_usage', 'deletions', 'document_sources', 'entries', 'entry_sources',
        'erased_ids', 'events', 'idempotency', 'job_turns', 'jobs', 'messages', 'observations', 'plans',
        'resource_events', 'resources', 'runs', 'session_memories', 'session_notes', 'shared_lines', 'steps',
        'summaries', 'threads', 'undo_parts', 'usage', 'user_profiles'
    ] LOOP
        EXECUTE format($policy$
            CREATE POLICY bound ON %I USING (
                tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), ''))
                AND ((SELECT current_setting('layerlore.reach', true)) = 'tenant'
                     OR (agent_id = (SELECT current_setting('layerlore.agent', true))
                         AND resource_id = (SELECT current_setting('layerlore.resource', true)))))
        $policy$, name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['api_keys', 'stored_bytes', 'tenant_spending'] LOOP
        EXECUTE format($policy$
            CREATE POLICY bound ON %I USING (
                tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), '')))
        $policy$, name);
    END LOOP;
END
$do$;

-- The scope's token is what a vector's codes are found by.
CREATE POLICY bound ON search_vectors USING (
    tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), ''))
    AND scope_token = ANY ((SELECT string_to_array(current_setting('layerlore.tokens', true), ' '))::text[]));

DO $do$
DECLARE name TEXT;
BEGIN
    FOR name IN SELECT tablename FROM pg_policies WHERE schemaname = current_schema() AND policyname = 'bound'
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$
            CREATE POLICY across ON %I TO CURRENT_USER
                USING ((SELECT current_setting('layerlore.across', true)) = 'yes')
        $policy$, name);
    END LOOP;
END
$do$;

-- The owner reads and prunes the journal; all others only add to it.
ALTER TABLE journal ENABLE ROW LEVEL SECURITY;
CREATE POLICY bound ON journal FOR INSERT WITH CHECK (tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), '')));

-- Not forced: under a policy no index serves the words, so the owner's function below matches them, for the scope that
-- the transaction is bound to.
ALTER TABLE search_rows ENABLE ROW LEVEL SECURITY;
CREATE POLICY bound ON search_rows USING (
    tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), ''))
    AND ((SELECT current_setting('layerlore.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('layerlore.agent', true))
             AND resource_id = (SELECT current_setting('layerlore.resource', true)))));

-- The words of a scope are found by its token among them, and that must be one that the transaction is bound to. "+ 0"
-- keeps the planner from walking the row ids' index backwards in search of a rare word.
CREATE FUNCTION layerlore_postings(words text[], scope text, most bigint) RETURNS TABLE(word text, row_ids bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
    IF ($2 ~ $pattern$^':[0-9]+'( & !':[0-9]+')?$$pattern$
        AND substr(split_part($2, '''', 2), 2)
            = ANY (string_to_array(current_setting('layerlore.tokens', true), ' '))) IS NOT TRUE
    THEN
        RETURN QUERY SELECT asked.word, NULL::bytea FROM unnest($1) AS asked(word);
        RETURN;
    END IF;
    RETURN QUERY
    SELECT asked.word, found.row_ids
    FROM unnest($1) AS asked(word)
    CROSS JOIN LATERAL (
        SELECT string_agg(int8send(hits.row_id), '') AS row_ids
        FROM (
            SELECT row_id
            FROM search_rows
            WHERE lexemes @@ CAST(
                $2 || ' & ''' || replace(replace(
                    coalesce((ts_lexize('layerlore_stem', asked.word))[1], asked.word), '\', '\\'), '''', '''''')
                || '''' AS tsquery)
            ORDER BY row_id + 0 DESC
            LIMIT $3
        ) AS hits
    ) AS found;
END
$body$;

CREATE FUNCTION layerlore_api_key(digest text) RETURNS TABLE(key_id text, tenant_id text, agents text, resource_id text, rights text, created_at bigint, expires_at bigint, revoked_at bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT api_keys.key_id, api_keys.tenant_id, api_keys.agents, api_keys.resource_id, api_keys.rights, api_keys.created_at, api_keys.expires_at, api_keys.revoked_at 
FROM api_keys 
WHERE api_keys.digest = $1::VARCHAR;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_api_keys() RETURNS TABLE(key_id text, tenant_id text, agents text, resource_id text, rights text, created_at bigint, expires_at bigint, revoked_at bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT api_keys.key_id, api_keys.tenant_id, api_keys.agents, api_keys.resource_id, api_keys.rights, api_keys.created_at, api_keys.expires_at, api_keys.revoked_at 
FROM api_keys ORDER BY api_keys.created_at, api_keys.key_id;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_count_messages() RETURNS TABLE(count bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT CAST(coalesce(sum(threads.message_count), 0::INTEGER) AS BIGINT) AS coalesce_1 
FROM threads 
WHERE threads.deletion_uid IS NULL;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_count_rows() RETURNS TABLE(count bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT count(*) AS count_1 
FROM search_rows;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_count_vectors(model text) RETURNS TABLE(count bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT count(*) AS count_1 
FROM search_vectors 
WHERE search_vectors.model = $1::VARCHAR;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_entries_after(after_tenant_id text, after_agent_id text, after_resource_id text, after_entry_id text, most bigint) RETURNS TABLE(tenant_id text, agent_id text, resource_id text, thread_uid text)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT entries.tenant_id, entries.agent_id, entries.resource_id, entries.entry_id 
FROM entries 
WHERE (entries.tenant_id, entries.agent_id, entries.resource_id, entries.entry_id) > ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR) AND entries.status = 'active'::VARCHAR ORDER BY entries.tenant_id, entries.agent_id, entries.resource_id, entries.entry_id 
 LIMIT $5::BIGINT;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_forget_vectors(keep text[], most bigint) RETURNS TABLE(count bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY WITH gone AS (DELETE FROM search_vectors WHERE search_vectors.ctid IN (SELECT search_vectors.ctid AS anon_1 
FROM search_vectors 
WHERE NOT search_vectors.model = ANY($1::TEXT[]) 
 LIMIT $2::BIGINT) RETURNING 1) SELECT count(*) FROM gone;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_last_row() RETURNS TABLE(row_id bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT coalesce(max(search_rows.row_id), 0::INTEGER) AS coalesce_1 
FROM search_rows;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_next_job(now bigint, kinds text[]) RETURNS TABLE(tenant_id text, agent_id text, resource_id text, thread_uid text, kind text, requested_seq bigint, done_seq bigint, epoch bigint, attempts bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT jobs.tenant_id, jobs.agent_id, jobs.resource_id, jobs.thread_uid, jobs.kind, jobs.requested_seq, jobs.done_seq, jobs.epoch, jobs.attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.agent_id AS agent_id, jobs.resource_id AS resource_id, jobs.thread_uid AS thread_uid, jobs.kind AS kind, coalesce(job_turns.served_at, 0::INTEGER) AS served_at 
FROM jobs LEFT OUTER JOIN job_turns ON job_turns.tenant_id = jobs.tenant_id AND job_turns.agent_id = jobs.agent_id AND job_turns.resource_id = jobs.resource_id 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.due_at <= $1::BIGINT AND (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) ORDER BY served_at, jobs.due_at, jobs.tenant_id, jobs.agent_id, jobs.resource_id, jobs.thread_uid, jobs.kind 
 LIMIT 64::INTEGER) AS candidates JOIN jobs ON jobs.tenant_id = candidates.tenant_id AND jobs.agent_id = candidates.agent_id AND jobs.resource_id = candidates.resource_id AND jobs.thread_uid = candidates.thread_uid AND jobs.kind = candidates.kind 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.due_at <= $1::BIGINT AND (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) ORDER BY candidates.served_at, jobs.due_at, jobs.tenant_id, jobs.agent_id, jobs.resource_id, jobs.thread_uid, jobs.kind 
 LIMIT 1::INTEGER FOR UPDATE OF jobs SKIP LOCKED;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_row_behind(after bigint, rows bigint) RETURNS TABLE(row_id bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT search_rows.row_id 
FROM search_rows 
WHERE search_rows.row_id > $1::BIGINT ORDER BY search_rows.row_id 
 LIMIT 1::INTEGER OFFSET $2::BIGINT;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_rows_without_vector(after bigint, upto bigint, model text, most bigint) RETURNS TABLE(row_id bigint, tenant_id text, agent_id text, resource_id text, thread_uid text, seq bigint, chunk integer)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT search_rows.row_id, search_rows.tenant_id, search_rows.agent_id, search_rows.resource_id, search_rows.thread_uid, search_rows.seq, search_rows.chunk 
FROM search_rows 
WHERE search_rows.row_id > $1::BIGINT AND search_rows.row_id <= $2::BIGINT AND NOT (EXISTS (SELECT * 
FROM search_vectors 
WHERE search_vectors.tenant_id = search_rows.tenant_id AND search_vectors.row_id = search_rows.row_id AND search_vectors.model = $3::VARCHAR)) ORDER BY search_rows.row_id 
 LIMIT $4::BIGINT;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_scopes_after(after_tenant_id text, after_agent_id text, after_resource_id text, most bigint) RETURNS TABLE(tenant_id text, agent_id text, resource_id text)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
FROM (SELECT anon_2.tenant_id AS tenant_id, anon_2.agent_id AS agent_id, anon_2.resource_id AS resource_id 
FROM (SELECT DISTINCT threads.tenant_id AS tenant_id, threads.agent_id AS agent_id, threads.resource_id AS resource_id 
FROM threads 
WHERE (threads.tenant_id, threads.agent_id, threads.resource_id) > ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR) ORDER BY threads.tenant_id, threads.agent_id, threads.resource_id 
 LIMIT $4::BIGINT) AS anon_2 UNION SELECT anon_3.tenant_id AS tenant_id, anon_3.agent_id AS agent_id, anon_3.resource_id AS resource_id 
FROM (SELECT DISTINCT resources.tenant_id AS tenant_id, resources.agent_id AS agent_id, resources.resource_id AS resource_id 
FROM resources 
WHERE (resources.tenant_id, resources.agent_id, resources.resource_id) > ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR) ORDER BY resources.tenant_id, resources.agent_id, resources.resource_id 
 LIMIT $4::BIGINT) AS anon_3) AS anon_1 ORDER BY anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
 LIMIT $4::BIGINT;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_scopes_being_erased() RETURNS TABLE(tenant_id text, agent_id text, resource_id text)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
FROM (SELECT deletions.tenant_id AS tenant_id, deletions.agent_id AS agent_id, deletions.resource_id AS resource_id 
FROM deletions 
WHERE deletions.deleted_at = 0::BIGINT AND deletions.kind = 'thread'::VARCHAR UNION SELECT entries.tenant_id AS tenant_id, entries.agent_id AS agent_id, entries.resource_id AS resource_id 
FROM entries 
WHERE status = 'dropped' AND entries.seen_at = 0::BIGINT) AS anon_1;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_scopes_to_erase(deleted_before bigint, answered_before bigint, after_tenant_id text, after_agent_id text, after_resource_id text, most bigint) RETURNS TABLE(tenant_id text, agent_id text, resource_id text)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT DISTINCT anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
FROM (SELECT deletions.tenant_id || ''::VARCHAR AS tenant_id, deletions.agent_id || ''::VARCHAR AS agent_id, deletions.resource_id || ''::VARCHAR AS resource_id 
FROM deletions 
WHERE deletions.deleted_at < $1::BIGINT AND deletions.deleted_at > 0::BIGINT UNION ALL SELECT idempotency.tenant_id || ''::VARCHAR AS tenant_id, idempotency.agent_id || ''::VARCHAR AS agent_id, idempotency.resource_id || ''::VARCHAR AS resource_id 
FROM idempotency 
WHERE idempotency.created_at < $2::BIGINT UNION ALL SELECT session_memories.tenant_id || ''::VARCHAR AS tenant_id, session_memories.agent_id || ''::VARCHAR AS agent_id, session_memories.resource_id || ''::VARCHAR AS resource_id 
FROM session_memories 
WHERE change = 'clear' AND session_memories.created_at < $1::BIGINT UNION ALL SELECT user_profiles.tenant_id || ''::VARCHAR AS tenant_id, user_profiles.agent_id || ''::VARCHAR AS agent_id, user_profiles.resource_id || ''::VARCHAR AS resource_id 
FROM user_profiles 
WHERE change = 'clear' AND user_profiles.created_at < $1::BIGINT UNION ALL SELECT entries.tenant_id || ''::VARCHAR AS tenant_id, entries.agent_id || ''::VARCHAR AS agent_id, entries.resource_id || ''::VARCHAR AS resource_id 
FROM entries 
WHERE status = 'dropped' AND entries.seen_at < $1::BIGINT) AS anon_1 
WHERE (anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id) > ($3::VARCHAR, $4::VARCHAR, $5::VARCHAR) ORDER BY anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
 LIMIT $6::BIGINT;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_scopes_with_expired_runs(now bigint, after_tenant_id text, after_agent_id text, after_resource_id text, most bigint) RETURNS TABLE(tenant_id text, agent_id text, resource_id text)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT DISTINCT anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
FROM (SELECT runs.tenant_id || ''::VARCHAR AS tenant_id, runs.agent_id || ''::VARCHAR AS agent_id, runs.resource_id || ''::VARCHAR AS resource_id 
FROM runs 
WHERE runs.expires_at <= $1::BIGINT AND NOT (runs.status = 'running'::VARCHAR AND runs.claimed_until > $1::BIGINT)) AS anon_1 
WHERE (anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id) > ($2::VARCHAR, $3::VARCHAR, $4::VARCHAR) ORDER BY anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
 LIMIT $5::BIGINT;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_unfinished_jobs(of_tenant text, now bigint) RETURNS TABLE(kind text, state varchar, jobs bigint, due_at bigint, failed bigint, of_others bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT rows_of_jobs.kind, rows_of_jobs.state, count(*) AS count_1, min(rows_of_jobs.due_at) AS min_1, count(CASE WHEN (rows_of_jobs.attempts > 0::BIGINT) THEN 1::INTEGER END) AS count_2, count(CASE WHEN (rows_of_jobs.tenant_id != $1::VARCHAR) THEN 1::INTEGER END) AS count_3 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq) AS rows_of_jobs GROUP BY rows_of_jobs.kind, rows_of_jobs.state ORDER BY rows_of_jobs.kind, rows_of_jobs.state;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_oldest_jobs(of_tenant text, now bigint, most bigint) RETURNS TABLE(kind text, state varchar, jobs bigint, due_at bigint, failed bigint, of_others bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT rows_of_jobs.kind, rows_of_jobs.state, count(*) AS count_1, min(rows_of_jobs.due_at) AS min_1, count(CASE WHEN (rows_of_jobs.attempts > 0::BIGINT) THEN 1::INTEGER END) AS count_2, count(CASE WHEN (rows_of_jobs.tenant_id != $1::VARCHAR) THEN 1::INTEGER END) AS count_3 
FROM (SELECT anon_1.tenant_id AS tenant_id, anon_1.kind AS kind, anon_1.state AS state, anon_1.due_at AS due_at, anon_1.attempts AS attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'observe'::VARCHAR ORDER BY jobs.due_at 
 LIMIT $3::BIGINT) AS anon_1 UNION ALL SELECT anon_2.tenant_id AS tenant_id, anon_2.kind AS kind, anon_2.state AS state, anon_2.due_at AS due_at, anon_2.attempts AS attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'reflect'::VARCHAR ORDER BY jobs.due_at 
 LIMIT $3::BIGINT) AS anon_2 UNION ALL SELECT anon_3.tenant_id AS tenant_id, anon_3.kind AS kind, anon_3.state AS state, anon_3.due_at AS due_at, anon_3.attempts AS attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'digest'::VARCHAR ORDER BY jobs.due_at 
 LIMIT $3::BIGINT) AS anon_3 UNION ALL SELECT anon_4.tenant_id AS tenant_id, anon_4.kind AS kind, anon_4.state AS state, anon_4.due_at AS due_at, anon_4.attempts AS attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'entries'::VARCHAR ORDER BY jobs.due_at 
 LIMIT $3::BIGINT) AS anon_4 UNION ALL SELECT anon_5.tenant_id AS tenant_id, anon_5.kind AS kind, anon_5.state AS state, anon_5.due_at AS due_at, anon_5.attempts AS attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'profile'::VARCHAR ORDER BY jobs.due_at 
 LIMIT $3::BIGINT) AS anon_5 UNION ALL SELECT anon_6.tenant_id AS tenant_id, anon_6.kind AS kind, anon_6.state AS state, anon_6.due_at AS due_at, anon_6.attempts AS attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'session_memory'::VARCHAR ORDER BY jobs.due_at 
 LIMIT $3::BIGINT) AS anon_6 UNION ALL SELECT anon_7.tenant_id AS tenant_id, anon_7.kind AS kind, anon_7.state AS state, anon_7.due_at AS due_at, anon_7.attempts AS attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'title'::VARCHAR ORDER BY jobs.due_at 
 LIMIT $3::BIGINT) AS anon_7 UNION ALL SELECT anon_8.tenant_id AS tenant_id, anon_8.kind AS kind, anon_8.state AS state, anon_8.due_at AS due_at, anon_8.attempts AS attempts 
FROM (SELECT jobs.tenant_id AS tenant_id, jobs.kind AS kind, CASE WHEN (jobs.dead_at IS NOT NULL) THEN 'dead'::VARCHAR WHEN (jobs.lease_until > $2::BIGINT) THEN 'running'::VARCHAR WHEN (jobs.due_at <= $2::BIGINT) THEN 'due'::VARCHAR ELSE 'later'::VARCHAR END AS state, jobs.due_at AS due_at, jobs.attempts AS attempts 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'summary'::VARCHAR ORDER BY jobs.due_at 
 LIMIT $3::BIGINT) AS anon_8) AS rows_of_jobs GROUP BY rows_of_jobs.kind, rows_of_jobs.state ORDER BY rows_of_jobs.kind, rows_of_jobs.state;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_soonest_job(now bigint, kinds text[]) RETURNS TABLE(due_at bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT min(anon_1.due_at) AS min_1 
FROM (SELECT anon_2.due_at AS due_at 
FROM (SELECT jobs.due_at AS due_at 
FROM jobs 
WHERE (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'observe'::VARCHAR ORDER BY jobs.due_at 
 LIMIT 1::INTEGER) AS anon_2 UNION ALL SELECT anon_3.due_at AS due_at 
FROM (SELECT jobs.due_at AS due_at 
FROM jobs 
WHERE (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'reflect'::VARCHAR ORDER BY jobs.due_at 
 LIMIT 1::INTEGER) AS anon_3 UNION ALL SELECT anon_4.due_at AS due_at 
FROM (SELECT jobs.due_at AS due_at 
FROM jobs 
WHERE (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'digest'::VARCHAR ORDER BY jobs.due_at 
 LIMIT 1::INTEGER) AS anon_4 UNION ALL SELECT anon_5.due_at AS due_at 
FROM (SELECT jobs.due_at AS due_at 
FROM jobs 
WHERE (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'entries'::VARCHAR ORDER BY jobs.due_at 
 LIMIT 1::INTEGER) AS anon_5 UNION ALL SELECT anon_6.due_at AS due_at 
FROM (SELECT jobs.due_at AS due_at 
FROM jobs 
WHERE (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'profile'::VARCHAR ORDER BY jobs.due_at 
 LIMIT 1::INTEGER) AS anon_6 UNION ALL SELECT anon_7.due_at AS due_at 
FROM (SELECT jobs.due_at AS due_at 
FROM jobs 
WHERE (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'session_memory'::VARCHAR ORDER BY jobs.due_at 
 LIMIT 1::INTEGER) AS anon_7 UNION ALL SELECT anon_8.due_at AS due_at 
FROM (SELECT jobs.due_at AS due_at 
FROM jobs 
WHERE (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'title'::VARCHAR ORDER BY jobs.due_at 
 LIMIT 1::INTEGER) AS anon_8 UNION ALL SELECT anon_9.due_at AS due_at 
FROM (SELECT jobs.due_at AS due_at 
FROM jobs 
WHERE (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) AND jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = 'summary'::VARCHAR ORDER BY jobs.due_at 
 LIMIT 1::INTEGER) AS anon_9 UNION ALL SELECT min(jobs.lease_until) AS due_at 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.lease_until > $1::BIGINT AND jobs.kind || ''::VARCHAR = ANY($2::TEXT[])) AS anon_1;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_stale_rows(after bigint, most bigint) RETURNS TABLE(row_id bigint, tenant_id text, agent_id text, resource_id text, thread_uid text, seq bigint)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT search_rows.row_id, search_rows.tenant_id, search_rows.agent_id, search_rows.resource_id, search_rows.thread_uid, search_rows.seq 
FROM search_rows 
WHERE search_rows.text_version < 4 AND search_rows.row_id > $1::BIGINT ORDER BY search_rows.row_id 
 LIMIT $2::BIGINT;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_threads_after(after_tenant_id text, after_agent_id text, after_resource_id text, after_thread_uid text, most bigint) RETURNS TABLE(tenant_id text, agent_id text, resource_id text, thread_uid text)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT threads.tenant_id, threads.agent_id, threads.resource_id, threads.thread_uid 
FROM threads 
WHERE (threads.tenant_id, threads.agent_id, threads.resource_id, threads.thread_uid) > ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR) AND threads.deletion_uid IS NULL ORDER BY threads.tenant_id, threads.agent_id, threads.resource_id, threads.thread_uid 
 LIMIT $5::BIGINT;
PERFORM set_config('layerlore.across', '', true);
END
$body$;

CREATE FUNCTION layerlore_usable_api_key(now bigint, other_than_tenant text) RETURNS TABLE(key_id text)
LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('layerlore.across', 'yes', true);
RETURN QUERY SELECT api_keys.key_id 
FROM api_keys 
WHERE api_keys.revoked_at IS NULL AND (api_keys.expires_at IS NULL OR api_keys.expires_at > $1::BIGINT) AND api_keys.tenant_id != $2::VARCHAR 
 LIMIT 1::INTEGER;
PERFORM set_config('layerlore.across', '', true);
END
$body$;
