"""The memory of a scope written as lines, and read from them again."""
