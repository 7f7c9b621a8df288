"""The server on standard input and output."""
