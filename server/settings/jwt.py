"""The issuers whose JWTs are accepted over HTTP, and the meaning of their claims: none, unless an issuer is named."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from layerlore.memory.settings.section import Name, Section, Unit, distinct, list_of, one_line

_WELL_KNOWN = "/.well-known/jwks.json"

# Those whose verifier holds no secret: with HS256, a program that can check a token can make one.
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
    """JWTs as credentials of `layerlore serve`, beside its keys. A claim's name with dots walks into objects, as
    `realm_access.roles`, unless a claim has the whole name."""

    issuer: HttpsUrl = Field(
        default="",
        description="Who issues the tokens, exactly as in their claim iss: `https://login.example.com/`. An issuer needs "
        "an audience. Empty: no JWT is accepted.",
    )
    audience: Name = Field(
        default="", description="The name that this server has at the issuer, which the claim aud must be or have."
    )
    jwks_url: HttpsUrl = Field(
        default="",
        description=f"URL of the issuer's key set, by https only. Empty: the issuer's URL with {_WELL_KNOWN}. Proxies are "
        "taken from the environment (`HTTPS_PROXY`).",
    )
    ca_file: Name = Field(
        default="",
        description="A PEM file of the private authority that vouches for that address. Empty: the system's authorities.",
    )
    algorithms: Annotated[list[Algorithm], BeforeValidator(list_of), AfterValidator(distinct)] = Field(
        default=["RS256", "ES256", "EdDSA", "PS256"],
        min_length=1,
        description="Signatures that are accepted; none with a shared secret can be.",
    )
    leeway_seconds: Annotated[int, Unit("seconds")] = Field(
        default=30, ge=0, le=300, description="By how much clocks may differ."
    )
    tenant_claim: Claim = Field(
        default="tenant",
        description="The claim that names the tenant. It cannot name the tenant local, whose memory is this machine's.",
    )
    tenant: Name = Field(default="", description="The tenant of all tokens. Empty: the one that their claim names.")
    resource_claim: Claim = Field(default="sub", description="The claim that names the resource.")
    agents_claim: Claim = Field(
        default="agents",
        description="The claim that names the agents: one name, or a list. A token without it is for the agent of these "
        "settings.",
    )
    rights_claim: Claim = Field(
        default="scope",
        description="The claim that names the rights, a list or names with spaces between them: memory:read, memory:write, "
        "memory:forget, memory:admin, or the same without `memory:`. A token without any may do nothing.",
    )
    any_value: Name = Field(
        default="",
        description="What stands for any resource, or any agent, in these claims: `*`, if nobody at the issuer can be "
        "called so. Empty: nothing does.",
    )
    types: Annotated[list[Claim], BeforeValidator(list_of), AfterValidator(distinct)] = Field(
        default=["JWT", "at+jwt", "Bearer"],
        min_length=1,
        description="What typ may say, in a token's header and in its claims, in any case and with or without "
        "`application/`. Other kinds, such as ID, refresh and logout tokens, have the same issuer and often the same "
        "audience. A token may leave it out.",
    )
    jwks_cache_seconds: Annotated[int, Unit("seconds")] = Field(
        default=300,
        ge=10,
        le=3600,
        description="Time until the key set is fetched again. While that fails, its keys serve for an hour.",
    )

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
