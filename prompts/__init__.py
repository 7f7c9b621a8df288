"""The texts sent to a model."""
