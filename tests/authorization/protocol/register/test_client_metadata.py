"""What a client may register: every rule by an example that breaks it, and by one that does not."""

from typing import Any

import pytest

from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.model.client import CLIENT_SCOPE, OpenIdRegistration, ProfileName
from valetkey.authorization.protocol.register.client_metadata import (
    ClientMetadata,
    fitted,
)
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import days, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

_KEY = SigningKey.generate(Algorithm.ES256)
_KEYS = KeySet.of(_KEY.public).document().decode()
_RULES = ClientRules(
    own_origins=("https://auth.example", "https://api.example"),
    scopes=("read", "notes:read", "client:read", "stock:read"),
    grant_types=GRANT_RULES,
    default_profile=ProfileName.CLASSIC,
    own_scopes=CLIENT_SCOPE | Scope(("stock:read",)),
)
_GOOD = ClientMetadata("Printer", redirect_uris=("https://app.example/cb",), scopes=("read",))
_PUBLIC = replace(_GOOD, type="public")
_OWN = replace(
    _GOOD,
    grant_types=("authorization_code", "client_credentials"),
    scopes=("read", "stock:read"),
)
_CODE = ("authorization_code",)


@pytest.mark.parametrize(
    "metadata",
    [
        _GOOD,
        _PUBLIC,
        replace(_GOOD, profile="modern", description="Prints.", logo_uri="https://a.example/l"),
        replace(_GOOD, key_set=_KEYS),
        replace(_GOOD, key_set=_KEYS, authentication_method="private_key_jwt"),
        replace(_GOOD, key_set=_KEYS, authentication_method="client_secret"),
        replace(_GOOD, grant_types=("client_credentials",), redirect_uris=(), scopes=()),
        replace(_GOOD, grant_types=("password", "refresh_token"), redirect_uris=()),
        replace(_GOOD, grant_types=("implicit",), redirect_uris=("http://127.0.0.1/cb",)),
        replace(_PUBLIC, application_type="native", redirect_uris=("com.example.app:/cb",)),
        replace(_GOOD, access_token_lifetime=days(1), access_token_format="reference"),
        replace(_GOOD, default_scopes=("read",), required_scopes=("read",)),
        replace(_OWN, default_scopes=("read",), required_scopes=("read",)),
    ],
)
def test_valid_client_metadata_is_registered(metadata: ClientMetadata) -> None:
    assert _RULES.faults(metadata) == ()


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        (replace(_GOOD, name=""), ["name"]),
        (replace(_GOOD, name="x" * 81), ["name"]),
        (replace(_GOOD, name=" "), ["name"]),
        (replace(_GOOD, name="a\u202eb"), ["name"]),
        (replace(_GOOD, name="\ud800"), ["name"]),
        (replace(_GOOD, description="a\nb"), ["description"]),
        (replace(_GOOD, description="x" * 501), ["description"]),
        (replace(_GOOD, logo_uri="http://a.example/"), ["logo_uri"]),
        (replace(_GOOD, policy_uri="https://a.example/ b"), ["policy_uri"]),
        (replace(_GOOD, tos_uri="https://" + "a" * 2_000), ["tos_uri"]),
        (replace(_GOOD, access_token_lifetime=seconds(0)), ["access_token_lifetime"]),
        (replace(_GOOD, access_token_lifetime=seconds(86_401)), ["access_token_lifetime"]),
        (replace(_GOOD, profile="fapi"), ["profile"]),
        (replace(_GOOD, application_type="desktop"), ["application_type"]),
        (replace(_GOOD, access_token_format="saml"), ["access_token_format"]),
        (replace(_GOOD, authentication_method="tls"), ["authentication_method"]),
        (replace(_GOOD, type="other"), ["type"]),
        (replace(_GOOD, redirect_uris=()), ["redirect_uris"]),
        (replace(_GOOD, redirect_uris=_GOOD.redirect_uris * 2), ["redirect_uris"]),
        (
            replace(_GOOD, redirect_uris=tuple(f"https://a.example/{n}" for n in range(21))),
            ["redirect_uris"],
        ),
        (replace(_GOOD, redirect_uris=("https://a.example/", "x")), ["redirect_uris/1"]),
        (replace(_GOOD, redirect_uris=("https://auth.example/cb",)), ["redirect_uris/0"]),
        (
            replace(
                _GOOD,
                application_type="native",
                grant_types=("implicit",),
                redirect_uris=("com.example.app:/cb",),
            ),
            ["redirect_uris/0"],
        ),
        (replace(_GOOD, grant_types=()), ["grant_types"]),
        (replace(_GOOD, grant_types=_CODE * 2), ["grant_types"]),
        (replace(_GOOD, grant_types=(*_CODE, "magic")), ["grant_types/1"]),
        (replace(_GOOD, grant_types=("client_credentials", "refresh_token")), ["grant_types/1"]),
        (replace(_PUBLIC, grant_types=(*_CODE, "password")), ["grant_types/1"]),
        (replace(_PUBLIC, grant_types=("client_credentials",)), ["grant_types/0"]),
        (replace(_GOOD, profile="modern", grant_types=(*_CODE, "implicit")), ["grant_types/1"]),
        (replace(_GOOD, profile="modern", grant_types=(*_CODE, "password")), ["grant_types/1"]),
        (replace(_GOOD, scopes=("read", "unknown")), ["scopes/1"]),
        (replace(_GOOD, scopes=("client:read",)), ["scopes/0"]),
        (replace(_GOOD, scopes=("read", "read")), ["scopes"]),
        (replace(_GOOD, scopes=("read", "stock:read")), ["scopes/1"]),
        (replace(_OWN, grant_types=("authorization_code",)), ["scopes/1"]),
        (replace(_OWN, scopes=("client:write", "read")), ["scopes/0"]),
        (replace(_OWN, default_scopes=("stock:read",)), ["default_scopes/0"]),
        (replace(_OWN, required_scopes=("read", "stock:read")), ["required_scopes/1"]),
        (replace(_GOOD, default_scopes=("notes:read",)), ["default_scopes/0"]),
        (replace(_GOOD, required_scopes=("notes:read",)), ["required_scopes/0"]),
        (replace(_PUBLIC, authentication_method="client_secret"), ["authentication_method"]),
        (replace(_GOOD, authentication_method="none"), ["authentication_method"]),
        (replace(_GOOD, authentication_method="private_key_jwt"), ["key_set"]),
        (replace(_GOOD, key_set="{}"), ["key_set"]),
        (replace(_GOOD, key_set="\ud800"), ["key_set"]),
        (replace(_GOOD, key_set='{"keys": []}'), ["key_set"]),
        (replace(_GOOD, key_set='{"keys": [' + _KEY.private_jwk() + "]}"), ["key_set"]),
        (replace(_GOOD, name="", scopes=("x",), profile="y"), ["name", "profile", "scopes/0"]),
    ],
)
def test_invalid_client_metadata_is_refused_with_its_fields(
    metadata: ClientMetadata, fields: list[str]
) -> None:
    faults = _RULES.faults(metadata)
    assert [fault.field for fault in faults] == fields
    assert all(fault.detail for fault in faults)


def test_profile_defaults_to_that_of_the_server() -> None:
    strict = replace(_RULES, default_profile=ProfileName.MODERN)
    assert strict.profile_of(_GOOD) == "modern"
    old = replace(_GOOD, grant_types=(*_CODE, "implicit"))
    assert [fault.field for fault in strict.faults(old)] == ["grant_types/1"]
    assert strict.faults(replace(old, profile="classic")) == ()


@pytest.mark.parametrize(
    ("before", "changes", "proof", "method"),
    [
        ("client_secret_basic", {"type": "public"}, "none", ""),
        ("none", {"type": "confidential"}, "client_secret", ""),
        ("client_secret_basic", {"name": "Other"}, "client_secret", "client_secret_basic"),
        ("client_secret_basic", {"key_set": _KEYS}, "client_secret", "client_secret_basic"),
        (
            "client_secret_basic",
            {"key_set": _KEYS, "authentication_method": "private_key_jwt"},
            "private_key_jwt",
            "",
        ),
        (
            "client_secret_post",
            {"authentication_method": "client_secret_jwt"},
            "client_secret_jwt",
            "",
        ),
        ("", {"key_set": _KEYS}, "private_key_jwt", ""),
    ],
)
def test_authentication_method_of_a_changed_client_follows_from_the_changes(
    before: str, changes: dict[str, Any], proof: str, method: str
) -> None:
    kind = "public" if before == "none" else "confidential"
    was = replace(_GOOD, type=kind, openid=OpenIdRegistration(token_endpoint_auth_method=before))
    was = replace(was, authentication_method=was.proof)
    now = fitted(replace(was, **changes), changes.keys())
    assert (now.proof, now.openid.token_endpoint_auth_method) == (proof, method)
    assert _RULES.faults(now) == ()
