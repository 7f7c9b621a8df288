"""Postgres: a pool of connections that any number of replicas share, with row-level security between tenants."""
