"""Secrets that their names tell, in every syntax; and what is no secret though its name or its look says so."""

import re

import pytest
from ordinary_texts import ordinary_text
from written_secrets import WRITTEN, written

from layerlore.memory.secrets.names import find_meaning
from layerlore.memory.secrets.redaction import Redactor

SEEDS = 3
MARK = re.compile(r"\[masked:[a-z0-9-]+:[0-9a-f]{8}\]")


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(b"an installation's key")


def test_of_the_ways_in_which_secrets_are_written_at_most_one_in_twenty_five_is_missed(redactor: Redactor) -> None:
    assert len(set(WRITTEN)) == len(WRITTEN) >= 250
    missed = {
        template
        for template in WRITTEN
        for text, secret in (written(template, seed) for seed in range(SEEDS))
        if secret in (masked := redactor.text(text)[0]) or not MARK.search(masked)
    }
    assert len(missed) * 25 <= len(WRITTEN), sorted(missed)


def test_of_two_thousand_ordinary_texts_at_most_one_in_a_hundred_is_touched(redactor: Redactor) -> None:
    texts = [ordinary_text(number) for number in range(2000)]
    assert len(set(texts)) == 2000
    touched = [masked for text in texts if (masked := redactor.text(text)[0]) != text]
    assert len(touched) <= 20, touched[:5]


# What was seen stored in clear. The secret is in « ».
SEEN = [
    "DB_PASSWORD=«velvet-maple»",
    "POSTGRES_PASSWORD=«swordfish»",
    'curl -d \'{"user": "bob", "password": "«velvetmaple»"}\' https://x.example',
    "db:\n  password: «falcon2867»\n  port: 5432",
    "PGPASSWORD=«falcon2867» psql -h db",
    f"GITHUB_TOKEN=«{'3f2504e04f8911d39a0c' * 2}»",
    "FERNET_KEY=«Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZmdoaWo=»",
    "//registry.npmjs.org/:_authToken=«3f2504e0-4f89-11d3-9a0c-0305e82c3301»",
    f"SECRET_KEY_BASE=«{'3f2504e04f8911d3' * 8}»",
    "kind: Secret\ndata:\n  pass.txt: «aHVudGVyMjI=»",
    "otpauth://totp/Shop:bob?secret=«JBSWY3DPEHPK3PXP»&issuer=Shop",
    "mysql -u root -p«falcon2867» shop",
    "sshpass -p «falcon2867» ssh root@10.0.0.5",
    "Cookie: theme=dark; sessionid=«rkryby1lj7qwbh0o0uf2u2gxmszfgmge»",
    "X-Api-Key: «Qx7falcon2867maple»",
    "--set auth.password=«falcon2867»",
    "https://x.example/cb?a=1&api_key=«3f2504e04f8911d39a0c»&b=2",
    "[mail]\npassword = «p4ss,w0rd;x»\nhost = mail",
    '{"a": "{\\"password\\": \\"«falcon2867»\\"}"}',
    "the password is «Falcon2867!», and the host is db",
    "пароль: «falcon2867»",
    "${DB_PASSWORD:-«falcon2867»}",
]


@pytest.mark.parametrize("told", SEEN)
def test_the_value_is_masked_and_everything_else_stays(redactor: Redactor, told: str) -> None:
    before, secret, after = re.split("[«»]", told)
    masked, count = redactor.text(before + secret + after)
    assert count == 1
    assert masked.startswith(before)
    assert masked.endswith(after)
    assert MARK.fullmatch(masked[len(before) : len(masked) - len(after)])
    assert redactor.text(masked) == (masked, 0)


NAMES = """
    password DB_PASSWORD dbPassword user.password rootPassword2 clientSecret X-Api-Key _authToken SECRET_KEY_BASE
    AWS_SECRET_ACCESS_KEY PrivateKey wpa_passphrase rpcpassword MAIL_PASS JWT_SECRET_STAGING STRIPE_KEY Passwort
""".split()  # noqa: SIM905
OTHER_NAMES = """
    password_policy password_hash_algorithm token_count max_tokens tokenizer next_page_token secret_name public_key
    key_id primary_key sort_key passport compass bypass author authenticated keyboard monkey token_type key
    session_timeout PASSWORD_FILE publicKeyToken eos_token secrets has_password PRIMARY_KEY
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_a_secret_by_its_words(name: str) -> None:
    assert find_meaning(name) is not None


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_word_beside_it_takes_the_meaning_away(name: str) -> None:
    assert find_meaning(name) is None


@pytest.mark.parametrize(
    ("value", "secrets"),
    [
        ({"user": "bob", "password": "swordfish"}, ["swordfish"]),
        ({"env": [{"name": "DB_PASSWORD", "value": "falcon2867"}]}, ["falcon2867"]),
        ({"argv": ["mysql", "--password", "falcon2867", "shop"]}, ["falcon2867"]),
        (
            {"kind": "Secret", "data": {"a": "aHVudGVyMjI="}, "stringData": {"b": "hunter22"}},
            ["aHVudGVyMjI=", "hunter22"],
        ),
        ({"headers": {"Cookie": "lang=en; sid=s%3AaB3dE5fG7hI9jK1lM2nO"}}, ["s%3AaB3dE5fG7hI9jK1lM2nO"]),
        ({"passwords": "a list", "password": ["falcon2867", "maple1234"]}, ["falcon2867", "maple1234"]),
        ({"client_secret": {"value": "falcon-2867"}}, ["falcon-2867"]),
        ({"pass\u200bword": "falcon\u200b2867"}, ["falcon"]),
    ],
)
def test_in_json_names_tell_the_secrets_and_the_rest_stays(
    redactor: Redactor, value: dict[str, object], secrets: list[str]
) -> None:
    masked, count = redactor.json(value)
    assert count == len(secrets)
    assert not [secret for secret in secrets if secret in str(masked)]
    assert redactor.json(masked) == (masked, 0)


def test_in_json_what_only_speaks_of_secrets_stays(redactor: Redactor) -> None:
    value = {
        "type": "object",
        "properties": {"password": {"type": "string", "minLength": 8}, "token": {"type": ["string", "null"]}},
        "required": ["password", "token"],
        "max_tokens": 4096,
        "token_count": "3",
        "password": None,
        "secret": "${SECRET}",
        "api_key": "your-api-key",
        "auth": "basic",
        "tokens": ["a1", "b2"],
        "password_policy": "at-least-12-characters",
        "argv": ["--password-stdin", "hunter22", "--token-file", "/run/a1b2c3"],
    }
    assert redactor.json(value) == (value, 0)
    assert redactor.json(value)[0] is value


HIDDEN = ["\u200b", "\u00ad", "\u2060", "\ufeff", "\u200d", "\ufe0f", "\x00", "\x08", "\U000e0041"]


@pytest.mark.parametrize("unseen", HIDDEN)
def test_what_nobody_sees_inside_of_a_secret_hides_it_from_nobody(redactor: Redactor, unseen: str) -> None:
    token = "gh" + "p_" + "aB3dE5fG7h" * 3
    whole = redactor.text(f"use {token}, please")[0]
    for at in (1, 4, 20, len(token) - 1):
        assert redactor.text(f"use {token[:at]}{unseen}{token[at:]}, please")[0] == whole
    spread = unseen.join(token)
    assert redactor.text(f"use {spread}, please")[0] == whole
    masked = redactor.text(f"DB_PASS{unseen}WORD=fal{unseen}con2867\nnext{unseen} line")[0]
    assert re.fullmatch(rf"DB_PASS{unseen}WORD=\[masked:[^\]]+\]\nnext{unseen} line", masked)


def test_the_name_of_a_credential_in_a_sentence_stays(redactor: Redactor) -> None:
    text = "The credential kQ7xW2mZ9pLrT4vB fits. Now I create the workflow."
    assert redactor.text(text) == (text, 0)


def test_what_nobody_sees_elsewhere_stays(redactor: Redactor) -> None:
    text = "می\u200cخواهم 👩\u200d💻 ❤\ufe0f \u200bhello"
    assert redactor.text(text) == (text, 0)
