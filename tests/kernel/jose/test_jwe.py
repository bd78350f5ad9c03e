"""What we encrypt, a second library reads; whom we do not know how to encrypt to, we refuse."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from valetkey.kernel.jose.jwe import (
    ALGORITHMS,
    ECDH_ES,
    ENCRYPTIONS,
    RSA_OAEP_256,
    EncryptionKeys,
    encrypt,
)
from valetkey.kernel.jose.key import MOST_PUBLISHED, public_members
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import from_base64url, to_base64url

_RSA = rsa.generate_private_key(65_537, 2_048)
_EC = ec.generate_private_key(ec.SECP256R1())
_PRIVATE: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey] = {
    RSA_OAEP_256: _RSA,
    ECDH_ES: _EC,
}
_PUBLIC = {alg: public_members(key.public_key()) for alg, key in _PRIVATE.items()}
_BOTH = EncryptionKeys.parse(
    json.dumps({"keys": [members | {"use": "enc"} for members in _PUBLIC.values()]}).encode()
)


def _set(*jwks: object) -> bytes:
    return json.dumps({"keys": jwks}).encode()


def _theirs(alg: str) -> RSAKey | ECKey:
    key = _PRIVATE[alg]
    return RSAKey.import_key(key) if isinstance(key, rsa.RSAPrivateKey) else ECKey.import_key(key)


def _encrypt(payload: bytes, alg: str, enc: str, cty: str = "JWT") -> str:
    key = _BOTH.find(alg)
    assert key is not None
    return encrypt(payload, key, alg=alg, enc=enc, cty=cty, random=SYSTEM.random)


@pytest.mark.parametrize("payload", [b"", b"a.b.c", b"\x00" * 40_000], ids=len)
@pytest.mark.parametrize("enc", ENCRYPTIONS)
@pytest.mark.parametrize("alg", ALGORITHMS)
def test_second_library_decrypts_our_encryption(alg: str, enc: str, payload: bytes) -> None:
    text = _encrypt(payload, alg, enc)
    read = jwe.decrypt_compact(text, _theirs(alg), algorithms=[alg, enc])
    assert read.plaintext == payload
    header = dict(read.headers())
    assert header.pop("epk", None) is not None or alg == RSA_OAEP_256
    assert header == {"alg": alg, "enc": enc, "cty": "JWT"}


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_encryption_is_randomized_and_a_change_of_any_part_is_detected(alg: str) -> None:
    texts = [_encrypt(b"payload", alg, "A128GCM") for _ in range(2)]
    _, *first = texts[0].split(".")
    _, *second = texts[1].split(".")
    assert all(one != other or not one for one, other in zip(first, second, strict=True))
    assert bool(first[0]) is (alg == RSA_OAEP_256)
    parts = texts[0].split(".")
    for index, part in enumerate(parts):
        changed = bytearray(from_base64url(part) or b"x")
        changed[-1] ^= 1
        bad = ".".join([*parts[:index], to_base64url(bytes(changed)), *parts[index + 1 :]])
        with pytest.raises((JoseError, ValueError)):
            jwe.decrypt_compact(bad, _theirs(alg), algorithms=[alg, "A128GCM"])


def test_jwe_header_has_the_kid_registered_by_the_key_owner() -> None:
    named = EncryptionKeys.parse(_set(_PUBLIC[ECDH_ES] | {"use": "enc", "kid": "k 1"}, {}))
    assert len(named) == 0
    named = EncryptionKeys.parse(_set(_PUBLIC[ECDH_ES] | {"use": "enc", "kid": "k-1"}))
    key = named.find(ECDH_ES)
    assert key is not None
    text = encrypt(b"", key, alg=ECDH_ES, enc="A256GCM", cty="", random=SYSTEM.random)
    header = json.loads(from_base64url(text.split(".")[0]) or b"")
    assert set(header) == {"alg", "enc", "kid", "epk"}
    assert header["kid"] == "k-1"
    assert set(header["epk"]) == {"kty", "crv", "x", "y"}


@pytest.mark.parametrize(
    ("alg", "enc"),
    [
        ("RSA1_5", "A128GCM"),
        ("RSA-OAEP", "A128GCM"),
        ("dir", "A128GCM"),
        ("PBES2-HS256+A128KW", "A128GCM"),
        ("ECDH-ES+A128KW", "A128GCM"),
        (RSA_OAEP_256, "A192CBC-HS384"),
        (RSA_OAEP_256, ""),
        (ECDH_ES, "A256GCM"),
    ],
)
def test_jw_19_other_encryption_algorithms_are_refused(alg: str, enc: str) -> None:
    key = _BOTH.find(RSA_OAEP_256)
    assert key is not None
    with pytest.raises(ValueError, match="do not go together"):
        encrypt(b"", key, alg=alg, enc=enc, cty="", random=SYSTEM.random)


_P384 = ec.generate_private_key(ec.SECP384R1()).public_key().public_numbers()
_SHORT = rsa.RSAPublicNumbers(65_537, (1 << 1_023) | 1)


@pytest.mark.parametrize(
    "unusable",
    [
        7,
        {},
        {"kty": "oct", "k": "AAAA", "use": "enc"},
        {"kty": "OKP", "crv": "X25519", "x": "A" * 43, "use": "enc"},
        {"kty": "RSA", "n": to_base64url(_SHORT.n.to_bytes(128, "big")), "e": "AQAB"},
        {
            "kty": "EC",
            "crv": "P-384",
            "x": to_base64url(_P384.x.to_bytes(48, "big")),
            "y": to_base64url(_P384.y.to_bytes(48, "big")),
        },
        _PUBLIC[ECDH_ES] | {"y": _PUBLIC[ECDH_ES]["x"]},
        _PUBLIC[ECDH_ES] | {"use": "sig"},
        _PUBLIC[ECDH_ES] | {"use": ["enc"]},
        _PUBLIC[ECDH_ES] | {"alg": "ES256"},
        _PUBLIC[ECDH_ES] | {"alg": "ECDH-ES+A128KW"},
        _PUBLIC[ECDH_ES] | {"alg": None},
        _PUBLIC[ECDH_ES] | {"key_ops": ["verify"]},
        _PUBLIC[ECDH_ES] | {"key_ops": "deriveKey"},
        _PUBLIC[ECDH_ES] | {"key_ops": [[]]},
        _PUBLIC[ECDH_ES] | {"kid": 7},
        _PUBLIC[ECDH_ES] | {"d": "AA"},
        _PUBLIC[RSA_OAEP_256] | {"alg": "RSA1_5"},
        _PUBLIC[RSA_OAEP_256] | {"alg": "RSA-OAEP"},
        _PUBLIC[RSA_OAEP_256] | {"alg": "RS256"},
        _PUBLIC[RSA_OAEP_256] | {"e": "AQ"},
        _PUBLIC[RSA_OAEP_256] | {"key_ops": ["unwrapKey"]},
    ],
    ids=[
        "a number",
        "nothing",
        "symmetric",
        "X25519",
        "short",
        "P-384",
        "off the curve",
        "to sign",
        "two uses",
        "to sign by its alg",
        "to wrap",
        "no alg",
        "to verify",
        "operations as text",
        "operations in lists",
        "kid",
        "private",
        "RSA1_5",
        "RSA-OAEP",
        "RS256",
        "exponent",
        "to unwrap",
    ],
)
def test_unusable_encryption_keys_are_ignored(unusable: object) -> None:
    good = _PUBLIC[RSA_OAEP_256] | {"use": "enc", "kid": "good"}
    keys = EncryptionKeys.parse(_set(unusable, good, unusable))
    assert [key.kid for key in keys] == ["good"]


def test_key_with_use_is_preferred_to_one_without() -> None:
    silent, said = (_PUBLIC[ECDH_ES] | {"kid": kid} for kid in ("silent", "said"))
    keys = EncryptionKeys.parse(_set(silent, said | {"use": "enc"}))
    assert [key.kid for key in keys] == ["said", "silent"]
    key = keys.find(ECDH_ES)
    assert key is not None
    assert key.kid == "said"
    assert keys.find(RSA_OAEP_256) is None
    assert keys.find("RSA1_5") is None


def test_encryption_keys_are_unchanged_after_writing_and_parsing() -> None:
    again = EncryptionKeys.parse(_BOTH.document())
    assert [key.jwk for key in again] == [key.jwk for key in _BOTH]
    assert [key.alg for key in again] == [RSA_OAEP_256, ECDH_ES]


@pytest.mark.parametrize(
    ("document", "check"),
    [
        (b"", "jwks.json"),
        (b"[]", "jwks.json"),
        (b'{"keys":{}}', "jwks.json"),
        (b" " * 65_537, "jwks.long"),
        (_set(*({},) * (MOST_PUBLISHED + 1)), "jwks.many"),
    ],
    ids=["nothing", "a list", "an object of keys", "long", "many"],
)
def test_invalid_key_set_is_refused(document: bytes, check: str) -> None:
    with pytest.raises(Refused) as refused:
        EncryptionKeys.parse(document)
    assert refused.value.refusal.code is ErrorCode.INVALID_CLIENT_METADATA
    assert refused.value.refusal.check == check
