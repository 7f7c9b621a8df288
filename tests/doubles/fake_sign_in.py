"""The sign-in of a fake issuer: registration of clients, authorization with PKCE, and tokens for one resource.

It agrees to every request that is right, as its user, and refuses each other one as RFC 6749 says.
"""

import hashlib
import itertools
from typing import Any
from urllib.parse import urlencode

from fake_issuer import Issuer, b64, by_rsa, claims, token

PATH = "/realms/one"
METADATA = "/.well-known/oauth-authorization-server" + PATH
Answer = tuple[int, dict[str, str], Any]


def _refuse(error: str) -> Answer:
    return 400, {}, {"error": error, "error_description": f"{error}, says the issuer of the test"}


class SignIn:
    """``client_document``: the URL of a document that is accepted as the id of a client. ``resources`` are those that
    clients asked for tokens for; ``granted`` the scopes that they got."""

    def __init__(self, issuer: Issuer, client_document: str = "") -> None:
        self.name = issuer.origin + PATH
        self.resources: list[str] = []
        self.granted: list[str] = []
        self.registered: dict[str, list[str]] = {}
        self._client_document = client_document
        self._codes: dict[str, dict[str, str]] = {}
        self._numbers = itertools.count(1)
        base = issuer.origin + PATH
        issuer.publish(
            METADATA,
            {
                "issuer": self.name,
                "jwks_uri": issuer.url,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "registration_endpoint": f"{base}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "client_id_metadata_document_supported": bool(client_document),
                "authorization_response_iss_parameter_supported": True,
            },
        )
        issuer.pages["POST", PATH + "/register"] = self._register
        issuer.pages["GET", PATH + "/authorize"] = self._authorize
        issuer.pages["POST", PATH + "/token"] = self._issue

    def _register(self, sent: dict[str, Any]) -> Answer:
        name = f"client-{next(self._numbers)}"
        self.registered[name] = sent["redirect_uris"]
        return 201, {}, {**sent, "client_id": name, "token_endpoint_auth_method": "none"}

    def _authorize(self, sent: dict[str, str]) -> Answer:
        client = sent.get("client_id", "")
        known = sent.get("redirect_uri") in self.registered.get(client, [])
        if not known and client != self._client_document:
            return _refuse("invalid_client")
        if sent.get("response_type") != "code" or sent.get("code_challenge_method") != "S256":
            return _refuse("invalid_request")
        if not sent.get("resource"):
            return _refuse("invalid_target")
        code = f"code-{next(self._numbers)}"
        self._codes[code] = sent
        back = urlencode({"code": code, "state": sent["state"], "iss": self.name})
        return 302, {"Location": f"{sent['redirect_uri']}?{back}"}, None

    def _issue(self, sent: dict[str, str]) -> Answer:
        agreed = self._codes.pop(sent.get("code", ""), None)
        if sent.get("grant_type") != "authorization_code" or agreed is None:
            return _refuse("invalid_grant")
        if any(sent.get(name) != agreed[name] for name in ("client_id", "redirect_uri")):
            return _refuse("invalid_grant")
        if b64(hashlib.sha256(sent.get("code_verifier", "").encode()).digest()) != agreed["code_challenge"]:
            return _refuse("invalid_grant")
        # RFC 8707, 2.2: the token is for the resource that was agreed to.
        if sent.get("resource") != agreed["resource"]:
            return _refuse("invalid_target")
        self.resources.append(agreed["resource"])
        self.granted.append(agreed.get("scope", ""))
        payload = claims(iss=self.name, aud=agreed["resource"], scope=agreed.get("scope", ""))
        return (
            200,
            {"Content-Type": "application/json", "Cache-Control": "no-store"},
            {"access_token": token(payload, by_rsa(), typ="at+jwt"), "token_type": "Bearer", "expires_in": 600},
        )
