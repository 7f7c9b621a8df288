-- A row of the index that changes counts as one that goes, for whoever keeps rows in memory.
CREATE TRIGGER search_rows_changed AFTER UPDATE ON search_rows BEGIN
    UPDATE installation SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'index_rows_removed';
END;
