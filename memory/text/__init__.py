"""Text for models: quotation that keeps stored text from passing for ours, blocks, and how far a source is trusted."""
