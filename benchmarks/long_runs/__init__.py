"""Generated runs of long work, each with what its user and its tools said that must not be lost."""
