"""Whatever arrives, a parser of the kernel answers or refuses; it never breaks."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.kernel.jose import access_token, jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, PublicKey, SigningKey
from valetkey.kernel.keyring import Keyring, Sealer, SealingKey, open_with
from valetkey.kernel.moment import Instant, parse_lifetime
from valetkey.kernel.refusal import ErrorCode, OperatorError, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import (
    Prefix,
    fresh_secret,
    from_base64url,
    same,
    to_base64url,
    well_formed,
)
from valetkey.kernel.strict_json import LARGEST, read_object
from valetkey.kernel.url import (
    append_query,
    check_redirect_uri,
    matches_redirect_uri,
    origin,
)

_KEY = SigningKey.generate(Algorithm.ES256)
_KEYS = KeySet.of(_KEY.public)
_NOW = Instant(1_000)

# Lone surrogates and controls included: they are what breaks parsers.
_TEXT = st.text(st.characters(exclude_categories=())) | st.from_regex(r"[ -~]{0,60}")
_URLISH = st.lists(
    st.sampled_from(
        [
            "https",
            "http",
            "://",
            ":",
            "/",
            "//",
            "@",
            "\\",
            "#",
            "?",
            "*",
            "[",
            "]",
            "::1",
            ".",
            "127.0.0.1",
            "localhost",
            "app.example",
            ":0",
            ":65536",
            "%",
            "%2e",
            "com.example.app",
            "xn--",
            "0x7f",
            "0177",
            "2130706433",
            "*.",
            "１",
            "。",
            "\ud800",
            "\x00",
            "\n",
            "\t",
        ]
    )
).map("".join)
_NUMBER = st.integers() | st.floats()
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBER | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_JWK = st.fixed_dictionaries(
    {},
    optional={
        "kty": st.sampled_from(["EC", "RSA", "OKP", "oct"]) | _JSON,
        "crv": st.sampled_from(["P-256", "P-384", "Ed25519", "X25519"]) | _JSON,
        "x": st.binary(max_size=40).map(to_base64url) | _JSON,
        "y": st.binary(max_size=40).map(to_base64url) | _JSON,
        "n": st.binary(max_size=300).map(to_base64url) | _JSON,
        "e": st.sampled_from(["AQAB", "AQ", "Aw"]) | _JSON,
        "kid": _JSON,
        "alg": st.sampled_from(["ES256", "none"]) | _JSON,
        "use": st.sampled_from(["sig", "enc"]) | _JSON,
        "key_ops": _JSON,
    },
)
_CLAIMS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("exp", "iat", "nbf", "iss", "sub", "aud", "jti", "scope"), _JSON),
)


def _access_token(text: str) -> object:
    return access_token.verify(text, _KEYS, issuer="https://as", audience="https://api", now=_NOW)


_QUESTIONS: dict[str, Callable[[str], object]] = {
    "scope": Scope.parse,
    "lifetime": parse_lifetime,
    "keyring": Keyring.parse,
    "redirect URI": lambda text: check_redirect_uri(text, native=True, own_origins=("https://a",)),
    "origin": origin,
    "key": PublicKey.parse,
    "base64url": from_base64url,
    "secret": lambda text: well_formed(Prefix.CODE, text),
    "sealed": lambda text: Sealer((SealingKey(1, b"k" * 32),)).open(text, text),
    "sealed with a secret": lambda text: open_with(text, text, text),
    "JSON": lambda text: read_object(text.encode("utf-8", "surrogatepass")),
    "key set": lambda text: KeySet.parse(text.encode("utf-8", "surrogatepass")),
    "access token": _access_token,
}


@pytest.mark.parametrize("question", _QUESTIONS)
@given(text=_TEXT | _URLISH)
def test_parsers_handle_any_text_without_unexpected_errors(question: str, text: str) -> None:
    with contextlib.suppress(Refused, OperatorError):
        _QUESTIONS[question](text)


@given(data=st.binary(max_size=200))
def test_json_and_key_set_parsers_handle_any_bytes(data: bytes) -> None:
    read_object(data)
    with pytest.raises(Refused):
        KeySet.parse(data)


@given(value=_JSON)
def test_json_is_decoded_like_python_json_or_refused(value: object) -> None:
    text = json.dumps({"value": value})
    read = read_object(text.encode())
    assert read is None or read == json.loads(text)


@given(number=st.integers())
def test_whole_numbers_are_read_up_to_the_largest(number: int) -> None:
    read = read_object(b'{"n":%d}' % number)
    assert read == ({"n": number} if abs(number) <= LARGEST else None)


@given(jwk=_JWK)
def test_any_jwk_round_trips_or_is_refused(jwk: dict[str, object]) -> None:
    match _key(json.dumps(jwk)):
        case PublicKey() as key:
            assert PublicKey.parse(key.text()).jwk == key.jwk
            assert not key.verifies(key.algorithm, b"x" * 64, b"message")
        case code:
            assert code is ErrorCode.INVALID_CLIENT_METADATA


def _key(text: str) -> PublicKey | ErrorCode:
    try:
        return PublicKey.parse(text)
    except Refused as refused:
        return refused.refusal.code


@given(header=_JSON, payload=_JSON)
def test_token_of_arbitrary_header_and_payload_is_refused(header: object, payload: object) -> None:
    parts = (to_base64url(json.dumps(part).encode()) for part in (header, payload))
    signed = ".".join(parts)
    token = f"{signed}.{to_base64url(_KEY.sign(signed.encode()))}"
    with pytest.raises(Refused) as refused:
        _access_token(token)
    assert refused.value.refusal.code is ErrorCode.INVALID_TOKEN


@given(claims=_CLAIMS)
def test_access_token_with_arbitrary_signed_claims_is_refused(claims: dict[str, object]) -> None:
    payload = to_base64url(json.dumps(claims).encode())
    signed = f"{_KEY.header('at+jwt')}.{payload}"
    token = f"{signed}.{to_base64url(_KEY.sign(signed.encode()))}"
    with pytest.raises(Refused) as refused:
        _access_token(token)
    assert refused.value.refusal.code is ErrorCode.INVALID_TOKEN


@given(place=st.integers(0, 400), character=st.characters(exclude_categories=()))
def test_token_with_any_changed_character_is_refused(place: int, character: str) -> None:
    claims = {"iss": "https://as", "aud": "https://api", "sub": "1", "client_id": "c"}
    token = jwt.sign(claims | {"jti": "j", "iat": 1_000, "exp": 2_000}, _KEY, typ="at+jwt")
    assert _access_token(token)
    place %= len(token)
    if token[place] == character:
        return
    with pytest.raises(Refused):
        _access_token(token[:place] + character + token[place + 1 :])


@given(data=st.binary(max_size=100))
def test_base64url_round_trips(data: bytes) -> None:
    assert from_base64url(to_base64url(data)) == data


@given(text=st.text("ABCDabcd0189-_=+/ \n", max_size=12))
def test_base64url_accepts_only_the_canonical_encoding(text: str) -> None:
    data = from_base64url(text)
    assert data is None or to_base64url(data) == text


@given(entropy=st.binary(min_size=32, max_size=32), prefix=st.sampled_from(list(Prefix)))
def test_every_fresh_secret_is_well_formed(entropy: bytes, prefix: Prefix) -> None:
    assert well_formed(prefix, fresh_secret(prefix, lambda _: entropy).reveal())


@given(a=_TEXT, b=_TEXT)
def test_constant_time_comparison_agrees_with_equality(a: str, b: str) -> None:
    assert same(a, b) is (a == b)


@given(registered=_URLISH, presented=_URLISH)
def test_a_redirect_uri_of_a_web_application_matches_itself_alone(
    registered: str, presented: str
) -> None:
    matches = matches_redirect_uri(registered, presented, native=False)
    assert matches is (registered == presented)
    assert matches_redirect_uri(registered, registered, native=True)


_NAMES = st.lists(st.sampled_from(["a", "b", "c", "d:read", "d:write"]), max_size=5)


@given(left=_NAMES, right=_NAMES)
def test_scope_operations_equal_set_operations(left: list[str], right: list[str]) -> None:
    a, b = Scope.of(*left), Scope.of(*right)
    assert set(a & b) == set(left) & set(right)
    assert set(a | b) == set(left) | set(right)
    assert set(a - b) == set(left) - set(right)
    assert (a <= b) is (set(left) <= set(right))
    assert Scope.parse(str(a)) == a
    assert a & b <= a <= a | b


@given(value=st.text(max_size=100))
def test_value_appended_to_a_url_stays_one_parameter(value: str) -> None:
    url = append_query("https://app.example/cb?x=1", [("told", value)])
    assert url.count("&") == 1
    assert url.isascii()
    assert "#" not in url
    check_redirect_uri(url, native=False)
