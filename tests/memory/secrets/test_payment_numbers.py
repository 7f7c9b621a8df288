"""IBANs and card numbers are masked where their check digits hold, and other numbers stay."""

import pytest

from layerlore.memory.secrets.redaction import Redactor

MASKED = Redactor(b"an installation's key")
# Examples of the registry and of the card schemes, which belong to nobody.
IBANS = [
    *("DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32", "at611904300234573201"),
    *("FR14 2004 1010 0505 0001 3M02 606", "NO93-8601-1117-947", "MT84 MALT 0110 0001 2345 MTLC AST0 01S"),
]
CARDS = [
    *("4111 1111 1111 1111", "4111-1111-1111-1111", "5500005555555559", "3782 822463 10005", "378282246310005"),
    *("6011111111111117", "3530111333300000", "30569309025904", "2223003122003222"),
]
OTHERS = [
    "DE89370400440532013001",  # its check digits are wrong
    "DE89 3704 0044 0532 0130 0",  # it is too short
    "XX89370400440532013000",  # no such country
    "4111 1111 1111 1112",  # its last digit is wrong
    "4111.1111.1111.1111",
    "1234 5678 9012 3456",
    "1764115200000",  # a time
    "1204567890123456789",  # an id
    "7f3a4111111111111111",
    "v4111111111111111",
    "01a21b84-8072-7329-be93-41a8ef8b869c",  # an id whose last digits pass the check
    "be9341a8-ef8b-869c-be93-41a8ef8b869c",
    "be93 41a8 ef8b 869c",  # Belgian numbers are digits alone
    "Order 4000 of 1111 pieces",
]


@pytest.mark.parametrize(
    ("kind", "number"), [*(("iban", each) for each in IBANS), *(("card-number", each) for each in CARDS)]
)
def test_a_number_that_money_is_moved_by_is_masked(kind: str, number: str) -> None:
    for left, right in [("", ""), ("Pay to ", ", please."), ("(", ")"), ("IBAN: ", "\nthanks")]:
        masked, count = MASKED.text(left + number + right)
        assert count == 1
        assert masked.startswith(f"{left}[masked:{kind}:")
        assert masked.endswith(f"]{right}")


@pytest.mark.parametrize("number", OTHERS)
def test_a_number_whose_form_or_check_digit_is_another_stays(number: str) -> None:
    assert MASKED.text(f"It is {number} here.") == (f"It is {number} here.", 0)
