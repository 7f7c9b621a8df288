"""Asking a model: which one, how it is reached, and what becomes of what it answers."""
