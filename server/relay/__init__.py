"""The thin client that hosts launch: it passes their lines to the server that they share, in the standard library alone."""
