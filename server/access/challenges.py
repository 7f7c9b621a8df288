"""Answers to requests whose credential does not let them in (RFC 6750, RFC 9728)."""

from starlette.responses import JSONResponse, Response

REALM = "layerlore"
SCOPES = "memory:read memory:write memory:forget"
RETRY_SECONDS = 2


def challenge_unauthorized(metadata_url: str = "", *, sent: bool) -> Response:
    """401: no credential was sent, or it is not accepted. ``metadata_url``: where clients learn who issues tokens.

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


def challenge_scope(metadata_url: str = "") -> Response:
    """403: a valid credential that has no rights at all."""
    return _challenge(403, "insufficient_scope", "the credential has none of the rights", metadata_url)


def answer_unavailable() -> Response:
    """503: the credential cannot be checked now."""
    body = {"error": "temporarily_unavailable", "error_description": "credentials cannot be checked now; try again"}
    return JSONResponse(body, 503, {"Retry-After": str(RETRY_SECONDS), "Cache-Control": "no-store"})


def _challenge(status: int, error: str, text: str, metadata_url: str) -> Response:
    parts = {"realm": REALM}
    if error:
        parts |= {"error": error, "error_description": text}
    if metadata_url or status == 403:
        parts["scope"] = SCOPES
    if metadata_url:
        parts["resource_metadata"] = metadata_url
    challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
    body = {"error": error or "unauthorized", "error_description": text}
    return JSONResponse(body, status, {"WWW-Authenticate": challenge, "Cache-Control": "no-store"})
