"""Threads: their rows and lists, their events, and how far background work has come in each."""
