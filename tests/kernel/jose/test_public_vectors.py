"""What RFCs 7515 to 7520 and 8037 print comes out here too, byte for byte where it can."""

import json
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.vectors.rows import rows
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwe import EncryptionKeys, derive, seal_content
from valetkey.kernel.jose.key import KeySet, SigningKey, private_half, public_half
from valetkey.kernel.jose.mac import authenticate
from valetkey.kernel.secret import from_base64url, to_base64url


@dataclass(frozen=True, slots=True)
class _Signing:
    source: str
    jwk: str
    algorithm: Algorithm
    signed: str
    signature: str


@dataclass(frozen=True, slots=True)
class _Mac:
    source: str
    key: str
    signed: str
    signature: str


@dataclass(frozen=True, slots=True)
class _KeySet:
    source: str
    document: str
    signing: list[str]
    encryption: list[str]


@dataclass(frozen=True, slots=True)
class _Agreement:
    source: str
    ephemeral: str
    theirs: str
    enc: str
    apu: str
    apv: str
    key: str


@dataclass(frozen=True, slots=True)
class _Content:
    source: str
    plaintext: str
    protected: str
    key: str
    nonce: str
    ciphertext: str
    tag: str
    cbc: bool = False


def _bytes(text: str) -> bytes:
    data = from_base64url(text)
    assert data is not None
    return data


@pytest.mark.parametrize("row", rows("jose.toml", "signing", _Signing), ids=lambda row: row.source)
def test_private_keys_of_the_rfcs_produce_the_printed_signatures(row: _Signing) -> None:
    key = SigningKey.from_private_jwk(row.jwk)
    assert key.algorithm is row.algorithm
    assert to_base64url(key.sign(row.signed.encode())) == row.signature


@pytest.mark.parametrize("row", rows("jose.toml", "mac", _Mac), ids=lambda row: row.source)
def test_shared_keys_of_the_rfcs_produce_the_printed_signatures(row: _Mac) -> None:
    assert to_base64url(authenticate(_bytes(row.key), row.signed.encode())) == row.signature


@pytest.mark.parametrize("row", rows("jose.toml", "key_set", _KeySet), ids=lambda row: row.source)
def test_key_sets_of_the_rfcs_are_split_by_use(row: _KeySet) -> None:
    document = row.document.encode()
    assert [key.kid for key in KeySet.parse(document)] == row.signing
    assert [key.kid for key in EncryptionKeys.parse(document)] == row.encryption


@pytest.mark.parametrize(
    "row", rows("jwe.toml", "agreement", _Agreement), ids=lambda row: row.source
)
def test_key_agreement_produces_the_keys_printed_in_the_rfcs(row: _Agreement) -> None:
    ephemeral = private_half(json.loads(row.ephemeral))
    theirs = public_half(json.loads(row.theirs))
    assert isinstance(ephemeral, ec.EllipticCurvePrivateKey)
    assert isinstance(theirs, ec.EllipticCurvePublicKey)
    agreed = ephemeral.exchange(ec.ECDH(), theirs)
    size = len(_bytes(row.key))
    key = derive(agreed, row.enc, size, apu=row.apu.encode(), apv=row.apv.encode())
    assert to_base64url(key) == row.key


@pytest.mark.parametrize("row", rows("jwe.toml", "content", _Content), ids=lambda row: row.source)
def test_content_encryption_produces_the_ciphertexts_printed_in_the_rfcs(row: _Content) -> None:
    text = seal_content(
        row.plaintext.encode(),
        row.protected,
        _bytes(row.key),
        encrypted_key=b"key",
        nonce=_bytes(row.nonce),
        cbc=row.cbc,
    )
    parts = (row.protected, to_base64url(b"key"), row.nonce, row.ciphertext, row.tag)
    assert text == ".".join(parts)
