"""The discovery document, derived from the registries (RFC 8414)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the document is made of. `implicit` says whether any client may use that grant."""

    issuer: str
    scopes: Collection[str]
    grant_types: Collection[str]
    authentication_methods: Collection[str]
    signing_algorithms: Collection[str]
    introspection_algorithms: Collection[str]
    implicit: bool
    password: bool


def server_metadata(facts: ServerFacts) -> Mapping[str, object]:
    """What clients may rely on; a grant that no client may use is not announced."""
    hidden: set[str] = set() if facts.password else {"password"}
    grant_types = [name for name in facts.grant_types if name not in hidden]
    if facts.implicit:
        grant_types.append("implicit")
    proofs = [name for name in facts.authentication_methods if name != "none"]
    return {
        "issuer": facts.issuer,
        "authorization_endpoint": f"{facts.issuer}/oauth/authorize",
        "token_endpoint": f"{facts.issuer}/oauth/token",
        "jwks_uri": f"{facts.issuer}/oauth/jwks",
        "scopes_supported": list(facts.scopes),
        "response_types_supported": ["code", "token"] if facts.implicit else ["code"],
        "response_modes_supported": ["query", "fragment"] if facts.implicit else ["query"],
        "grant_types_supported": grant_types,
        "token_endpoint_auth_methods_supported": list(facts.authentication_methods),
        "token_endpoint_auth_signing_alg_values_supported": list(facts.signing_algorithms),
        "revocation_endpoint": f"{facts.issuer}/oauth/revoke",
        "revocation_endpoint_auth_methods_supported": list(facts.authentication_methods),
        "revocation_endpoint_auth_signing_alg_values_supported": list(facts.signing_algorithms),
        "introspection_endpoint": f"{facts.issuer}/oauth/introspect",
        "introspection_endpoint_auth_methods_supported": proofs,
        "introspection_endpoint_auth_signing_alg_values_supported": list(facts.signing_algorithms),
        "introspection_signing_alg_values_supported": list(facts.introspection_algorithms),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "ui_locales_supported": ["en"],
        "service_documentation": f"{facts.issuer}/errors/",
    }
