"""Measurements of the running server: each module with a ``main`` is a script, see README.md."""
