"""Tests of one room of ``layerlore.storage``."""
