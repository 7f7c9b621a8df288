"""Entries and profile lines with the quote that is to prove them, each with the verdict of a careful reader.

Written before the rules of evidence, from the words alone: the rules are measured against them. A case that turns out
unfair is taken out with a reason, not bent to what the rules do.
"""

import json
from pathlib import Path
from typing import Any

EVIDENCE_CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
