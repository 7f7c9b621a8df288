ALTER TABLE search_rows
    ADD COLUMN chunk INTEGER,
    ADD COLUMN role TEXT,
    ADD COLUMN speaker TEXT,
    ADD COLUMN said_at BIGINT,
    ADD COLUMN chars INTEGER,
    ADD COLUMN session_seq BIGINT,
    ADD COLUMN session_mark TEXT;

-- Kept under their version, and so made anew: until then the length of the message's parts stands for its text's, and
-- six hours of silence begin a session.
UPDATE search_rows
SET chunk = 0, role = kept.role, speaker = kept.name, said_at = kept.said_at, chars = kept.chars,
    session_seq = kept.session_seq
FROM (
    SELECT row_id, role, name, said_at, chars,
           max(begins) OVER (PARTITION BY tenant_id, agent_id, resource_id, thread_uid ORDER BY seq) AS session_seq
    FROM (
        SELECT r.row_id, r.tenant_id, r.agent_id, r.resource_id, r.thread_uid, r.seq, m.role, m.name, m.said_at,
               length(m.parts) AS chars,
               CASE WHEN abs(m.said_at - lag(m.said_at) OVER thread) < 21600000 THEN NULL ELSE r.seq END AS begins
        FROM search_rows r JOIN messages m USING (tenant_id, agent_id, resource_id, thread_uid, seq)
        WINDOW thread AS (PARTITION BY r.tenant_id, r.agent_id, r.resource_id, r.thread_uid ORDER BY r.seq)
    ) AS spoken
) AS kept
WHERE search_rows.row_id = kept.row_id;

ALTER TABLE search_rows
    ALTER COLUMN chunk SET NOT NULL,
    ALTER COLUMN role SET NOT NULL,
    ALTER COLUMN said_at SET NOT NULL,
    ALTER COLUMN chars SET NOT NULL,
    ALTER COLUMN session_seq SET NOT NULL,
    DROP CONSTRAINT search_rows_pkey,
    ADD PRIMARY KEY (tenant_id, agent_id, resource_id, thread_uid, seq, chunk);

-- Rows that older rules made: none, once they are made anew.
CREATE INDEX search_rows_stale ON search_rows (row_id) WHERE text_version < 2;

CREATE TABLE search_vectors (
    row_id BIGINT NOT NULL,
    model TEXT NOT NULL,
    scope_token TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    code BIT VARYING NOT NULL,
    vector BYTEA NOT NULL,
    PRIMARY KEY (row_id, model),
    FOREIGN KEY(row_id) REFERENCES search_rows (row_id) ON DELETE CASCADE
);

-- The codes beside their keys: a scan of a scope's codes reads nothing else.
CREATE INDEX search_vectors_codes ON search_vectors (scope_token, model) INCLUDE (row_id, code);
