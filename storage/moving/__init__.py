"""Whole scopes on their way out and in: what is shown of every table, and rows put where nothing is in their way."""
