"""Browser sessions: with them a page of this server makes calls as the signed-in user, without holding the credential.

A credential is split into two halves that look random; neither alone reveals anything about it. The browser keeps one half
in a cookie that no script can read. The page keeps the other, and sends it in a header. The server stores neither: every
process can join them, and revoking the key ends the session.

A browser sends a cookie to every port of a host. Another program that serves pages on this machine gets one half, which is
useless alone. A page of another site does not have the other half, and its origin is refused.
"""

import base64
import binascii
import secrets
from collections.abc import Iterable
from urllib.parse import urlsplit

PAGE_HEADER = "Layerlore-Explorer"
"""The page's header in every request: its half, or any value if the server needs no credential."""
SESSION_SECONDS = 12 * 3600
LONGEST_CREDENTIAL = 2048
"""In bytes. A browser accepts cookies of up to 4 KB."""

_PORTS = {"http": "80", "https": "443"}
_HEADER = PAGE_HEADER.lower().encode()

Headers = Iterable[tuple[bytes, bytes]]


def split(credential: str) -> tuple[str, str]:
    """The halves of a credential, for the cookie and for the page. Raises ValueError if the credential is too long."""
    text = credential.encode()
    if len(text) > LONGEST_CREDENTIAL:
        raise ValueError(f"a browser's session takes a credential of at most {LONGEST_CREDENTIAL:,} bytes")
    # A pad as long as the text makes each half uniformly random, and the two halves symmetric.
    pad = secrets.token_bytes(len(text))
    return _write(_mixed(text, pad)), _write(pad)


def join(kept: str, sent: str) -> str | None:
    """The credential; None if the texts are not two halves of one."""
    try:
        text, pad = _read(kept), _read(sent)
        if len(text) == len(pad):
            return _mixed(text, pad).decode()
        return None
    except (ValueError, binascii.Error):
        return None


def sent_by_page(headers: Headers) -> bool:
    """Whether the request claims to be from the explorer's page."""
    return any(name == _HEADER for name, _ in headers)


def is_own_page(headers: Headers, public_origin: str = "") -> bool:
    """Whether the page that sends a request is one of this server: its origin is the request's host, or that of the
    server's public URL. A browser sends the origin with every request except GET."""
    found = {name: value.decode("latin-1").lower() for name, value in headers if name in (b"host", b"origin")}
    origin, host = found.get(b"origin", ""), found.get(b"host", "")
    if public_origin and origin == public_origin.lower():
        return True
    # The rebuilt origin must be equal: a path, a user name or another spelling could hide a foreign host.
    url = urlsplit(origin)
    if url.scheme not in _PORTS or origin != f"{url.scheme}://{url.netloc}" or "@" in url.netloc:
        return False
    # A browser leaves the default port out of the Host header.
    return url.netloc == host.removesuffix(f":{_PORTS[url.scheme]}")


def credential_of(headers: Headers) -> str | None:
    """The credential of a page's request; "" if it has no cookie, None if its halves do not belong together."""
    headers = list(headers)
    named = cookie_name(headers)
    sent = [value.decode("latin-1") for name, value in headers if name == _HEADER]
    cookies = b";".join(value for name, value in headers if name == b"cookie").decode("latin-1").split(";")
    kept = [value for name, _, value in (each.strip().partition("=") for each in cookies) if name == named]
    if not kept:
        return ""
    # Two cookies or headers of one name are ambiguous: another program of this host may have set one of them.
    if len(kept) == len(sent) == 1:
        return join(kept[0], sent[0])
    return None


def make_cookie(headers: Headers, kept: str, *, seconds: int = SESSION_SECONDS) -> str:
    """The Set-Cookie header for a page's half; 0 seconds removes it."""
    headers = list(headers)
    # Only the origin shows whether the browser uses TLS, since a proxy may end it before us.
    secure = any(name == b"origin" and value.lower().startswith(b"https://") for name, value in headers)
    return (
        f"{cookie_name(headers)}={kept}; Path=/mcp; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        f"{'; Secure' if secure else ''}"
    )


def cookie_name(headers: Headers) -> str:
    """The cookie's name, which has the port: servers of one host share its cookies."""
    host = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
    port = host.rpartition(":")[2]
    return f"layerlore-explorer-{port if port.isdigit() else '0'}"


def _mixed(text: bytes, pad: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(text, pad, strict=True))


def _write(half: bytes) -> str:
    return base64.urlsafe_b64encode(half).decode().rstrip("=")


def _read(half: str) -> bytes:
    return base64.b64decode(half + "=" * (-len(half) % 4), altchars=b"-_", validate=True)
