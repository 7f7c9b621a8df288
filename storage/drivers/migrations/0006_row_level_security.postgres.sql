-- The second line behind the conditions of the statements: a transaction sees the rows of the scope, or of the whole
-- tenant, that it is bound to, and in an unbound one there are none. The owner of the tables is held to it as well, but
-- for the functions below, which look at all tenants for whose turn it is, and give places and counts, never content.

ALTER TABLE attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE attempts FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON attempts USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON attempts TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE deletions ENABLE ROW LEVEL SECURITY;
ALTER TABLE deletions FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON deletions USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON deletions TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE document_sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_sources FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON document_sources USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON document_sources TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE entries FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON entries USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON entries TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE entry_sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE entry_sources FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON entry_sources USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON entry_sources TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE events ENABLE ROW LEVEL SECURITY;
ALTER TABLE events FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON events USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON events TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON idempotency USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON idempotency TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE job_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON job_turns USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON job_turns TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE jobs FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON jobs USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON jobs TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE messages FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON messages USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON messages TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE observations ENABLE ROW LEVEL SECURITY;
ALTER TABLE observations FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON observations USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON observations TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE plans ENABLE ROW LEVEL SECURITY;
ALTER TABLE plans FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON plans USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON plans TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE resource_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE resource_events FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON resource_events USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON resource_events TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE resources ENABLE ROW LEVEL SECURITY;
ALTER TABLE resources FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON resources USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON resources TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON runs USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON runs TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE session_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE session_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON session_memories USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON session_memories TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE session_notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE session_notes FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON session_notes USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON session_notes TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE steps ENABLE ROW LEVEL SECURITY;
ALTER TABLE steps FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON steps USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON steps TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE summaries ENABLE ROW LEVEL SECURITY;
ALTER TABLE summaries FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON summaries USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON summaries TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE threads ENABLE ROW LEVEL SECURITY;
ALTER TABLE threads FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON threads USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON threads TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE usage FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON usage USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON usage TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

ALTER TABLE user_profiles ENABLE ROW LEVEL SECURITY;
ALTER TABLE user_profiles FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON user_profiles USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));
CREATE POLICY across ON user_profiles TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

-- Not forced: under a policy no index serves the words, so the owner's function below matches them, for the scope that
-- the transaction is bound to.
ALTER TABLE search_rows ENABLE ROW LEVEL SECURITY;
CREATE POLICY bound ON search_rows USING (
    tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), ''))
    AND ((SELECT current_setting('memstrata.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('memstrata.agent', true))
             AND resource_id = (SELECT current_setting('memstrata.resource', true)))));

-- A vector is its scope's by the token that its codes are found by.
ALTER TABLE search_vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE search_vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON search_vectors USING (
    scope_token = ANY ((SELECT string_to_array(current_setting('memstrata.tokens', true), ' '))::text[]));
CREATE POLICY across ON search_vectors TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

-- The words of a scope are found by its token among them, and that must be one that the transaction is bound to. "+ 0"
-- keeps the planner from walking the row ids' index backwards in search of a rare word.
CREATE FUNCTION memstrata_postings(words TEXT[], scope TEXT, most BIGINT) RETURNS TABLE (word TEXT, row_ids BYTEA)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
    IF ($2 ~ $pattern$^':[0-9]+'( & !':[0-9]+')?$$pattern$
        AND substr(split_part($2, '''', 2), 2)
            = ANY (string_to_array(current_setting('memstrata.tokens', true), ' '))) IS NOT TRUE
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
                $2 || ' & ''' || coalesce((ts_lexize('memstrata_stem', asked.word))[1], asked.word) || '''' AS tsquery)
            ORDER BY row_id + 0 DESC
            LIMIT $3
        ) AS hits
    ) AS found;
END
$body$;

CREATE FUNCTION memstrata_count_messages() RETURNS TABLE (count bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT CAST(coalesce(sum(threads.message_count), 0::INTEGER) AS BIGINT) AS coalesce_1 
FROM threads 
WHERE threads.deletion_uid IS NULL;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_count_rows() RETURNS TABLE (count bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT count(*) AS count_1 
FROM search_rows;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_count_vectors(model TEXT) RETURNS TABLE (count bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT count(*) AS count_1 
FROM search_vectors 
WHERE search_vectors.model = $1::VARCHAR;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_entries_after(after_tenant_id TEXT, after_agent_id TEXT, after_resource_id TEXT, after_entry_id TEXT, most BIGINT) RETURNS TABLE (tenant_id text, agent_id text, resource_id text, thread_uid text) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT entries.tenant_id, entries.agent_id, entries.resource_id, entries.entry_id 
FROM entries 
WHERE (entries.tenant_id, entries.agent_id, entries.resource_id, entries.entry_id) > ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR) AND entries.status = 'active'::VARCHAR ORDER BY entries.tenant_id, entries.agent_id, entries.resource_id, entries.entry_id 
 LIMIT $5::BIGINT;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_forget_vectors(keep TEXT[], most BIGINT) RETURNS TABLE (count bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY WITH gone AS (DELETE FROM search_vectors WHERE (search_vectors.row_id, search_vectors.model) IN (SELECT search_vectors.row_id, search_vectors.model 
FROM search_vectors 
WHERE NOT search_vectors.model = ANY($1::TEXT[]) 
 LIMIT $2::BIGINT) RETURNING 1) SELECT count(*) FROM gone;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_last_row() RETURNS TABLE (row_id bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT coalesce(max(search_rows.row_id), 0::INTEGER) AS coalesce_1 
FROM search_rows;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_next_job(now BIGINT, kinds TEXT[]) RETURNS TABLE (tenant_id text, agent_id text, resource_id text, thread_uid text, kind text, requested_seq bigint, done_seq bigint, epoch bigint, attempts bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT jobs.tenant_id, jobs.agent_id, jobs.resource_id, jobs.thread_uid, jobs.kind, jobs.requested_seq, jobs.done_seq, jobs.epoch, jobs.attempts 
FROM jobs LEFT OUTER JOIN job_turns ON job_turns.tenant_id = jobs.tenant_id AND job_turns.agent_id = jobs.agent_id AND job_turns.resource_id = jobs.resource_id 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.due_at <= $1::BIGINT AND (jobs.lease_until IS NULL OR jobs.lease_until <= $1::BIGINT) AND jobs.kind = ANY($2::TEXT[]) ORDER BY coalesce(job_turns.served_at, 0::INTEGER), jobs.due_at, jobs.tenant_id, jobs.agent_id, jobs.resource_id, jobs.thread_uid, jobs.kind 
 LIMIT 1::INTEGER FOR UPDATE OF jobs SKIP LOCKED;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_row_behind(after BIGINT, rows BIGINT) RETURNS TABLE (row_id bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT search_rows.row_id 
FROM search_rows 
WHERE search_rows.row_id > $1::BIGINT ORDER BY search_rows.row_id 
 LIMIT 1::INTEGER OFFSET $2::BIGINT;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_rows_without_vector(after BIGINT, upto BIGINT, model TEXT, most BIGINT) RETURNS TABLE (row_id bigint, tenant_id text, agent_id text, resource_id text, thread_uid text, seq bigint, chunk integer) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT search_rows.row_id, search_rows.tenant_id, search_rows.agent_id, search_rows.resource_id, search_rows.thread_uid, search_rows.seq, search_rows.chunk 
FROM search_rows 
WHERE search_rows.row_id > $1::BIGINT AND search_rows.row_id <= $2::BIGINT AND NOT (EXISTS (SELECT * 
FROM search_vectors 
WHERE search_vectors.row_id = search_rows.row_id AND search_vectors.model = $3::VARCHAR)) ORDER BY search_rows.row_id 
 LIMIT $4::BIGINT;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_scopes_after(after_tenant_id TEXT, after_agent_id TEXT, after_resource_id TEXT, most BIGINT) RETURNS TABLE (tenant_id text, agent_id text, resource_id text) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
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
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_scopes_being_erased() RETURNS TABLE (tenant_id text, agent_id text, resource_id text) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
FROM (SELECT deletions.tenant_id AS tenant_id, deletions.agent_id AS agent_id, deletions.resource_id AS resource_id 
FROM deletions 
WHERE deletions.deleted_at = 0::BIGINT AND deletions.kind = 'thread'::VARCHAR UNION SELECT entries.tenant_id AS tenant_id, entries.agent_id AS agent_id, entries.resource_id AS resource_id 
FROM entries 
WHERE status = 'dropped' AND entries.seen_at = 0::BIGINT) AS anon_1;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_scopes_to_erase(deleted_before BIGINT, answered_before BIGINT, after_tenant_id TEXT, after_agent_id TEXT, after_resource_id TEXT, most BIGINT) RETURNS TABLE (tenant_id text, agent_id text, resource_id text) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
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
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_scopes_with_expired_runs(now BIGINT, after_tenant_id TEXT, after_agent_id TEXT, after_resource_id TEXT, most BIGINT) RETURNS TABLE (tenant_id text, agent_id text, resource_id text) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT DISTINCT anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
FROM (SELECT runs.tenant_id || ''::VARCHAR AS tenant_id, runs.agent_id || ''::VARCHAR AS agent_id, runs.resource_id || ''::VARCHAR AS resource_id 
FROM runs 
WHERE runs.expires_at <= $1::BIGINT AND NOT (runs.status = 'running'::VARCHAR AND runs.claimed_until > $1::BIGINT)) AS anon_1 
WHERE (anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id) > ($2::VARCHAR, $3::VARCHAR, $4::VARCHAR) ORDER BY anon_1.tenant_id, anon_1.agent_id, anon_1.resource_id 
 LIMIT $5::BIGINT;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_soonest_job(now BIGINT, kinds TEXT[]) RETURNS TABLE (due_at bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT min(CASE WHEN (jobs.lease_until > $1::BIGINT) THEN jobs.lease_until ELSE jobs.due_at END) AS min_1 
FROM jobs 
WHERE jobs.requested_seq > jobs.done_seq AND jobs.dead_at IS NULL AND jobs.kind = ANY($2::TEXT[]);
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_stale_rows(after BIGINT, most BIGINT) RETURNS TABLE (row_id bigint, tenant_id text, agent_id text, resource_id text, thread_uid text, seq bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT search_rows.row_id, search_rows.tenant_id, search_rows.agent_id, search_rows.resource_id, search_rows.thread_uid, search_rows.seq 
FROM search_rows 
WHERE search_rows.text_version < 2 AND search_rows.row_id > $1::BIGINT ORDER BY search_rows.row_id 
 LIMIT $2::BIGINT;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_threads_after(after_tenant_id TEXT, after_agent_id TEXT, after_resource_id TEXT, after_thread_uid TEXT, most BIGINT) RETURNS TABLE (tenant_id text, agent_id text, resource_id text, thread_uid text) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT threads.tenant_id, threads.agent_id, threads.resource_id, threads.thread_uid 
FROM threads 
WHERE (threads.tenant_id, threads.agent_id, threads.resource_id, threads.thread_uid) > ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR) AND threads.deletion_uid IS NULL ORDER BY threads.tenant_id, threads.agent_id, threads.resource_id, threads.thread_uid 
 LIMIT $5::BIGINT;
PERFORM set_config('memstrata.across', '', true);
END
$body$;
