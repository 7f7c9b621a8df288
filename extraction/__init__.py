"""Background work that a model does: jobs, their kinds, and the chat with a model."""
