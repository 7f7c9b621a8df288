"""Whom to trust over TLS."""

import ssl
from pathlib import Path

import httpx2

from layerlore.server.settings import SettingsError


def trusted(ca_file: str, setting: str) -> ssl.SSLContext:
    """Whoever the certificates in the file vouch for; without one, whoever this machine trusts. ``setting`` is where the
    file is named. Raises SettingsError."""
    if not ca_file:
        return httpx2.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=Path(ca_file).expanduser())
    except (OSError, RuntimeError) as error:
        raise SettingsError(
            f"{setting}: a PEM file of certificates is needed, and {ca_file} cannot be read as one "
            f"({type(error).__name__})"
        ) from None
