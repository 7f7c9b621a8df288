"""Extracts from messages that are made without a model."""
