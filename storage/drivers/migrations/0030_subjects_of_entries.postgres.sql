-- The subject of the thread in which an entry was kept; null if it has none.
ALTER TABLE entries ADD COLUMN subject TEXT;
