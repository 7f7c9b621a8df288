"""Numbered SQL files, one a database, and what runs them."""
