"""The answers to requests that are not let in, word for word: clients parse them (RFC 6750, RFC 9728)."""

import json

import pytest
from starlette.responses import Response

from layerlore.server.access.protocol_errors import answer_unavailable, challenge_scope, challenge_unauthorized

METADATA = "https://mem.example.com/.well-known/oauth-protected-resource"
SCOPES = "memory:read memory:write memory:forget"
NOT_ACCEPTED = "the credential is malformed, unknown, expired or revoked, or several were sent"
NO_RIGHTS = "the credential has none of the rights"

CHALLENGES = {
    "none sent": (challenge_unauthorized(sent=False), 401, 'realm="layerlore"'),
    "not accepted": (
        challenge_unauthorized(sent=True),
        401,
        f'realm="layerlore", error="invalid_token", error_description="{NOT_ACCEPTED}"',
    ),
    "none sent, an issuer": (
        challenge_unauthorized(METADATA, sent=False),
        401,
        f'realm="layerlore", scope="{SCOPES}", resource_metadata="{METADATA}"',
    ),
    "no rights": (
        challenge_scope(),
        403,
        f'realm="layerlore", error="insufficient_scope", error_description="{NO_RIGHTS}", scope="{SCOPES}"',
    ),
    "no rights, an issuer": (
        challenge_scope(METADATA),
        403,
        f'realm="layerlore", error="insufficient_scope", error_description="{NO_RIGHTS}", scope="{SCOPES}", '
        f'resource_metadata="{METADATA}"',
    ),
}


@pytest.mark.parametrize(("response", "status", "parameters"), CHALLENGES.values(), ids=CHALLENGES)
def test_a_challenge_has_exactly_these_parameters(response: Response, status: int, parameters: str) -> None:
    assert response.status_code == status
    assert response.headers["www-authenticate"] == f"Bearer {parameters}"
    assert response.headers["cache-control"] == "no-store"


def _body(response: Response) -> object:
    return json.loads(bytes(response.body))


def test_the_body_says_what_is_wrong() -> None:
    missing = "a credential is needed: Authorization: Bearer TOKEN"
    assert _body(challenge_unauthorized(sent=False)) == {"error": "unauthorized", "error_description": missing}
    assert _body(challenge_unauthorized(sent=True)) == {"error": "invalid_token", "error_description": NOT_ACCEPTED}
    assert _body(challenge_scope()) == {"error": "insufficient_scope", "error_description": NO_RIGHTS}


def test_credentials_that_cannot_be_checked_are_answered_with_a_time_to_try_again() -> None:
    response = answer_unavailable()
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert response.headers["cache-control"] == "no-store"
    assert _body(response) == {
        "error": "temporarily_unavailable",
        "error_description": "credentials cannot be checked now; try again",
    }
