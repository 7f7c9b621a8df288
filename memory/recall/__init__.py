"""Recall: candidates by words and vectors, their ranking, and the answer; also the indexes that it needs."""
