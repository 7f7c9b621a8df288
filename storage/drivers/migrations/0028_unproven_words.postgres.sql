-- The names and numbers of an entry that no quotation of it contains: a JSON list; null if there are none.
ALTER TABLE entries ADD COLUMN unproven TEXT;
