"""libSQL as a database of layerlore."""
