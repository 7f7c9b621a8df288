"""The base of every store: transactions and the backend under them, statements, tables, records, scopes and errors.
Nothing here knows which database runs."""
