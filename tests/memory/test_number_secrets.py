"""Card numbers, IBANs and Discord's tokens are masked; numbers that only look like them are not."""

import base64

import pytest

from layerlore.memory.secrets.redaction import mask_without_key

DISCORD = base64.urlsafe_b64encode(b"123456789012345678").decode().rstrip("=") + ".GabcDE." + "x7" * 19


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        ("4111 1111 1111 1111", "card-number"),
        ("5555-5555-5555-4444", "card-number"),
        ("378282246310005", "card-number"),
        ("2223003122003222", "card-number"),
        ("DE89 3704 0044 0532 0130 00", "iban"),
        ("GB82WEST12345698765432", "iban"),
        ("nl91abna0417164300", "iban"),
        (DISCORD, "discord-token"),
    ],
)
def test_a_number_that_gives_access_is_masked(secret: str, kind: str) -> None:
    assert mask_without_key(f"Use {secret}, please.") == f"Use [masked:{kind}], please."
    assert mask_without_key(f"Use {secret} please now") == f"Use [masked:{kind}] please now"


@pytest.mark.parametrize(
    "plain",
    [
        "order 4111111111111112",
        "at 1732665600000 ms",
        "0000 0000 0000 0000",
        "DE00 3704 0044 0532 0130 00",
        "id 4111111111111111a",
        "3.4111111111111111",
        "aaaaaaaaaaaaaaaaaaaaaaaa.bbbbbb.ccccccccccccccccccccccccccccc",
    ],
)
def test_a_number_that_only_looks_like_one_stays(plain: str) -> None:
    assert mask_without_key(plain) == plain
