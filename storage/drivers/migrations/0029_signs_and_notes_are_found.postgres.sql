-- Signs are words, and digits of all scripts match: rows of older rules are made anew.
DROP INDEX search_rows_stale;
CREATE INDEX search_rows_stale ON search_rows (row_id) WHERE text_version < 4;

CREATE OR REPLACE FUNCTION layerlore_stale_rows(after BIGINT, most BIGINT) RETURNS TABLE (row_id bigint, tenant_id text, agent_id text, resource_id text, thread_uid text, seq bigint) LANGUAGE plpgsql SECURITY DEFINER
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
