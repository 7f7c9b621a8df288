-- Numbers of each day (whole days since 1970, of UTC): what was spent on models, and how often each tool was called, how
-- long it took, and what hooks showed and kept.
CREATE TABLE daily_usage (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    day BIGINT NOT NULL,
    source TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_nano_usd BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, day, source)
);
CREATE TABLE daily_calls (
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    day BIGINT NOT NULL,
    source TEXT NOT NULL,
    name TEXT NOT NULL,
    calls BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    within_1 BIGINT NOT NULL,
    within_2 BIGINT NOT NULL,
    within_5 BIGINT NOT NULL,
    within_10 BIGINT NOT NULL,
    within_20 BIGINT NOT NULL,
    within_50 BIGINT NOT NULL,
    within_100 BIGINT NOT NULL,
    within_200 BIGINT NOT NULL,
    within_500 BIGINT NOT NULL,
    within_1000 BIGINT NOT NULL,
    within_2000 BIGINT NOT NULL,
    within_5000 BIGINT NOT NULL,
    slower BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, resource_id, day, source, name)
);

ALTER TABLE daily_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE daily_usage FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON daily_usage USING (
    tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), ''))
    AND ((SELECT current_setting('layerlore.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('layerlore.agent', true))
             AND resource_id = (SELECT current_setting('layerlore.resource', true)))));
CREATE POLICY across ON daily_usage TO CURRENT_USER USING ((SELECT current_setting('layerlore.across', true)) = 'yes');

ALTER TABLE daily_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE daily_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY bound ON daily_calls USING (
    tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), ''))
    AND ((SELECT current_setting('layerlore.reach', true)) = 'tenant'
         OR (agent_id = (SELECT current_setting('layerlore.agent', true))
             AND resource_id = (SELECT current_setting('layerlore.resource', true)))));
CREATE POLICY across ON daily_calls TO CURRENT_USER USING ((SELECT current_setting('layerlore.across', true)) = 'yes');
