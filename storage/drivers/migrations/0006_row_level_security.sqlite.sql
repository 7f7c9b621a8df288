-- Postgres' alone; the steps of both databases have the same numbers.
SELECT 1;
