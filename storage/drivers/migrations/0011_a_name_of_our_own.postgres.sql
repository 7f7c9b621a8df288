-- The functions, settings and dictionary of the earlier steps carry the product's former name.
ALTER TEXT SEARCH DICTIONARY memstrata_stem RENAME TO layerlore_stem;

DO $do$
DECLARE found record;
BEGIN
    FOR found IN SELECT tablename, policyname, qual, with_check FROM pg_policies WHERE schemaname = current_schema() LOOP
        EXECUTE format('ALTER POLICY %I ON %I', found.policyname, found.tablename)
            || coalesce(' USING (' || replace(found.qual, 'memstrata.', 'layerlore.') || ')', '')
            || coalesce(' WITH CHECK (' || replace(found.with_check, 'memstrata.', 'layerlore.') || ')', '');
    END LOOP;
    FOR found IN
        SELECT oid::regprocedure AS signature, proname, oid
        FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND (proname LIKE 'memstrata%' OR prosrc LIKE '%memstrata%')
    LOOP
        IF found.proname LIKE 'memstrata%' THEN
            -- Renamed first, so that who may call it stays as it was.
            EXECUTE format('ALTER FUNCTION %s RENAME TO %I', found.signature, replace(found.proname, 'memstrata', 'layerlore'));
        END IF;
        EXECUTE replace(pg_get_functiondef(found.oid), 'memstrata', 'layerlore');
    END LOOP;
END
$do$;

-- Keys made under the former name have its prefix, which nothing accepts any more.
SELECT set_config('layerlore.across', 'yes', true);
UPDATE api_keys SET revoked_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint WHERE revoked_at IS NULL;
SELECT set_config('layerlore.across', '', true);
