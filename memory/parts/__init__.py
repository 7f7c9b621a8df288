"""The parts of a message: reading every provider's shape, counting tokens, and cutting text into search words."""
