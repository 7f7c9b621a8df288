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

ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON api_keys USING (tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), '')));
CREATE POLICY across ON api_keys TO CURRENT_USER USING ((SELECT current_setting('memstrata.across', true)) = 'yes');

-- A key is looked up before its tenant is known.
CREATE FUNCTION memstrata_api_key(digest TEXT) RETURNS TABLE (key_id text, tenant_id text, agents text, resource_id text, rights text, created_at bigint, expires_at bigint, revoked_at bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT api_keys.key_id, api_keys.tenant_id, api_keys.agents, api_keys.resource_id, api_keys.rights, api_keys.created_at, api_keys.expires_at, api_keys.revoked_at 
FROM api_keys 
WHERE api_keys.digest = $1::VARCHAR;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_api_keys() RETURNS TABLE (key_id text, tenant_id text, agents text, resource_id text, rights text, created_at bigint, expires_at bigint, revoked_at bigint) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT api_keys.key_id, api_keys.tenant_id, api_keys.agents, api_keys.resource_id, api_keys.rights, api_keys.created_at, api_keys.expires_at, api_keys.revoked_at 
FROM api_keys ORDER BY api_keys.created_at, api_keys.key_id;
PERFORM set_config('memstrata.across', '', true);
END
$body$;

CREATE FUNCTION memstrata_usable_api_key(now BIGINT, other_than_tenant TEXT) RETURNS TABLE (key_id text) LANGUAGE plpgsql SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('memstrata.across', 'yes', true);
RETURN QUERY SELECT api_keys.key_id 
FROM api_keys 
WHERE api_keys.revoked_at IS NULL AND (api_keys.expires_at IS NULL OR api_keys.expires_at > $1::BIGINT) AND api_keys.tenant_id != $2::VARCHAR 
 LIMIT 1::INTEGER;
PERFORM set_config('memstrata.across', '', true);
END
$body$;
