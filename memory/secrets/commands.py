"""Patterns of secrets that are known by the program they are given to: ``mysql -pX``, ``sshpass -p X``, ``IDENTIFIED BY
'X'``; and those that are written in a form of their own, such as a line of ``.pgpass`` or the hash of a password."""

from layerlore.memory.secrets.contexts import ContextPattern, Match, make_context
from layerlore.memory.secrets.names import Strength, measure_strength

_VALUE = r"[\"']?(?P<secret>(?<=\")[^\"\n]{1,256}(?=\")|(?<=')[^'\n]{1,256}(?=')|[^\s\"'`<>|;&-][^\s\"'`|;&]{2,256})"
_REST = r"[^\n|;&]{0,200}?"


def _is_value(match: Match) -> bool:
    return len(match["secret"]) >= 4 and measure_strength(match["secret"]) >= Strength.WORD


def _is_mixed(match: Match) -> bool:
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
    make_context("command-password", "net user", rf"(?i:\bnet user)\s+[\w.-]{{1,64}}\s+{_VALUE}", _is_mixed),
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
        _is_mixed,
    ),
    make_context("assigned-secret", "sonar.login", rf"\bDsonar\.login={_VALUE}", _is_random),
    make_context(
        "pgpass-password",
        ":5432:|:*:",
        r"(?m)^[\w.*-]{1,128}:(?:[0-9]{1,5}|\*):[^\s:]{1,64}:[^\s:]{1,64}:(?P<secret>[^\s:]{3,256})$",
        _is_mixed,
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
