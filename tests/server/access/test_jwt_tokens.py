"""Which tokens name somebody, whom, and that no other one does."""

import contextlib
import json
import logging
import random
import re
import string
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_issuer import (
    AUDIENCE,
    ISSUER,
    SECRET,
    Issuer,
    b64,
    by_ec,
    by_ed,
    by_pss,
    by_rsa,
    by_secret,
    claims,
    public_pem,
    rsa_jwk,
    rsa_key,
    serving,
    token,
)

from layerlore.server.access.credentials import Principal
from layerlore.server.access.issuer_keys import IssuerUnavailable, JwtTokens, KeySet
from layerlore.server.settings.http import JwtSettings

pytestmark = pytest.mark.anyio
Verifier = Callable[..., JwtTokens]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with serving(tmp_path_factory.mktemp("issuer")) as running:
        running.keys += [rsa_jwk("enc", use="enc"), rsa_jwk("another", rsa_key("second"))]
        yield running


@pytest.fixture
def verifier(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Verifier:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def make(**more: Any) -> JwtTokens:
        given = {"issuer": ISSUER, "audience": AUDIENCE, "jwks_url": issuer.url, "ca_file": str(issuer.ca_file)}
        settings = JwtSettings(**(given | more))
        return JwtTokens(settings, "helpful", KeySet(settings))

    return make


def without_signature(payload: Any = None, **header: Any) -> str:
    return token(payload, lambda _: b"", **header)


def swapped() -> str:
    """A genuine header and signature around other claims."""
    header, _, signature = token().split(".")
    return f"{header}.{b64(json.dumps(claims(tenant='other')).encode())}.{signature}"


def now() -> int:
    return int(time.time())


STRANGER = rsa_key("stranger")
BAD: dict[str, tuple[Callable[[], str], str]] = {
    # what it is: the token, and the reason that the log gives
    "signed by another key": (lambda: token(sign=by_rsa(STRANGER)), "InvalidSignatureError"),
    "claims swapped": (swapped, "InvalidSignatureError"),
    "signature missing": (without_signature, "InvalidSignatureError"),
    "signature of another token": (
        lambda: ".".join([*token(claims(sub="eve")).split(".")[:2], token().split(".")[2]]),
        "InvalidSignatureError",
    ),
    "alg none": (lambda: without_signature(alg="none"), "algorithm is not accepted"),
    "alg None": (lambda: without_signature(alg="None"), "algorithm is not accepted"),
    "alg none, signed": (lambda: token(alg="none"), "algorithm is not accepted"),
    "alg missing": (lambda: token(alg=None), "algorithm is not accepted"),
    "alg not a name": (lambda: token(alg=["RS256"]), "algorithm is not accepted"),
    "alg in other letters": (lambda: token(alg="rs256"), "algorithm is not accepted"),
    "HS256 with the public key": (lambda: token(sign=by_secret(public_pem()), alg="HS256"), "algorithm is not acc"),
    "HS256 with the key set": (
        lambda: token(sign=by_secret(json.dumps(rsa_jwk()).encode()), alg="HS256"),
        "algorithm is not accepted",
    ),
    "HS256 with its own key": (lambda: token(sign=by_secret(SECRET), alg="HS256", kid="oct"), "algorithm is not acc"),
    "RS256 with a symmetric key": (lambda: token(sign=by_secret(SECRET), kid="oct"), "no key"),
    "RS384, which is not accepted": (lambda: token(alg="RS384"), "algorithm is not accepted"),
    "RS256 with a key for ES256": (lambda: token(kid="ec"), "no key"),
    "ES256 with a key for RS256": (lambda: token(sign=by_ec, alg="ES256"), "no key"),
    "PS256 signed as RS256": (lambda: token(alg="PS256"), "InvalidSignatureError"),
    "ES256 with zeros": (lambda: token(sign=lambda _: bytes(64), alg="ES256", kid="ec"), "InvalidSignatureError"),
    "kid unknown": (lambda: token(kid="unknown"), "no key"),
    "kid missing where several fit": (lambda: token(kid=None), "no key"),
    "kid of a key for encryption": (lambda: token(kid="enc"), "no key"),
    "kid of another key": (lambda: token(kid="another"), "InvalidSignatureError"),
    "kid not a name": (lambda: token(kid=5), "InvalidTokenError"),
    "kid that is a path": (lambda: token(sign=by_secret(b""), kid="../../dev/null"), "no key"),
    "its own key in the header": (
        lambda: token(sign=by_rsa(STRANGER), jwk=rsa_jwk(None, STRANGER)),
        "InvalidSignatureError",
    ),
    "its own key in the header, named": (
        lambda: token(sign=by_rsa(STRANGER), kid="own", jwk=rsa_jwk("own", STRANGER)),
        "no key",
    ),
    "extension that must be understood": (lambda: token(crit=["exp"], exp=now()), "InvalidTokenError"),
    "extension that PyJWT understands": (lambda: token(crit=["b64"], b64=True), "must be understood"),
    **{
        f"typ {kind}": (lambda kind=kind: token(typ=kind), "of another kind")
        for kind in (
            "dpop+jwt",
            "logout+jwt",
            "application/logout+jwt",
            "secevent+jwt",
            "token-introspection+jwt",
            "JOSE",
        )
    },
    "typ not a name": (lambda: token(typ=["JWT"]), "of another kind"),
    **{
        f"claim typ {kind}": (lambda kind=kind: token(claims(typ=kind)), "of another kind")
        for kind in ("ID", "Refresh", "Offline", "Logout", "DPoP", 5)
    },
    "detached payload": (lambda: token(crit=["b64"], b64=False), "DecodeError"),
    "issuer another": (lambda: token(claims(iss="https://evil.test")), "InvalidIssuerError"),
    "issuer that ours begins": (lambda: token(claims(iss=ISSUER + "/")), "InvalidIssuerError"),
    "issuer that begins ours": (lambda: token(claims(iss=ISSUER[:-1])), "InvalidIssuerError"),
    "issuer in a list": (lambda: token(claims(iss=[ISSUER])), "InvalidIssuerError"),
    "issuer missing": (lambda: token(claims(iss=None)), "MissingRequiredClaimError"),
    "audience another": (lambda: token(claims(aud="https://other.test")), "InvalidAudienceError"),
    "audience that ours begins": (lambda: token(claims(aud=AUDIENCE + ".evil.test")), "InvalidAudienceError"),
    "audience missing": (lambda: token(claims(aud=None)), "MissingRequiredClaimError"),
    "audience empty": (lambda: token(claims(aud=[])), "MissingRequiredClaimError"),
    "audiences without ours": (lambda: token(claims(aud=["a", "b"])), "InvalidAudienceError"),
    "audiences as an object": (lambda: token(claims(aud={AUDIENCE: 1})), "InvalidAudienceError"),
    "expired": (lambda: token(claims(exp=now() - 60)), "ExpiredSignatureError"),
    "exp missing": (lambda: token(claims(exp=None)), "MissingRequiredClaimError"),
    "exp a word": (lambda: token(claims(exp="never")), "DecodeError"),
    "exp digits in a string": (lambda: token(claims(exp=str(now() + 600))), "a time is not a number"),
    "exp true": (lambda: token(claims(exp=True)), "ExpiredSignatureError"),
    "exp endless": (lambda: token(claims(exp=float("inf"))), "DecodeError"),
    "nbf in the future": (lambda: token(claims(nbf=now() + 600)), "ImmatureSignatureError"),
    "nbf digits in a string": (lambda: token(claims(nbf=str(now() - 5))), "a time is not a number"),
    "iat in the future": (lambda: token(claims(iat=now() + 600)), "ImmatureSignatureError"),
    "two parts": (lambda: token().rpartition(".")[0], "DecodeError"),
    "four parts": (lambda: token() + ".e30", "DecodeError"),
    "five parts, encrypted": (lambda: "e30." * 4 + "e30", "DecodeError"),
    "no parts": (lambda: "", "DecodeError"),
    "not base64": (lambda: "a!b.c!d.e!f", "DecodeError"),
    "not ASCII": (lambda: token() + "é", "not ASCII"),
    "header not an object": (lambda: "W10.e30.AA", "DecodeError"),
    "header nested deep": (lambda: b64(b"[" * 3000 + b"]" * 3000) + ".e30.AA", "DecodeError"),
    "larger than 8 KiB": (lambda: token(claims(more="x" * 8192)), "larger than 8 KiB"),
    "payload a list": (lambda: token(["acme"]), "DecodeError"),
    "payload not JSON": (lambda: token(b"acme"), "DecodeError"),
    "payload not UTF-8": (lambda: token(b'{"sub": "\xff"}'), "DecodeError"),
    "tenant missing": (lambda: token(claims(tenant=None)), "names somebody is missing"),
    "tenant null": (lambda: token(json.dumps({**claims(), "tenant": None}).encode()), "names somebody is missing"),
    "tenant empty": (lambda: token(claims(tenant="")), "names somebody is missing"),
    "tenant a number": (lambda: token(claims(tenant=5)), "names somebody is missing"),
    "tenants in a list": (lambda: token(claims(tenant=["acme"])), "names somebody is missing"),
    "tenant with a control character": (lambda: token(claims(tenant="ac\nme")), "names somebody is missing"),
    "tenant with an invisible character": (lambda: token(claims(tenant="acme\u200b")), "names somebody is missing"),
    "tenant half a character": (lambda: token(claims(tenant="acme\ud800")), "names somebody is missing"),
    "tenant too long": (lambda: token(claims(tenant="x" * 256)), "names somebody is missing"),
    "tenant the local one": (lambda: token(claims(tenant="local")), "tenant is the local one"),
    "sub missing": (lambda: token(claims(sub=None)), "MissingRequiredClaimError"),
    "sub empty": (lambda: token(claims(sub="")), "names somebody is missing"),
    "sub a number": (lambda: token(claims(sub=5)), "InvalidSubjectError"),
    "sub with a control character": (lambda: token(claims(sub="a\x00da")), "names somebody is missing"),
    "agents a number": (lambda: token(claims(agents=5)), "names somebody is missing"),
    "agents with one that is none": (lambda: token(claims(agents=["a", None])), "names somebody is missing"),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_token_names_nobody_and_the_log_says_why_and_nothing_of_it(
    verifier: Verifier, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    caplog.set_level(logging.DEBUG)
    made, reason = BAD[what]
    bad = made()
    assert await verifier().principal(bad) is None
    refusals = [record for record in caplog.records if record.name == "layerlore.server.access.issuer_keys"]
    assert [record.levelname for record in refusals] == ["DEBUG"]
    assert reason in refusals[0].getMessage()
    told = "\n".join(f"{record.getMessage()} {record.exc_info}" for record in caplog.records)
    for part in (*bad.split("."), "acme", "helpful", "ada", "tenant=", "unknown"):
        # An object's address in hex may hold the same letters.
        assert len(part) < 3 or not re.search(rf"(?<![0-9a-f]){re.escape(part)}", told)


async def test_a_token_is_genuine_only_as_a_whole(verifier: Verifier) -> None:
    tokens, good = verifier(), token()
    assert await tokens.principal(good) is not None
    for place, character in enumerate(good):
        changed = "A" if character != "A" else "B"
        assert await tokens.principal(good[:place] + changed + good[place + 1 :]) is None, place
        assert await tokens.principal(good[:place]) is None, place


async def test_text_that_is_no_token_names_nobody(verifier: Verifier) -> None:
    tokens, chance = verifier(), random.Random(7)
    assert await tokens.principal(token()) is not None
    for _ in range(500):
        header, payload, signature = token().split(".")
        junk = "".join(chance.choices(string.printable + "é\ud800\0", k=chance.randrange(40)))
        value = b64(json.dumps({chance.choice(["alg", "kid", "crit", "b64"]): junk}).encode())
        for bad in (
            junk,
            f"{junk}.{payload}.{signature}",
            f"{value}.{payload}.{signature}",
            f"{header}.{junk}.{value}",
        ):
            assert await tokens.principal(bad) is None


@pytest.mark.parametrize("where", ["jku", "x5u"])
async def test_an_address_in_a_token_is_not_asked(
    verifier: Verifier, issuer: Issuer, tmp_path: Path, where: str
) -> None:
    with serving(tmp_path) as other:
        other.keys = [rsa_jwk("own", STRANGER), rsa_jwk("rsa", STRANGER)]
        for kid in ("own", "rsa"):
            assert await verifier().principal(token(sign=by_rsa(STRANGER), kid=kid, **{where: other.url})) is None
        assert await verifier().principal(token(**{where: other.url})) is not None
        assert other.request == 0


@pytest.mark.parametrize(
    "good",
    [
        lambda: token(claims()),
        lambda: token(sign=by_pss, alg="PS256"),
        lambda: token(sign=by_ec, alg="ES256", kid="ec"),
        lambda: token(sign=by_ed, alg="EdDSA", kid="ed"),
        lambda: token(sign=by_ed, alg="EdDSA", kid=None),
        lambda: token(claims(aud=["https://other.test", AUDIENCE])),
        lambda: token(claims(exp=now() + 600.5)),
        lambda: token(typ="at+jwt"),
        lambda: token(typ=None),
    ],
    ids=["RS256", "PS256", "ES256", "EdDSA", "no kid", "audiences", "a fraction of a second", "at+jwt", "no typ"],
)
async def test_a_good_token_names_its_principal(verifier: Verifier, good: Callable[[], str]) -> None:
    began = now()
    found = await verifier().principal(good())
    assert found is not None
    assert found.expires_at is not None
    assert began + 600 <= found.expires_at / 1000 - 30 <= time.time() + 601
    assert found == Principal(
        name="jwt:ada@issuer.test",
        tenant="acme",
        agents=frozenset({"helpful"}),
        resource="ada",
        rights=frozenset({"read", "write"}),
        expires_at=found.expires_at,
    )


async def test_clocks_may_differ_by_the_leeway(verifier: Verifier) -> None:
    late, early = token(claims(exp=now() - 20)), token(claims(nbf=now() + 20, iat=now() + 20))
    for each in (late, early):
        assert await verifier().principal(each) is not None
        assert await verifier(leeway_seconds=0).principal(each) is None


Named = Callable[..., Any]


@pytest.fixture
def named(verifier: Verifier) -> Named:
    """The principal of a good token with other claims, under other settings."""

    async def find(changed: dict[str, Any], **more: Any) -> Principal | None:
        return await verifier(**more).principal(token(claims(**changed)))

    return find


@pytest.mark.parametrize(
    ("value", "rights"),
    [
        ("memory:read", {"read"}),
        ("read  memory:forget openid", {"read", "forget"}),
        ("memory:read memory:write memory:forget memory:admin", {"read", "write", "forget", "admin"}),
        (["memory:read", "admin", 5, None, ["write"]], {"read", "admin"}),
        ("memory:*  MEMORY:READ memory:reading xmemory:read memory: *", set()),
        ("memory:read,memory:write", set()),
        ("", set()),
        ([], set()),
        ({"read": True}, set()),
        (True, set()),
    ],
)
async def test_rights_are_those_that_the_claim_names_and_no_more(named: Named, value: Any, rights: set[str]) -> None:
    assert (await named({"scope": value})).rights == rights
    assert (await named({"scope": None, "roles": value}, rights_claim="roles")).rights == rights


async def test_a_genuine_token_without_the_claim_of_rights_has_none(named: Named) -> None:
    assert (await named({"scope": None})).rights == frozenset()


@pytest.mark.parametrize(
    ("value", "agents"),
    [
        (None, {"helpful"}),
        ("coder", {"coder"}),
        ("two words", {"two words"}),
        (["coder", "writer"], {"coder", "writer"}),
        ([], set()),
        ("*", {"*"}),
    ],
)
async def test_agents_are_those_of_the_claim_or_the_configured_one(
    named: Named, value: Any, agents: set[str] | None
) -> None:
    assert (await named({"agents": value})).agents == agents


@pytest.mark.parametrize("value", ["*", ["coder", "*"]])
async def test_any_agent_is_what_the_settings_say(named: Named, value: Any) -> None:
    assert (await named({"agents": value}, any_value="*")).agents is None


async def test_any_resource_is_what_the_settings_say_and_else_nothing(named: Named) -> None:
    assert (await named({"who": "*"}, resource_claim="who")).resource == "*"
    assert (await named({"sub": "*"})).resource == "*"
    assert (await named({"who": "*"}, resource_claim="who", any_value="*")).resource is None
    assert (await named({"who": "bob"}, resource_claim="who")).resource == "bob"
    assert (await named({"who": "everybody"}, resource_claim="who", any_value="everybody")).resource is None
    for other in ("", "everybody"):
        found = await named({"who": "*", "agents": ["*"]}, resource_claim="who", any_value=other)
        assert (found.resource, found.agents) == ("*", {"*"})
    assert await named({}, resource_claim="who") is None


async def test_a_token_of_a_kind_that_is_accepted_says_so_in_any_case_or_not_at_all(verifier: Verifier) -> None:
    for kind in (None, "", "JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "Application/JWT"):
        assert await verifier().principal(token(typ=kind)) is not None, kind
    for kind in ("Bearer", "bearer", "JWT", "at+jwt"):
        assert await verifier().principal(token(claims(typ=kind))) is not None, kind
    okta = token(typ="application/okta-internal-at+jwt")
    assert await verifier().principal(okta) is None
    assert await verifier(types=["okta-internal-at+jwt"]).principal(okta) is not None


async def test_a_claim_is_found_in_objects_unless_one_has_the_whole_name(named: Named) -> None:
    nested = {"org": {"unit": {"name": "deep"}}, "realm_access": {"roles": ["memory:read"]}}
    found = await named(nested, tenant_claim="org.unit.name", rights_claim="realm_access.roles")
    assert (found.tenant, found.rights) == ("deep", {"read"})
    assert (await named({**nested, "org.unit.name": "flat"}, tenant_claim="org.unit.name")).tenant == "flat"
    url = "https://memory.test/tenant"
    assert (await named({url: "flat"}, tenant_claim=url)).tenant == "flat"
    for name in ("org.unit", "org.unit.name.x", "org..name", "org.none", "."):
        assert await named(nested, tenant_claim=name) is None


async def test_a_fixed_tenant_is_the_tenant_of_all_tokens(named: Named) -> None:
    assert (await named({"tenant": "other"}, tenant="ours")).tenant == "ours"
    assert (await named({"tenant": None}, tenant="local")).tenant == "local"


async def test_without_the_issuers_keys_a_token_is_neither_good_nor_bad(verifier: Verifier, issuer: Issuer) -> None:
    issuer.status = 500
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, issuer, "status", 200)
        with pytest.raises(IssuerUnavailable):
            await verifier().principal(token())
        assert await verifier().principal(token(alg="none")) is None
    assert await verifier().principal(token()) is not None
