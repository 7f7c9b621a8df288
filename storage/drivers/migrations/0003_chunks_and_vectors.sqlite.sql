DROP TRIGGER search_rows_deleted;

ALTER TABLE search_rows RENAME TO search_rows_before;

-- AUTOINCREMENT: a row id is never given again, so that a vector made for one row cannot land on another.
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
    UNIQUE (tenant_id, agent_id, resource_id, thread_uid, seq, chunk),
    FOREIGN KEY(tenant_id, agent_id, resource_id, thread_uid, seq)
        REFERENCES messages (tenant_id, agent_id, resource_id, thread_uid, seq) ON DELETE CASCADE
);

-- Kept under their version, and so made anew: until then the length of the message's parts stands for its text's, and
-- six hours of silence begin a session.
INSERT INTO search_rows
SELECT row_id, tenant_id, agent_id, resource_id, thread_uid, seq, 0, text_version, role, speaker, said_at, chars,
       max(begins) OVER (PARTITION BY tenant_id, agent_id, resource_id, thread_uid ORDER BY seq), NULL
FROM (
    SELECT r.*, m.role, m.name AS speaker, m.said_at, length(m.parts) AS chars,
           CASE WHEN abs(m.said_at - lag(m.said_at) OVER thread) < 21600000 THEN NULL ELSE r.seq END AS begins
    FROM search_rows_before r JOIN messages m USING (tenant_id, agent_id, resource_id, thread_uid, seq)
    WINDOW thread AS (PARTITION BY r.tenant_id, r.agent_id, r.resource_id, r.thread_uid ORDER BY r.seq)
) AS kept;

DROP TABLE search_rows_before;

-- The words go with their row, also when a thread's end takes it along.
CREATE TRIGGER search_rows_deleted AFTER DELETE ON search_rows BEGIN
    DELETE FROM search_text WHERE rowid = old.row_id;
END;

-- Rows that older rules made: none, once they are made anew.
CREATE INDEX search_rows_stale ON search_rows (row_id) WHERE text_version < 2;

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
