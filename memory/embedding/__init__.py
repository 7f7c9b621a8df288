"""Embedders, and the service that keeps them from ever holding up what memory does."""
