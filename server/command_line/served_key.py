"""The key for a server over HTTP that hosts are told of: whether it needs one, and the file that keeps the one typed in."""

import getpass
import sys
from pathlib import Path
from urllib.parse import quote

import httpx2

from layerlore.server.access.exposure import is_loopback
from layerlore.server.access.issuer_keys import load_trusted
from layerlore.server.access.remote_endpoint import check_key, parse_endpoint
from layerlore.server.process.safe_files import replace_file
from layerlore.server.settings.local_key import key_file
from layerlore.server.settings.settings import Settings, SettingsError

WAIT_SECONDS = 5.0
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_UNAUTHORIZED = 401


def find_key_file(settings: Settings, url: str, *, by_hooks: bool = False) -> str:
    """The file with the key for a server; "" if the server needs none, has a sign-in, or cannot be reached now.
    ``by_hooks``: hooks use it, which cannot sign in.

    A person at a terminal is asked for a key that this machine does not have. Raises SettingsError if the server needs a
    key and there is none that it accepts.
    """
    endpoint = parse_endpoint(url)
    try:
        return _find(settings, endpoint, by_hooks=by_hooks)
    except httpx2.HTTPError as error:
        sys.stdout.write(
            f"{endpoint} cannot be reached now ({type(error).__name__}): if it needs a key, give --key-file FILE\n"
        )
        return ""


def _find(settings: Settings, endpoint: httpx2.URL, *, by_hooks: bool) -> str:
    if not _needs_key(settings, endpoint, "", by_hooks=by_hooks):
        return ""
    kept = _name_file(settings, endpoint)
    if kept.exists() and not _needs_key(settings, endpoint, kept.read_text(encoding="ascii", errors="ignore").strip()):
        return str(kept)
    if not sys.stdin.isatty():
        raise SettingsError(f"{endpoint} needs a key: give --key-file FILE{_name_local_key(settings, endpoint)}")
    try:
        key = check_key(getpass.getpass(f"Key for {endpoint}: "))
    except EOFError:
        raise SettingsError(f"{endpoint} needs a key, and none was given") from None
    if _needs_key(settings, endpoint, key):
        raise SettingsError(f"{endpoint} does not accept this key")
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(str(kept), f"{key}\n".encode("ascii"), mode=0o600)
    sys.stdout.write(f"The key is kept in {kept}, which only you can read.\n")
    return str(kept)


def _needs_key(settings: Settings, endpoint: httpx2.URL, key: str, *, by_hooks: bool = False) -> bool:
    """Whether the server refuses a request with this key, and names no issuer where its clients sign in, which hooks
    cannot."""
    headers = {"Accept": "application/json, text/event-stream"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    trusted = load_trusted(settings.bridge.ca_file, "bridge.ca_file")
    with httpx2.Client(verify=trusted, follow_redirects=False, timeout=WAIT_SECONDS) as client:
        answer = client.post(endpoint, json=_PING, headers=headers)
    has_sign_in = "resource_metadata=" in answer.headers.get("www-authenticate", "")
    return answer.status_code == _UNAUTHORIZED and (bool(key) or by_hooks or not has_sign_in)


def _name_file(settings: Settings, endpoint: httpx2.URL) -> Path:
    """One file for each server, so that a key goes to the one alone that it was typed in for."""
    place = f"{endpoint.netloc.decode('ascii')}{endpoint.path.rstrip('/')}"
    return settings.data_dir / f"key-{quote(place, safe='')}"


def _name_local_key(settings: Settings, endpoint: httpx2.URL) -> str:
    if is_loopback(endpoint.host) and key_file(settings.data_dir).exists():
        return f"; that of `layerlore serve` on this machine is in {key_file(settings.data_dir)}"
    return ""
