-- What a shared file brought, and no word of the user backs, is the user's word no longer.
UPDATE entries SET trust = 'shared'
WHERE origin = 'shared'
  AND NOT EXISTS (
    SELECT 1 FROM entry_sources
    WHERE entry_sources.tenant_id = entries.tenant_id
      AND entry_sources.agent_id = entries.agent_id
      AND entry_sources.resource_id = entries.resource_id
      AND entry_sources.entry_id = entries.entry_id
      AND entry_sources.label = 'user_assertion'
  );
