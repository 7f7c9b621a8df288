"""The search index: the words of messages and entries, and their vectors."""
