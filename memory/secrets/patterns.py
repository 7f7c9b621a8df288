"""Secrets known by their own form: tokens with a provider's prefix, IBANs and card numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from layerlore.storage.core import linear_re

ALNUM = "[A-Za-z0-9]"
HEX = "[0-9a-f]"
WORD = "[A-Za-z0-9_-]"
BASE64 = "[A-Za-z0-9+/]"
UUID = rf"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}"
ENDS = "(?![A-Za-z0-9_-])"

_FILLER = "xX0*.-_#?"
_PLACEHOLDER = linear_re.compile(
    r"(?i)your[_-]|[_-]your|example|placeholder|redacted|changeme|xxxxx|[_-]here\b|[_-]goes[_-]"
)
_CLASS_CHANGE = linear_re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")


def _not_filler(secret: str) -> bool:
    return secret.strip(_FILLER) != ""


def is_varied(secret: str) -> bool:
    """Whether a value is more than words: it has a digit or both cases, or is longer than words joined without a
    break."""
    both = any(c.isdigit() for c in secret) or not (secret.islower() or secret.isupper())
    return _not_filler(secret) and (both or (len(secret) >= 40 and secret.isalnum()))


def is_mixed(secret: str) -> bool:
    """Varied, and no placeholder such as ``your-key-here``."""
    return is_varied(secret) and _PLACEHOLDER.search(secret) is None


def is_scrambled(secret: str) -> bool:
    """Changes between lower case, upper case and digits as often as chance would, which names, paths, dates do not."""
    changes = len(_CLASS_CHANGE.findall(secret))
    if sum(c.isdigit() for c in secret) >= 2:
        often = changes * 4 >= len(secret)
    else:
        often = changes * 2 >= len(secret)
    return often and _PLACEHOLDER.search(secret) is None


@dataclass(frozen=True, slots=True)
class TokenPattern:
    """A secret that begins with one of ``prefixes``: the whole match, if ``accepts`` takes its group ``body``."""

    kind: str
    prefixes: tuple[str, ...]
    pattern: str
    accepts: Callable[[str], bool]

    @property
    def regex(self) -> linear_re.Pattern:
        return _make_pattern(self.pattern)


@cache
def _make_pattern(pattern: str) -> linear_re.Pattern:
    return linear_re.compile(pattern, engine="regex")


def _token(kind: str, prefixes: str, body: str, accepts: Callable[[str], bool] = _not_filler) -> TokenPattern:
    heads = tuple(prefixes.split())
    # A run with "-" or "_" in it may not begin behind one: else every hyphen of a long run would be a new start.
    if any(sign in body.replace(ENDS, "") for sign in ("_]", "-]", "\\w")):
        left = "(?<![_-])"
    else:
        left = ""
    pattern = f"{left}(?:{'|'.join(map(linear_re.escape, heads))})(?P<body>{body})"
    return TokenPattern(kind, heads, pattern, accepts)


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _is_a_wallet_key(body: str) -> bool:
    """Whether it has the check sum of a wallet's key (base58check of the main network), under one of its first
    letters."""
    return any(_has_check_sum(first + body) for first in "5KL")


def _has_check_sum(text: str) -> bool:
    number = 0
    for letter in text:
        number = number * 58 + _BASE58.index(letter)
    # The version, the key, the mark of compression and the check sum take 38 bytes.
    if number.bit_length() > 304:
        return False
    decoded = number.to_bytes(38).lstrip(b"\0")
    return decoded[:1] == b"\x80" and sha256(sha256(decoded[:-4]).digest()).digest()[:4] == decoded[-4:]


TOKENS: tuple[TokenPattern, ...] = (
    # Our own: an API key, and the key of a local server
    _token("layerlore-key", "llk_", "[a-z0-9]{8}_" + WORD + "{43,}+"),
    _token("layerlore-key", "ll_", WORD + "{43}" + ENDS, is_scrambled),
    # Models and what serves them
    _token("anthropic-key", "sk-ant-", WORD + "{20,}+", is_mixed),
    _token("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", WORD + "{20,}+", is_mixed),
    _token("openrouter-key", "sk-or-", WORD + "{32,}+", is_mixed),
    _token("langfuse-key", "sk-lf-", UUID + ENDS),
    _token("openai-key", "sk-", ALNUM + "{20,}+" + ENDS, is_mixed),
    _token("api-key", "sk-", WORD + "{20,}+", is_scrambled),
    _token("google-api-key", "AIza", WORD + "{30,40}" + ENDS),
    _token("google-oauth-token", "ya29.", WORD + "{20,}+", is_mixed),
    _token("google-api-key", "AQ.", WORD + "{40,}+", is_mixed),
    _token("firebase-key", "AAAA", WORD + "{7}:APA91b" + WORD + "{100,}+"),
    _token("google-client-secret", "GOCSPX-", WORD + "{24,}+", is_mixed),
    _token("google-refresh-token", "1//0", WORD + "{40,}+", is_mixed),
    _token("hugging-face-token", "hf_ api_org_", ALNUM + "{30,}+"),
    _token("replicate-token", "r8_", ALNUM + "{30,}+"),
    _token("groq-key", "gsk_", ALNUM + "{40,}+"),
    _token("perplexity-key", "pplx-", ALNUM + "{32,}+"),
    _token("xai-key", "xai-", ALNUM + "{40,}+"),
    _token("fireworks-key", "fw_", ALNUM + "{20,}+", is_mixed),
    _token("cerebras-key", "csk-", ALNUM + "{40,}+"),
    _token("nvidia-key", "nvapi-", WORD + "{40,}+", is_mixed),
    _token("tavily-key", "tvly-", WORD + "{24,}+", is_mixed),
    _token("langsmith-key", "lsv2_pt_ lsv2_sk_", rf"{HEX}{{32}}_{HEX}{{10}}" + ENDS),
    _token("pinecone-key", "pcsk_", "[A-Za-z0-9_]{40,}+", is_mixed),
    _token("firecrawl-key", "fc-", HEX + "{32}" + ENDS),
    _token("jina-key", "jina_", WORD + "{40,}+", is_mixed),
    _token("together-key", "tgp_v1_", WORD + "{40,}+", is_mixed),
    _token("voyage-key", "pa-", WORD + "{40,48}" + ENDS, is_scrambled),
    _token("elevenlabs-key", "sk_", HEX + "{48}" + ENDS),
    _token("e2b-key", "e2b_", HEX + "{40}" + ENDS),
    _token("llamacloud-key", "llx-", ALNUM + "{40,}+"),
    _token("wandb-key", "wandb_v1_", WORD + "{40,}+", is_mixed),
    _token("databricks-token", "dapi", HEX + "{32}(?:-[0-9])?" + ENDS),
    # Clouds, hosts and databases
    _token("aws-access-key-id", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}" + ENDS),
    _token("aws-access-key-id", "A3T", "[A-Z0-9]{17}" + ENDS, is_mixed),
    _token("aws-bedrock-key", "ABSK bedrock-api-key-", BASE64 + "{80,}+={0,2}"),
    _token("aws-session-token", "FwoGZXIvYXdz IQoJb3JpZ2lu", BASE64 + "{100,}+={0,2}"),
    _token("aws-mws-token", "amzn.mws.", UUID + ENDS),
    _token("alibaba-access-key-id", "LTAI", ALNUM + "{16,24}" + ENDS, is_mixed),
    _token("tencent-secret-id", "AKID", ALNUM + "{32}" + ENDS, is_mixed),
    _token("yandex-token", "t1.", WORD + r"{20,}+={0,2}\.[\w-]{86}={0,2}", is_mixed),
    _token("defined-networking-key", "dnkey-", WORD + "{26}-" + WORD + "{52}" + ENDS),
    _token("yandex-key", "AQVN", WORD + "{35,38}" + ENDS, is_mixed),
    _token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", HEX + "{64}" + ENDS),
    _token("heroku-key", "HRKU-", WORD + "{30,}+", is_mixed),
    _token("fly-token", "fo1_", WORD + "{40,}+", is_mixed),
    _token("fly-token", "fm1a_ fm1r_ fm2_", BASE64 + "{80,}+={0,3}"),
    _token("render-key", "rnd_", ALNUM + "{24,}+", is_mixed),
    _token("netlify-token", "nfp_", ALNUM + "{30,}+"),
    _token("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", ALNUM + "{24,}+", is_mixed),
    _token("supabase-token", "sbp_", HEX + "{40}" + ENDS),
    _token("supabase-token", "sb_secret_", WORD + "{20,}+", is_mixed),
    _token("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", WORD + "{32,}+", is_mixed),
    _token("clickhouse-key", "4b1d", ALNUM + "{38}" + ENDS, is_mixed),
    _token("neon-key", "napi_", ALNUM + "{40,}+"),
    _token("cloudflare-key", "v1.0-", rf"{HEX}{{24}}-{HEX}{{146}}" + ENDS),
    _token("cloudflare-key", "cfut_ cfat_ cfk_", ALNUM + "{37,}+"),
    _token("scalingo-token", "tk-us-", WORD + "{48}" + ENDS, is_mixed),
    _token("tailscale-key", "tskey-", rf"[a-z]{{2,12}}-{ALNUM}{{8,24}}-{ALNUM}{{16,}}+"),
    _token("openshift-token", "sha256~", WORD + "{43}" + ENDS, is_mixed),
    # Source code, builds and package registries
    _token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", ALNUM + "{20,}+"),
    _token("github-token", "github_pat_", "[A-Za-z0-9_]{22,}+", is_mixed),
    _token(
        "gitlab-token",
        "glpat- gldt- glft- glrt- glcbt- glimt- glagent- gloas- glptt- glsoat- glffct- GR1348941",
        WORD + r"{20,}+(?:\.[0-9a-z]{2}\.?[0-9a-z]{7})?",
        is_mixed,
    ),
    _token("bitbucket-password", "ATBB", ALNUM + "{24,}+", is_mixed),
    _token("atlassian-token", "ATATT3 ATCTT3", "[A-Za-z0-9_=-]{40,}+"),
    _token("buildkite-token", "bkua_", HEX + "{40}" + ENDS),
    _token("circleci-token", "CCIPAT_", rf"{ALNUM}{{22}}_{HEX}{{40}}" + ENDS),
    _token("sonar-token", "sqa_ sqp_ squ_", HEX + "{40}" + ENDS),
    _token("sourcegraph-token", "sgp_", r"(?:(?:[0-9A-Fa-f]{16}|local)_)?[0-9A-Fa-f]{40}" + ENDS),
    _token("pulumi-token", "pul-", HEX + "{40}" + ENDS),
    _token("vault-token", "hvs. hvb. hvr.", WORD + "{24,}+", is_mixed),
    _token("vault-token", "s.", ALNUM + "{24}" + ENDS, is_scrambled),
    _token("doppler-token", "dp.", rf"(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{{2,35}}\.)?{ALNUM}{{40,}}+"),
    _token("infracost-key", "ico-", ALNUM + "{32}" + ENDS, is_mixed),
    _token("harness-token", "pat. sat.", rf"{WORD}{{22}}\.{ALNUM}{{24}}\.{ALNUM}{{20}}" + ENDS),
    _token("octopus-key", "API-", "[A-Z0-9]{26}" + ENDS, is_mixed),
    _token("npm-token", "npm_", ALNUM + "{30,}+"),
    _token("pypi-token", "pypi-AgE", WORD + "{40,}+"),
    _token("rubygems-key", "rubygems_", HEX + "{48}" + ENDS),
    _token("crates-token", "cio", ALNUM + "{32}" + ENDS, is_mixed),
    _token("nuget-key", "oy2", "[a-z0-9]{43}" + ENDS),
    _token("docker-token", "dckr_pat_ dckr_oat_", WORD + "{20,}+", is_mixed),
    _token("clojars-token", "CLOJARS_", "[a-z0-9]{60}" + ENDS),
    _token("artifactory-key", "AKCp", ALNUM + "{60,72}" + ENDS),
    _token("artifactory-key", "cmVmd", ALNUM + "{59}" + ENDS),
    # Payments and shops
    _token("stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", ALNUM + "{10,}+"),
    _token("webhook-signing-secret", "whsec_", BASE64 + "{24,}+={0,2}"),
    _token("shopify-token", "shpat_ shpca_ shppa_ shpss_ shpua_", "[0-9a-fA-F]{32}" + ENDS),
    _token("square-token", "sq0atp- sq0csp- sq0idp-", WORD + "{22,}+", is_mixed),
    _token("square-token", "EAAA", WORD + "{56,64}" + ENDS, is_mixed),
    _token("flutterwave-key", "FLWSECK- FLWSECK_TEST- FLWSECK_LIVE-", ALNUM + "{12,}+(?:-X)?", is_mixed),
    _token("plaid-token", "access-sandbox- access-development- access-production-", UUID + ENDS),
    _token("braintree-token", "access_token$production$ access_token$sandbox$", rf"[a-z0-9]{{16}}\${HEX}{{32}}" + ENDS),
    _token("easypost-key", "EZAK EZTK", ALNUM + "{54}" + ENDS),
    _token("shippo-token", "shippo_live_ shippo_test_", "[0-9a-fA-F]{40}" + ENDS),
    _token("duffel-token", "duffel_live_ duffel_test_", WORD + "{40,}+", is_mixed),
    _token("lob-key", "live_ test_", HEX + "{35}" + ENDS),
    # Talking to people
    _token(
        "slack-token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxe.xoxb- xoxe.xoxp- xoxc- xoxd- xapp-",
        WORD + "{10,}+",
        is_mixed,
    ),
    _token(
        "discord-token",
        "MD MT Mj Mz ND NT Nj Nz OD OT",
        rf"{WORD}{{22,26}}\.{WORD}{{6}}\.{WORD}{{27,38}}" + ENDS,
        is_mixed,
    ),
    _token("discord-token", "mfa.", WORD + "{84}" + ENDS, is_mixed),
    _token("twitch-token", "oauth:", "[a-z0-9]{30}" + ENDS, is_mixed),
    _token("twilio-key", "SK", "[0-9A-Fa-f]{32}" + ENDS),
    _token("sendgrid-key", "SG.", rf"{WORD}{{16,32}}\.{WORD}{{16,64}}" + ENDS, is_mixed),
    _token("mailgun-key", "key-", HEX + "{32}" + ENDS),
    _token("brevo-key", "xkeysib- xsmtpsib-", rf"{HEX}{{64}}-{ALNUM}{{16}}" + ENDS),
    _token("resend-key", "re_", rf"{ALNUM}{{8}}_{ALNUM}{{20,}}+", is_mixed),
    _token("mailersend-token", "mlsn.", HEX + "{64}" + ENDS),
    _token("hubspot-token", "pat-na1- pat-na2- pat-eu1-", UUID + ENDS),
    _token("facebook-token", "EAA", ALNUM + "{80,}+"),
    _token("instagram-token", "IGQV IGAA", WORD + "{80,}+", is_mixed),
    _token("twitter-bearer-token", "A" * 22, "[A-Za-z0-9%]{60,120}(?![A-Za-z0-9%])", is_scrambled),
    # Watching, working together, keeping secrets
    _token("grafana-token", "glsa_", rf"{ALNUM}{{32}}_[0-9A-Fa-f]{{8}}" + ENDS),
    _token("grafana-token", "glc_", BASE64 + "{32,}+={0,3}"),
    _token("grafana-token", "eyJrIjoi", BASE64 + "{60,}+={0,3}"),
    _token("new-relic-key", "NRAK- NRII- NRRA- NRJS- NRSP-", "[A-Za-z0-9-]{19,}+", is_mixed),
    _token("sentry-token", "sntrys_", "[A-Za-z0-9+/_=-]{60,}+"),
    _token("sentry-token", "sntryu_", HEX + "{64}" + ENDS),
    _token("dynatrace-token", "dt0c01. dt0s01. dt0s16.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}" + ENDS),
    _token("honeycomb-key", "hcaik_ hcbik_ hcamk_ hcxik_", ALNUM + "{50,}+"),
    _token("axiom-token", "xaat- xapt-", UUID + ENDS),
    _token("posthog-key", "phx_", ALNUM + "{32,}+"),
    _token("launchdarkly-key", "sdk- api-", UUID + ENDS),
    _token("settlemint-token", "sm_aat_ sm_pat_ sm_sat_", ALNUM + "{16}" + ENDS, is_mixed),
    _token(
        "authress-key",
        "sc_ ext_ scauth_ authress_",
        r"[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[\w+/=-]{30,120}",
    ),
    _token("intra42-secret", "s-s4t2ud- s-s4t2af-", HEX + "{64}" + ENDS),
    _token("linear-key", "lin_api_ lin_oauth_ lin_wh_", ALNUM + "{32,}+"),
    _token("notion-token", "ntn_", ALNUM + "{40,}+"),
    _token("notion-token", "secret_", ALNUM + "{43}" + ENDS, is_mixed),
    _token("airtable-token", "pat", rf"{ALNUM}{{14}}\.{HEX}{{64}}" + ENDS),
    _token("asana-token", "0/ 1/ 2/", rf"[0-9]{{13,19}}(?:/[0-9]{{13,19}})?:{HEX}{{32}}" + ENDS),
    _token("figma-token", "figd_ figo_ figu_", WORD + "{36,}+", is_mixed),
    _token("clickup-token", "pk_", "[0-9]{5,12}_[A-Z0-9]{32}" + ENDS),
    _token("typeform-token", "tfp_", WORD + "{40,}+", is_mixed),
    _token("contentful-token", "CFPAT-", WORD + "{40,}+", is_mixed),
    _token("dropbox-token", "sl.", rf"(?:u\.)?{WORD}{{100,}}+", is_mixed),
    _token("postman-key", "PMAK-", rf"{HEX}{{24}}-{HEX}{{34}}" + ENDS),
    _token("prefect-key", "pnu_ pnb_", ALNUM + "{36}" + ENDS),
    _token("readme-key", "rdme_", "[a-z0-9]{60,}+"),
    _token("adafruit-key", "aio_", ALNUM + "{28}" + ENDS, is_mixed),
    _token("adobe-secret", "p8e-", WORD + "{30,}+", is_mixed),
    _token("frameio-token", "fio-u-", WORD + "{60,}+", is_mixed),
    _token("mapbox-token", "sk.eyJ", rf"{WORD}{{40,}}+\.{WORD}{{20,}}+"),
    _token("onepassword-token", "ops_eyJ", BASE64 + "{200,}+={0,3}"),
    _token(
        "onepassword-secret-key",
        "A3-",
        r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}" + ENDS,
    ),
    _token("docker-swarm-token", "SWMTKN-1-", "[a-z0-9]{45,50}-[a-z0-9]{20,25}" + ENDS),
    _token("nats-seed", "SU SA SN SO SC SX", "[A-Z2-7]{56}" + ENDS, is_mixed),
    _token("paseto", "v1.local. v2.local. v3.local. v4.local.", WORD + r"{40,}+(?:\.[\w-]{4,}+)?", is_mixed),
    _token("wallet-private-key", "5 K L", "[1-9A-HJ-NP-Za-km-z]{50,51}" + ENDS, _is_a_wallet_key),
    _token("age-secret-key", "AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}" + ENDS),
    _token("nostr-secret-key", "nsec1", "[ac-hj-np-z02-9]{58}" + ENDS),
    _token("wallet-private-key", "xprv", "[1-9A-HJ-NP-Za-km-z]{100,112}" + ENDS),
    _token("jwt", "eyJ", rf"{WORD}{{8,}}+\.eyJ{WORD}{{8,}}+\.{WORD}{{16,}}+"),
    _token("jwt", "eyJ", rf"{WORD}{{8,}}+\.{WORD}*+\.{WORD}{{16,}}+\.{WORD}{{16,}}+\.{WORD}{{16,}}+"),
)

SecretSpan = tuple[int, int, str]

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


def find_payment_numbers(text: str) -> Iterator[SecretSpan]:
    """Where they stand, and the kind of each."""
    for begins in _IBAN_BEGINS.finditer(text):
        end = _find_iban_end(text, begins.start())
        if end:
            yield begins.start(), end, "iban"
    for found in _CARD.finditer(text):
        digits = "".join(filter(str.isdigit, found[0]))
        # Many numbers have 16 digits. The issuer and the check digit rule out most of those that are no cards.
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
        # One space or hyphen parts the groups of an IBAN; two part it from other words.
        elif character not in _JOINTS or text[at - 1] in _JOINTS:
            return 0
        at += 1
    after = text[at : at + 1]
    if not plain or left or after.isalnum() or after == "-":
        return 0
    # Letters in such a number mean another code that begins alike.
    if country in _DIGITS_ONLY and not plain[2:].isdigit():
        return 0
    if _passes_mod_97(plain.upper()):
        return at
    return 0


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
