"""Secrets as tools, files and people write them, with values made up at run time: each text with the secret in « ».

Collected from how settings are written, not from what is masked: what is masked is measured against it.
"""

import base64
import hashlib
import random
import re
import uuid
from pathlib import Path

from secret_formats import LETTERS

_MORE = {**LETTERS, "s": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "y": LETTERS["a"] + "!@%^*+-_", "B": "ABCDEF0123456789"}
_WORDS = """
    sommer winter falcon harbor maple copper rocket velvet orange thunder meadow silver tiger
""".split()  # noqa: SIM905
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

# <a36> stands for 36 random letters and digits, <id> for a UUID, <p> for a password as people choose them, <P> for one
# in base64, <wif> for a wallet's key; ⏎ for the end of a line.
_LINES = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
WRITTEN = [line for line in _LINES if not line.startswith("## ")]
_SLOT = re.compile(r"<(?:([a-zB])(\d+)|id|p|P|wif)>")


def written(template: str, seed: int) -> tuple[str, str]:
    """The text, and the secret in it."""
    rng = random.Random(f"{template}{seed}")
    filled = _SLOT.sub(lambda slot: _fill(rng, slot), template.replace("⏎", "\n"))
    before, secret, after = re.split("[«»]", filled, maxsplit=2)
    return (before + secret + after).replace("«", "").replace("»", ""), secret


def _fill(rng: random.Random, slot: re.Match[str]) -> str:
    match slot[0]:
        case "<id>":
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))
        case "<p>":
            return _password(rng)
        case "<P>":
            return base64.b64encode(f"app:{_password(rng)}".encode()).decode()
        case "<wif>":
            return _wallet_key(rng)
    text = rng.choices(_MORE[slot[1]], k=int(slot[2]))
    text[0], text[-1] = (rng.choice([letter for letter in _MORE[slot[1]] if letter.isalnum()]) for _ in range(2))
    return "".join(text)


def _password(rng: random.Random) -> str:
    one, other = rng.sample(_WORDS, 2)
    number = rng.randint(10, 9999)
    letters = LETTERS["a"]
    return rng.choice(
        [
            f"{one}{number}",
            f"{one.capitalize()}{number}!",
            f"{one}-{other}-{number}",
            f"{one}{other.capitalize()}{rng.randint(1, 9)}",
            "".join(rng.choices(letters, k=rng.randint(10, 20))) + str(number),
            f"{rng.choice(letters)}{number}{rng.choice('#@!%^*+')}{one.upper()}{rng.choice('!+%^_')}x",
        ]
    )


def _wallet_key(rng: random.Random) -> str:
    payload = b"\x80" + rng.randbytes(32) + rng.choice([b"", b"\x01"])
    payload += hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number, text = int.from_bytes(payload), ""
    while number:
        number, digit = divmod(number, 58)
        text = _BASE58[digit] + text
    return text
