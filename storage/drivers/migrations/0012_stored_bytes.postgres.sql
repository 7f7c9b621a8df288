-- How many bytes of content are stored of a tenant and resource: kept by the database itself, in the transaction that
-- stores or erases them. A transaction counts in a row of its own (part: its number), so that no two wait for each other:
-- the sum of the parts is what counts, and that of no resource is the tenant's. Every 16th takes in the parts of those before it (part: its number below zero).
CREATE TABLE stored_bytes (
    tenant_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    part BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, resource_id, part)
);

ALTER TABLE stored_bytes ENABLE ROW LEVEL SECURITY;
ALTER TABLE stored_bytes FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON stored_bytes USING (tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), '')));
CREATE POLICY across ON stored_bytes TO CURRENT_USER USING ((SELECT current_setting('layerlore.across', true)) = 'yes');

SELECT set_config('layerlore.across', 'yes', true);
INSERT INTO stored_bytes
SELECT tenant_id, resource_id, 0, sum(bytes)
FROM (
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(name), 0) + coalesce(octet_length(parts), 0) + coalesce(octet_length(metadata), 0) AS bytes FROM messages
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(title), 0) + coalesce(octet_length(metadata), 0) + coalesce(octet_length(window_policy), 0) AS bytes FROM threads
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM session_memories
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM user_profiles
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM entries
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(plan), 0) AS bytes FROM plans
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(action), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(diagnosis), 0) + coalesce(octet_length(fix_applied), 0) AS bytes FROM attempts
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(metadata), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(pending), 0) + coalesce(octet_length(resumed), 0) + coalesce(octet_length(reason), 0) + coalesce(octet_length(output), 0) AS bytes FROM runs
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(octet_length(body), 0) AS bytes FROM steps
) AS stored
GROUP BY tenant_id, resource_id;
INSERT INTO stored_bytes SELECT tenant_id, '', 0, sum(bytes) FROM stored_bytes GROUP BY tenant_id;
SELECT set_config('layerlore.across', '', true);

CREATE FUNCTION layerlore_fold_bytes(tenant TEXT, resource TEXT, mine BIGINT, leaves BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $body$
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

CREATE FUNCTION layerlore_add_bytes(tenant TEXT, resource TEXT, more BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $body$
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

CREATE FUNCTION layerlore_stored_messages() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(name), 0) + coalesce(octet_length(parts), 0) + coalesce(octet_length(metadata), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(name), 0) + coalesce(octet_length(parts), 0) + coalesce(octet_length(metadata), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(name), 0) + coalesce(octet_length(parts), 0) + coalesce(octet_length(metadata), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(name), 0) + coalesce(octet_length(parts), 0) + coalesce(octet_length(metadata), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER messages_count_insert AFTER INSERT ON messages
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_messages();
CREATE TRIGGER messages_count_update AFTER UPDATE ON messages
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_messages();
CREATE TRIGGER messages_count_delete AFTER DELETE ON messages
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_messages();

CREATE FUNCTION layerlore_stored_threads() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(title), 0) + coalesce(octet_length(metadata), 0) + coalesce(octet_length(window_policy), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(title), 0) + coalesce(octet_length(metadata), 0) + coalesce(octet_length(window_policy), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(title), 0) + coalesce(octet_length(metadata), 0) + coalesce(octet_length(window_policy), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(title), 0) + coalesce(octet_length(metadata), 0) + coalesce(octet_length(window_policy), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER threads_count_insert AFTER INSERT ON threads
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_threads();
CREATE TRIGGER threads_count_update AFTER UPDATE ON threads
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_threads();
CREATE TRIGGER threads_count_delete AFTER DELETE ON threads
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_threads();

CREATE FUNCTION layerlore_stored_session_memories() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(content), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER session_memories_count_insert AFTER INSERT ON session_memories
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_session_memories();
CREATE TRIGGER session_memories_count_update AFTER UPDATE ON session_memories
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_session_memories();
CREATE TRIGGER session_memories_count_delete AFTER DELETE ON session_memories
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_session_memories();

CREATE FUNCTION layerlore_stored_user_profiles() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(content), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER user_profiles_count_insert AFTER INSERT ON user_profiles
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_user_profiles();
CREATE TRIGGER user_profiles_count_update AFTER UPDATE ON user_profiles
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_user_profiles();
CREATE TRIGGER user_profiles_count_delete AFTER DELETE ON user_profiles
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_user_profiles();

CREATE FUNCTION layerlore_stored_entries() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(content), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(content), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER entries_count_insert AFTER INSERT ON entries
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_entries();
CREATE TRIGGER entries_count_update AFTER UPDATE ON entries
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_entries();
CREATE TRIGGER entries_count_delete AFTER DELETE ON entries
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_entries();

CREATE FUNCTION layerlore_stored_plans() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(plan), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(plan), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(plan), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(plan), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER plans_count_insert AFTER INSERT ON plans
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_plans();
CREATE TRIGGER plans_count_update AFTER UPDATE ON plans
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_plans();
CREATE TRIGGER plans_count_delete AFTER DELETE ON plans
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_plans();

CREATE FUNCTION layerlore_stored_attempts() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(action), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(diagnosis), 0) + coalesce(octet_length(fix_applied), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(action), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(diagnosis), 0) + coalesce(octet_length(fix_applied), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(action), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(diagnosis), 0) + coalesce(octet_length(fix_applied), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(action), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(diagnosis), 0) + coalesce(octet_length(fix_applied), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER attempts_count_insert AFTER INSERT ON attempts
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_attempts();
CREATE TRIGGER attempts_count_update AFTER UPDATE ON attempts
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_attempts();
CREATE TRIGGER attempts_count_delete AFTER DELETE ON attempts
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_attempts();

CREATE FUNCTION layerlore_stored_runs() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(metadata), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(pending), 0) + coalesce(octet_length(resumed), 0) + coalesce(octet_length(reason), 0) + coalesce(octet_length(output), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(metadata), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(pending), 0) + coalesce(octet_length(resumed), 0) + coalesce(octet_length(reason), 0) + coalesce(octet_length(output), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(metadata), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(pending), 0) + coalesce(octet_length(resumed), 0) + coalesce(octet_length(reason), 0) + coalesce(octet_length(output), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(metadata), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(pending), 0) + coalesce(octet_length(resumed), 0) + coalesce(octet_length(reason), 0) + coalesce(octet_length(output), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER runs_count_insert AFTER INSERT ON runs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_runs();
CREATE TRIGGER runs_count_update AFTER UPDATE ON runs
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_runs();
CREATE TRIGGER runs_count_delete AFTER DELETE ON runs
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_runs();

CREATE FUNCTION layerlore_stored_steps() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(body), 0) AS bytes FROM added) AS rows
        GROUP BY tenant_id, resource_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM layerlore_add_bytes(tenant_id, resource_id, -sum(bytes)::bigint)
        FROM (SELECT tenant_id, resource_id, 256 + coalesce(octet_length(body), 0) AS bytes FROM removed) AS rows
        GROUP BY tenant_id, resource_id;
    ELSE
        PERFORM layerlore_add_bytes(tenant_id, resource_id, sum(bytes)::bigint)
        FROM (
            SELECT tenant_id, resource_id, 256 + coalesce(octet_length(body), 0) AS bytes FROM added
            UNION ALL
            SELECT tenant_id, resource_id, -(256 + coalesce(octet_length(body), 0)) FROM removed
        ) AS rows
        GROUP BY tenant_id, resource_id
        HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER steps_count_insert AFTER INSERT ON steps
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_steps();
CREATE TRIGGER steps_count_update AFTER UPDATE ON steps
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_steps();
CREATE TRIGGER steps_count_delete AFTER DELETE ON steps
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION layerlore_stored_steps();
