"""SQLite and Postgres: records, tables, migrations, transactions, one module a store."""
