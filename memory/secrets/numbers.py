"""Numbers that give access to money, and Discord's bot tokens: what plain loops and check digits tell apart.

Card numbers pass Luhn's check and begin as those of a known network do; IBANs pass the check of ISO 7064.
"""

import base64
import binascii
import re
from collections.abc import Iterator

_SHORTEST_IBAN, _LONGEST_IBAN = 15, 34
# Runs of digits, with one space or hyphen between two of them at most.
_DIGITS = re.compile(r"(?<![A-Za-z0-9.,])[0-9](?:[ -]?[0-9]){12,18}(?![A-Za-z0-9]|[.,][0-9])")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]){11,30}(?![A-Za-z0-9])")
_DISCORD = re.compile(
    r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]{23,28})\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![A-Za-z0-9_-])"
)
# By the first digit.
_CARD_LENGTHS = {"3": (15,), "4": (16,), "5": (16,), "6": (16, 19), "2": (16,)}
KINDS = frozenset({"card-number", "iban", "discord-token"})


def find_numbers(text: str) -> Iterator[tuple[int, int, str]]:
    """The card numbers, IBANs and Discord tokens of a text, as start, end and kind."""
    for match in _DIGITS.finditer(text):
        if _is_card(match[0]):
            yield *match.span(), "card-number"
    for match in _IBAN.finditer(text):
        end = _iban_end(match[0])
        if end:
            yield match.start(), match.start() + end, "iban"
    for match in _DISCORD.finditer(text):
        if _is_discord_id(match[1]):
            yield *match.span(), "discord-token"


def _is_card(written: str) -> bool:
    digits = written.replace(" ", "").replace("-", "")
    if len(digits) not in _CARD_LENGTHS.get(digits[0], ()):
        return False
    if digits[0] == "3" and digits[1] not in "47":  # American Express; others with 3 are rare
        return False
    if digits[0] == "5" and digits[1] not in "12345":
        return False
    if digits[0] == "2" and not 2221 <= int(digits[:4]) <= 2720:
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0 and len(set(digits)) > 1


def _iban_end(written: str) -> int:
    """Where the IBAN ends that the text begins with; 0 if it begins with none. Words may follow it behind a space."""
    end = len(written)
    while end:
        plain = written[:end].replace(" ", "").upper()
        if len(plain) < _SHORTEST_IBAN:
            return 0
        if len(plain) <= _LONGEST_IBAN and _passes(plain):
            return end
        end = written.rfind(" ", 0, end)
        if end < 0:
            return 0
    return 0


def _passes(iban: str) -> bool:
    moved = iban[4:] + iban[:4]
    return int("".join(str(int(each, 36)) for each in moved)) % 97 == 1


def _is_discord_id(part: str) -> bool:
    """Whether the first part of a token is an account's number, in base 64."""
    try:
        number = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        return False
    return number.isdigit() and 17 <= len(number) <= 20
