"""An issuer of JWTs: keys, tokens made byte by byte, and an https server on this machine that gives its key set."""

import base64
import contextlib
import datetime
import hashlib
import hmac
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

ISSUER = "https://issuer.test/realms/one"
AUDIENCE = "https://memory.test"
SECRET = b"a secret that is 32 bytes long, yes"

Sign = Callable[[bytes], bytes]


def b64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _number(value: int, size: int = 0) -> str:
    return b64(value.to_bytes(size or (value.bit_length() + 7) // 8))


@cache
def rsa_key(name: str = "first", bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key for each name, made once."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def by_rsa(key: rsa.RSAPrivateKey | None = None) -> Sign:
    return lambda signed: (key or rsa_key()).sign(signed, padding.PKCS1v15(), hashes.SHA256())


def by_pss(signed: bytes) -> bytes:
    return rsa_key().sign(signed, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())


def by_ec(signed: bytes) -> bytes:
    halves = decode_dss_signature(ec_key().sign(signed, ec.ECDSA(hashes.SHA256())))
    return b"".join(half.to_bytes(32) for half in halves)


def by_ed(signed: bytes) -> bytes:
    return ed_key().sign(signed)


def by_secret(secret: bytes) -> Sign:
    return lambda signed: hmac.new(secret, signed, hashlib.sha256).digest()


def rsa_jwk(kid: str | None = "rsa", key: rsa.RSAPrivateKey | None = None, **more: Any) -> dict[str, Any]:
    numbers = (key or rsa_key()).public_key().public_numbers()
    named = {} if kid is None else {"kid": kid}
    return {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e), "use": "sig", **named, **more}


def ec_jwk(kid: str = "ec") -> dict[str, Any]:
    numbers = ec_key().public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "x": _number(numbers.x, 32), "y": _number(numbers.y, 32), "kid": kid}


def ed_jwk(kid: str = "ed") -> dict[str, Any]:
    return {"kty": "OKP", "crv": "Ed25519", "x": b64(ed_key().public_key().public_bytes_raw()), "kid": kid}


def oct_jwk(kid: str = "oct") -> dict[str, Any]:
    return {"kty": "oct", "k": b64(SECRET), "kid": kid, "alg": "HS256", "use": "sig"}


def public_pem() -> bytes:
    return (
        rsa_key().public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def claims(**changed: Any) -> dict[str, Any]:
    """Those of a good token; None takes one away."""
    now = int(time.time())
    good = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "tenant": "acme",
        "scope": "openid memory:read memory:write",
        "iat": now - 5,
        "nbf": now - 5,
        "exp": now + 600,
    }
    return {name: value for name, value in (good | changed).items() if value is not None}


def token(payload: Any = None, sign: Sign | None = None, **header: Any) -> str:
    """One that is good as it is. A header that is None is left out; a payload of bytes is taken as it is."""
    whole = {"alg": "RS256", "typ": "JWT", "kid": "rsa"} | header
    shown = json.dumps({name: value for name, value in whole.items() if value is not None})
    body = payload if isinstance(payload, bytes) else json.dumps(claims() if payload is None else payload).encode()
    signed = f"{b64(shown.encode())}.{b64(body)}"
    return f"{signed}.{b64((sign or by_rsa())(signed.encode()))}"


@cache
def _certificate(name: str) -> tuple[bytes, bytes]:
    """A certificate that vouches for itself, for a host's name or address, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer of a test")])
    now = datetime.datetime.now(datetime.UTC)
    with contextlib.suppress(ValueError):
        return _signed(key, subject, now, x509.IPAddress(ipaddress.ip_address(name)))
    return _signed(key, subject, now, x509.DNSName(name))


def _signed(
    key: ec.EllipticCurvePrivateKey, subject: x509.Name, now: datetime.datetime, name: x509.GeneralName
) -> tuple[bytes, bytes]:
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), plain


Page = Callable[[dict[str, str]], tuple[int, dict[str, str], Any]]
"""Makes an answer of what a form or a query says: a status, headers, and what goes out as JSON."""


class Issuer:
    """The answers of an issuer at ``url``, where its key set is, and how often that was asked for. ``keys`` are the answer
    unless ``body`` is set. ``pages`` has its other answers, by method and path; ``visited`` the paths that were asked for."""

    def __init__(self, origin: str, ca_file: Path) -> None:
        self.origin = origin
        self.url = f"{origin}/keys"
        self.ca_file = ca_file
        self.pages: dict[tuple[str, str], Page] = {}
        self.visited: list[str] = []
        self.keys: list[Any] = [rsa_jwk(), ec_jwk(), ed_jwk(), oct_jwk()]
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body: bytes | None = None
        self.hung: threading.Event | None = None
        self.request = 0
        self.accepted: str | None = None
        self.being_asked = threading.Event()

    def publish(self, path: str, document: Any) -> None:
        """Answer with a JSON document at a path."""
        self.pages["GET", path] = lambda _: (200, {}, document)

    def answer(self) -> bytes:
        return json.dumps({"keys": self.keys}).encode() if self.body is None else self.body


class _Server(ThreadingHTTPServer):
    issuer: Issuer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust it, or no longer waits, is what the test is about."""


class _Answering(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Type"] == "application/json":
            self._show_page(self.path, json.loads(sent))
        else:
            self._show_page(self.path, dict(parse_qsl(sent.decode())))

    def _show_page(self, path: str, sent: dict[str, Any]) -> None:
        self.server.issuer.visited.append(path)
        page = self.server.issuer.pages.get((self.command, path), lambda _: (404, {}, "not found"))
        status, headers, document = page(sent)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path != "/keys":
            self._show_page(path, dict(parse_qsl(query)))
            return
        issuer = self.server.issuer
        issuer.request += 1
        issuer.accepted = self.headers["Accept-Encoding"]
        issuer.being_asked.set()
        self.send_response(issuer.status)
        for name, value in issuer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        body = issuer.answer()
        self.wfile.write(body[:10])
        if issuer.hung is not None:
            issuer.hung.wait(30)
        self.wfile.write(body[10:])

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serving(folder: Path, host: str = "127.0.0.1") -> Iterator[Issuer]:
    """An issuer on a free port of 127.0.0.1, with a certificate for ``host``."""
    certificate, key = _certificate(host)
    ca_file, key_file = folder / f"{host}.pem", folder / f"{host}.key"
    ca_file.write_bytes(certificate)
    key_file.write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca_file, key_file)
    with _Server(("127.0.0.1", 0), _Answering) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.issuer = Issuer(f"https://127.0.0.1:{server.server_port}", ca_file)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.issuer
        finally:
            if server.issuer.hung is not None:
                server.issuer.hung.set()
            server.shutdown()
            thread.join()
