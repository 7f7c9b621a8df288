-- What changes is counted for those who keep parts of the index in memory, which is done beside SQLite alone.
SELECT 1;
