"""When a secret was last good for something: noted by whoever judged it, written later."""

from pathlib import Path

import pytest

from tests.support.harness import SECRET, Harness, run
from valetkey.authorization.client_authentication import (
    ClientAuthentication,
    ClientDirectory,
    Failures,
    SecretUses,
)
from valetkey.authorization.protocol.client_authentication.method import Presented
from valetkey.database.engine import UnstorableValue
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.refusal import Refused
from valetkey.web.body import Form


def test_use_of_a_valid_secret_is_recorded_and_of_a_wrong_one_is_not(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        uses, store = SecretUses(), it.foundation.store
        authentication = ClientAuthentication(
            ClientDirectory(store),
            it.foundation.keyring.fingerprint_key,
            Failures.per_minute(5),
            it.foundation.client_keys,
            it.foundation.shared_secrets,
            uses,
        )

        async def tried(secret: str) -> Instant | None:
            form = Form({"client_id": "web", "client_secret": secret})
            await authentication.authenticate(Presented(form, None, (), it.clock.now), "here")
            await uses.flush(store)
            (stored_secret,) = await store.read(lambda tx: tx.secrets.usable("web", it.clock.now))
            return stored_secret.last_used_at

        with pytest.raises(Refused):
            await tried("wrong")
        (stored_secret,) = await store.read(lambda tx: tx.secrets.usable("web", it.clock.now))
        assert stored_secret.last_used_at is None
        first = it.clock.now
        assert await tried(SECRET) == first
        it.clock.now = Instant(first + hours(1) - 1)
        assert await tried(SECRET) == first
        it.clock.now = Instant(first + hours(1))
        assert await tried(SECRET) == first + hours(1)

    run(tmp_path, story)


def test_failed_write_is_retried(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        uses, store = SecretUses(), it.foundation.store
        (stored_secret,) = await store.read(lambda tx: tx.secrets.usable("web", it.clock.now))
        uses.record(stored_secret.id, it.clock.now)
        uses.record("\ud800", it.clock.now)
        with pytest.raises(UnstorableValue):
            await uses.flush(store)
        assert set(uses._waiting) == {stored_secret.id, "\ud800"}

    run(tmp_path, story)
