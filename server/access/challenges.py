"""What is answered, before anything else, to a request whose credential does not let it in (RFC 6750, RFC 9728)."""

from starlette.responses import JSONResponse, Response

REALM = "layerlore"
SCOPES = "memory:read memory:write memory:forget"
RETRY_SECONDS = 2


def unauthorized(metadata_url: str = "", *, sent: bool) -> Response:
    """401: no credential was sent, or one that is not accepted. ``metadata_url`` tells where tokens are issued.

    Without a credential there is no error code (RFC 6750 section 3.1).
    """
    if not sent:
        return _challenge(401, "", "a credential is needed: Authorization: Bearer TOKEN", metadata_url)
    return _challenge(
        401,
        "invalid_token",
        "the credential is malformed, unknown, expired or revoked, or several were sent",
        metadata_url,
    )


def insufficient_scope(metadata_url: str = "") -> Response:
    """403: a genuine credential that has no right at all."""
    return _challenge(403, "insufficient_scope", "the credential has none of the rights", metadata_url)


def unavailable() -> Response:
    """503: whether the credential is genuine cannot be found out now."""
    body = {"error": "temporarily_unavailable", "error_description": "credentials cannot be checked now; try again"}
    return JSONResponse(body, 503, {"Retry-After": str(RETRY_SECONDS), "Cache-Control": "no-store"})


def _challenge(status: int, error: str, told: str, metadata_url: str) -> Response:
    parts = {"realm": REALM}
    if error:
        parts |= {"error": error, "error_description": told}
    if metadata_url or status == 403:
        parts["scope"] = SCOPES
    if metadata_url:
        parts["resource_metadata"] = metadata_url
    challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
    body = {"error": error or "unauthorized", "error_description": told}
    return JSONResponse(body, status, {"WWW-Authenticate": challenge, "Cache-Control": "no-store"})
