"""The discovery document, derived from the registries (OpenID Connect Discovery, RFC 8414)."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.protocol.claims import CLAIMS_OF, SIGN_IN_CLAIMS, Acr

_ENDPOINTS: Mapping[str, str] = MappingProxyType(
    {
        "authorization_endpoint": "/oauth/authorize",
        "token_endpoint": "/oauth/token",
        "userinfo_endpoint": "/oauth/userinfo",
        "jwks_uri": "/oauth/jwks",
        "registration_endpoint": "/oauth/register",
        "revocation_endpoint": "/oauth/revoke",
        "introspection_endpoint": "/oauth/introspect",
        "end_session_endpoint": "/oauth/logout",
        "check_session_iframe": "/oauth/check-session",
    }
)
ID_JAG_TOKEN = "urn:ietf:params:oauth:token-type:id-jag"
ID_JAG_PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"

_CHAINING = "identity_chaining_requested_token_types_supported"
_GRANT_PROFILES = "authorization_grant_profiles_supported"
_CODE = "code"
_UNSIGNED = "none"
_DISPLAYS = ("page",)


class ServerFacts(Struct, frozen=True):
    """The inputs of the discovery document.

    `paths` are the paths this server serves: an endpoint is announced if it exists. `implicit` and
    `password` say whether any client may use that grant or may register for it. `response_types`
    and `prompts` are those of the authorization endpoint. The algorithms: `id_token_algorithms` of
    this server, `assertion_algorithms` of clients authenticating, `request_object_algorithms` of
    clients' request objects (empty if they are not accepted). `unsigned_requests` says whether any
    client is registered for unsigned request objects. `languages` are those of the pages.
    `declared_claims` are those that an operator declares for ID tokens and userinfo.
    `issues_assertions` and `accepts_assertions` are about identity assertions (ID-JAG).
    `of_features` are the members that features add.
    """

    issuer: str
    paths: Collection[str]
    scopes: Collection[str]
    grant_types: Collection[str]
    response_types: Collection[str]
    response_modes: Collection[str]
    prompts: Collection[str]
    subject_types: Collection[str]
    authentication_methods: Collection[str]
    assertion_algorithms: Collection[str]
    id_token_algorithms: Collection[str]
    introspection_algorithms: Collection[str]
    request_object_algorithms: Collection[str] = ()
    encryption_algorithms: Collection[str] = ()
    content_encryptions: Collection[str] = ()
    policy_uri: str = ""
    tos_uri: str = ""
    registration: bool = False
    metadata_documents: bool = False
    implicit: bool = False
    password: bool = False
    unsigned_requests: bool = False
    languages: Collection[str] = ("en",)
    declared_claims: Collection[str] = ()
    issues_assertions: bool = False
    accepts_assertions: bool = False
    of_features: Mapping[str, object] = MappingProxyType({})


def server_metadata(facts: ServerFacts) -> Mapping[str, object]:
    """Return the metadata: only what exists, and only grants that some client may use."""
    return {
        "issuer": facts.issuer,
        **dict(_endpoints(facts)),
        **facts.of_features,
        **_about_requests(facts),
        **_about_people(facts),
        **_about_clients(facts),
        **_about_logout(facts),
        "service_documentation": f"{facts.issuer}/errors/",
        "ui_locales_supported": list(facts.languages),
        **{
            name: uri
            for name, uri in (("op_policy_uri", facts.policy_uri), ("op_tos_uri", facts.tos_uri))
            if uri
        },
    }


def _endpoints(facts: ServerFacts) -> Iterator[tuple[str, str]]:
    for name, path in _ENDPOINTS.items():
        hidden = name == "registration_endpoint" and not facts.registration
        if path in facts.paths and not hidden:
            yield name, facts.issuer + path


def _about_requests(facts: ServerFacts) -> dict[str, object]:
    usable = {"password": facts.password, "implicit": facts.implicit}
    grant_types = [name for name in facts.grant_types if usable.get(name, True)]
    types = [name for name in facts.response_types if facts.implicit or name == _CODE]
    members: dict[str, object] = {
        "scopes_supported": list(facts.scopes),
        "response_types_supported": types,
        "response_modes_supported": list(facts.response_modes),
        "grant_types_supported": grant_types,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "claims_parameter_supported": True,
        "display_values_supported": list(_DISPLAYS),
        "prompt_values_supported": list(facts.prompts),
        "request_parameter_supported": bool(facts.request_object_algorithms),
        # Always stated: if omitted it would mean true (Discovery section 3).
        "request_uri_parameter_supported": bool(facts.request_object_algorithms),
    }
    if facts.request_object_algorithms:
        members["require_request_uri_registration"] = True
        unsigned = (_UNSIGNED,) if facts.unsigned_requests else ()
        members["request_object_signing_alg_values_supported"] = [
            *facts.request_object_algorithms,
            *unsigned,
        ]
    return members


def _about_people(facts: ServerFacts) -> dict[str, object]:
    personal = (name for names in CLAIMS_OF.values() for name in names)
    members: dict[str, object] = {
        "subject_types_supported": list(facts.subject_types),
        "acr_values_supported": [acr.value for acr in Acr],
        "claim_types_supported": ["normal"],
        "claims_supported": list(
            dict.fromkeys((*SIGN_IN_CLAIMS, "sid", *personal, *facts.declared_claims))
        ),
        "id_token_signing_alg_values_supported": list(facts.id_token_algorithms),
        "userinfo_signing_alg_values_supported": list(facts.id_token_algorithms),
    }
    if facts.encryption_algorithms:
        for kind in ("id_token", "userinfo"):
            members[f"{kind}_encryption_alg_values_supported"] = list(facts.encryption_algorithms)
            members[f"{kind}_encryption_enc_values_supported"] = list(facts.content_encryptions)
    return members


def _about_clients(facts: ServerFacts) -> dict[str, object]:
    methods, algorithms = list(facts.authentication_methods), list(facts.assertion_algorithms)
    proofs = [name for name in methods if name != "none"]
    return {
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "introspection_endpoint_auth_methods_supported": proofs,
        "introspection_endpoint_auth_signing_alg_values_supported": algorithms,
        "introspection_signing_alg_values_supported": list(facts.introspection_algorithms),
        **({"client_id_metadata_document_supported": True} if facts.metadata_documents else {}),
        # The ID-JAG draft, sections 7.1 and 7.2.
        **({_CHAINING: [ID_JAG_TOKEN]} if facts.issues_assertions else {}),
        **({_GRANT_PROFILES: [ID_JAG_PROFILE]} if facts.accepts_assertions else {}),
    }


def _about_logout(facts: ServerFacts) -> dict[str, object]:
    if _ENDPOINTS["end_session_endpoint"] not in facts.paths:
        return {}
    return {
        "frontchannel_logout_supported": True,
        "frontchannel_logout_session_supported": True,
        "backchannel_logout_supported": True,
        "backchannel_logout_session_supported": True,
    }
