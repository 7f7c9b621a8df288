"""Agents' work: plans, attempts, runs with their checkpoints, and steps."""
