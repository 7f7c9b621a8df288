"""Observations: when they become due and active, and how a thread's observations are shown."""
