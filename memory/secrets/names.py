"""The names that mean a secret, and the values that can be one: a name is judged by its words, a value by how it is
written.

``DB_PASSWORD``, ``clientSecret`` and ``X-Api-Key`` mean one, ``password_policy``, ``max_tokens`` and ``public_key`` do
not. ``hunter2`` can be one; ``${DB_PASSWORD}``, ``<your-password>``, ``required`` and ``config.password`` cannot.
"""

from enum import IntEnum
from functools import lru_cache
from typing import Literal

from layerlore.memory.secrets.patterns import is_scrambled
from layerlore.storage.core import linear_re

Meaning = Literal["password", "secret", "key"]
"""A ``password`` may be a word that people choose; a ``secret`` is made by a machine; a ``key`` may be of a door,
too."""

Writing = Literal["setting", "quoted", "plain", "sentence"]
"""How the value stands beside its name: in a place where only a value can stand (``NAME=value``, a field of an object,
a query), in quotes, bare on its line, or in a sentence."""


class Strength(IntEnum):
    """How much a value looks like a secret."""

    NONE = 0
    WORD = 1
    MIXED = 2
    RANDOM = 3


_NEEDED: dict[Meaning, dict[Writing, Strength]] = {
    "password": {
        "setting": Strength.WORD,
        "quoted": Strength.WORD,
        "plain": Strength.MIXED,
        "sentence": Strength.MIXED,
    },
    "secret": {
        "setting": Strength.MIXED,
        "quoted": Strength.MIXED,
        "plain": Strength.RANDOM,
        "sentence": Strength.RANDOM,
    },
    "key": dict.fromkeys(("setting", "quoted", "plain", "sentence"), Strength.RANDOM),
}
_SHORTEST: dict[Meaning, int] = {"password": 4, "secret": 8, "key": 16}

_PASSWORDS = frozenset(
    """
    password passwd pwd pass passphrase passcode passwort kennwort contraseña contrasena senha psk пароль 密码
    パスワード storepass keypass requirepass masterauth passin passout dbpass rootpass adminpass userpass smtppass
    mailpass ftppass bindpass authpass sudopass
    sshpass passe pw
    """.split()  # noqa: SIM905
)
_SECRETS = frozenset(
    """
    secret token apikey authtoken identitytoken authkey secretkey accesskey masterkey
    """.split()  # noqa: SIM905
)
_KEYS = frozenset(["authorization", "credential", "auth", "salt", "jwt", "bearer"])
_ENDINGS = ("password", "passwd", "passphrase", "pwd", "secret", "token", "apikey")
_KEYS_OF = frozenset(
    """
    api secret private access auth encryption decryption master fernet signing app application session license
    admin service deploy account shared preshared subscription client storage cipher aes crypto jwt hmac root
    consumer ingest integration server sdk rest maps webhook bot logged cookie nonce
    """.split()  # noqa: SIM905
)
_NO_KEYS_OF = frozenset(
    """
    public primary foreign sort partition cache object host hot unique composite index lookup idempotency
    dedup translation row column hash range routing group
    """.split()  # noqa: SIM905
)
_NO_TOKENS_OF = frozenset(
    """
    page next prev previous continuation sync bos eos unk pad mask sep cls stop special cancel cancellation
    start end cursor per max min total input output prompt completion no is has use with without forgot show
    hide public
    """.split()  # noqa: SIM905
)
# What may stand behind the word without taking its meaning away.
_ASIDE = frozenset(
    """
    prod production dev development staging stage test live old new current secondary value plain plaintext
    raw base b64 base64 hash hashed confirmation confirm again repeat
    """.split()  # noqa: SIM905
)
_HUMP = linear_re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PARTS = linear_re.compile(r"[^\W_]+")
_MARK = linear_re.compile(r"\[masked:[a-z0-9-]+(?::[0-9a-f]{8})?\]")


@lru_cache(maxsize=4096)
def find_meaning(name: str) -> Meaning | None:
    """What a name says of its value; None if nothing. ``name`` may be written in any of the usual ways."""
    # The kind in a mark is that of the name, which was a secret, and not of its value.
    unmarked = _MARK.sub(" ", name)
    words = [found.lower().rstrip("0123456789") for found in _PARTS.findall(_HUMP.sub("_", unmarked))]
    words = [word for word in words if word]
    while len(words) > 1 and words[-1] in _ASIDE:
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if before in _NO_TOKENS_OF or "public" in words:
        return None
    if last == "key":
        return _meaning_of_key(name, before)
    if last in _PASSWORDS:
        return "password"
    if last in _SECRETS:
        return "secret"
    if last in _KEYS:
        return "key"
    if last.endswith(_ENDINGS):
        return "secret" if last.endswith(("secret", "token", "apikey")) else "password"
    return None


def _meaning_of_key(name: str, before: str) -> Meaning | None:
    if before in _KEYS_OF:
        return "secret"
    return "key" if before and before not in _NO_KEYS_OF and name.isupper() else None


def is_secret(value: str, named: Meaning, writing: Writing) -> bool:
    """Whether a value that stands so beside a name of that meaning is a secret."""
    if len(value) < _SHORTEST[named] or len(value) > 16_384:
        return False
    if writing in ("plain", "sentence") and value.isidentifier() and find_meaning(value) is not None:
        return False  # a variable of a program
    strength = measure_strength(value)
    if strength < _NEEDED[named][writing]:
        return False
    if strength == Strength.WORD:
        # A lone word: in what programs show to people a password is "Passwort", "required", "too short".
        # Nor is it the name of another field.
        shown = value.isascii() and value.islower() and len(value) >= 8 and find_meaning(value) is None
        return shown or (writing == "setting" and value.isascii())
    return True


_WORDS = frozenset(
    """
    password passwort passwd secret token string text hidden required optional none null nil undefined true
    false yes no on off enabled disabled default unknown invalid missing expired empty forbidden changeme
    change-me change_me replaceme password1 username example placeholder redacted masked secure strict include
    omit same-origin basic bearer current-password new-password incorrect sensitive disallow prohibit-password
    without-password prompt ask stdin keyring vault file auto generate generated random internet mandatory
    preserved deprecated encrypted base64 sha1 sha256 sha512 md5 bcrypt argon2 argon2i argon2id pbkdf2 scrypt
    scram-sha-256 oauth oauth2 oauth1 utf8 utf-8 rs256 rs512 hs256 hs512 es256 es512 ed25519 aes128 aes256
    aes-256 aes-256-gcm x509 rsa2048 rsa4096 int32 int64 uint32 uint64 float32 float64 u8 u16 u32 u64 i32 i64
    win32 http2 s3 ec2 p12 pkcs8 pkcs12 ipv4 ipv6 k8s
    """.split()  # noqa: SIM905
)
# What stands for a value, or gets it from somewhere.
_STANDS_FOR = linear_re.compile(
    r"[{<\[(].*[}>\])]|\$\w*|%\w+%?|[*xX.…•_#?-]+|(?i:your|my|the|an?|some|insert|enter)[_-][\w-]*"
    r"|[A-Z][A-Z_]*|\d{1,11}|.*\.\.\.|.*…"
    r"|(?i:.*(?:placeholder|redacted|changeme|change[_-]me|replace[_-]?(?:me|with)|xxxxx|-here|example|dummy).*)"
)
_TEMPLATED = linear_re.compile(r"\$\{|\$\(|\{\{|\}\}|<%|%>|#\{|%\(|\$\{?[A-Z_]{3,}|^\$[A-Za-z_]\w*$|\{\w*\}|^%[sdr]")
_HASHED = linear_re.compile(r"\$[0-9a-z-]{1,9}\$[^\s$]|\{(?:SSHA|SHA|CRYPT|BCRYPT)\}")
# An expression of a program: calls, fields, items.
_EXPRESSION = linear_re.compile(
    r"[\w.:$>-]*\w[(\[].*|[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+[,;)]*|[&*!]\w+|\w+\(\)|.*(?:\|\||&&|=>|==|\?\?).*"
)
_ELSEWHERE = linear_re.compile(
    r"\A(?:(?i:[a-z][a-z0-9+.-]*://|arn:|projects/|file:|vault:|secret/|ssh-(?:rsa|ed25519|dss)|sha\d{1,3}[:-]|md5[:-])"
    r"|(?:~|\.{1,2})?/(?:[\w.@-]+/)*[\w.@-]*\Z|[A-Za-z]:[\\/]|(?:[A-Za-z_.-]+/)+[A-Za-z_.-]+\Z)"
)
_MEASURED = linear_re.compile(
    r"[-+]?[\d.,:/_ ]+(?:[a-zA-Z%]{1,4})?|v?\d+(?:\.\d+)+[\w.+-]*|\d{4}-\d\d-\d\d[T\d:.+Z-]*|0x[0-9a-fA-F]{1,8}"
    r"|[a-z]{1,2}\d{1,3}"
)
# Words and small numbers, as names of things are made of: "tcp_v4_only.2", "velvet-maple-1234".
_WORDY = linear_re.compile(r"[A-Za-z]{2,15}\d{0,4}(?:[_./:-](?:[A-Za-z]{1,15}\d{0,4}|\d{1,4}))*")
_LETTER = linear_re.compile(r"[^\W\d_]")
_HEX_OR_ID = linear_re.compile(r"(?i:[0-9a-f]{20,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def measure_strength(value: str) -> Strength:
    """How much the value looks like a secret, whatever its name is."""
    if _is_no_value(value):
        return Strength.NONE
    if " " in value or "\t" in value:
        return _strength_of_words(value)
    digits = sum(character.isdigit() for character in value)
    letters = len(_LETTER.findall(value))
    others = len(value) - digits - letters - value.count("-") - value.count("_") - value.count(".")
    if not digits and not others:
        humps = len(_HUMP.findall(value)) * 4 >= len(value)
        return Strength.MIXED if len(value) >= 12 and humps and not value.istitle() else Strength.WORD
    if not letters:
        return Strength.MIXED if others else Strength.WORD
    kinds = bool(digits) + bool(others) + any(c.islower() for c in value) + any(c.isupper() for c in value)
    if _WORDY.fullmatch(value) and not is_scrambled(value):
        return Strength.MIXED
    if digits and (len(value) >= 20 or (len(value) >= 16 and is_scrambled(value)) or (kinds >= 3 and len(value) >= 8)):
        return Strength.RANDOM
    return Strength.RANDOM if _HEX_OR_ID.fullmatch(value) else Strength.MIXED


def _strength_of_words(value: str) -> Strength:
    """How much several words look like a secret: those of a sentence do not."""
    symbols = sum(not (character.isalnum() or character.isspace()) for character in value)
    if len(value) >= 32 and symbols >= 6 and any(map(str.isdigit, value)) and value.count(" ") * 8 <= len(value):
        return Strength.RANDOM
    words = value.split()
    if len(words) <= 6 and all(measure_strength(word) >= Strength.MIXED for word in words):
        return Strength.MIXED
    return Strength.NONE


def _is_no_value(value: str) -> bool:
    if "[masked:" in value or value.lower() in _WORDS:
        return True
    if _HASHED.match(value):
        return False
    if _STANDS_FOR.fullmatch(value) or _TEMPLATED.search(value) or _MEASURED.fullmatch(value):
        return True
    if _ELSEWHERE.match(value):
        return not is_scrambled(value)
    return bool(_EXPRESSION.fullmatch(value)) and not is_scrambled(value)
