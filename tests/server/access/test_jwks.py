"""The key set of an issuer that behaves, and of one that does not."""

import contextlib
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fake_issuer import AUDIENCE, ISSUER, Issuer, b64, ec_jwk, ed_jwk, ed_key, oct_jwk, rsa_jwk, rsa_key, serving
from jwt.algorithms import ECAlgorithm

from layerlore.server.access.issuer_keys import IssuerUnavailable, KeySet
from layerlore.server.settings.http import Algorithm, JwtSettings
from layerlore.server.settings.settings import SettingsError, load_settings

pytestmark = pytest.mark.anyio
SOON = 120.0  # seconds: only a hang takes so long


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


def settings_for(issuer: Issuer, /, **more: Any) -> JwtSettings:
    given = {"issuer": ISSUER, "audience": AUDIENCE, "jwks_url": issuer.url, "ca_file": str(issuer.ca_file)}
    return JwtSettings(**(given | more))


@pytest.fixture
def keys(issuer: Issuer, clock: Clock) -> KeySet:
    return KeySet(settings_for(issuer), now=clock, fetch_seconds=SOON)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


async def test_a_key_is_found_by_its_name_and_for_its_algorithm_only(keys: KeySet) -> None:
    for kid, algorithm in (("rsa", "RS256"), ("rsa", "PS256"), ("ec", "ES256"), ("ed", "EdDSA")):
        found = await keys.key(kid, algorithm)
        assert found is not None
        assert found.algorithm_name == algorithm
    for kid, algorithm in (("rsa", "ES256"), ("ec", "RS256"), ("ed", "ES256"), ("oct", "HS256"), ("oct", "RS256")):
        assert await keys.key(kid, algorithm) is None
    assert await keys.key("rsa", "RS384") is None, "an algorithm that is not among those accepted"


CURVES: list[tuple[Algorithm, ec.EllipticCurve]] = [
    ("ES256", ec.SECP256R1()),
    ("ES384", ec.SECP384R1()),
    ("ES512", ec.SECP521R1()),
]


@pytest.mark.parametrize(("algorithm", "curve"), CURVES, ids=[algorithm for algorithm, _ in CURVES])
async def test_a_key_on_a_curve_serves_the_one_algorithm_of_that_curve(
    issuer: Issuer, algorithm: Algorithm, curve: ec.EllipticCurve
) -> None:
    public = ec.generate_private_key(curve).public_key()
    issuer.keys = [{**ECAlgorithm.to_jwk(public, as_dict=True), "kid": "one"}]
    accepted: list[Algorithm] = [each for each, _ in CURVES]
    keys = KeySet(settings_for(issuer, algorithms=accepted))
    found = {each for each in accepted if await keys.key("one", each) is not None}
    assert found == {algorithm}


async def test_a_token_that_names_no_key_means_the_only_one_that_fits(issuer: Issuer, keys: KeySet) -> None:
    assert await keys.key(None, "ES256") is not None
    issuer.keys = [rsa_jwk("one"), rsa_jwk("two", rsa_key("second"))]
    assert await KeySet(settings_for(issuer)).key(None, "RS256") is None
    issuer.keys = [rsa_jwk(None)]
    assert await KeySet(settings_for(issuer)).key(None, "RS256") is not None
    assert await KeySet(settings_for(issuer)).key("rsa", "RS256") is None


# Made when they are asked for, so that the names of the tests are the same in every process.
USELESS: dict[str, Callable[[], Any]] = {
    "for encryption": lambda: rsa_jwk(use="enc"),
    "for other work": lambda: rsa_jwk(key_ops=["encrypt"]),
    "for no list of work": lambda: rsa_jwk(key_ops="verify"),
    "for another algorithm": lambda: rsa_jwk(alg="RS512"),
    "private": lambda: {**ed_jwk("rsa"), "d": b64(ed_key().private_bytes_raw())},
    "kid a number": lambda: rsa_jwk() | {"kid": 5},
    "symmetric": lambda: oct_jwk("rsa"),
    "symmetric by its word": lambda: rsa_jwk(kty="oct"),
    "type in a list": lambda: rsa_jwk(kty=["RSA"]),
    "n a number": lambda: rsa_jwk(n=5),
    "n empty": lambda: rsa_jwk(n=""),
    "n not base64": lambda: rsa_jwk(n="!"),
    "e null": lambda: rsa_jwk(e=None),
    "too short": lambda: rsa_jwk("rsa", rsa_key("short", 1024)),
    "another curve": lambda: {**ec_jwk("rsa"), "crv": "P-384"},
    "a point that is none": lambda: {**ec_jwk("rsa"), "x": "AA"},
    "half a point": lambda: {**ec_jwk("rsa"), "y": None},
    "a curve for key exchange": lambda: {**ed_jwk("rsa"), "crv": "X25519"},
    "cut": lambda: {**ed_jwk("rsa"), "x": "AA"},
    "an empty object": dict,
    "null": lambda: None,
    "a list": list,
    "a word": lambda: "rsa",
}


@pytest.mark.parametrize("what", USELESS)
async def test_a_key_that_is_for_something_else_or_broken_is_left_out_and_the_others_serve(
    issuer: Issuer, keys: KeySet, what: str
) -> None:
    issuer.keys = [USELESS[what](), rsa_jwk("good", rsa_key("second"))]
    for algorithm in ("RS256", "ES256", "EdDSA", "PS256"):
        assert await keys.key("rsa", algorithm) is None
    assert await keys.key("good", "RS256") is not None


async def test_lookups_at_the_same_time_share_one_fetch_and_later_ones_need_none(
    issuer: Issuer, clock: Clock, keys: KeySet
) -> None:
    found: list[Any] = []

    async def look_up() -> None:
        found.append(await keys.key("rsa", "RS256"))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(look_up)
    assert len(found) == 20
    assert None not in found
    clock.seconds += 299
    await look_up()
    assert issuer.request == 1
    assert issuer.accepted == "identity"
    clock.seconds += 1
    await look_up()
    assert issuer.request == 2


async def test_a_new_key_of_the_issuer_is_found_and_an_old_one_is_forgotten(
    issuer: Issuer, clock: Clock, keys: KeySet
) -> None:
    assert await keys.key("rsa", "RS256") is not None
    issuer.keys = [rsa_jwk("new", rsa_key("second"))]
    clock.seconds += 10
    assert await keys.key("new", "RS256") is not None
    assert await keys.key("rsa", "RS256") is None
    assert issuer.request == 2


async def test_names_of_keys_that_nobody_has_make_one_fetch_in_ten_seconds(
    issuer: Issuer, clock: Clock, keys: KeySet
) -> None:
    assert await keys.key("rsa", "RS256") is not None
    for second in range(20):
        for garbage in range(10):
            assert await keys.key(f"garbage {second} {garbage}", "RS256") is None
        clock.seconds += 1
    assert issuer.request == 2


DEEP = b'{"keys":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": 500}, "its answer has the status 500"),
        ({"status": 302, "headers": {"Location": "OTHER"}}, "its answer has the status 302"),
        ({"status": 204, "body": b""}, "its answer has the status 204"),
        ({"body": b"<html>"}, "it is not JSON"),
        ({"body": b"\xff\xfe{"}, "it is not JSON"),
        ({"body": b""}, "it is not JSON"),
        ({"body": DEEP}, "it is not JSON"),
        ({"body": b"[]"}, "it is not a key set"),
        ({"body": b'{"keys": {}}'}, "it is not a key set"),
        ({"keys": [{}] * 101}, "it has more than 100 keys"),
        ({"body": json.dumps({"keys": [], "x": "x" * 300 * 1024}).encode()}, "it is larger than 262,144 byt"),
        (
            {
                "body": gzip.compress(b'{"keys": []}'),
                "headers": {"Content-Encoding": "gzip"},
            },
            "it is not JSON",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_answer_that_is_no_key_set_is_said_to_be_none(
    issuer: Issuer,
    keys: KeySet,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    reason: str,
) -> None:
    with serving(tmp_path) as other:
        for name, value in changes.items():
            setattr(issuer, name, value)
        issuer.headers = {name: value.replace("OTHER", other.url) for name, value in issuer.headers.items()}
        with pytest.raises(IssuerUnavailable, match="cannot be fetched now; try again"):
            await keys.key("rsa", "RS256")
        assert other.request == 0
    assert issuer.request == 1
    assert len(warnings(caplog)) == 1
    assert reason in warnings(caplog)[0]


async def test_a_key_set_without_a_key_for_us_is_told_and_is_no_failure(
    issuer: Issuer, keys: KeySet, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.keys = [oct_jwk()]
    assert await keys.key("oct", "RS256") is None
    assert warnings(caplog) == ["the key set of the JWT issuer has no key for an accepted algorithm"]


async def test_an_issuer_that_never_finishes_its_answer_is_given_up(issuer: Issuer, clock: Clock) -> None:
    issuer.hung = threading.Event()
    keys = KeySet(settings_for(issuer), now=clock, fetch_seconds=0.2)
    with anyio.fail_after(SOON), pytest.raises(IssuerUnavailable):
        await keys.key("rsa", "RS256")
    assert issuer.request == 1


async def test_nobody_waits_for_an_issuer_that_hangs_while_the_keys_at_hand_serve(
    issuer: Issuer, clock: Clock, keys: KeySet
) -> None:
    assert await keys.key("rsa", "RS256") is not None
    issuer.hung = threading.Event()
    issuer.being_asked.clear()
    clock.seconds += 301
    async with anyio.create_task_group() as group:
        group.start_soon(keys.key, "rsa", "RS256")
        assert await anyio.to_thread.run_sync(issuer.being_asked.wait, SOON)
        for _ in range(100):
            with anyio.fail_after(SOON):
                assert await keys.key("rsa", "RS256") is not None
        issuer.hung.set()
    assert issuer.request == 2


async def test_while_the_issuer_is_down_keys_serve_for_an_hour_and_that_is_told_once(
    issuer: Issuer, clock: Clock, keys: KeySet, caplog: pytest.LogCaptureFixture
) -> None:
    assert await keys.key("rsa", "RS256") is not None
    issuer.status = 503
    clock.seconds += 300
    while clock.seconds < 1000 + 3600:
        assert await keys.key("rsa", "RS256") is not None
        clock.seconds += 100
    with pytest.raises(IssuerUnavailable):
        await keys.key("unknown", "RS256")
    with pytest.raises(IssuerUnavailable):
        await keys.key("rsa", "RS256")
    assert len(warnings(caplog)) == 1
    issuer.status = 200
    clock.seconds += 9
    with pytest.raises(IssuerUnavailable):
        await keys.key("rsa", "RS256")
    clock.seconds += 1
    assert await keys.key("rsa", "RS256") is not None


async def test_an_issuer_that_answers_nobody_is_asked_once_in_ten_seconds(
    issuer: Issuer, clock: Clock, keys: KeySet
) -> None:
    issuer.status = 503
    for _ in range(20):
        with pytest.raises(IssuerUnavailable):
            await keys.key("rsa", "RS256")
        clock.seconds += 1
    assert issuer.request == 2


async def test_after_a_fetch_that_was_broken_off_no_genuine_key_is_called_unknown(issuer: Issuer, clock: Clock) -> None:
    issuer.hung = threading.Event()
    keys = KeySet(settings_for(issuer), now=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(keys.key, "rsa", "RS256")
        assert await anyio.to_thread.run_sync(issuer.being_asked.wait, SOON)
        group.cancel_scope.cancel()
    with pytest.raises(IssuerUnavailable):
        await keys.key("rsa", "RS256")
    issuer.hung.set()
    clock.seconds += 10
    assert await keys.key("rsa", "RS256") is not None


@pytest.mark.parametrize("why", ["nobody listens", "an authority that is not trusted", "another host's certificate"])
async def test_an_issuer_that_cannot_be_told_to_be_the_right_one_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with contextlib.ExitStack() as stack:
        issuer = stack.enter_context(serving(tmp_path, "other.test" if why.startswith("another") else "127.0.0.1"))
        settings = settings_for(issuer, **({"ca_file": ""} if why.startswith("an authority") else {}))
        if why == "nobody listens":
            stack.close()
        with pytest.raises(IssuerUnavailable):
            await KeySet(settings).key("rsa", "RS256")
    assert issuer.request == 0
    assert "ConnectError" in warnings(caplog)[0]


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_file_without_certificates_is_told_at_the_start(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "authority.pem"
    if content:
        file.write_text(content)
    with pytest.raises(SettingsError, match=r"^jwt.ca_file: must name a PEM file of certificates"):
        KeySet(JwtSettings(issuer=ISSUER, audience=AUDIENCE, ca_file=str(file)))


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ISSUER", "http://issuer.test", "https://HOST/PATH is needed"),
        ("ISSUER", "issuer.test", "https://HOST/PATH is needed"),
        ("ISSUER", "https://", "https://HOST/PATH is needed"),
        ("JWKS_URL", "http://127.0.0.1/keys", "https://HOST/PATH is needed"),
        ("JWKS_URL", "http://localhost:8080/keys", "https://HOST/PATH is needed"),
        ("JWKS_URL", "file:///etc/keys", "https://HOST/PATH is needed"),
        ("JWKS_URL", "https://me:hunter2@issuer.test/keys", "without a user, a query or a fragment"),
        ("JWKS_URL", "https://issuer.test/keys?key=hunter2", "without a user, a query or a fragment"),
        ("JWKS_URL", "https://issuer.test:port/keys", "https://HOST/PATH is needed"),
        ("AUDIENCE", "", "jwt .*: issuer needs audience or http.public_url"),
        ("ALGORITHMS", "HS256", "Input should be 'RS256', 'RS384'"),
        ("ALGORITHMS", "RS256,none", "Input should be 'RS256', 'RS384'"),
        ("ALGORITHMS", "RS256,RS256", "every name may come once"),
        ("ALGORITHMS", ",", "at least 1 item"),
        ("LEEWAY_SECONDS", "301", "less than or equal to 300"),
        ("TENANT_CLAIM", "a\nb", "without control characters"),
    ],
)
def test_settings_that_would_let_in_too_many_are_refused(name: str, value: str, told: str) -> None:
    environ = {"LAYERLORE_JWT__ISSUER": ISSUER, "LAYERLORE_JWT__AUDIENCE": AUDIENCE, f"LAYERLORE_JWT__{name}": value}
    with pytest.raises(SettingsError, match=told.replace("?", r"\?")) as caught:
        load_settings(environ=environ)
    assert "hunter2" not in str(caught.value)


def test_what_belongs_to_an_issuer_is_refused_without_one() -> None:
    assert JwtSettings().issuer == ""
    for name in ("AUDIENCE", "JWKS_URL"):
        with pytest.raises(SettingsError, match="audience and jwks_url belong to an issuer"):
            load_settings(environ={f"LAYERLORE_JWT__{name}": "https://memory.test"})


PLACES = {
    "/realms/one": [
        "/.well-known/oauth-authorization-server/realms/one",
        "/.well-known/openid-configuration/realms/one",
        "/realms/one/.well-known/openid-configuration",
        "/realms/one/.well-known/oauth-authorization-server",
    ],
    "/": ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
    "": ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
}


@pytest.mark.parametrize(
    ("path", "place"), [(path, place) for path, places in PLACES.items() for place in places], ids=str
)
async def test_the_key_set_is_where_the_metadata_of_the_issuer_says(
    issuer: Issuer, clock: Clock, path: str, place: str
) -> None:
    name = issuer.origin + path
    issuer.publish(place, {"issuer": name, "jwks_uri": issuer.url})
    keys = KeySet(settings_for(issuer, issuer=name, jwks_url=""), now=clock)
    assert await keys.key("rsa", "RS256") is not None
    places = PLACES[path]
    assert issuer.visited == places[: places.index(place) + 1]
    clock.seconds += 300
    issuer.visited.clear()
    assert await keys.key("rsa", "RS256") is not None
    assert (issuer.visited, issuer.request) == ([place], 2), "the place that had it is asked first"


async def test_an_issuer_may_move_its_keys_and_its_metadata(issuer: Issuer, clock: Clock) -> None:
    first, _, third, _ = PLACES["/realms/one"]
    name = issuer.origin + "/realms/one"
    issuer.publish(first, {"issuer": name, "jwks_uri": f"{issuer.origin}/old"})
    issuer.publish("/old", {"keys": [rsa_jwk("old")]})
    keys = KeySet(settings_for(issuer, issuer=name, jwks_url=""), now=clock)
    assert await keys.key("old", "RS256") is not None
    del issuer.pages["GET", first], issuer.pages["GET", "/old"]
    issuer.publish(third, {"issuer": name, "jwks_uri": issuer.url})
    clock.seconds += 10
    assert await keys.key("rsa", "RS256") is not None
    assert await keys.key("old", "RS256") is None


async def test_metadata_is_not_looked_for_where_the_key_set_is_named(issuer: Issuer, keys: KeySet) -> None:
    assert await keys.key("rsa", "RS256") is not None
    assert issuer.visited == []


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"issuer": "ISSUER/", "jwks_uri": "KEYS"}, "its issuer is 'ISSUER/', and jwt.issuer is 'ISSUER'"),
        ({"jwks_uri": "KEYS"}, "its issuer is None, and jwt.issuer is 'ISSUER'"),
        (["ISSUER"], "its issuer is None"),
        ({"issuer": "ISSUER"}, "its jwks_uri is no https URL"),
        ({"issuer": "ISSUER", "jwks_uri": "http://127.0.0.1/keys"}, "its jwks_uri is no https URL"),
        ({"issuer": "ISSUER", "jwks_uri": "file:///etc/keys"}, "its jwks_uri is no https URL"),
        ({"issuer": "ISSUER", "jwks_uri": "https://me:pass@127.0.0.1/keys"}, "its jwks_uri is no https URL"),
        ({"issuer": "ISSUER", "jwks_uri": "/keys"}, "its jwks_uri is no https URL"),
        ({"issuer": "ISSUER", "jwks_uri": ["KEYS"]}, "its jwks_uri is no https URL"),
    ],
    ids=str,
)
async def test_metadata_that_names_no_key_set_of_this_issuer_is_passed_over_and_said(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, metadata: Any, reason: str
) -> None:
    def fill(text: str) -> str:
        return text.replace("ISSUER", issuer.origin).replace("KEYS", issuer.url)

    first, second = PLACES[""]
    issuer.publish(first, json.loads(fill(json.dumps(metadata))))
    settings = settings_for(issuer, issuer=issuer.origin, jwks_url="")
    with pytest.raises(IssuerUnavailable):
        await KeySet(settings).key("rsa", "RS256")
    [warning] = warnings(caplog)
    assert f"{issuer.origin}{first}: {fill(reason)}" in warning
    assert f"{issuer.origin}{second}: its answer has the status 404" in warning
    assert "jwt.jwks_url" in warning
    assert issuer.request == 0
    issuer.publish(second, {"issuer": issuer.origin, "jwks_uri": issuer.url})
    assert await KeySet(settings).key("rsa", "RS256") is not None
