"""Secrets in text and JSON: how they are recognised, and the marks that replace them."""
