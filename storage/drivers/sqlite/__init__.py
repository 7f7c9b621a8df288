"""SQLite: one file, one writer with group commit, and a few readers, each in a thread of its own."""
