"""Messages: appended, replaced, read in pages and windows, and found again by their rows in the index."""
