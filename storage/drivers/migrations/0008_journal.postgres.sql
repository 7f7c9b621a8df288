CREATE TABLE journal (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    resource_mark TEXT NOT NULL,
    at BIGINT NOT NULL,
    principal TEXT NOT NULL,
    client TEXT NOT NULL,
    tool TEXT NOT NULL,
    counts TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT
);

CREATE INDEX journal_by_time ON journal (tenant_id, at);

-- Pruning says so by a setting of its transaction; a role without the right to delete cannot make use of that.
CREATE FUNCTION journal_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('memstrata.prune', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the journal is only appended to';
END
$$;

CREATE TRIGGER journal_no_change BEFORE UPDATE OR DELETE ON journal
    FOR EACH ROW EXECUTE FUNCTION journal_only_grows();

CREATE TRIGGER journal_no_truncate BEFORE TRUNCATE ON journal
    FOR EACH STATEMENT EXECUTE FUNCTION journal_only_grows();

-- Not forced: its owner reads and prunes it. Everybody else appends, for the tenant at hand, and reads nothing.
ALTER TABLE journal ENABLE ROW LEVEL SECURITY;
CREATE POLICY bound ON journal FOR INSERT WITH CHECK (tenant_id = (SELECT nullif(current_setting('memstrata.tenant', true), '')));
