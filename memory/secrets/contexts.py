"""Secrets known by their surroundings: a URL, a header, a key block, a cookie, a program's option."""

import base64
import binascii
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from layerlore.memory.secrets.names import Strength, find_meaning, measure_strength
from layerlore.memory.secrets.patterns import ALNUM, BASE64, ENDS, HEX, WORD, is_mixed, is_scrambled, is_varied
from layerlore.storage.core import linear_re

# Placeholders, variables and masks often stand in the place of a password.
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
    # Without quotes, ``password=cfg["db"]`` or ``password=user.password`` is code that reads a value.
    if match["quote"] is None and _EXPRESSION.fullmatch(match["secret"]):
        return False
    near = _NEIGHBOUR.search((before + _after(match, 100)).lower()) or _URL.search(before)
    return near is not None and _is_a_password(match)


def _after_curl(match: linear_re.Match) -> bool:
    # Other programs have a -u as well.
    return _is_a_password(match) and "curl" in _before(match, 300)


def _is_a_bearer(match: linear_re.Match) -> bool:
    secret = match["secret"]
    # Prose speaks of bearer tokens, too, so the value itself has to look like one.
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
    # A key is mostly long runs of base64; a text that explains key files is not.
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
# The characters between two lines of a key: line ends, also as escapes in JSON, and marks of quoting, diffs and lists.
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

Span = tuple[int, int]

_HEADS = (
    ("cookie", linear_re.compile(r"cookie2?s?\\?[\"']?\]?[ \t]{0,4}[:=][ \t]{0,4}(?:\\?[\"'])?")),
    ("curl", linear_re.compile(r"curl(?=\s)[^\n|;&]{0,160}?\s(?:-b|--cookie)[ \t=]{0,4}[\"']?")),
)
_FIRST_PAIR = linear_re.compile(r"[^\s\"'=;]{1,128}=")
_PAIRS_END = linear_re.compile(r"[\r\n\"']")
_PAIR = linear_re.compile(r"(?:\A|;)\s{0,4}(?P<name>[^\s=;,]{1,128})=(?P<value>[^\s;,\"]+)")
_SESSIONS = linear_re.compile(r"(?i)sess|sid\b|^sid|auth|token|login|remember|identity|aspnetcore|jwt|xsrf|csrf|ticket")
_ATTRIBUTES = frozenset(["path", "domain", "expires", "max-age", "samesite", "priority", "version", "comment"])


def find_cookie_values(text: str, low: str) -> Iterator[Span]:
    """Find the values of cookies that identify a person. ``low`` is the text in lower case."""
    for word, head in _HEADS:
        if word not in low:
            continue
        done = 0
        for begins in head.finditer(low):
            # A second header within these pairs was read with them.
            if begins.start() < done:
                continue
            start = begins.end()
            if not _FIRST_PAIR.match(text, start):
                continue
            ending = _PAIRS_END.search(text, start)
            if ending:
                done = ending.start()
            else:
                done = len(text)
            for pair in _PAIR.finditer(text[start:done]):
                if pair["name"].lower() not in _ATTRIBUTES and _is_identifying(pair["name"], pair["value"]):
                    yield start + pair.start("value"), start + pair.end("value")


def _is_identifying(name: str, value: str) -> bool:
    named = _SESSIONS.search(name) is not None or find_meaning(name) is not None
    strength = measure_strength(value)
    if named and len(value) >= 8 and strength >= Strength.MIXED:
        return True
    return len(value) >= 32 and strength == Strength.RANDOM


_KIND = linear_re.compile(r"kind\\?[\"']?[ \t]{0,4}:[ \t]{0,4}\\?[\"']?Secret(?![\w.-])")
_DOCUMENT = linear_re.compile(r"(?m)^---[ \t]*$")
_DATA = linear_re.compile(r"(?m)^(?P<indent>[ \t]*)(?:data|stringData):[ \t]*\n")
_LINE = linear_re.compile(r"(?m)^[ \t]+[\w.\"'-]+:[ \t]+[\"']?(?P<value>[^\s\"'#|>][^\n\"']{3,})")
_MEMBERS = linear_re.compile(r"\"(?:data|stringData)\\?\"\s{0,4}:\s{0,4}\{(?P<members>[^{}]*)\}")
_MEMBER = linear_re.compile(r"\"\s{0,4}:\s{0,4}\\?\"(?P<value>[^\"\\]{4,}(?:\\n[^\"\\]*)*)")


def find_kubernetes_values(text: str) -> Iterator[Span]:
    """Find the data of Kubernetes Secrets, in YAML or JSON, whatever their names are."""
    if "Secret" not in text or _KIND.search(text) is None:
        return
    # Each document of a YAML file is judged alone: a ConfigMap beside a Secret holds no secrets.
    edges = [0, *(found.start() for found in _DOCUMENT.finditer(text)), len(text)]
    for start, limit in itertools.pairwise(edges):
        part = text[start:limit]
        if _KIND.search(part) is None:
            continue
        blocks = [(_LINE, begin, end) for begin, end in _list_indented(part)]
        blocks += ((_MEMBER, *members.span("members")) for members in _MEMBERS.finditer(part))
        for line, begin, end in blocks:
            for found in line.finditer(part[begin:end]):
                if measure_strength(found["value"].strip()) != Strength.NONE:
                    at = start + begin
                    yield at + found.start("value"), at + found.end("value")


def _list_indented(part: str) -> Iterator[Span]:
    """Where the lines below a key of data stand in YAML: those that are further in than the key, and empty ones."""
    done = 0
    for key in _DATA.finditer(part):
        if key.start() < done:
            continue
        begin = at = key.end()
        while at < len(part):
            end = part.find("\n", at) + 1 or len(part)
            line = part[at:end]
            inner = line.removeprefix(key["indent"])
            if line.strip(" \t\n") and not (line.startswith(key["indent"]) and inner[:1] in (" ", "\t")):
                break
            at = end
        done = at
        yield begin, at


_VALUE = r"[\"']?(?P<secret>(?<=\")[^\"\n]{1,256}(?=\")|(?<=')[^'\n]{1,256}(?=')|[^\s\"'`<>|;&-][^\s\"'`|;&]{2,256})"
_REST = r"[^\n|;&]{0,200}?"


def _is_value(match: Match) -> bool:
    return len(match["secret"]) >= 4 and measure_strength(match["secret"]) >= Strength.WORD


def _mixes_signs(match: Match) -> bool:
    return len(match["secret"]) >= 4 and measure_strength(match["secret"]) >= Strength.MIXED


def _is_random(match: Match) -> bool:
    return measure_strength(match["secret"]) == Strength.RANDOM


def _is_of_a_user(match: Match) -> bool:
    before = match.string[max(0, match.start() - 200) : match.start()].lower()
    return _is_value(match) and ("user" in before or "grant" in before)


def _command(names: str, flags: str, flag: str) -> ContextPattern:
    """The value behind a flag of one of these programs, on its line; ``flags`` are needles of the flag."""
    pattern = rf"(?<![\w-])(?:{names})\s{_REST}{flag}{_VALUE}"
    needles = frozenset(names.replace("(?:", "").replace(")", "").split("|"))
    return ContextPattern("command-password", frozenset(flags.split("|")), pattern, _is_value, needles)


COMMANDS: tuple[ContextPattern, ...] = (
    _command(
        "mysql|mysqldump|mysqladmin|mysqlimport|mysqlsh|mariadb|mariadb-dump|mariadb-admin",
        " -p",
        r"(?<=\s)-p(?![\s=])",
    ),
    _command("sshpass", " -p", r"(?<=\s)-p\s?"),
    _command("redis-cli|valkey-cli", " -a|--pass", r"(?<=\s)(?:-a|--pass)\s+"),
    _command("(?:docker|podman|helm registry|nerdctl|skopeo|buildah|oras|crane auth|az) login", " -p", r"(?<=\s)-p\s*"),
    _command("mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport", " -p", r"(?<=\s)-p\s+"),
    _command("ldapsearch|ldapadd|ldapmodify|ldapdelete|ldapwhoami", " -w", r"(?<=\s)-w\s+"),
    _command("smbclient|rpcclient|smbget", "%", r"(?<=\s)(?:-U|--user)[ =]?[\"']?[^\s%\"']{1,64}%"),
    _command("openssl", "pass:", r"(?<=[\s\"'])pass:"),
    _command("zip|unzip", " -p", r"(?<=\s)-P\s?"),
    _command("7z|7za|7zz|rar|unrar", " -p| -hp", r"(?<=\s)-h?p(?![\s-])"),
    _command("ssh-keygen", " -n| -p", r"(?<=\s)-[NP]\s+"),
    _command("snmpwalk|snmpget|snmpbulkwalk", " -a| -x", r"(?<=\s)-[AX]\s+"),
    _command("xfreerdp|wfreerdp", "/p:", r"(?<=\s)/p:"),
    _command("htpasswd", " -", r"(?<=\s)-[a-zA-Z]*b[a-zA-Z]*\s+\S{1,128}\s+\S{1,64}\s+"),
    _command("gh secret set", " -b| --b", r"(?<=\s)(?:--body|-b)[ =]"),
    _command("net use", "/user:", r"(?<=\s)/user:\S{1,64}\s+"),
    # Ordinary words follow these two commands in prose, so the value has to look like a secret.
    make_context("command-password", "net user", rf"(?i:\bnet user)\s+[\w.-]{{1,64}}\s+{_VALUE}", _mixes_signs),
    make_context("command-password", "vault login", rf"\bvault login\s+(?:-\S+\s+)*+{_VALUE}", _is_random),
    make_context(
        "command-password",
        "echo",
        r"\becho\s+(?:-n\s+)?[\"']?(?:[^\s:\"'|]{1,64}:(?=[^\s\"'|]{1,256}[\"']?\s*\|\s*(?:sudo\s+)?chpasswd))?"
        r"(?P<secret>[^\s\"'|]{4,256})[\"']?\s*\|\s*(?:sudo\s[^\n|]{0,40}?-S|(?:sudo\s+)?chpasswd|[^\n|]{1,120}?--(?:password-)?stdin)",
        _is_value,
    ),
    make_context(
        "assigned-secret",
        "identified",
        r"(?i:\bidentified\s+(?:with\s+[\w'\"]{1,64}\s+)?(?:by|as)(?:\s+password)?)\s+(?P<quote>[\"'])(?P<secret>[^\"'\n]{1,256})(?P=quote)",
        _is_of_a_user,
    ),
    make_context(
        "assigned-secret",
        "auth",
        r"\bauth\s{0,3}=\s{0,3}\(\s{0,3}[\"'][^\"'\n]{0,64}[\"']\s{0,3},\s{0,3}[\"'](?P<secret>[^\"'\n]{4,256})[\"']\s{0,3}\)",
        _mixes_signs,
    ),
    make_context("assigned-secret", "sonar.login", rf"\bDsonar\.login={_VALUE}", _is_random),
    make_context(
        "pgpass-password",
        ":5432:|:*:",
        r"(?m)^[\w.*-]{1,128}:(?:[0-9]{1,5}|\*):[^\s:]{1,64}:[^\s:]{1,64}:(?P<secret>[^\s:]{3,256})$",
        _mixes_signs,
    ),
    make_context(
        "password-hash",
        "$",
        r"(?<![A-Za-z0-9$])(?P<secret>\$(?:2[abxy]\$[0-9]{2}|[1567y]|argon2(?:id|i|d)|scrypt|pbkdf2[\w-]{0,12}|apr1)"
        r"\$[./A-Za-z0-9$=,+-]{20,}+)",
    ),
    make_context(
        "url-password",
        "@",
        r"://(?P<secret>[A-Za-z0-9_~.%-]{20,256})@(?=[\w\[])",
        _is_random,
    ),
    make_context(
        "assigned-secret",
        "key=|code=|sig=|signature=|hmac=",
        r"[?&#](?:key|code|sig|signature|hmac)=(?P<secret>[A-Za-z0-9_~+/%.-]{20,2048}={0,2})",
        _is_random,
    ),
)
