"""The chat with a model: the choice of the model, how a provider is reached, and how its answer is read."""
