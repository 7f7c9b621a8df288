"""Numbers that money is moved by: IBANs and card numbers, known by their form and their check digits."""

from collections.abc import Iterator

from layerlore.storage.core import linear_re

Found = tuple[int, int, str]

# How long an IBAN of each country is, from SWIFT's registry (ISO 13616).
_LENGTHS = {
    each[:2]: int(each[2:])
    for each in """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18
    FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21
    LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27
    ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
    """.split()  # noqa: SIM905
}
_DIGITS_ONLY = frozenset(
    "AT BA BE CZ DE DK EE ES FI FO GL HR HU IL IS LT ME MR NO PL PT RS SE SI SK TL TN XK".split()  # noqa: SIM905
)
"""Countries whose account numbers are digits alone, from the same registry."""
_IBAN_BEGINS = linear_re.compile(r"(?<![A-Za-z0-9-])[A-Za-z]{2}[0-9]{2}(?=[ -]?[A-Za-z0-9])")
_CARD = linear_re.compile(
    r"(?<![A-Za-z0-9.,-])(?:[2-6][0-9]{3}([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{4}|3[0-9]{3}[ -]?[0-9]{6}[ -]?[0-9]{4,5})(?![A-Za-z0-9-])"
)
_JOINTS = " -\u00a0"


def find_payment_numbers(text: str) -> Iterator[Found]:
    """Where they stand, and the kind of each."""
    for begins in _IBAN_BEGINS.finditer(text):
        end = _find_iban_end(text, begins.start())
        if end:
            yield begins.start(), end, "iban"
    for found in _CARD.finditer(text):
        digits = "".join(filter(str.isdigit, found[0]))
        if _is_of_an_issuer(digits) and _passes_luhn(digits):
            yield found.start(), found.end(), "card-number"


def _find_iban_end(text: str, start: int) -> int:
    """Where an IBAN ends that begins there; 0 where none does."""
    country = text[start : start + 2].upper()
    left = _LENGTHS.get(country, 0)
    plain = ""
    at = start
    while left and at < len(text):
        character = text[at]
        if character.isascii() and character.isalnum():
            plain += character
            left -= 1
        elif character not in _JOINTS or text[at - 1] in _JOINTS:
            return 0
        at += 1
    after = text[at : at + 1]
    if not plain or left or after.isalnum() or after == "-":
        return 0
    if country in _DIGITS_ONLY and not plain[2:].isdigit():
        return 0
    return at if _passes_mod_97(plain.upper()) else 0


def _passes_mod_97(plain: str) -> bool:
    """ISO 7064: letters count from 10 on, and the check digits go last."""
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(each, 36)) for each in moved)) % 97 == 1


def _is_of_an_issuer(digits: str) -> bool:
    """Whether Visa, Mastercard, American Express, Discover, Diners, JCB or UnionPay has numbers of this beginning and
    length."""
    if len(digits) == 16:
        return (
            digits[0] == "4"
            or "51" <= digits[:2] <= "55"
            or "2221" <= digits[:4] <= "2720"
            or digits[:4] == "6011"
            or digits[:2] in ("62", "65")
            or "3528" <= digits[:4] <= "3589"
        )
    if len(digits) == 15:
        return digits[:2] in ("34", "37")
    return digits[:2] in ("36", "38") or "300" <= digits[:3] <= "305"


def _passes_luhn(digits: str) -> bool:
    doubled = [2 * int(each) for each in digits[-2::-2]]
    total = sum(each - 9 if each > 9 else each for each in doubled) + sum(map(int, digits[-1::-2]))
    return total % 10 == 0
