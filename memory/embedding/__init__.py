"""Embedders, which turn text into vectors, and the service that runs them beside everything else."""
