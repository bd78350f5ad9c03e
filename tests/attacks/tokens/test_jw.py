"""JW: hostile tokens, as access tokens at the API and at introspection, and as client assertions.

Here the header and the signature; what a token says is in `test_jw_claims.py`.
"""

import hmac
import json
import zlib
from base64 import b64encode, urlsafe_b64decode
from functools import partial
from secrets import token_bytes

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384

from tests.attacks.tokens.jose import AccessTokens, Assertions, Claims, Signer, Target, forge
from tests.attacks.tokens.request_places import Hints, RequestObjects
from tests.support.live import LiveServers
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwe import ECDH_ES, ENCRYPTIONS, EncryptionKeys, encrypt
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.secret import to_base64url

_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # order of P-256


@pytest.fixture(scope="module", params=["access tokens", "assertions", "request objects", "hints"])
def places(request: pytest.FixtureRequest, world: LiveServers, issuer_key: SigningKey) -> Target:
    """Every place that takes a JWT; a header and a signature mean the same at each."""
    made: dict[str, Target] = {
        "access tokens": AccessTokens(world, issuer_key),
        "assertions": Assertions(world, world.key),
        "request objects": RequestObjects(world, world.key),
        "hints": Hints(world, issuer_key),
    }
    return made[request.param]


def test_jw_00_valid_token_is_accepted(target: Target) -> None:
    assert target.takes(forge(target))
    assert target.takes(jwt.sign(target.claims(), target.key, typ=target.typ))


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "", " none", "none\0"])
def test_jw_01_alg_none_is_refused(target: Target, alg: str) -> None:
    token = forge(target, {"alg": alg})
    head = token.rpartition(".")[0]
    for hostile in (token, f"{head}.", head, f"{head}.AA", f"{head}.{'A' * 86}"):
        assert not target.takes(hostile)


def test_jw_02_public_key_as_hmac_secret_is_refused(target: Target) -> None:
    published = KeySet.of(target.key.public)
    for key in (target.key.public.text().encode(), published.document(), b"", b"secret"):
        for alg, digest in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
            signer = partial(_mac, key, digest)
            assert not target.takes(forge(target, {"alg": alg}, sign=signer))
            assert not target.takes(forge(target, sign=signer))


def _mac(key: bytes, digest: str, message: bytes) -> bytes:
    return hmac.digest(key, message, digest)


def _raw(r: int, s: int, size: int = 32) -> bytes:
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def test_jw_03_degenerate_signatures_are_refused(target: Target) -> None:
    def halves(message: bytes) -> tuple[int, int]:
        signature = target.key.sign(message)
        return int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")

    def der(message: bytes) -> bytes:
        return encode_dss_signature(*halves(message))

    signers: tuple[Signer, ...] = (
        lambda _: b"",
        lambda _: _raw(0, 0),
        lambda m: _raw(0, halves(m)[1]),
        lambda m: _raw(halves(m)[0], 0),
        lambda _: _raw(1, 1),
        lambda m: _raw(_N, halves(m)[1]),
        lambda m: _raw(halves(m)[0], _N),
        lambda m: _raw((1 << 256) - 1, halves(m)[1]),
        lambda m: _raw(halves(m)[1], halves(m)[0]),
        lambda m: target.key.sign(m)[:-1],
        lambda m: target.key.sign(m) + b"\0",
        lambda m: b"\0" + target.key.sign(m),
        lambda m: _raw(*halves(m), size=33),
        lambda m: target.key.sign(m + b" "),
        der,
    )
    for signer in signers:
        assert not target.takes(forge(target, sign=signer))


def test_jw_03_signature_with_high_s_is_accepted(target: Target) -> None:
    def mirrored(message: bytes) -> bytes:
        signature = target.key.sign(message)
        return signature[:32] + (_N - int.from_bytes(signature[32:], "big")).to_bytes(32, "big")

    assert target.takes(forge(target, sign=mirrored))


def test_jw_04_replayed_assertion_with_mirrored_signature_is_refused(world: LiveServers) -> None:
    target = Assertions(world, world.key)
    token = forge(target)
    assert target.takes(token)
    head, _, last = token.rpartition(".")
    signature = urlsafe_b64decode(last + "==")
    mirrored = _N - int.from_bytes(signature[32:], "big")
    assert not target.takes(f"{head}.{to_base64url(signature[:32] + mirrored.to_bytes(32, 'big'))}")


def test_jw_05_another_curve_or_kind_of_key_is_refused(target: Target) -> None:
    p384 = ec.generate_private_key(ec.SECP384R1())
    ed = ed25519.Ed25519PrivateKey.generate()
    small = rsa.generate_private_key(65_537, 1_024)
    signers: tuple[tuple[str, Signer], ...] = (
        ("ES256", lambda m: p384.sign(m, ec.ECDSA(SHA256()))),
        ("ES384", lambda m: p384.sign(m, ec.ECDSA(SHA384()))),
        ("EdDSA", ed.sign),
        ("RS256", lambda m: small.sign(m, padding.PKCS1v15(), SHA256())),
        ("ES256K", target.key.sign),
        ("ES512", target.key.sign),
        ("EdDSA", target.key.sign),
        ("RS256", target.key.sign),
        ("PS256", target.key.sign),
        ("es256", target.key.sign),
    )
    for alg, signer in signers:
        assert not target.takes(forge(target, {"alg": alg}, sign=signer))


def test_jw_06_key_or_key_url_in_the_header_is_never_trusted(target: Target) -> None:
    own = SigningKey.generate(Algorithm.ES256)
    address = "https://evil.test/jwks"
    jwk = json.loads(own.public.text())
    for header in (
        {"jwk": jwk},
        {"jwk": jwk, "kid": own.kid},
        {"kid": own.kid},
        {"jku": address, "kid": own.kid},
        {"x5u": address},
        {"x5c": [b64encode(b"x").decode()]},
        {"kid": address},
    ):
        assert not target.takes(forge(target, header, sign=own.sign))
    for name, value in (("jwk", jwk), ("jku", address), ("x5u", address), ("x5t", "x")):
        assert not target.takes(forge(target, {name: value}))


@pytest.mark.parametrize(
    "header",
    [
        {"b64": False},
        {"b64": False, "crit": ["b64"]},
        {"b64": True, "crit": ["b64"]},
        {"crit": []},
        {"crit": ["exp"], "exp": 1},
        {"crit": ["alg"]},
        {"crit": "b64"},
        {"crit": None, "zip": "DEF"},
        {"cty": "JWT"},
        {"enc": "A128GCM"},
        {"x": 1},
    ],
    ids=json.dumps,
)
def test_jw_07_unsupported_header_members_are_refused(target: Target, header: Claims) -> None:
    assert not target.takes(forge(target, header))


@pytest.mark.parametrize(
    "typ",
    ["", "JOSE", "at+jwtx", "dpop+jwt", "logout+jwt", "secevent+jwt", "id+jwt", 7, ["at+jwt"]],
)
def test_jw_08_wrong_typ_is_refused(target: Target, typ: object) -> None:
    assert not target.takes(forge(target, {"typ": typ}))


def test_jw_08_access_token_requires_typ_at_jwt(world: LiveServers, issuer_key: SigningKey) -> None:
    target = AccessTokens(world, issuer_key)
    for typ in (None, "JWT", "jwt"):
        assert not target.takes(forge(target, {"typ": typ}))
    for typ in ("AT+JWT", "application/at+jwt"):
        assert target.takes(forge(target, {"typ": typ}))


@pytest.mark.parametrize(
    "kid",
    [
        "../../dev/null", "/dev/null", "' OR 1=1 --", "a" * 10_240, "", "\0", "https://evil.test",
        7, True, ["x"], {"a": 1}, "\u212a", " ",
    ],
    ids=repr,
)  # fmt: skip
def test_jw_09_malformed_or_hostile_kid_is_refused(target: Target, kid: object) -> None:
    assert not target.takes(forge(target, {"kid": kid}))
    assert not target.takes(forge(target, {"kid": kid}, sign=lambda _: b""))


def test_jw_09_a_kid_of_another_issuer_is_unknown(
    world: LiveServers, issuer_key: SigningKey
) -> None:
    ours, theirs = AccessTokens(world, issuer_key), Assertions(world, world.key)
    assert not ours.takes(forge(ours, {"kid": world.key.kid}, sign=world.key.sign))
    assert not theirs.takes(forge(theirs, {"kid": issuer_key.kid}, sign=issuer_key.sign))


def test_jw_17_compressed_tokens_are_refused(target: Target) -> None:
    bomb = zlib.compress(b'{"a":"' + b"a" * 1_000_000 + b'"}')
    assert not target.takes(forge(target, {"zip": "DEF"}, bomb))
    assert not target.takes(forge(target, None, bomb))


@pytest.mark.parametrize(
    "alg", ["RSA1_5", "RSA-OAEP", "dir", "A128KW", "ECDH-ES", "PBES2-HS256+A128KW"]
)
def test_jw_19_encrypted_tokens_are_refused(target: Target, alg: str) -> None:
    header = to_base64url(json.dumps({"alg": alg, "enc": "A128GCM", "p2c": 2**31}).encode())
    for middle in ("AAAA.AAAA.AAAA.AAAA", "...", "AAAA"):
        assert not target.takes(f"{header}.{middle}")


def test_jw_19_valid_token_inside_a_jwe_is_refused(target: Target) -> None:
    envelope = EncryptionKeys.parse(
        json.dumps({"keys": [{**target.key.public.jwk, "use": "enc", "alg": ECDH_ES}]}).encode()
    ).find(ECDH_ES)
    assert envelope is not None
    for enc in ENCRYPTIONS:
        token = forge(target).encode()
        sealed = encrypt(token, envelope, alg=ECDH_ES, enc=enc, cty="JWT", random=token_bytes)
        assert not target.takes(sealed)
