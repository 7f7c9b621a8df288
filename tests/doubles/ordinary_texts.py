"""Texts in which nothing is a secret, though much looks like one or speaks of one: drawn by a seed.

Collected from what people and tools write, not from what is masked: what is masked is measured against it.
"""

import random
import re
import uuid
from pathlib import Path

from secret_formats import LETTERS

_WORDS = """
    amber basil cedar delta ember fjord grove hazel indigo juniper kelp lilac mango nectar olive pepper quartz
    raven saffron topaz umber violet walnut yarrow zephyr account billing catalog checkout gateway invoice
    ledger mailer orders payment profile report search shipping storage worker
""".split()  # noqa: SIM905
_SENTENCES = (
    "We should look at it tomorrow.",
    "The build passes on both machines, and the review is done.",
    "Nobody noticed until the pager went off at three.",
    "It depends on how many requests come in at once.",
    "The customer asked for a refund, which took two days.",
    "Ich melde mich morgen wegen der Rechnung.",
    "Merci pour votre réponse, à demain.",
    "Let me know which key you prefer, and whether the session suits you.",
    "Tokens are counted before the request is sent.",
    "A good password manager makes this easier.",
)
TEMPLATES = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").rstrip("\n").split("\n%%\n")
_SLOT = re.compile(r"<(?:([a-z])(\d+)|id|word|Word|WORD|int|ver|date|sentence)>")
# Without "$" in front, and without ":", "." or quotes in it: those are of the texts themselves.
_CHOICE = re.compile(r"(?<![{$])\{([^{}\n\":=$]*\|[^{}\n\":=$]*)\}")


def ordinary_text(number: int, seed: int = 0) -> str:
    """The text of a number, under a heading of its own."""
    rng = random.Random(f"{seed}:{number}")
    template = TEMPLATES[number % len(TEMPLATES)]
    chosen = _CHOICE.sub(lambda found: rng.choice(found[1].split("|")), template)
    return f"# {rng.choice(_WORDS)} {number}\n" + _SLOT.sub(lambda slot: _fill(rng, slot), chosen)


def _fill(rng: random.Random, slot: re.Match[str]) -> str:
    match slot[0]:
        case "<id>":
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))
        case "<word>":
            return rng.choice(_WORDS)
        case "<Word>":
            return rng.choice(_WORDS).capitalize()
        case "<WORD>":
            return rng.choice(_WORDS).upper()
        case "<int>":
            return str(rng.randint(1, 10 ** rng.randint(1, 6)))
        case "<ver>":
            return ".".join(str(rng.randint(0, 30)) for _ in range(3))
        case "<date>":
            return f"20{rng.randint(10, 30)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:07:41Z"
        case "<sentence>":
            return rng.choice(_SENTENCES)
    return "".join(rng.choices(LETTERS[slot[1]], k=int(slot[2])))
