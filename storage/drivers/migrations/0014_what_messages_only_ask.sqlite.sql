-- How far a message only asks, how far it says nothing (both 0 to 100), and how many different content words it has.
-- Rows that are there count as telling until they are made anew.
ALTER TABLE search_rows ADD COLUMN asks INTEGER DEFAULT 0 NOT NULL;
ALTER TABLE search_rows ADD COLUMN empty INTEGER DEFAULT 0 NOT NULL;
ALTER TABLE search_rows ADD COLUMN content_words INTEGER DEFAULT 0 NOT NULL;

DROP INDEX search_rows_stale;
CREATE INDEX search_rows_stale ON search_rows (row_id) WHERE text_version < 3;
