-- Distributes the tables over the workers of a Citus cluster: the rows of a tenant are on one of them, together.
-- Run it once, as the owner of the tables, on the coordinator, after `layerlore migrate` and before the first call:
--
--     psql "$OWNER_URL" -f configs/citus.sql
--
-- It is not enough to serve from Citus: docs/scaling.md says what stands in the way, and what to use instead today.

-- The triggers of a row act on rows of the same tenant, so on the same worker.
SET citus.enable_unsafe_triggers TO on;

-- Of the installation: a copy on each worker. A key is found by its digest, before its tenant is known.
SELECT create_reference_table('schema_migrations');
SELECT create_reference_table('installation');
SELECT create_reference_table('spending');
SELECT create_reference_table('api_keys');

-- Each connection's newest write is changed by every transaction: copies would make each write one of all workers.
SELECT create_distributed_table('last_writes', 'slot', colocate_with => 'none');

-- Of the tenants. A table stands behind those that its foreign keys name.
SELECT create_distributed_table('threads', 'tenant_id', colocate_with => 'none');
SELECT create_distributed_table('messages', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('entries', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('entry_sources', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('search_rows', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('search_vectors', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('resources', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('events', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('resource_events', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('deletions', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('erased_ids', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('undo_parts', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('idempotency', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('observations', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('summaries', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('session_memories', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('session_notes', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('user_profiles', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('document_sources', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('shared_lines', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('plans', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('attempts', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('runs', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('steps', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('jobs', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('job_turns', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('journal', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('usage', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('daily_usage', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('daily_calls', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('tenant_spending', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('tenant_places', 'tenant_id', colocate_with => 'threads');
SELECT create_distributed_table('stored_bytes', 'tenant_id', colocate_with => 'threads');
