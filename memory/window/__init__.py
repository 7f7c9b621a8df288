"""The window of a thread: the policies, and the pure functions that choose and shorten the messages a model sees."""
