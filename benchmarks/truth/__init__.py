"""Whether a memory shows what is true, loses nothing and refuses what nobody said: ``python -m benchmarks.truth``."""
