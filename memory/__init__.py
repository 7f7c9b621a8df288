"""What memory means: message shapes, tokens, masking, recall and ranking."""
