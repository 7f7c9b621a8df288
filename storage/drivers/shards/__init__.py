"""Tenants of one installation on several Postgres clusters."""
