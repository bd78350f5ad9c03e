"""HS256 goes both ways with a second library, and a secret is never a public key."""

import json
from collections.abc import Collection

import pytest
from joserfc import jws
from joserfc.jwk import OctKey

from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.jose.mac import SHORTEST, sign_shared, verify_shared
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Secret, to_base64url

_NOW = Instant(1_000)
_AUDIENCE = "https://as.example"
_CLAIMS: jwt.Claims = {"iss": "web1", "aud": _AUDIENCE, "exp": 2_000, "sub": "é"}
_TEXT = "vk_cs_0123456789abcdefghijklmnopqrstuvwxyz"
_SECRET = Secret(_TEXT)
_OTHER = Secret(_TEXT[::-1])


def _verify(
    token: str,
    secrets: Collection[Secret] = (_SECRET,),
    typ: Collection[str] = ("", "jwt"),
    now: Instant = _NOW,
    audience: str = _AUDIENCE,
) -> jwt.Claims:
    return verify_shared(token, secrets, typ=typ, audience=audience, now=now, issuer="web1")


def _check(token: str, secrets: Collection[Secret] = (_SECRET,)) -> str:
    with pytest.raises(Refused) as refused:
        _verify(token, secrets)
    assert refused.value.refusal.code is ErrorCode.INVALID_TOKEN
    return refused.value.refusal.check


def test_second_library_verifies_our_signature() -> None:
    theirs = jws.deserialize_compact(
        sign_shared(_CLAIMS, _SECRET), OctKey.import_key(_TEXT), ["HS256"]
    )
    assert json.loads(theirs.payload) == _CLAIMS
    assert theirs.headers() == {"alg": "HS256", "typ": "JWT"}


@pytest.mark.parametrize("header", [{}, {"typ": "JWT"}, {"kid": "any"}], ids=str)
def test_signature_of_a_second_library_is_verified(header: dict[str, str]) -> None:
    token = jws.serialize_compact(
        {"alg": "HS256", **header}, json.dumps(_CLAIMS), OctKey.import_key(_TEXT), ["HS256"]
    )
    assert _verify(token) == _CLAIMS


def test_each_of_several_live_secrets_verifies() -> None:
    assert _verify(sign_shared(_CLAIMS, _SECRET), (_OTHER, _SECRET)) == _CLAIMS
    assert _check(sign_shared(_CLAIMS, _SECRET), (_OTHER,)) == "jwt.signature"
    assert _check(sign_shared(_CLAIMS, _SECRET), ()) == "jwt.signature"


@pytest.mark.parametrize("algorithm", [Algorithm.ES256, Algorithm.EDDSA])
def test_a_signature_by_a_key_is_not_taken_for_one_with_a_secret(algorithm: Algorithm) -> None:
    key = SigningKey.generate(algorithm)
    token = jwt.sign(_CLAIMS, key, typ="JWT")
    assert _check(token, (_SECRET, Secret(key.public.text()))) == "jwt.alg"


def test_a_signature_with_a_secret_is_not_taken_for_one_by_a_key() -> None:
    key = SigningKey.generate(Algorithm.ES256)
    for secret in (_TEXT, key.public.text(), key.kid):
        with pytest.raises(Refused) as refused:
            jwt.verify(
                sign_shared(_CLAIMS, Secret(secret)),
                KeySet.of(key.public),
                typ=("jwt",),
                algorithms=tuple(Algorithm),
                audience=_AUDIENCE,
                now=_NOW,
            )
        assert refused.value.refusal.check == "jwt.alg"


@pytest.mark.parametrize("alg", ["none", "None", "HS384", "HS512", "hs256", "RS256", "ES256"])
def test_algorithm_other_than_hs256_is_refused(alg: str) -> None:
    header = to_base64url(json.dumps({"alg": alg}).encode())
    _, payload, signature = sign_shared(_CLAIMS, _SECRET).split(".")
    assert _check(f"{header}.{payload}.{signature}") == "jwt.alg"


@pytest.mark.parametrize("more", [{"b64": False}, {"crit": ["exp"]}, {"zip": "DEF"}, {"jku": "x"}])
def test_header_with_unknown_members_is_refused(more: dict[str, object]) -> None:
    header = to_base64url(json.dumps({"alg": "HS256"} | more).encode())
    _, payload, signature = sign_shared(_CLAIMS, _SECRET).split(".")
    assert _check(f"{header}.{payload}.{signature}") == "jwt.header"


def test_token_with_a_changed_payload_or_signature_is_refused() -> None:
    header, payload, signature = sign_shared(_CLAIMS, _SECRET, typ="").split(".")
    good = json.dumps(_CLAIMS | {"sub": "root"}).encode()
    assert _check(f"{header}.{to_base64url(good)}.{signature}") == "jwt.signature"
    assert _check(f"{header}.{payload}.{to_base64url(bytes(31))}") == "jwt.signature"
    assert _check(f"{header}.{payload}.") == "jwt.encoding"


def test_claims_are_checked_as_in_other_tokens() -> None:
    token = sign_shared(_CLAIMS, _SECRET)
    for now, audience, typ, check in (
        (3_000, _AUDIENCE, "jwt", "jwt.exp"),
        (1_000, "https://other.example", "jwt", "jwt.aud"),
        (1_000, _AUDIENCE, "logout+jwt", "jwt.typ"),
    ):
        with pytest.raises(Refused) as refused:
            _verify(token, typ=(typ,), now=Instant(now), audience=audience)
        assert refused.value.refusal.check == check
    assert _check(sign_shared(_CLAIMS | {"iss": "web2"}, _SECRET)) == "jwt.iss"


def test_too_short_secret_neither_signs_nor_verifies() -> None:
    short = "s" * (SHORTEST - 1)
    with pytest.raises(ValueError, match="at least 32 bytes"):
        sign_shared(_CLAIMS, Secret(short))
    token = jws.serialize_compact(
        {"alg": "HS256"}, json.dumps(_CLAIMS), OctKey.import_key(short), ["HS256"]
    )
    assert _check(token, (Secret(short),)) == "jwt.signature"
