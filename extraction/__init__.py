"""What a model does in the background."""
