-- How many messages a rule of retention has taken away.
ALTER TABLE resources ADD COLUMN retired_messages BIGINT DEFAULT 0 NOT NULL;
