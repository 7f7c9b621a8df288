"""Development only: makes the folders at the repository's root importable as ``memstrata.*`` (the wheel has them for real)."""

from pathlib import Path

__path__ = [str(Path(__file__).parents[2])]
