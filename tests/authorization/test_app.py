"""The server as it is composed: what it starts with, and what it refuses to start with."""

import asyncio
from pathlib import Path

import pytest

from tests.support import schema_copy
from tests.support.harness import CREDENTIAL, SCOPES, Harness, run
from valetkey.authorization.app import build as composition
from valetkey.authorization.app.foundation import prepare
from valetkey.authorization.tokens.issue import TokenPolicy
from valetkey.config.paths import credential_path, keyring_path
from valetkey.config.settings import Settings, SettingsSource
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import days, minutes
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Secret


def test_parallel_starts_share_keyring_and_credential(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A copy would take the place of the database while the others connect to it.
    monkeypatch.setattr("valetkey.database.migrate.apply_missing", schema_copy.migrated)
    defaults = Settings()
    settings = replace(
        defaults,
        authorization=replace(defaults.authorization, database=database_url),
        source=SettingsSource(None, tmp_path, {}),
    )

    def once() -> None:
        asyncio.run(prepare(settings, SYSTEM))

    async def story() -> None:
        await asyncio.gather(*(asyncio.to_thread(once) for _ in range(4)))

    asyncio.run(story())
    for path in (keyring_path(settings), credential_path(settings)):
        assert path.stat().st_mode & 0o777 == 0o600
    asyncio.run(prepare(settings, SYSTEM))


def test_keyring_of_another_database_is_refused_at_startup(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        keyring_path(it.settings).write_text(Keyring.fresh(SYSTEM.random).text())
        runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
        for _ in range(2):
            with pytest.raises(
                OperatorError, match="is not the keyring that this database was made with"
            ):
                await prepare(it.settings, runtime)
            with pytest.raises(OperatorError, match="restore the keyring"):
                await composition.build(it.settings, runtime, SCOPES)
            it.clock.forward(days(90))

    run(tmp_path, story)


def test_keyring_and_credential_from_the_settings_write_no_files(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        text = keyring_path(it.settings).read_text()
        keyring_path(it.settings).unlink()
        settings = replace(
            it.settings,
            authorization=replace(it.settings.authorization, keyring_text=Secret(text)),
        )
        await prepare(settings, SYSTEM)
        assert not keyring_path(settings).exists()
        assert not credential_path(settings).exists()
        assert await it.introspect("x") == {"active": False}

    run(tmp_path, story)


def test_too_short_credential_is_an_operator_error(tmp_path: Path) -> None:
    defaults = Settings()
    settings = replace(
        defaults,
        resource=replace(defaults.resource, credential_text=Secret(CREDENTIAL[:20])),
        source=SettingsSource(None, tmp_path, {}),
    )
    with pytest.raises(OperatorError, match="credential_text"):
        asyncio.run(prepare(settings, SYSTEM))


def test_implicit_tokens_live_no_longer_than_the_others() -> None:
    defaults = Settings()
    brief = replace(defaults, tokens=replace(defaults.tokens, access_token_lifetime=minutes(1)))
    assert TokenPolicy.of(brief).implicit_token_lifetime == minutes(1)


def test_server_error_reveals_no_internal_details(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        code = await it.code("web")
        await it.write(lambda tx: tx.db.run("ALTER TABLE vouchers RENAME TO elsewhere"))
        broken = await it.exchange("web", code)
        broken.refused(500, "server_error")
        assert "vouchers" not in broken.body.decode()

    run(tmp_path, story)


def test_missing_keyring_of_a_used_database_is_not_replaced(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        path = keyring_path(it.settings)
        path.unlink()
        with pytest.raises(OperatorError, match="and no keyring at"):
            await prepare(it.settings, SYSTEM)
        assert not path.exists()

    run(tmp_path, story)
