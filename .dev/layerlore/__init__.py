"""Development only: makes the folders at the repository's root importable as ``layerlore.*`` (the wheel has them for real)."""

from pathlib import Path

_root = Path(__file__).parents[2]
# The second has what lies beside those folders in the wheel.
__path__ = [str(_root), str(_root / ".dev" / "wheel")]
