"""Access tokens: what both servers agree on (RFC 9068)."""

import json

import pytest

from valetkey.kernel.jose import access_token, jwt
from valetkey.kernel.jose.access_token import DPOP, MUTUAL_TLS, AccessToken, Binding
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import from_base64url

_KEY = SigningKey.generate(Algorithm.ES256)
_KEYS = KeySet.of(_KEY.public)
_TOKEN = AccessToken(
    issuer="https://as.example",
    subject="42",
    client_id="client_1",
    audience="https://api.example",
    scope=Scope.of("notes:read", "read"),
    token_id="at_1",
    issued_at=Instant(1_000),
    expires_at=Instant(1_600),
    grant_id="grant_1",
    auth_time=Instant(900),
)
_CLAIMS: jwt.Claims = {
    "iss": "https://as.example",
    "sub": "42",
    "aud": "https://api.example",
    "client_id": "client_1",
    "scope": "notes:read read",
    "jti": "at_1",
    "iat": 1_000,
    "exp": 1_600,
    "grant_id": "grant_1",
    "auth_time": 900,
}


def _verify(text: str, now: int = 1_000, issuer: str = "https://as.example") -> AccessToken:
    return access_token.verify(
        text, _KEYS, issuer=issuer, audience="https://api.example", now=Instant(now)
    )


def _check(claims: jwt.Claims, now: int = 1_000) -> str:
    with pytest.raises(Refused) as refused:
        _verify(jwt.sign(claims, _KEY, typ="at+jwt"), now)
    assert refused.value.refusal.code is ErrorCode.INVALID_TOKEN
    return refused.value.refusal.check


def test_verified_token_equals_the_signed_token() -> None:
    assert _verify(_TOKEN.sign(_KEY)) == _TOKEN


def test_claims_are_exactly_those_of_rfc_9068() -> None:
    header, payload, _ = _TOKEN.sign(_KEY).split(".")
    assert json.loads(from_base64url(payload) or b"") == _CLAIMS
    assert json.loads(from_base64url(header) or b"") == {
        "alg": "ES256",
        "kid": _KEY.kid,
        "typ": "at+jwt",
    }


def test_token_of_a_client_acting_for_itself_has_no_grant_or_auth_time() -> None:
    claims = {name: _CLAIMS[name] for name in _CLAIMS if name not in {"grant_id", "auth_time"}}
    token = _verify(jwt.sign(claims, _KEY, typ="at+jwt"))
    assert (token.grant_id, token.auth_time) == (None, None)
    payload = from_base64url(token.sign(_KEY).split(".")[1]) or b""
    assert json.loads(payload) == claims


def test_token_without_scope_claim_has_an_empty_scope() -> None:
    claims = {name: _CLAIMS[name] for name in _CLAIMS if name != "scope"}
    assert not _verify(jwt.sign(claims, _KEY, typ="at+jwt")).scope


def test_token_is_valid_until_the_second_of_its_expiry() -> None:
    text = _TOKEN.sign(_KEY)
    assert _verify(text, now=1_599) == _TOKEN
    assert _check(_CLAIMS, now=1_600) == "jwt.exp"


def test_issue_time_up_to_a_minute_in_the_future_is_accepted() -> None:
    text = _TOKEN.sign(_KEY)
    assert _verify(text, now=940) == _TOKEN
    assert _check(_CLAIMS, now=939) == "jwt.iat"


@pytest.mark.parametrize("name", ["sub", "client_id", "jti", "iat"])
def test_missing_required_claim_is_refused_with_its_check_name(name: str) -> None:
    claims = {other: _CLAIMS[other] for other in _CLAIMS if other != name}
    assert _check(claims) == f"access_token.{name}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sub", ""),
        ("client_id", 7),
        ("client_id", None),
        ("client_id", ["client_1"]),
        ("jti", ""),
        ("scope", ["read"]),
        ("scope", "read  write"),
        ("scope", "read\u00a0write"),
        ("scope", None),
        ("grant_id", None),
        ("grant_id", ""),
        ("auth_time", True),
        ("auth_time", "900"),
        ("auth_time", -1),
        ("auth_time", 1.5),
        ("cnf", None),
        ("cnf", {}),
        ("cnf", "jkt"),
    ],
)
def test_claim_of_the_wrong_type_is_refused_with_its_check_name(name: str, value: object) -> None:
    assert _check(_CLAIMS | {name: value}) == f"access_token.{name}"


def test_bound_key_is_read_for_each_method() -> None:
    bound = replace(_TOKEN, bindings=(Binding(DPOP, "x" * 43), Binding(MUTUAL_TLS, "y" * 43)))
    assert _verify(bound.sign(_KEY)) == bound
    odd = jwt.sign(_CLAIMS | {"cnf": {"jwk": {"kty": "EC"}}}, _KEY, typ="at+jwt")
    assert _verify(odd).bindings == (Binding("jwk", ""),)


def test_token_of_another_type_is_refused() -> None:
    for typ in ("JWT", "logout+jwt", "dpop+jwt", "client-authentication+jwt", ""):
        with pytest.raises(Refused) as refused:
            _verify(jwt.sign(_CLAIMS, _KEY, typ=typ))
        assert refused.value.refusal.check == "jwt.typ"


def test_another_issuer_audience_or_algorithm_is_refused() -> None:
    assert _check(_CLAIMS | {"aud": "https://other.example"}) == "jwt.aud"
    with pytest.raises(Refused) as refused:
        _verify(_TOKEN.sign(_KEY), issuer="https://other.example")
    assert refused.value.refusal.check == "jwt.iss"
    key = SigningKey.generate(Algorithm.EDDSA)
    text = _TOKEN.sign(key)
    with pytest.raises(Refused) as refused:
        _verify(text)
    assert refused.value.refusal.check == "jwt.alg"
    verified = access_token.verify(
        text,
        KeySet.of(key.public),
        issuer="https://as.example",
        audience="https://api.example",
        now=Instant(1_000),
        algorithms=(Algorithm.ES256, Algorithm.EDDSA),
    )
    assert verified == _TOKEN


def test_audience_without_path_is_the_same_with_a_slash() -> None:
    token = jwt.sign(_CLAIMS | {"aud": "https://api.example/"}, _KEY, typ="at+jwt")
    assert _verify(token).subject == _TOKEN.subject
    for other in ("https://api.example//", "https://api.example/x", "https://api.example?/"):
        assert _check(_CLAIMS | {"aud": other}) == "jwt.aud"


def test_unknown_key_is_refused_with_its_own_check() -> None:
    with pytest.raises(Refused) as refused:
        _verify(_TOKEN.sign(SigningKey.generate()))
    assert refused.value.refusal.check == access_token.UNKNOWN_KEY
