"""What the issuer says about tokens by reference."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest

from tests.sdk.issuer import API, SECRET, Clock, Issuer
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Answer, Credential, Fetcher
from valetkey.sdk.upstream.introspection import UNANSWERED, Introspection

PATH = "/oauth/introspect"


@asynccontextmanager
async def _asked(capacity: int = 10) -> AsyncGenerator[tuple[Introspection, Issuer]]:
    async with Issuer(Clock()).running() as issuer, Fetcher() as fetch:
        credential = Credential("resource-server", Secret(SECRET))
        yield (
            Introspection(
                issuer.url + PATH,
                fetch,
                credential,
                issuer=issuer.url,
                audience=API,
                capacity=capacity,
            ),
            issuer,
        )


def test_introspection_response_becomes_the_caller() -> None:
    async def story() -> None:
        async with _asked() as (introspection, issuer):
            token = issuer.reference("read notes:write")
            draft = replace(issuer.references[token], claims={"roles": ["editor"]})
            issuer.references[token] = draft
            assert await introspection.introspect(token, issuer.clock.now()) == Caller(
                "1001",
                "printer",
                Scope.parse("read notes:write"),
                draft.token_id,
                draft.grant_id,
                draft.issued_at,
                draft.expires_at,
                claims={"roles": ["editor"]},
            )

    asyncio.run(story())


def test_answer_does_not_last_longer_after_the_clock_was_set_back() -> None:
    async def story() -> None:
        async with _asked() as (introspection, issuer):
            token = issuer.reference("read")
            ahead = Instant(issuer.clock.now() + 600)
            assert isinstance(await introspection.introspect(token, ahead), Caller)
            del issuer.references[token]
            assert isinstance(await introspection.introspect(token, issuer.clock.now()), Refusal)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("issuer", "https://other.example", ErrorCode.INVALID_TOKEN),
        ("audience", "https://other.example", ErrorCode.INVALID_TOKEN),
        ("expires_at", Instant(1), ErrorCode.INVALID_TOKEN),
        ("client_id", "", ErrorCode.INSUFFICIENT_SCOPE),
        ("subject", "", ErrorCode.INSUFFICIENT_SCOPE),
    ],
)
def test_introspection_response_with_wrong_or_missing_claims_is_refused(
    field: str, value: object, code: ErrorCode
) -> None:
    async def story() -> None:
        async with _asked() as (introspection, issuer):
            token = issuer.reference("read")
            changed = replace(issuer.references[token], **{field: value})  # type: ignore[arg-type]
            issuer.references[token] = changed
            verdict = await introspection.introspect(token, issuer.clock.now())
            assert isinstance(verdict, Refusal)
            assert verdict.code is code

    asyncio.run(story())


def test_failed_introspection_is_not_retried_within_a_second() -> None:
    async def story() -> None:
        async with _asked() as (introspection, issuer):
            token = issuer.reference("read")
            issuer.broken = True
            for _ in range(10):
                assert await introspection.introspect(token, issuer.clock.now()) == UNANSWERED
            assert issuer.asked[PATH] == 1
            issuer.broken = False
            issuer.clock.at += 1
            assert isinstance(await introspection.introspect(token, issuer.clock.now()), Caller)

    asyncio.run(story())


def test_cancelled_caller_does_not_cancel_the_shared_introspection() -> None:
    async def story() -> None:
        async with _asked() as (introspection, issuer):
            token = issuer.reference("read")
            now = issuer.clock.now()
            first = asyncio.create_task(introspection.introspect(token, now))
            second = asyncio.create_task(introspection.introspect(token, now))
            await asyncio.sleep(0)
            first.cancel()
            assert isinstance(await second, Caller)
            assert issuer.asked[PATH] == 1

    asyncio.run(story())


def test_introspection_cache_is_limited_to_its_capacity() -> None:
    async def story() -> None:
        async with _asked(capacity=3) as (introspection, issuer):
            tokens = [issuer.reference("read") for _ in range(5)]
            for token in (*tokens, tokens[4], tokens[0]):
                await introspection.introspect(token, issuer.clock.now())
            assert issuer.asked[PATH] == 6

    asyncio.run(story())


@pytest.mark.parametrize("body", [b"", b"[]", b'{"active":1}', b"\xff", b'{"active":true'])
def test_malformed_introspection_response_gives_no_verdict(body: bytes) -> None:
    class Mumbling(Fetcher):
        """Says what it was told to say."""

        async def post_form(
            self,
            url: str,
            fields: Mapping[str, str],
            credential: Credential | None = None,
            *,
            accept: str = "",
        ) -> Answer:
            return Answer(200, body)

    async def story() -> None:
        async with Mumbling() as fetch:
            credential = Credential("a", Secret("b"))
            introspection = Introspection("u", fetch, credential, issuer="i", audience=API)
            assert await introspection.introspect("t", Instant(5)) == UNANSWERED

    asyncio.run(story())


@pytest.mark.parametrize(
    ("members", "check"),
    [
        (b'"cnf":{}', "introspection.cnf"),
        (b'"scope":"a  b"', "introspection.scope"),
        (b'"aud":["x"]', "introspection.audience"),
        (b'"aud":[]', "introspection.audience"),
        (b'"aud":""', "introspection.audience"),
        (b'"no":"aud"', "introspection.audience"),
    ],
)
def test_token_with_invalid_introspected_members_is_refused(members: bytes, check: str) -> None:
    class Saying(Fetcher):
        """Says what it was told to say."""

        async def post_form(
            self,
            url: str,
            fields: Mapping[str, str],
            credential: Credential | None = None,
            *,
            accept: str = "",
        ) -> Answer:
            common = b'"active":true,"exp":99,"sub":"1","client_id":"c"'
            audience = b"" if b'"aud"' in members else b',"aud":["' + API.encode() + b'","x"]'
            return Answer(200, b"{" + common + audience + b"," + members + b"}")

    async def story() -> None:
        async with Saying() as fetch:
            credential = Credential("a", Secret("b"))
            introspection = Introspection("u", fetch, credential, issuer="i", audience=API)
            verdict = await introspection.introspect("t", Instant(5))
            assert isinstance(verdict, Refusal)
            assert verdict.check == check

    asyncio.run(story())
