"""Secrets known by what stands around them: a URL, a header, the lines of a key block, a name in front of ``=``.

Each pattern is searched only in texts that contain one of its needles. Time is linear in the text, by the same rule
as in ``memory.secrets.patterns``.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from layerlore.memory.secrets.patterns import ALNUM, BASE64, ENDS, HEX, WORD, is_mixed, is_scrambled, is_varied
from layerlore.storage.core import linear_re

_TEMPLATE = linear_re.compile(
    r"\A(?:[{<\[(].*[}>\])]|\$\{.*|\$\w+|\$\(.*|.*\{\w*\}.*|%\w+%?|%\(\w+\)s|[*xX.…•_-]+"
    r"|[A-Z_]*(?:PASS|PWD|SECRET|TOKEN|KEY)[A-Z_]*|(?i:your)[_-]?\w*|None|null|nil|undefined|true|false)"
)


@dataclass(frozen=True, slots=True)
class ContextPattern:
    """A secret known by its surroundings: the group ``secret``. ``needles`` are in lower case; every match has one, and
    one of ``others``, if there are any."""

    kind: str
    needles: frozenset[str]
    pattern: str
    accepts: Callable[[linear_re.Match], bool]
    others: frozenset[str] = frozenset()

    def may_be_in(self, low: str) -> bool:
        """Whether a text that has a needle can have a match; ``low`` is the text in lower case."""
        return not self.others or any(each in low for each in self.others)

    @property
    def regex(self) -> linear_re.Pattern:
        return _make_pattern(self.pattern)


@cache
def _make_pattern(pattern: str) -> linear_re.Pattern:
    return linear_re.compile(pattern, engine="regex")


Match = linear_re.Match


def _before(match: linear_re.Match, length: int) -> str:
    """The text in front of the secret on the same line, at most ``length`` characters."""
    start = match.start("secret")
    return match.string[max(0, start - length) : start].rsplit("\n", 1)[-1]


def _after(match: linear_re.Match, length: int) -> str:
    end = match.end("secret")
    return match.string[end : end + length].split("\n", 1)[0]


def _is_mixed(match: linear_re.Match) -> bool:
    return is_mixed(match["secret"])


def _always(_match: linear_re.Match) -> bool:
    return True


def _is_a_password(match: linear_re.Match) -> bool:
    return _TEMPLATE.fullmatch(match["secret"]) is None


# A password in a connection string has such a neighbour, with no space around "=", or a URL that leads up to it.
_NEIGHBOUR = linear_re.compile(
    "(?:host|hostaddr|server|data source|user id|uid|user|username|dbname|database|initial catalog|sslmode|ssl)="
)
_EXPRESSION = linear_re.compile(r"[A-Za-z_][\w.]*(?:\[.*\]|\.\w*(?i:pass|pwd|secret|value)\w*)")
_URL = linear_re.compile(r"(?:://|jdbc:)\S*$")


def _in_a_connection(match: linear_re.Match) -> bool:
    before = _before(match, 200)
    if match["quote"] is None and _EXPRESSION.fullmatch(match["secret"]):
        return False
    near = _NEIGHBOUR.search((before + _after(match, 100)).lower()) or _URL.search(before)
    return near is not None and _is_a_password(match)


def _after_curl(match: linear_re.Match) -> bool:
    return _is_a_password(match) and "curl" in _before(match, 300)


def _is_a_bearer(match: linear_re.Match) -> bool:
    secret = match["secret"]
    return is_scrambled(secret) or (len(secret) >= 32 and is_mixed(secret))


def _is_name_and_password(match: linear_re.Match) -> bool:
    """Basic credentials are ``name:password`` in base64, and hardly a word is."""
    secret = match["secret"]
    try:
        text = base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in text and text.isprintable()


_LONG_RUN = linear_re.compile(r"[A-Za-z0-9+/]{12,}")


def _is_a_key_block(match: linear_re.Match) -> bool:
    body = match["body"] or match["cut"]
    return sum(map(len, _LONG_RUN.findall(body))) * 2 >= len("".join(body.split()))


# The name in front of "=" or ":", with the quotes and brackets between the two.
_NAME_ENDS = r"[\"'`\]\\ \t:=>]{0,8}$"
_AWS_SECRET_NAME = linear_re.compile(
    r"(?i)(?:aws[ _.-]?secret|secret[ _.-]?access[ _.-]?key|aws\w{0,12}secret\w{0,8})" + _NAME_ENDS
)
_SECRET_NAME = linear_re.compile(
    r"(?i)(?:(?:api|auth|access|secret|client|private|app|application|account|encryption|signing|master|session|refresh"
    r"|webhook|bot|consumer|admin|service|deploy|license)[ _.-]?(?:key|token|secret)|(?<!:)secret|authorization)"
    + _NAME_ENDS
)


def _is_an_aws_secret(match: linear_re.Match) -> bool:
    return is_varied(match["secret"]) and _AWS_SECRET_NAME.search(_before(match, 60)) is not None


def _is_assigned_to_a_secret_name(match: linear_re.Match) -> bool:
    secret = match["secret"]
    return len(secret) >= 20 and is_scrambled(secret) and _SECRET_NAME.search(_before(match, 60)) is not None


def make_context(
    kind: str, needles: str, regex: str, accepts: Callable[[linear_re.Match], bool] = _always
) -> ContextPattern:
    """A pattern from its needles, parted by ``|``."""
    return ContextPattern(kind, frozenset(needles.split("|")), regex, accepts)


_ASSIGNS = r"[=:]>?[ \t]{0,3}\\?[\"'`]?"
_BEGIN_KEY = r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_END_KEY = r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
# What stands between two lines of a key: line ends, also as escapes in JSON, and marks of quoting, diffs and lists.
_KEY_GAP = r"(?:[\s>|#*\"',]|\\+[nr])"
_KEY_HEADER = r"(?:Version|Comment|Hash|Charset|MessageID|Proc-Type|DEK-Info|Subject): ?[^\r\n\\]{1,200}"
_CUT_KEY = (
    rf"(?:{_KEY_GAP}*+(?:{_KEY_HEADER}|{BASE64}{{20,}}+={{0,2}}))++"
    rf"(?:{_KEY_GAP}*+(?:(?=[A-Za-z]*[0-9+/=]){BASE64}{{1,19}}(?:={{1,2}}|(?=\s*\Z))|={BASE64}{{4}}))*+"
)

CONTEXTS: tuple[ContextPattern, ...] = (
    make_context(
        "private-key",
        "private key",
        rf"(?P<secret>{_BEGIN_KEY}(?:(?P<body>[^-]*+(?:-(?!---)[^-]*+)*+){_END_KEY}|(?P<cut>{_CUT_KEY})))",
        _is_a_key_block,
    ),
    make_context(
        "private-key",
        "private-lines:",
        rf"Private-Lines: [0-9]{{1,4}}\s{{1,2}}(?P<secret>{BASE64}++={{0,2}}(?:\r?\n{BASE64}++={{0,2}}(?=\s|\Z))*+)",
    ),
    make_context(
        "url-password",
        "://",
        r"://[^\s:/?#@\"'<>`\\]{0,128}:(?P<secret>[^\s/?#\"'<>`\\]{1,256})@(?=[\w\[.$%{])",
        _is_a_password,
    ),
    make_context(
        "connection-password",
        "password=|passwd=|pwd=",
        # Unquoted and in front of a bracket or a comma it is code, unless a known option follows the comma.
        r"(?<![A-Za-z0-9_])(?i:password|passwd|pwd)=(?P<quote>[\"'])?+"
        r"(?P<secret>(?:[^\s;,&\"'()<>\\]|,(?!\s|[A-Za-z]+=)){1,256}+)"
        r"(?(quote)|(?![()<>\\]|,(?!(?i:ssl|abortconnect|connect|sync|default)[A-Za-z]*=)))",
        _in_a_connection,
    ),
    make_context(
        "connection-password",
        "password",
        r"(?<![a-z])machine\s{1,8}\S{1,128}\s{1,8}login\s{1,8}\S{1,128}\s{1,8}password\s{1,8}(?P<secret>\S{1,128})",
        _is_a_password,
    ),
    make_context(
        "curl-password",
        "curl",
        r"(?<=\s)(?:-u|--user)[ =]?[\"']?[^\s:\"'$]{1,64}:(?P<secret>[^\s\"'@]{1,128})",
        _after_curl,
    ),
    make_context(
        "bearer-token",
        "bearer|authorization",
        r"(?<![A-Za-z0-9])(?i:bearer|authorization\\?[\"']?\s{0,2}[:=]\s{0,2}\\?[\"']?(?:token|key|api-?key))"
        r"(?:[ \t]{1,8}|%20)"
        r"(?P<secret>[A-Za-z0-9._~+/-]{16,}+={0,2})",
        _is_a_bearer,
    ),
    make_context(
        "basic-credentials",
        'basic|auth"|auth\\"|_auth=',
        rf"(?:(?<![A-Za-z0-9])(?i:basic)[ \t]{{1,8}}|\"_?auth\\?\"\s{{0,2}}:\s{{0,2}}\\?\"|_auth=)"
        rf"(?P<secret>{BASE64}{{8,}}+={{0,2}})",
        _is_name_and_password,
    ),
    make_context(
        "aws-secret-key",
        "secret",
        rf"{_ASSIGNS}(?P<secret>{BASE64}{{40}})(?![A-Za-z0-9+/=])",
        _is_an_aws_secret,
    ),
    make_context(
        "aws-secret-key",
        "akia|asia",
        rf"(?:AKIA|ASIA)[A-Z0-9]{{16}}[\"']?[,;:|\s]\s?[\"']?(?P<secret>{BASE64}{{40}})(?![A-Za-z0-9+/=])",
    ),
    make_context(
        "aws-session-token",
        "token",
        rf"(?i:session[_-]?token)[\"']?\s{{0,3}}{_ASSIGNS}(?P<secret>{BASE64}{{100,}}+={{0,2}})",
    ),
    make_context(
        "signed-url",
        "-signature=",
        rf"[?&]X-(?:Amz|Goog)-Signature=(?P<secret>{HEX}{{64,}}+)",
    ),
    make_context(
        "signed-url",
        "sig=",
        rf"(?<![A-Za-z0-9])sig=(?P<secret>(?:{BASE64}|%2[BbFf]){{43}}(?:=|%3[Dd]))",
    ),
    make_context("azure-shared-key", "key=", rf"(?:Account|SharedAccess)Key=(?P<secret>{BASE64}{{40,}}+={{0,2}})"),
    make_context(
        "azure-client-secret",
        "q~",
        r"(?<![A-Za-z0-9_~.-])(?P<secret>[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})(?![A-Za-z0-9_~-])",
    ),
    make_context(
        "azure-key", "jqqj99", rf"(?<![A-Za-z0-9])(?P<secret>{ALNUM}{{52}}JQQJ99{ALNUM}{{26}})(?![A-Za-z0-9])"
    ),
    make_context("new-relic-key", "nral", rf"(?<![A-Za-z0-9])(?P<secret>{HEX}{{32,36}}(?:FFFF)?NRAL)(?![A-Za-z0-9])"),
    make_context("maxmind-key", "_mmk", rf"(?<![A-Za-z0-9_-])(?P<secret>{ALNUM}{{6}}_{ALNUM}{{29}}_mmk){ENDS}"),
    make_context("mailchimp-key", "-us", rf"(?<![A-Za-z0-9_-])(?P<secret>{HEX}{{32}}-us[0-9]{{1,2}})(?![A-Za-z0-9_-])"),
    make_context(
        "terraform-token", ".atlasv1.", rf"(?<![A-Za-z0-9_.-])(?P<secret>{ALNUM}{{14}}\.atlasv1\.{WORD}{{50,}}+)"
    ),
    make_context("telegram-token", ":aa", rf"(?<![0-9])(?P<secret>[0-9]{{8,10}}:AA{WORD}{{33}}){ENDS}"),
    make_context(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/]{24,}+)",
        _is_mixed,
    ),
    make_context(
        "discord-webhook",
        "/api/webhooks/",
        rf"discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/(?P<secret>[0-9]{{15,21}}/{WORD}{{40,}}+)",
    ),
    make_context(
        "teams-webhook",
        "webhook.office.com",
        r"webhook\.office\.com/webhookb2/(?P<secret>[a-z0-9-]{36}@[a-z0-9-]{36}/IncomingWebhook/[A-Za-z0-9/-]{32,}+)",
    ),
    make_context(
        "assigned-secret",
        "key|token|secret|authorization",
        # A dot only inside, so that the full stop of a sentence stays; no call and no index behind it.
        _ASSIGNS
        + r"(?P<secret>(?=[A-Za-z0-9_/+~.-]{20})(?:[A-Za-z0-9_/+~-]++(?:\.(?=[A-Za-z0-9_/+~-]))?+)++={0,2})(?![(\[])",
        _is_assigned_to_a_secret_name,
    ),
)
