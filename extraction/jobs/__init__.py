"""Claiming jobs, doing them, and ending them: by our worker or by a host's own model."""
