-- How many rows and vectors were ever removed from the index, so that whoever keeps some in memory notices, whichever
-- process did it.
INSERT INTO installation VALUES ('index_rows_removed', '0'), ('vectors_removed', '0');

CREATE TRIGGER search_rows_counted AFTER DELETE ON search_rows BEGIN
    UPDATE installation SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'index_rows_removed';
END;

CREATE TRIGGER search_vectors_counted AFTER DELETE ON search_vectors BEGIN
    UPDATE installation SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'vectors_removed';
END;
