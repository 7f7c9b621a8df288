"""Messages and threads as callers add, read, list and describe them."""
