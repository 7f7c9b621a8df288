"""Tokens and money of model calls: reading usage, prices, and sums."""
