"""Where the memory is stored, on SQLite or Postgres: a room for each kind of thing, and in it a module of functions a
store."""
