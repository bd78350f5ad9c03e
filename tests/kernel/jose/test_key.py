"""Keys: which may sign, which may verify, and what they show of themselves."""

import json
from dataclasses import dataclass

import pytest
from joserfc.jwk import import_key

from tests.vectors.rows import rows
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import (
    LONGEST,
    MOST,
    MOST_PUBLISHED,
    KeySet,
    PublicKey,
    SigningKey,
    thumbprint,
)
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import from_base64url, to_base64url

_KEYS = {algorithm: SigningKey.generate(algorithm) for algorithm in Algorithm}
_EC, _RSA, _ED = (
    _KEYS[algorithm] for algorithm in (Algorithm.ES256, Algorithm.RS256, Algorithm.EDDSA)
)


@dataclass(frozen=True, slots=True)
class _Thumbprint:
    source: str
    jwk: str
    thumbprint: str


@dataclass(frozen=True, slots=True)
class _Signature:
    source: str
    jwk: str
    algorithm: Algorithm
    signed: str
    signature: str


@dataclass(frozen=True, slots=True)
class _Refused:
    jwk: str
    check: str
    why: str
    says_encryption: bool = False


def _check(document: str | bytes) -> str:
    """The rule that refuses this key (text) or set of keys (bytes)."""
    with pytest.raises(Refused) as refused:
        KeySet.parse(document) if isinstance(document, bytes) else PublicKey.parse(document)
    assert refused.value.refusal.code is ErrorCode.INVALID_CLIENT_METADATA
    return refused.value.refusal.check


def _set(*jwks: object) -> bytes:
    return json.dumps({"keys": jwks}).encode()


@pytest.mark.parametrize("row", rows("jose.toml", "thumbprint", _Thumbprint))
def test_kid_of_a_key_without_one_is_its_thumbprint(row: _Thumbprint) -> None:
    assert PublicKey.parse(row.jwk).kid == row.thumbprint
    assert thumbprint(json.loads(row.jwk)) == row.thumbprint


@pytest.mark.parametrize("row", rows("jose.toml", "signature", _Signature))
def test_the_signatures_that_the_rfcs_print_verify(row: _Signature) -> None:
    key = PublicKey.parse(row.jwk)
    signature = from_base64url(row.signature) or b""
    assert key.verifies(row.algorithm, signature, row.signed.encode())
    assert not key.verifies(row.algorithm, signature, row.signed.encode() + b"x")
    for other in set(Algorithm) - {row.algorithm}:
        assert not key.verifies(other, signature, row.signed.encode())


@pytest.mark.parametrize("row", rows("jwk.toml", "refused", _Refused), ids=lambda row: row.why)
def test_unacceptable_key_is_refused_with_its_check_name(row: _Refused) -> None:
    text = row.jwk
    for name, value in (
        ("@X@", _EC.public.jwk["x"]),
        ("@Y@", _EC.public.jwk["y"]),
        ("@N@", _RSA.public.jwk["n"]),
        ("@E@", _ED.public.jwk["x"]),
    ):
        text = text.replace(name, value)
    assert _check(text) == row.check
    document = b'{"keys":[%s]}' % text.encode()
    if row.says_encryption:
        assert len(KeySet.parse(document)) == 0
    else:
        assert _check(document) == row.check


@pytest.mark.parametrize(
    ("bits", "check"),
    [(1_024, "jwks.rsa"), (2_047, "jwks.rsa"), (8_193, "jwks.rsa"), (60_000, "jwks.rsa")],
)
def test_too_short_and_too_long_rsa_keys_are_refused(bits: int, check: str) -> None:
    modulus = to_base64url(((1 << (bits - 1)) | 1).to_bytes((bits + 7) // 8, "big"))
    assert _check(json.dumps({"kty": "RSA", "n": modulus, "e": "AQAB"})) == check


def test_an_even_modulus_is_refused() -> None:
    modulus = to_base64url((1 << 2_047).to_bytes(256, "big"))
    assert _check(json.dumps({"kty": "RSA", "n": modulus, "e": "AQAB"})) == "jwks.rsa"


@pytest.mark.parametrize(
    "encoded",
    [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    ],
)
def test_point_of_small_order_is_refused_as_ed25519_key(encoded: str) -> None:
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": to_base64url(bytes.fromhex(encoded))}
    assert _check(json.dumps(jwk)) == "jwks.point"


@pytest.mark.parametrize("algorithm", Algorithm)
def test_private_key_restored_from_its_jwk_signs(algorithm: Algorithm) -> None:
    key = _KEYS[algorithm]
    again = SigningKey.from_private_jwk(key.private_jwk())
    assert again.kid == key.kid == thumbprint(key.public.jwk)
    assert again.algorithm is algorithm
    assert key.public.verifies(algorithm, again.sign(b"message"), b"message")
    assert not key.public.verifies(algorithm, again.sign(b"message"), b"massage")
    assert not key.public.verifies(algorithm, b"", b"message")
    assert not key.public.verifies(algorithm, again.sign(b"message")[:-1], b"message")


@pytest.mark.parametrize("algorithm", Algorithm)
def test_the_public_half_shows_nothing_private(algorithm: Algorithm) -> None:
    key = _KEYS[algorithm]
    private = json.loads(key.private_jwk())
    public = json.loads(key.public.text())
    assert set(public) <= {"kty", "use", "kid", "alg", "crv", "x", "y", "n", "e"}
    assert public["use"] == "sig"
    assert private["d"] not in f"{key!r} {key.public!r} {KeySet.of(key.public).document()!r}"
    assert {name: private[name] for name in public} == public


@pytest.mark.parametrize("algorithm", Algorithm)
def test_second_library_reads_our_keys_with_the_same_thumbprints(algorithm: Algorithm) -> None:
    key = _KEYS[algorithm]
    theirs = import_key(json.loads(key.private_jwk()))
    assert theirs.thumbprint() == key.kid
    public = theirs.as_dict(private=False)
    assert PublicKey.parse(json.dumps(public)).jwk == key.public.jwk


def test_error_of_an_invalid_private_key_does_not_contain_the_key() -> None:
    good, other = json.loads(_EC.private_jwk()), SigningKey.generate(Algorithm.ES256)
    rsa = json.loads(_RSA.private_jwk())
    broken = [
        {**good, "d": json.loads(other.private_jwk())["d"]},
        {**good, "d": "A" * 43},
        {**good, "d": "AQ"},
        {name: good[name] for name in good if name != "d"},
        {name: good[name] for name in good if name != "alg"},
        {**good, "alg": "RS256"},
        {**good, "alg": 7},
        {**rsa, "d": rsa["dp"]},
        {**rsa, "p": rsa["n"]},
        [],
    ]
    for jwk in broken:
        with pytest.raises(ValueError, match=r"private key|halves") as error:
            SigningKey.from_private_jwk(json.dumps(jwk))
        assert good["d"] not in str(error.value)
        assert error.value.__suppress_context__ or error.value.__context__ is None


def test_key_set_is_unchanged_after_writing_and_parsing() -> None:
    keys = KeySet.of(*(key.public for key in _KEYS.values()))
    again = KeySet.parse(keys.document())
    assert [key.kid for key in again] == [key.kid for key in keys]
    assert [key.algorithm for key in again] == list(Algorithm)
    assert again.document() == keys.document()
    assert len(again) == 4
    assert KeySet.parse(b'{"keys":[]}').document() == KeySet().document() == b'{"keys":[]}'
    assert not KeySet()


def test_key_is_found_by_kid_and_without_kid_only_if_it_is_the_only_one() -> None:
    one, two = KeySet.of(_EC.public), KeySet.of(_EC.public, _ED.public)
    assert one.find(None) is _EC.public
    assert two.find(None) is None
    assert two.find(_ED.kid) is _ED.public
    for odd in ("", "../../dev/null", "' OR 1=1 --", "x" * 10_240, "\ud800", _ED.kid + "\n"):
        assert one.find(odd) is None
    assert KeySet().find(None) is None


def test_several_keys_need_unique_kids() -> None:
    nameless = {name: value for name, value in _EC.public.jwk.items() if name != "kid"}
    assert KeySet.parse(_set(nameless)).find(_EC.kid) is not None
    assert _check(_set(nameless, dict(_ED.public.jwk))) == "jwks.kid"
    assert _check(_set(dict(_EC.public.jwk), dict(_EC.public.jwk))) == "jwks.kid"
    with pytest.raises(ValueError, match="share a kid"):
        KeySet.of(_EC.public, _EC.public)


def test_published_key_set_may_exceed_the_limit_for_clients() -> None:
    many = _set(*({**_EC.public.jwk, "kid": str(n)} for n in range(MOST_PUBLISHED)))
    assert len(KeySet.parse(many, ignore_unknown=True)) == MOST_PUBLISHED
    assert _check(many) == "jwks.many"
    more = _set(*({**_EC.public.jwk, "kid": str(n)} for n in range(MOST_PUBLISHED + 1)))
    with pytest.raises(Refused):
        KeySet.parse(more, ignore_unknown=True)


@pytest.mark.parametrize(
    "said",
    [
        {"use": "enc"},
        {"use": "enc", "alg": "RSA-OAEP-256"},
        {"alg": "RSA-OAEP"},
        {"key_ops": ["wrapKey", "encrypt"]},
    ],
    ids=str,
)
def test_encryption_keys_are_ignored_among_signature_keys(
    said: dict[str, object],
) -> None:
    bare = {"kty": "RSA", "n": _RSA.public.jwk["n"], "e": _RSA.public.jwk["e"]}
    nameless = {name: value for name, value in _EC.public.jwk.items() if name != "kid"}
    # One signature key needs no name, however many others lie beside it.
    assert [key.kid for key in KeySet.parse(_set(bare | said, nameless))] == [_EC.kid]
    assert len(KeySet.parse(_set(bare | said))) == 0
    # Its private half is no less a secret for that.
    assert _check(_set(bare | said | {"d": "AA"}, nameless)) == "jwks.private"
    kept = KeySet.parse(_set(bare | said | {"d": "AA"}, nameless), ignore_unknown=True)
    assert [key.kid for key in kept] == [_EC.kid]


@pytest.mark.parametrize("said", [{"use": ["enc"]}, {"key_ops": [[]]}, {"key_ops": []}], ids=str)
def test_malformed_use_or_key_ops_is_refused(said: dict[str, object]) -> None:
    assert _check(_set(dict(_EC.public.jwk) | {"use": "sig"} | said)) == "jwks.use"


def test_only_unusable_keys_of_a_foreign_set_are_ignored() -> None:
    nameless = {name: value for name, value in _ED.public.jwk.items() if name != "kid"}
    unusable: tuple[object, ...] = (
        {"kty": "AKP", "alg": "ML-DSA-44", "kid": "a", "pub": "AA"},
        {"kty": "EC", "crv": "P-521", "kid": "b", "x": "AA", "y": "AA"},
        {"kty": "oct", "kid": "c", "k": "AA"},
        {**_EC.public.jwk, "kid": "e", "d": "AA"},
        {"kid": "f"},
        7,
    )
    document = _set(*unusable, dict(_EC.public.jwk), nameless)
    assert [key.kid for key in KeySet.parse(document, ignore_unknown=True)] == [_EC.kid, _ED.kid]


def test_unusable_keys_of_a_registered_set_are_ignored_unless_they_are_secret() -> None:
    good = dict(_EC.public.jwk)
    small = {"kty": "RSA", "n": to_base64url(bytes([255] * 128)), "e": "AQAB", "kid": "small"}
    for unusable in (
        {"kty": "AKP", "alg": "ML-DSA-44", "kid": "a", "pub": "AA"},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
        {"kty": "EC", "crv": "P-521", "kid": "b", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X25519", "kid": "c", "x": "AA"},
        {**good, "kid": "d", "alg": "ES512"},
        {"kid": "f"},
        small,
    ):
        assert [key.kid for key in KeySet.parse(_set(unusable, good))] == [_EC.kid]
        # Alone it is refused, with the reason.
        _check(_set(unusable))
    for secret in ({"kty": "oct", "kid": "c", "k": "AA"}, {**good, "kid": "e", "d": "AA"}):
        assert _check(_set(secret, good)) == "jwks.private"
    assert _check(_set(7, good)) == "jwks.json"


def test_published_keys_may_share_a_kid() -> None:
    es, ed = {**_EC.public.jwk, "kid": "x"}, {**_ED.public.jwk, "kid": "x"}
    other = {**SigningKey.generate(Algorithm.ES256).public.jwk, "kid": "x"}
    keys = KeySet.parse(_set(es, es, ed, other, dict(_RSA.public.jwk)), ignore_unknown=True)
    assert len(keys) == 4
    assert [key.jwk["x"] for key in keys.named("x")] == [es["x"], ed["x"], other["x"]]
    many = ({**SigningKey.generate(Algorithm.ES256).public.jwk, "kid": "x"} for _ in range(9))
    assert len(KeySet.parse(_set(*many), ignore_unknown=True)) == 3


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":null}', b'{"keys":[1]}', b"\xff", b"{"],
)
def test_invalid_key_set_is_refused(document: bytes) -> None:
    assert _check(document) == "jwks.json"


def test_too_large_key_set_is_refused() -> None:
    assert _check(b" " * (LONGEST + 1)) == "jwks.long"
    assert _check(_set(*[dict(_EC.public.jwk)] * (MOST + 1))) == "jwks.many"
    assert _check('{"kty":"EC","x":"' + "\ud800" * 70_000) == "jwks.json"


def test_unknown_members_of_a_key_are_ignored_and_not_stored() -> None:
    jwk = {**_EC.public.jwk, "x5c": ["x"], "x5u": "https://evil.test", "key_ops": ["verify"]}
    key = PublicKey.parse(json.dumps(jwk))
    assert key.jwk == _EC.public.jwk


def test_rsa_key_allows_both_algorithms_unless_alg_restricts_it() -> None:
    open_ = PublicKey.parse(json.dumps({k: v for k, v in _RSA.public.jwk.items() if k != "alg"}))
    assert open_.algorithms == (Algorithm.RS256, Algorithm.PS256)
    assert open_.verifies(Algorithm.RS256, _RSA.sign(b"x"), b"x")
    assert not open_.verifies(Algorithm.PS256, _RSA.sign(b"x"), b"x")
    assert _RSA.public.algorithms == (Algorithm.RS256,)
    assert KeySet.parse(KeySet.of(open_).document()).find(None) is not None
