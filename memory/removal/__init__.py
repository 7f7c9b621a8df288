"""Removal of what is stored: delete and undo, forget, erase, and redact."""
