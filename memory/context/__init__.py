"""What the next model call should see: blocks and messages within a budget, in the shape that is wanted."""
