-- How many bytes of content are stored of a tenant and resource: kept by the database itself, in the transaction that
-- stores or erases them. One row for each (part 0), since SQLite has one writer at a time; the one of no resource is the
-- tenant's sum.
CREATE TABLE stored_bytes (
    tenant_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    part BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, resource_id, part)
);

INSERT INTO stored_bytes
SELECT tenant_id, resource_id, 0, sum(bytes)
FROM (
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(name AS BLOB)), 0) + coalesce(length(CAST(parts AS BLOB)), 0) + coalesce(length(CAST(metadata AS BLOB)), 0) AS bytes FROM messages
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(title AS BLOB)), 0) + coalesce(length(CAST(metadata AS BLOB)), 0) + coalesce(length(CAST(window_policy AS BLOB)), 0) AS bytes FROM threads
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(content AS BLOB)), 0) AS bytes FROM session_memories
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(content AS BLOB)), 0) AS bytes FROM user_profiles
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(content AS BLOB)), 0) AS bytes FROM entries
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(plan AS BLOB)), 0) AS bytes FROM plans
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(action AS BLOB)), 0) + coalesce(length(CAST(result AS BLOB)), 0) + coalesce(length(CAST(error AS BLOB)), 0) + coalesce(length(CAST(diagnosis AS BLOB)), 0) + coalesce(length(CAST(fix_applied AS BLOB)), 0) AS bytes FROM attempts
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(metadata AS BLOB)), 0) + coalesce(length(CAST(state AS BLOB)), 0) + coalesce(length(CAST(pending AS BLOB)), 0) + coalesce(length(CAST(resumed AS BLOB)), 0) + coalesce(length(CAST(reason AS BLOB)), 0) + coalesce(length(CAST(output AS BLOB)), 0) AS bytes FROM runs
    UNION ALL
    SELECT tenant_id, resource_id, 256 + coalesce(length(CAST(body AS BLOB)), 0) AS bytes FROM steps
)
GROUP BY tenant_id, resource_id;
INSERT INTO stored_bytes SELECT tenant_id, '', 0, sum(bytes) FROM stored_bytes GROUP BY tenant_id;

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
