CREATE TABLE journal (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
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

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal BEGIN
    SELECT RAISE(ABORT, 'the journal is only appended to');
END;

-- Pruning takes this one away and puts it back, in one transaction.
CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal BEGIN
    SELECT RAISE(ABORT, 'the journal is only appended to');
END;
