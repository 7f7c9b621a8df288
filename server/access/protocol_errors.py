"""The errors of requests other than calls of tools, in the form of each era of the protocol."""

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, RequestParams, Result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse, Response

from layerlore.server.access.caller import RequestContext
from layerlore.storage.core.errors import LayerloreError, NotFound, StorageBusy, StorageUnavailable

log = logging.getLogger(__name__)

RESOURCE_NOT_FOUND = -32002
"""The code for an unknown resource until 2025-11-25; from 2026-07-28 on it is INVALID_PARAMS."""

TOO_MUCH = -32005
"""The code for a request that the client may send again later. The protocol leaves -32000 to -32019 to servers."""
RETRY_AFTER = "retry_after_seconds"
"""The key of the time to wait in such an error."""
_ParamsT = TypeVar("_ParamsT", bound=RequestParams)
_ResultT = TypeVar("_ResultT", bound=Result)
Answer = Callable[[RequestContext, _ParamsT], Awaitable[_ResultT]]


def convert_errors(answer: Answer[_ParamsT, _ResultT]) -> Answer[_ParamsT, _ResultT]:
    """The function with its exceptions converted into the protocol's errors, which name the URI of the request if it has one.

    INVALID_PARAMS: the caller can correct it. RESOURCE_NOT_FOUND: an unknown resource, in the older era. INTERNAL_ERROR: all
    others. Unexpected exceptions only go to the log.
    """

    @functools.wraps(answer)
    async def answered(ctx: RequestContext, params: _ParamsT) -> _ResultT:
        uri: str | None = getattr(params, "uri", None)
        try:
            return await answer(ctx, params)
        # A method that raises the protocol's own error has chosen its code already.
        except MCPError:
            raise
        except StorageBusy as error:
            raise MCPError(TOO_MUCH, str(error), {RETRY_AFTER: error.retry_after}) from error
        # Handled before its base class LayerloreError, since the caller cannot correct a database that is down.
        except StorageUnavailable as error:
            _refuse(ctx, INTERNAL_ERROR, str(error), uri, error)
        except NotFound as error:
            older = ctx.method.startswith("resources/") and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
            _refuse(ctx, RESOURCE_NOT_FOUND if older else INVALID_PARAMS, str(error), uri, error)
        except (LayerloreError, ToolError) as error:
            _refuse(ctx, INVALID_PARAMS, str(error), uri, error)
        except Exception as error:
            log.exception("%s failed unexpectedly", ctx.method)
            _refuse(ctx, INTERNAL_ERROR, f"{ctx.method} failed unexpectedly; the server's log says why", uri, error)

    return answered


def _refuse(ctx: RequestContext, code: int, text: str, uri: str | None, cause: Exception) -> NoReturn:
    def sendable(raw: str) -> str:
        # A caller may have sent half of a surrogate pair, which cannot be sent back.
        return ctx.lifespan_context.mask(raw).encode(errors="replace").decode()

    raise MCPError(code, sendable(text), None if uri is None else {"uri": sendable(uri)}) from cause


REALM = "layerlore"
SCOPES = "memory:read memory:write memory:forget"
RETRY_SECONDS = 2


def challenge_unauthorized(metadata_url: str = "", *, sent: bool) -> Response:
    """401: no credential was sent, or it is not accepted. ``metadata_url``: by it clients learn the issuer of tokens.

    Only a request with a credential gets an error code (RFC 6750 section 3.1).
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
    """403: the credential is valid but has no rights."""
    return _challenge(403, "insufficient_scope", "the credential has none of the rights", metadata_url)


def refuse_registration(issuer: str = "") -> Response:
    """403 for a client that wants to register here. Clients try this after a 401 without an issuer, and show the text to
    the user."""
    if issuer:
        text = f"clients are registered at {issuer}, which issues the tokens for this server; a key is accepted, too"
    else:
        text = "this server has no sign-in and needs a key"
    text += ": configure the header Authorization: Bearer KEY with a key from the server's operator"
    return JSONResponse({"error": "access_denied", "error_description": text}, 403, {"Cache-Control": "no-store"})


def answer_unavailable() -> Response:
    """503: the credential cannot be checked now."""
    body = {"error": "temporarily_unavailable", "error_description": "credentials cannot be checked now; try again"}
    return JSONResponse(body, 503, {"Retry-After": str(RETRY_SECONDS), "Cache-Control": "no-store"})


def ending_error() -> MCPError:
    """The server ended before the call had an answer. The call may have been done; the client can repeat it on another
    replica."""
    text = "The server is shutting down and has cancelled the call."
    return MCPError(TOO_MUCH, text, {RETRY_AFTER: RETRY_SECONDS})


def answer_ending() -> Response:
    """503 with ``ending_error``, for a request that has no response when the server ends."""
    body = {"jsonrpc": "2.0", "id": None, "error": ending_error().error.model_dump(mode="json", exclude_none=True)}
    return JSONResponse(body, 503, {"Retry-After": str(RETRY_SECONDS), "Connection": "close"})


def _challenge(status: int, error: str, text: str, metadata_url: str) -> Response:
    parts = {"realm": REALM}
    if error:
        parts |= {"error": error, "error_description": text}
    # A 403 names the missing scopes (RFC 6750, 3.1); a 401 does so only if an issuer can grant them.
    if metadata_url or status == 403:
        parts["scope"] = SCOPES
    if metadata_url:
        parts["resource_metadata"] = metadata_url
    challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
    body = {"error": error or "unauthorized", "error_description": text}
    return JSONResponse(body, status, {"WWW-Authenticate": challenge, "Cache-Control": "no-store"})
