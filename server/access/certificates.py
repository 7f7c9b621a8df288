"""The certificates that TLS connections trust."""

import ssl
from pathlib import Path

import httpx2

from layerlore.server.settings.settings import SettingsError


def load_trusted(ca_file: str, setting: str) -> ssl.SSLContext:
    """A TLS context that trusts the certificates in the file; without a file, those that this machine trusts. ``setting``
    names the file in errors. Raises SettingsError."""
    if not ca_file:
        return httpx2.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=Path(ca_file).expanduser())
    except (OSError, RuntimeError) as error:
        raise SettingsError(
            f"{setting}: must name a PEM file of certificates; {ca_file} cannot be read as one ({type(error).__name__})"
        ) from None
