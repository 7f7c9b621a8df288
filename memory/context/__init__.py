"""The context for the next model call: blocks and messages within a budget, in the shape of a provider."""
