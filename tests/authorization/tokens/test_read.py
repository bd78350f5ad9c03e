"""A token that was verified once is not verified again, and is worth no more for it."""

from pathlib import Path
from unittest.mock import patch

from tests.support.harness import ADA, Harness, run
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.tokens import read as module
from valetkey.authorization.tokens.read import AccessTokenReader
from valetkey.kernel.jose import access_token
from valetkey.kernel.jose.access_token import AccessToken
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


def reader(it: Harness) -> AccessTokenReader:
    foundation = it.foundation
    return AccessTokenReader(
        foundation.issuer,
        it.settings.resource.url,
        foundation.keys,
        foundation.keyring.fingerprint_key,
    )


async def token(it: Harness, token_id: str = "at_1") -> str:
    now = it.clock.now
    await it.foundation.keys.refresh(now)
    return AccessToken(
        issuer=it.foundation.issuer,
        subject=str(ADA),
        client_id="app",
        audience=it.settings.resource.url,
        scope=Scope(("openid",)),
        token_id=token_id,
        issued_at=now,
        expires_at=Instant(now + 60),
        grant_id="gr_1",
        auth_time=now,
    ).sign(it.foundation.keys.current(now))


def test_token_signature_is_verified_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        reads, text = reader(it), await token(it)
        with patch.object(access_token, "verify", wraps=access_token.verify) as verifies:
            first = await reads.read_by_value(text, it.clock.now)
            assert first is not None
            assert await reads.read_by_value(text, it.clock.now) == first
            assert verifies.call_count == 1
            # One letter more or less is another token.
            assert await reads.read_by_value(text + "A", it.clock.now) is None
            assert await reads.read_by_value(text[:-1], it.clock.now) is None

    run(tmp_path, story)


def test_cached_token_is_refused_at_its_expiry_time(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        reads, text = reader(it), await token(it)
        it.clock.forward(59)
        assert await reads.read_by_value(text, it.clock.now) is not None
        it.clock.forward(1)
        assert await reads.read_by_value(text, it.clock.now) is None

    run(tmp_path, story)


def test_cached_token_is_invalid_after_withdrawal_of_its_key(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        reads, text, keys = reader(it), await token(it), it.foundation.keys
        assert await reads.read_by_value(text, it.clock.now) is not None
        assert await keys.withdraw(keys.current(it.clock.now).kid, it.clock.now, done_by=SYSTEM)
        assert await reads.read_by_value(text, it.clock.now) is None

    run(tmp_path, story)


def test_token_cache_is_bounded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        reads = reader(it)
        with (
            patch.object(module, "MOST_KNOWN", 2),
            patch.object(access_token, "verify", wraps=access_token.verify) as verifies,
        ):
            for name in ("at_1", "at_2", "at_3"):
                assert await reads.read_by_value(await token(it, name), it.clock.now) is not None
            assert verifies.call_count == 3
            assert len(reads._verified._reads) == 2

    run(tmp_path, story)
