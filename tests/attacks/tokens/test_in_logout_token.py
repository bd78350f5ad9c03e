"""IN-11: our own library for apps takes a logout token for what it is, once, and nothing else."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.support.live import LiveServers
from valetkey.authorization.tokens.id_token import EVENT
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.sdk import Issuer, LoggedOut, LogoutTokens

_TYPE = "logout+jwt"


def _good(world: LiveServers) -> dict[str, object]:
    now = world.servers.clock.now()
    return {
        "iss": world.auth,
        "sub": "1001",
        "aud": "web1",
        "iat": now,
        "exp": now + 120,
        "jti": "lt_1",
        "sid": "se_1",
        "events": {EVENT: {}},
    }


def _read(world: LiveServers, *tokens: str, now: Instant | None = None) -> list[LoggedOut]:
    """What an app makes of these, one after the other; the first no ends it."""

    async def read() -> list[LoggedOut]:
        library = LogoutTokens(Issuer.valetkey(world.auth), client_id="web1")
        at = world.servers.clock.now() if now is None else now
        try:
            return [await library.read(token, at) for token in tokens]
        finally:
            await library.close()

    return asyncio.run(read())


def _refused(world: LiveServers, token: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
    with pytest.raises(Refused) as caught:
        _read(world, token)
    assert caught.value.refusal.code is code


def _signed(key: SigningKey, claims: Mapping[str, object], typ: str = _TYPE) -> str:
    return jwt.sign(claims, key, typ=typ)


def test_in_11_valid_logout_token_returns_its_user_and_session(
    world: LiveServers, issuer_key: SigningKey
) -> None:
    token = _signed(issuer_key, _good(world))
    assert _read(world, token) == [LoggedOut("1001", "se_1")]
    only = {name: value for name, value in _good(world).items() if name != "sub"}
    assert _read(world, _signed(issuer_key, only)) == [LoggedOut("", "se_1")]


def test_in_11_logout_token_with_a_known_jti_is_marked_as_repeated(
    world: LiveServers, issuer_key: SigningKey
) -> None:
    good = _good(world)
    later = {**good, "iat": int(str(good["iat"])) + 1}
    logouts = _read(world, *(_signed(issuer_key, claims) for claims in (good, good, later)))
    assert [logout.again for logout in logouts] == [False, True, True]
    other = {**good, "jti": "lt_2"}
    logouts = _read(world, *(_signed(issuer_key, claims) for claims in (good, other)))
    assert [logout.again for logout in logouts] == [False, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"aud": "web2"},
        {"aud": ["web2", "other"]},
        {"iss": "https://evil.example"},
        {"nonce": "n"},
        {"nonce": ""},
        {"nonce": None},
        {"events": None},
        {"events": {}},
        {"events": []},
        {"events": {EVENT: True}},
        {"events": {EVENT: []}},
        {"events": {EVENT + "/": {}}},
        {"jti": None},
        {"jti": ""},
        {"jti": 1},
        {"sub": None, "sid": None},
        {"sub": "", "sid": ""},
        {"sub": 1001},
        {"sid": ["se_1"]},
        {"exp": None},
        {"exp": 1},
        {"iat": 99_999_999_999},
    ],
)
def test_in_11_logout_token_with_wrong_claims_is_refused(
    world: LiveServers, issuer_key: SigningKey, wrong: Mapping[str, object]
) -> None:
    claims = {**_good(world), **wrong}
    for name in ("events", "jti", "sub", "sid", "exp"):
        if claims[name] is None:
            del claims[name]
    _refused(world, _signed(issuer_key, claims))


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "", "logout", "application/json"])
def test_in_11_a_token_of_another_type_is_refused(
    world: LiveServers, issuer_key: SigningKey, typ: str
) -> None:
    _refused(world, _signed(issuer_key, _good(world), typ))


def test_in_11_logout_token_with_invalid_signature_is_refused(
    world: LiveServers, issuer_key: SigningKey
) -> None:
    _refused(world, _signed(SigningKey.generate(Algorithm.ES256), _good(world)))
    good = _signed(issuer_key, _good(world))
    for bad in ("", "a.b.c", good[:-1], f"{good}A", f"{good}.", good.replace(".", "..")):
        _refused(world, bad)


def test_in_11_logout_token_is_refused_while_the_keys_are_unreachable(
    world: LiveServers, issuer_key: SigningKey
) -> None:
    async def read() -> None:
        library = LogoutTokens(Issuer.valetkey("http://127.0.0.1:9"), client_id="web1")
        try:
            await library.read(_signed(issuer_key, _good(world)), world.servers.clock.now())
        finally:
            await library.close()

    with pytest.raises(Refused) as caught:
        asyncio.run(read())
    assert caught.value.refusal.code is ErrorCode.TEMPORARILY_UNAVAILABLE


def test_in_11_logout_token_is_no_access_token_or_client_assertion(
    world: LiveServers, issuer_key: SigningKey
) -> None:
    claims = {**_good(world), "client_id": "web1", "scope": "notes:read", "auth_time": 1}
    for aud in ("web1", world.api, world.auth):
        token = _signed(issuer_key, {**claims, "aud": aud})
        assert world.call(token).status == 401
        assert world.introspect(token) == {"active": False}
        answer = world.post(
            "/oauth/token",
            {
                "grant_type": "client_credentials",
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "client_assertion": token,
            },
        )
        assert answer.status == 401
