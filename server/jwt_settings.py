"""Whose JWTs are accepted as credentials over HTTP, and what their claims mean: nobody's, unless an issuer is named."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from layerlore.server.settings_section import Name, Section, distinct, list_of, one_line

_WELL_KNOWN = "/.well-known/jwks.json"

# Those whose verifier holds no secret: with HS256, whoever can check a token can make one.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def _https_url(value: str) -> str:
    try:
        url = urlsplit(value)
        whole = url.scheme == "https" and bool(url.hostname) and url.port != 0
    except ValueError:
        whole = False
    if value and not (whole and "@" not in url.netloc and not url.query and not url.fragment and value.isprintable()):
        raise ValueError("https://HOST/PATH is needed, without a user, a query or a fragment")
    return value


HttpsUrl = Annotated[str, Field(max_length=2048), AfterValidator(one_line), AfterValidator(_https_url)]
Claim = Annotated[Name, Field(min_length=1)]


class JwtSettings(Section):
    """A claim's name with dots walks into objects (``realm_access.roles``), unless a claim has the whole name."""

    issuer: HttpsUrl = Field(default="", description="The issuer, exactly as in iss; empty: no JWT is accepted.")
    audience: Name = Field(default="", description="What aud must have: this server's name at the issuer.")
    jwks_url: HttpsUrl = Field(default="", description=f"Its key set; else the issuer's {_WELL_KNOWN}.")
    ca_file: Name = Field(default="", description="A PEM file of the authorities that vouch for it, else the system's.")
    algorithms: Annotated[list[Algorithm], BeforeValidator(list_of), AfterValidator(distinct)] = Field(
        default=["RS256", "ES256", "EdDSA", "PS256"], min_length=1, description="Signatures that are accepted."
    )
    leeway_seconds: int = Field(default=30, ge=0, le=300, description="Seconds by which clocks may differ.")
    tenant_claim: Claim = Field(default="tenant", description="The claim that names the tenant.")
    tenant: Name = Field(default="", description="The tenant of all tokens; empty: the claim's.")
    resource_claim: Claim = Field(default="sub", description="The claim that names the resource.")
    agents_claim: Claim = Field(default="agents", description="The claim with the agents; without it, the set one.")
    rights_claim: Claim = Field(default="scope", description="The claim with the rights: memory:read and so on.")
    any_value: Name = Field(default="", description="What means any resource, or any agent; empty: nothing does.")
    types: Annotated[list[Claim], BeforeValidator(list_of), AfterValidator(distinct)] = Field(
        default=["JWT", "at+jwt", "Bearer"],
        min_length=1,
        description="What typ may be, of the header and of the claims, where it is there.",
    )
    jwks_cache_seconds: int = Field(default=300, ge=10, le=3600, description="Seconds until keys are fetched again.")

    @model_validator(mode="after")
    def _fits_together(self) -> "JwtSettings":
        if self.issuer and not self.audience:
            raise ValueError("issuer needs audience: without it, tokens that were made for others would be accepted")
        if not self.issuer and (self.audience or self.jwks_url):
            raise ValueError("audience and jwks_url belong to an issuer, and none is set")
        return self

    @property
    def keys_url(self) -> str:
        """Where the key set is."""
        return self.jwks_url or self.issuer.rstrip("/") + _WELL_KNOWN
