"""Signed answers about tokens: by this issuer, to this API, about this moment, or none."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.sdk.issuer import API, SECRET, Clock, Issuer
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.secret import Secret
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Credential, Fetcher
from valetkey.sdk.upstream.discovery import KeySource
from valetkey.sdk.upstream.introspection import UNANSWERED, Introspection, UnknownKey, read_signed

_KEY = SigningKey.generate()
_KEYS = KeySet.of(_KEY.public)
_NOW = Instant(1_800_000_000)
_SAID = {"active": True}
_CLAIMS: dict[str, object] = {
    "iss": "https://issuer.example",
    "aud": "api",
    "iat": _NOW,
    "token_introspection": _SAID,
}


def _read(body: bytes, now: Instant = _NOW) -> object:
    return read_signed(body, _KEYS, issuer="https://issuer.example", audience="api", now=now)


def _signed(typ: str = "token-introspection+jwt", **changes: object) -> bytes:
    claims = {name: value for name, value in {**_CLAIMS, **changes}.items() if value is not ...}
    return jwt.sign(claims, _KEY, typ=typ).encode()


def test_current_signed_introspection_response_for_this_api_is_read() -> None:
    assert _read(_signed()) == _SAID
    assert _read(_signed(aud=["api", "other"])) == _SAID
    assert _read(_signed(typ="application/token-introspection+jwt")) == _SAID
    for clock in (-60, 60):
        assert _read(_signed(), Instant(_NOW + clock)) == _SAID


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"active":true}',
        b"a.b.c",
        b"\xff",
        _signed(typ="at+jwt"),
        _signed(typ="JWT"),
        _signed(iss="https://other.example"),
        _signed(iss=...),
        _signed(aud="other"),
        _signed(aud=...),
        _signed(aud=["other"]),
        _signed(iat=_NOW - 61),
        _signed(iat=_NOW + 61),
        _signed(iat=True),
        _signed(iat=...),
        _signed(token_introspection=...),
        _signed(token_introspection="active"),
        _signed()[:-4] + b"AAAA",
        b".".join((_signed().split(b".")[0], _signed(aud=["api"]).split(b".")[1], b"AAAA")),
    ],
)
def test_introspection_response_with_wrong_claims_or_signature_is_refused(body: bytes) -> None:
    assert _read(body) is None


def test_response_signed_by_an_unknown_key_raises_unknown_key() -> None:
    stranger = jwt.sign(_CLAIMS, SigningKey.generate(), typ="token-introspection+jwt")
    with pytest.raises(UnknownKey):
        _read(stranger.encode())


class _Signing(Issuer):
    """An issuer that signs what it says about tokens: the truth, or `instead`."""

    instead: object = None

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, Any]:
        status, answer = super()._answer(method, target, headers, body)
        if target != "/oauth/introspect" or status != 200:
            return status, answer
        if headers["accept"] != "application/token-introspection+jwt":
            return status, answer
        claims = {
            "iss": self.url,
            "aud": "resource-server",
            "iat": self.clock.now(),
            "token_introspection": self.instead or answer,
        }
        return status, jwt.sign(claims, self.key, typ="token-introspection+jwt").encode()


@asynccontextmanager
async def _asked(issuer: Issuer) -> AsyncGenerator[Introspection]:
    async with issuer.running(), Fetcher() as fetch:
        yield Introspection(
            f"{issuer.url}/oauth/introspect",
            fetch,
            Credential("resource-server", Secret(SECRET)),
            issuer=issuer.url,
            audience=API,
            keys=KeySource(f"{issuer.url}/oauth/jwks", fetch),
        )


def test_signed_response_becomes_the_caller() -> None:
    async def story() -> None:
        issuer = _Signing(Clock())
        async with _asked(issuer) as introspection:
            now = issuer.clock.now()
            caller = await introspection.introspect(issuer.reference("read"), now)
            assert isinstance(caller, Caller)
            assert caller.allows("read")
            nobody = await introspection.introspect("x", now)
            assert isinstance(nobody, Refusal)
            assert nobody.code is ErrorCode.INVALID_TOKEN
            assert issuer.asked["/oauth/jwks"] == 1

    asyncio.run(story())


def test_new_issuer_key_is_fetched_for_its_first_signed_response() -> None:
    async def story() -> None:
        issuer = _Signing(Clock())
        async with _asked(issuer) as introspection:
            assert isinstance(
                await introspection.introspect(issuer.reference("read"), issuer.clock.now()), Caller
            )
            issuer.key = SigningKey.generate()
            issuer.keys = KeySet.of(issuer.key.public)
            issuer.clock.at += 11
            caller = await introspection.introspect(issuer.reference("read"), issuer.clock.now())
            assert isinstance(caller, Caller)
            assert issuer.asked["/oauth/jwks"] == 2

    asyncio.run(story())


def test_unsigned_response_is_not_accepted() -> None:
    async def story() -> None:
        issuer = Issuer(Clock())
        async with _asked(issuer) as introspection:
            token = issuer.reference("read")
            assert await introspection.introspect(token, issuer.clock.now()) == UNANSWERED

    asyncio.run(story())


@pytest.mark.parametrize("said", [{"active": 1}, {"active": True, "exp": "soon"}])
def test_malformed_signed_response_gives_no_verdict(said: object) -> None:
    async def story() -> None:
        issuer = _Signing(Clock())
        issuer.instead = said
        async with _asked(issuer) as introspection:
            token = issuer.reference("read")
            assert await introspection.introspect(token, issuer.clock.now()) == UNANSWERED

    asyncio.run(story())
