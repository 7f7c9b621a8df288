-- Signs are words, and digits of all scripts match: rows of older rules are made anew.
DROP INDEX search_rows_stale;
CREATE INDEX search_rows_stale ON search_rows (row_id) WHERE text_version < 4;
