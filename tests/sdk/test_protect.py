"""Protection: from the Authorization header to a caller."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.sdk.issuer import API, SECRET, Clock, Issuer
from tests.support.wait import until_found
from valetkey.kernel.jose.access_token import DPOP, Binding
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant, seconds
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.sdk import Caller, Credential, Memory, Protection
from valetkey.sdk import Issuer as Trusted

INTROSPECT = "/oauth/introspect"
CREDENTIAL = Credential("resource-server", Secret(SECRET))


@asynccontextmanager
async def _protected(
    credential: Credential | None = CREDENTIAL,
) -> AsyncGenerator[tuple[Protection, Issuer]]:
    async with (
        Issuer(Clock()).running() as issuer,
        Protection(Trusted.valetkey(issuer.url), audience=API, credential=credential) as guard,
    ):
        yield guard, issuer


async def _admit(guard: Protection, issuer: Issuer, token: str, *needs: str) -> Caller:
    return await guard.admit([f"Bearer {token}"], issuer.clock.now(), *needs)


async def _code(guard: Protection, issuer: Issuer, token: str, *needs: str) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        await _admit(guard, issuer, token, *needs)
    return refused.value.refusal.code


def test_caller_has_the_user_and_client_of_the_token() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            draft = issuer.draft("notes:read account:read")
            for token in (draft.sign(issuer.key), issuer.reference("notes:read")):
                caller = await _admit(guard, issuer, token, "notes:read")
                assert (caller.user, caller.client_id) == ("1001", "printer")
                assert caller.is_live(issuer.clock.now())
            alone = await _admit(guard, issuer, issuer.token("client:read", uid=None))
            assert alone.user is None

    asyncio.run(story())


def test_any_one_of_the_required_scopes_is_sufficient() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            token = issuer.token("read")
            await _admit(guard, issuer, token, "notes:read", "read")
            code = await _code(guard, issuer, token, "notes:write", "write")
            assert code is ErrorCode.INSUFFICIENT_SCOPE

    asyncio.run(story())


@pytest.mark.parametrize(
    "change",
    [{"issuer": "https://other.example"}, {"audience": "https://other.example"}],
)
def test_token_for_another_audience_is_refused(change: dict[str, str]) -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            good = issuer.draft("read")
            other = replace(
                good,
                issuer=change.get("issuer", good.issuer),
                audience=change.get("audience", good.audience),
            )
            code = await _code(guard, issuer, other.sign(issuer.key))
            assert code is ErrorCode.INVALID_TOKEN
            reference = issuer.reference("read")
            issuer.references[reference] = other
            assert await _code(guard, issuer, reference) is ErrorCode.INVALID_TOKEN

    asyncio.run(story())


def test_audience_may_have_a_slash_where_there_is_no_path() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            good = issuer.draft("read")
            other = replace(good, audience=f"{good.audience}/")
            await _admit(guard, issuer, other.sign(issuer.key))
            reference = issuer.reference("read")
            issuer.references[reference] = other
            await _admit(guard, issuer, reference)

    asyncio.run(story())


def test_unknown_signature_is_refused_on_every_attempt() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            await _admit(guard, issuer, issuer.token("read"))
            stranger = SigningKey.generate()
            for _ in range(20):
                token = issuer.draft("read").sign(stranger)
                assert await _code(guard, issuer, token) is ErrorCode.INVALID_TOKEN
            assert issuer.asked["/oauth/jwks"] <= 2

    asyncio.run(story())


def test_unknown_key_is_temporarily_unavailable_while_the_issuer_is_down() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            await _admit(guard, issuer, issuer.token("read"))
            issuer.key = SigningKey.generate()
            issuer.keys = KeySet.of(issuer.key.public)
            await issuer.stop()
            issuer.clock.at += 10
            token = issuer.token("read")
            assert await _code(guard, issuer, token) is ErrorCode.TEMPORARILY_UNAVAILABLE
            await issuer.start()
            issuer.clock.at += 1
            await _admit(guard, issuer, token)

    asyncio.run(story())


def test_token_by_reference_is_introspected_once_in_three_seconds() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            token = issuer.reference("read")
            await asyncio.gather(*(_admit(guard, issuer, token) for _ in range(20)))
            assert issuer.asked[INTROSPECT] == 1
            del issuer.references[token]
            issuer.clock.at += 2
            await _admit(guard, issuer, token)
            issuer.clock.at += 1
            assert await _code(guard, issuer, token) is ErrorCode.INVALID_TOKEN
            assert issuer.asked[INTROSPECT] == 2

    asyncio.run(story())


def test_malformed_tokens_are_not_sent_to_the_issuer() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            good = issuer.reference("read")
            other = good[:-1] + ("y" if good.endswith("x") else "x")
            for token in ("vk_at_", other, good + "x", good.replace("at", "rt", 1)):
                assert await _code(guard, issuer, token) is ErrorCode.INVALID_TOKEN
            assert issuer.asked[INTROSPECT] == 0

    asyncio.run(story())


def test_reference_token_ends_when_revoked_or_expired() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            token = issuer.reference("read")
            await _admit(guard, issuer, token)
            issuer.revoke("grant", str(issuer.references[token].grant_id))
            assert await guard.refresh(issuer.clock.now())
            assert await _code(guard, issuer, token) is ErrorCode.INVALID_TOKEN
            other = issuer.reference("read")
            end = Instant(issuer.clock.at + 2)
            issuer.references[other] = replace(issuer.references[other], expires_at=end)
            await _admit(guard, issuer, other)
            issuer.clock.at = end
            assert await _code(guard, issuer, other) is ErrorCode.INVALID_TOKEN

    asyncio.run(story())


def test_without_a_credential_only_jwts_are_accepted() -> None:
    async def story() -> None:
        async with _protected(None) as (guard, issuer):
            await _admit(guard, issuer, issuer.token("read"))
            code = await _code(guard, issuer, issuer.reference("read"))
            assert code is ErrorCode.INVALID_TOKEN
            assert issuer.asked[INTROSPECT] == 0
            assert await guard.refresh(issuer.clock.now())

    asyncio.run(story())


def test_stored_keys_allow_a_start_without_the_issuer() -> None:
    async def story() -> None:
        issuer = Issuer(Clock(), port=1)
        memory = Memory(keys=issuer.keys.document())
        trusted = Trusted.valetkey(issuer.url)
        async with Protection(trusted, audience=API, memory=memory) as guard:
            await _admit(guard, issuer, issuer.token("read"))

    asyncio.run(story())


def test_follower_fetches_keys_and_revocations() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            draft = issuer.draft("read")
            await _admit(guard, issuer, draft.sign(issuer.key))
            issuer.revoke("token", draft.token_id)
            task = asyncio.create_task(guard.follow(issuer.clock.now))

            async def is_refused() -> bool:
                try:
                    await _admit(guard, issuer, draft.sign(issuer.key))
                except Refused:
                    return True
                return False

            await until_found(is_refused)
            assert await _code(guard, issuer, draft.sign(issuer.key)) is ErrorCode.INVALID_TOKEN
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(story())


def test_key_bound_token_is_refused_as_a_bearer_token() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            binding = Binding(DPOP, "x" * 43)
            draft = replace(issuer.draft("read"), bindings=(binding,))
            reference = issuer.reference("read")
            issuer.references[reference] = draft
            for text in (draft.sign(issuer.key), reference):
                with pytest.raises(Refused) as refused:
                    await _admit(guard, issuer, text)
                assert refused.value.refusal.check == "token.bound"
                now, token = issuer.clock.now(), Secret(text)
                other = Binding(DPOP, "y" * 43)
                with pytest.raises(Refused):
                    await guard.caller(token, now, [other])
                caller = await guard.caller(token, now, [other, binding])
                assert caller.bindings == (binding,)

    asyncio.run(story())


def test_opaque_tokens_of_another_issuer_are_introspected_but_jwts_never() -> None:
    async def story() -> None:
        async with Issuer(Clock()).running() as issuer:
            trusted = replace(Trusted.valetkey(issuer.url), checksummed=False)
            async with Protection(trusted, audience=API, credential=CREDENTIAL) as guard:
                issuer.references["opaque"] = replace(issuer.draft("read"), subject="")
                caller = await _admit(guard, issuer, "opaque")
                assert (caller.subject, caller.user) == ("printer", None)
                assert await _code(guard, issuer, "a.b.c") is ErrorCode.INVALID_TOKEN
                await _admit(guard, issuer, issuer.token("read"))
                assert issuer.asked[INTROSPECT] == 1

    asyncio.run(story())


@pytest.mark.parametrize("algorithm", Algorithm)
def test_every_algorithm_of_another_issuer_is_verified(algorithm: Algorithm) -> None:
    async def story() -> None:
        async with Issuer(Clock(), key=SigningKey.generate(algorithm)).running() as issuer:
            ours = Trusted.valetkey(issuer.url)
            theirs = Trusted(url=ours.url, keys=ours.keys)
            async with Protection(theirs, audience=API) as guard:
                await _admit(guard, issuer, issuer.token("read"))

    asyncio.run(story())


def test_importing_the_sdk_loads_nothing_of_the_servers() -> None:
    code = (
        "import sys, valetkey.sdk\n"
        "print(*sorted({n.split('.')[1] for n in sys.modules if n.startswith('valetkey.')}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kernel", "sdk"]


def test_verified_token_is_recalled_until_it_expires_or_is_revoked() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            now = issuer.clock.now()
            draft = issuer.draft("read")
            token = draft.sign(issuer.key)
            field = f"Bearer {token}"
            assert guard.recall([field], now) is None
            admitted = await _admit(guard, issuer, token)
            assert guard.recall([field], now) is admitted
            for fields in (
                [],
                [field, field],
                [token],
                [f"Basic {token}"],
                [f"Bearer  {token}"],
                [f"{field} "],
                [f"{field},"],
                [field[:-1]],
            ):
                assert guard.recall(fields, now) is None
            assert guard.recall([field], admitted.expires_at) is None
            await _admit(guard, issuer, token)
            issuer.revoke("token", draft.token_id)
            await guard.refresh(now)
            assert guard.recall([field], now) is None

    asyncio.run(story())


def test_neither_a_bound_token_nor_a_reference_is_recalled() -> None:
    async def story() -> None:
        async with _protected() as (guard, issuer):
            now = issuer.clock.now()
            binding = Binding(DPOP, "x" * 43)
            bound = replace(issuer.draft("read"), bindings=(binding,)).sign(issuer.key)
            await guard.caller(Secret(bound), now, [binding])
            assert guard.recall([f"Bearer {bound}"], now) is None
            reference = issuer.reference("read")
            await _admit(guard, issuer, reference)
            assert guard.recall([f"Bearer {reference}"], now) is None

    asyncio.run(story())


def test_jwt_is_temporarily_unavailable_while_revocations_are_too_old() -> None:
    async def story() -> None:
        async with Issuer(Clock()).running() as issuer:
            trusted = Trusted.valetkey(issuer.url)
            tokens = issuer.token("read"), issuer.token("read")
            protected = partial(Protection, trusted, audience=API, credential=CREDENTIAL)
            async with (
                protected() as patient,
                protected(revocations_max_age=seconds(5)) as strict,
            ):
                # Nothing was heard yet.
                code = await _code(strict, issuer, tokens[0], "read")
                assert code is ErrorCode.TEMPORARILY_UNAVAILABLE
                for guard in (patient, strict):
                    assert await guard.refresh(issuer.clock.now())
                await issuer.stop()
                issuer.clock.at += 4
                for guard in (patient, strict):
                    await _admit(guard, issuer, tokens[0], "read")
                    assert guard.recall([f"Bearer {tokens[0]}"], issuer.clock.now())
                issuer.clock.at += 1
                await _admit(patient, issuer, tokens[0], "read")
                for token in tokens:
                    code = await _code(strict, issuer, token, "read")
                    assert code is ErrorCode.TEMPORARILY_UNAVAILABLE
                    assert strict.recall([f"Bearer {token}"], issuer.clock.now()) is None
                # What is wrong in any case stays wrong.
                code = await _code(strict, issuer, f"{tokens[0]}x", "read")
                assert code is ErrorCode.INVALID_TOKEN

    asyncio.run(story())
