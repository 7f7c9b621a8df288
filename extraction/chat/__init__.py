"""The chat with a model: which model is asked, how a provider is reached, and how its answer is read."""
