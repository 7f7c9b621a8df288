"""Whether a reader model answers rightly from what the server shows."""
