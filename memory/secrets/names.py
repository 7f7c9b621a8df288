"""The names that mean a secret, and the settings' syntaxes in which they stand."""

from collections.abc import Iterator
from enum import IntEnum
from functools import cache, lru_cache
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


# The weaker the sign that a value stands there, the more the value itself must look like a secret.
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
# Keys of tables and maps open nothing.
_NO_KEYS_OF = frozenset(
    """
    public primary foreign sort partition cache object host hot unique composite index lookup idempotency
    dedup translation row column hash range routing group
    """.split()  # noqa: SIM905
)
# Tokens of pages and of language models, and flags such as ``use_token``: none of them opens anything.
_NO_TOKENS_OF = frozenset(
    """
    page next prev previous continuation sync bos eos unk pad mask sep cls stop special cancel cancellation
    start end cursor per max min total input output prompt completion no is has use with without forgot show
    hide public
    """.split()  # noqa: SIM905
)
# Words that may follow without changing the meaning.
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
    """The kind of value that a name suggests; None if it suggests none. ``name`` may be written in any of the usual
    ways."""
    # The kind in a mark is that of the name, which was a secret, and not of its value.
    unmarked = _MARK.sub(" ", name)
    # Digits at the end count the names: "password2" means the same as "password".
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
        if last.endswith(("secret", "token", "apikey")):
            return "secret"
        return "password"
    return None


def _meaning_of_key(name: str, before: str) -> Meaning | None:
    if before in _KEYS_OF:
        return "secret"
    # An environment variable such as STRIPE_KEY is likely to be a secret; a variable in code is not.
    if before and before not in _NO_KEYS_OF and name.isupper():
        return "key"
    return None


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
# Placeholders for a value, and references to one.
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
        # Capitals inside a long run: hardly a word of any language, and likely to be chosen as a password.
        humps = len(_HUMP.findall(value)) * 4 >= len(value)
        if len(value) >= 12 and humps and not value.istitle():
            return Strength.MIXED
        return Strength.WORD
    if not letters:
        if others:
            return Strength.MIXED
        return Strength.WORD
    kinds = bool(digits) + bool(others) + any(c.islower() for c in value) + any(c.isupper() for c in value)
    if _WORDY.fullmatch(value) and not is_scrambled(value):
        return Strength.MIXED
    if digits and (len(value) >= 20 or (len(value) >= 16 and is_scrambled(value)) or (kinds >= 3 and len(value) >= 8)):
        return Strength.RANDOM
    if _HEX_OR_ID.fullmatch(value):
        return Strength.RANDOM
    return Strength.MIXED


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
    # A path or a URL is the place of a secret and not the secret, unless it looks random.
    if _ELSEWHERE.match(value):
        return not is_scrambled(value)
    return bool(_EXPRESSION.fullmatch(value)) and not is_scrambled(value)


ValueSpan = tuple[int, int]

_STEMS = """
    pass pw secret token key cred auth salt jwt bearer psk kennwort contrase senha парол 密码 パスワード
""".split()  # noqa: SIM905
_MOST_NAME = 64
_LONGEST_ELEMENT = 4096
_NAME_BEFORE = linear_re.compile(r"[\w.-]{0,64}")
_WORD_BEFORE = linear_re.compile(r"[ _-]([A-Za-z]{2,16})")

# Between a name and its value, without what closes the name's own quote: tried in this order.
_CLOSED = r"(?P<close>\\{0,7}[\"'`]?)[\])]?"
_GAP = r"[ \t]{0,24}"
_TIES: tuple[tuple[str, str], ...] = (
    # `token: String = "x"`, `const TOKEN: &str = "x"`
    ("typed", rf"{_GAP}:{_GAP}(?:&(?:'static )?)?[A-Za-z][\w.<>\[\]| ?]{{0,30}}={_GAP}(?=[\"'`b])"),
    # `{"name": "DB_PASSWORD", "value": "x"}`, and the same over two lines of YAML, or as attributes
    ("pair", rf"{_CLOSED}\s{{0,9}},?\s{{0,40}}\\{{0,7}}[\"'`]?(?i:value|default)\\{{0,7}}[\"'`]?{_GAP}[:=]{_GAP}"),
    ("pair", rf"\"\s{{0,9}}\{{[^{{}}]{{0,200}}?\bdefault{_GAP}={_GAP}"),
    ("tag", r"(?:[\"'][^<>\n]{0,60})?>(?:</(?:key|name)>\s{0,40}<(?:string|value)>)?"),
    ("tag", r"</(?:key|name)>\s{0,40}<(?:string|value)>"),
    ("call", rf"(?P<close>\\{{0,7}}[\"'`]){_GAP},{_GAP}(?=\\{{0,7}}[\"'`bB])"),
    ("call", rf"\({_GAP}(?=\\{{0,7}}[\"'`])"),
    (
        "assigned",
        rf"{_CLOSED}(?:[*_]{{2}})?{_GAP}(?:=>|:=|\?=|\|\|=|:(?![:=]|//)|=(?![=>~])|：|＝)(?:[*_]{{2}})?{_GAP}",
    ),
    (
        "sentence",
        r"[\"'`*]{0,2}(?: (?:for|of|to|von|für) [\w@.-]{1,24}(?: [\w@.-]{1,24})?)?"
        r"(?: (?:is|was|to|ist|lautet|es|est|será)(?: now| set to)?:?|:) {1,3}|是",
    ),
    ("cell", r"[ \t]{0,9}\|[ \t]{0,9}"),
    ("spaced", r"(?:\\\\n)?[ \t]{1,4}(?:(?i:BY|WITH [\w]{4,40} BY) )?(?=\\{0,7}[\"'][^\s\"']|\S{0,40}?[0-9])"),
)
_QUOTED = linear_re.compile(r"(?:[bBrRuU@]|rb)?(?P<quote>\\{0,7}[\"'`])")
_BLOCK = linear_re.compile(r"[|>][+-]?[ \t]{0,40}\n(?P<indent>[ \t]{1,100})")
_BARE = linear_re.compile(
    r"[^\s\"'`<>&;,|=(){}\[\]\\]{1,1024}"
    r"(?:[=,;&](?=[^\s\"'`<>&;,|=])(?![A-Za-z_$][\w.$-]{0,64}[:=])[^\s\"'`<>&;,|=(){}\[\]\\]{1,1024}){0,8}={0,3}",
    engine="re",
)
_TO_SPACE = linear_re.compile(r"[^\s\"'`<>。、，；：！？）」】]+", engine="re")
_LINE_HEAD = linear_re.compile(
    r"[ \t>+$#-]*(?:(?:export|set|setx|SET|ENV|ARG|declare -x|readonly|local)[ \t]+|-[ \t]+)?$"
)
_PAIR_BEFORE = linear_re.compile(
    r"\"(?:value|Value)\"\s{0,9}:\s{0,9}\"(?P<value>[^\"\\\n]{1,256})\"\s{0,9},\s{0,9}\"(?:name|key|Name|Key)\"\s{0,9}:\s{0,9}\"$"
)


@cache
def _hits(stem: str) -> linear_re.Pattern:
    """A stem in a name, in lower case, and what may follow the name."""
    follows = r"(?=[\"'`*\])>|\\]|[ \t]{0,24}(?:[=:,(|：＝?]|(?:is|was|ist|lautet|es|est|for|of|to|von|für)\b)|是|[ \t]{1,4}(?:by |with |\\{0,7}[\"']|\S{0,40}?[0-9])|\s{0,40}value|</)"
    return linear_re.compile(linear_re.escape(stem) + r"[\w.-]{0,48}+" + follows, engine="regex")


@cache
def _ties() -> tuple[tuple[str, linear_re.Pattern], ...]:
    return tuple((kind, linear_re.compile(pattern, engine="re")) for kind, pattern in _TIES)


def lower_text(text: str) -> str:
    """The text in lower case, character for character."""
    low = text.lower()
    if len(low) == len(text):
        return low
    # "İ" alone has a lower case of two characters, which would move all places behind it.
    return text.replace("İ", "I").lower()


def find_named_values(text: str, low: str) -> Iterator[ValueSpan]:
    """Where values stand that are secrets by their names; ``low`` is the text in lower case."""
    ends: set[int] = set()
    for stem in _STEMS:
        if stem not in low:
            continue
        done = 0
        for hit in _hits(stem).finditer(low):
            # Several stems may lie in one name ("auth_token"), which needs one search for its value.
            if hit.end() in ends or hit.start() < done:
                continue
            ends.add(hit.end())
            found = _find_value(text, hit.start(), hit.end())
            if found is not None:
                done = found[1]
                yield found


def _find_value(text: str, start: int, end: int) -> ValueSpan | None:
    """The value of the name in which a stem was found, if that is a secret."""
    # The text is reversed, so that a pattern can match backwards from the stem.
    before = text[max(0, start - _MOST_NAME) : start][::-1]
    first = start - _NAME_BEFORE.match(before).end()  # type: ignore[union-attr]
    name = text[first:end].rstrip(".-")
    named = find_meaning(name)
    if named is None:
        # In "API key" the word before gives the name its meaning.
        word = _WORD_BEFORE.match(before[::1]) if first == start else None
        named = find_meaning(f"{word[1][::-1]} {name}") if word else None
        if named is None:
            return None
    if text[first - 1 : first] == '"' and (pair := _PAIR_BEFORE.search(text[max(0, first - 320) : first])):
        at = max(0, first - 320)
        if is_secret(pair["value"], named, "setting"):
            return at + pair.start("value"), at + pair.end("value")
    if text[first - 2 : first] == "${":
        return _find_default(text, first + len(name), named)
    for kind, tie in _ties():
        if named == "key" and kind in ("sentence", "spaced"):
            continue  # in a sentence, what follows is the name of a credential, and not its secret
        tied = tie.match(text, first + len(name))
        if tied is not None and not (text[first - 1 : first] == ":" and ":" in tied[0]):
            # "pass" is a verb in a sentence, so there the value must look like one that a machine made.
            is_verb = name.lower() == "pass" and kind in ("sentence", "spaced")
            found = _judge_value(text, first, tied.end(), kind, "secret" if is_verb else named)
            if found is not None or kind == "assigned":
                return found
    return None


def _find_default(text: str, at: int, named: Meaning) -> ValueSpan | None:
    """The default that a shell takes if the name is not set: ``${NAME:-value}``."""
    end = text.find("}", at, at + 256)
    begins = text[at : at + 2] in (":-", ":=")
    if begins and end > 0:
        return _check_value(text, at + 2, end, named, "setting")
    return None


def _judge_value(text: str, first: int, at: int, tie: str, named: Meaning) -> ValueSpan | None:
    """The value that begins there, if it is a secret beside such a name."""
    if tie == "call" and not (
        text[first:at].startswith("PASSWORD(")
        or _is_setter(text[first:at])
        or _ARGUMENT.search(text[max(0, first - 12) : first])
    ):
        return None
    if tie == "spaced" and not _is_directive(text, first, at):
        return None
    if tie == "tag":
        end = text.find("<", at, at + _LONGEST_ELEMENT)
        closes = end > at and text.startswith("</", end) and "\n" not in text[at:end]
        if closes:
            return _check_value(text, at, end, named, "quoted")
        return None
    if tie == "cell":
        end = text.find("|", at, at + 256)
        is_row = text[max(0, first - 12) : first].rstrip(" \t*`").endswith("|")
        if end > 0 and is_row:
            return _check_value(text, at, end, named, "sentence")
        return None
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return _read_quoted(text, quoted, tie, named)
    if tie == "call":
        return None
    # YAML's tag of a string stands before the value.
    if tie == "assigned" and text.startswith("!!str ", at):
        at += 6
    if tie == "assigned":
        block = _BLOCK.match(text, at)
    else:
        block = None
    if block is not None:
        end = text.find("\n", block.end())
        return _check_value(text, block.end(), end if end > 0 else len(text), named, "quoted")
    return _read_bare(text, first, at, tie, named)


def _is_directive(text: str, first: int, at: int) -> bool:
    """Whether the name is one that a value follows after nothing but space: a flag, a word of its own, or what a line
    or a command begins with."""
    before = text[max(0, first - 200) : first].rsplit("\n", 1)[-1]
    name = text[first:at].split(maxsplit=1)[0]
    if _DIRECTIVE.fullmatch(name):
        return before[-1:] not in ("=", ".", "$")
    return "." not in name and (
        not before.strip() or before.endswith((":", "set ", "setx ", "ENV ", "ARG ", "config ", "setenv "))
    )


def _is_setter(name: str) -> bool:
    return name.rsplit(".", 1)[-1][:3].lower() in ("set", "put", "add", "wit")


def _read_quoted(text: str, quoted: linear_re.Match, tie: str, named: Meaning) -> ValueSpan | None:
    start, quote = quoted.end(), quoted["quote"]
    end = _find_closing(text, start, quote)
    if end < 0:
        return None
    writing: Writing
    if tie in ("sentence", "spaced"):
        writing = "sentence"
    else:
        writing = "quoted"
    return _check_value(text, start, end, named, writing)


def _find_closing(text: str, start: int, quote: str) -> int:
    """Where the quote ends on its line; -1: it does not."""
    end = start
    while True:
        end = text.find(quote, end, start + 16_384)
        if end < 0 or text.find("\n", start, end) >= 0:
            return -1
        if len(quote) > 1 or (end - len(text[start:end].rstrip("\\")) - start) == 0 or text[end - 1] != "\\":
            return end
        end += 1


def _read_bare(text: str, first: int, at: int, tie: str, named: Meaning) -> ValueSpan | None:
    """A value without quotes."""
    head = text[max(0, first - 80) : first].rsplit("\n", 1)[-1]
    is_flag = text[first] == "-" or head.endswith((" /", "\t/"))
    name = text[first:at].rstrip(" \t=:")
    tight = tie == "assigned" and text[at - 1] == "="
    if tight and _LINE_HEAD.fullmatch(head):
        value = _TO_SPACE.match(text, at)
        is_env = name.isupper() or not _CODE.search(value[0] if value else "")
    else:
        value, is_env = _BARE.match(text, at), False
    if value is None or not (is_env or value[0].isascii()):
        return None
    if not is_env and (
        text[value.end() : value.end() + 1] in ("(", "[") or (text[at - 1] == ":" and _URL.search(head))
    ):
        return None
    start, end = value.span()
    while end > start and text[end - 1] in ".,;:)]}" and not is_env:
        end -= 1
    writing = _find_writing(text, end, tie, name, tight=tight, is_env=is_env, is_flag=is_flag)
    found = _check_value(text, start, end, named, writing)
    # The pattern ends at 1,024 characters, and a longer key would be masked only in part.
    if found is not None and end - start >= 1024 and (rest := _TO_SPACE.match(text, end)):
        return found[0], rest.end()
    return found


_ARGUMENT = linear_re.compile(r"\(\s{0,4}\\{0,7}[\"'`]$")
_DIRECTIVE = linear_re.compile(r"-{1,2}[A-Za-z][\w-]*|_?[A-Za-z]+[0-9]?")
_URL = linear_re.compile(r"://\S*$")
_CODE = linear_re.compile(r"[(),\[\]]")


def _find_writing(text: str, end: int, tie: str, name: str, *, tight: bool, is_env: bool, is_flag: bool) -> Writing:
    alone = _is_alone(text, end)
    if is_env:
        if name.isupper():
            return "setting"
        return "quoted"
    if tie == "spaced":
        if is_flag:
            return "plain"
        return "sentence"
    if tight and (is_flag or name.isupper()):
        return "quoted"
    if alone or tie != "assigned":
        return "plain"
    return "sentence"


def _is_alone(text: str, end: int) -> bool:
    """Whether nothing but signs that close, or a comment, follows on the line."""
    rest = text[end : end + 200].lstrip(" \t")
    if rest.startswith(("#", "//", "--", ";")):
        return True
    rest = rest.lstrip(",;)}]").lstrip(" \t")
    return not rest or rest.startswith(("\\n", "\n", "\r\n", '"', "'", "`"))


def _check_value(text: str, start: int, end: int, named: Meaning, writing: Writing) -> ValueSpan | None:
    value = text[start:end]
    stripped = value.strip()
    start += len(value) - len(value.lstrip())
    if not stripped or not is_secret(stripped, named, writing):
        return None
    return start, start + len(stripped)
