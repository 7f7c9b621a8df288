"""The memory, laid out for people at a terminal: ``layerlore show``."""
