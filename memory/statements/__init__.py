"""Whether two statements say the same, or give another value for the same thing."""
