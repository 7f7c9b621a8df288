"""Episodic entries: their evidence, deduplication and correction, and the calls that remember one."""
