"""Settings that administrators change at runtime: validation, turns, events, undoing."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from tests.support.harness import Harness, run
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.app.settings import FollowedSettings, with_stored
from valetkey.authorization.operations.operation import InvalidInput
from valetkey.authorization.operations.settings import (
    CHANGE_SETTING,
    READ_SETTING,
    READ_SETTINGS,
    RESET_SETTING,
    SettingShown,
    SettingsShown,
    SettingWanted,
)
from valetkey.authorization.storage.transaction import Followed, Transaction
from valetkey.config.settings import Origin, RegistrationMode, SettingsSource
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

MODE = "registration.mode"


async def change(it: Harness, path: str, value: str) -> SettingShown:
    shown = await it.perform(CHANGE_SETTING, {"setting": path}, SettingWanted(value))
    assert isinstance(shown, SettingShown)
    return shown


async def changes(it: Harness) -> list[tuple[str, str, str]]:
    events = [event for event in await it.event_records() if event.name == "setting.changed"]
    data = [json.loads(event.data) for event in events]
    return [(fields["setting"], fields["before"], fields["after"]) for fields in data]


def test_change_is_validated_recorded_and_undone(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        assert (await change(it, MODE, "open")).origin == "stored"
        assert (await change(it, MODE, " open ")).value == "open"
        for path, value in (
            (MODE, "sometimes"),
            ("tokens.access_token_lifetime", "2d"),
            ("portal.scopes", "unknown:scope"),
            ("registration.grant_types", "password"),
            ("tokens.signing_key_lifetime", "1d"),
        ):
            with pytest.raises(InvalidInput) as invalid:
                await change(it, path, value)
            assert invalid.value.faults[0].field == "value", path
        for path in ("authorization.url", "mail.password", "brand.theme", "log.level"):
            with pytest.raises(Refused) as refused:
                await change(it, path, "x")
            assert refused.value.refusal.code is ErrorCode.CONFLICT
        for name in ("registration.modes", "registration", ""):
            with pytest.raises(Refused) as refused:
                await it.perform(READ_SETTING, {"setting": name})
            assert refused.value.refusal.code is ErrorCode.NOT_FOUND
        await it.perform(RESET_SETTING, {"setting": MODE})
        await it.perform(RESET_SETTING, {"setting": MODE})
        assert await changes(it) == [(MODE, "off", "open"), (MODE, "open", "off")]

    run(tmp_path, story, database=database_url)


def test_64_parallel_changes_are_each_recorded_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        path = "portal.apps_per_person"
        await asyncio.gather(*(change(it, path, str(number)) for number in range(100, 164)))
        recorded = await changes(it)
        assert len(recorded) == 64
        # Each began with the result of another one: none was lost.
        begun, ended = ({entry[at] for entry in recorded} for at in (1, 2))
        (last,) = ended - begun
        assert (await it.read(lambda tx: tx.stored_settings.all()))[path] == last

    run(tmp_path, story, database=database_url)


def test_value_of_a_newer_version_is_shown_and_can_be_reset(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        at = it.clock.now
        await it.write(lambda tx: tx.stored_settings.set("tokens.newer", "1", at))
        await it.write(lambda tx: tx.stored_settings.set("tokens.key_publication", "x", at))
        settings = await it.perform(READ_SETTINGS, {})
        assert isinstance(settings, SettingsShown)
        ignored = {setting.path for setting in settings.items if setting.ignored}
        assert ignored == {"tokens.newer", "tokens.key_publication"}
        await it.perform(RESET_SETTING, {"setting": "tokens.newer"})
        assert "tokens.newer" not in await it.read(lambda tx: tx.stored_settings.all())

    run(tmp_path, story)


def test_server_starts_with_stored_values_unless_the_file_has_its_own(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await change(it, MODE, "open")
        own = it.foundation
        foundation = await with_stored(build_foundation(it.settings, own.runtime, own.scopes))
        assert foundation.settings.registration.mode is RegistrationMode.OPEN
        assert foundation.base.registration.mode is RegistrationMode.OFF
        await foundation.close()
        source = SettingsSource(None, tmp_path, {MODE: Origin.FILE})
        pinned = replace(it.foundation, settings=replace(it.settings, source=source))
        assert await with_stored(pinned) is pinned

    run(tmp_path, story)


def test_reload_is_requested_once_and_not_after_the_value_is_reset(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        requested = list[int]()
        store = it.foundation.store
        workers = [
            FollowedSettings(it.foundation, partial(requested.append, number), number)
            for number in (0, 1)
        ]

        async def refresh() -> list[bool]:
            for worker in workers:
                await worker.refresh(store)
            await asyncio.sleep(0.01)
            return [worker._timer is not None for worker in workers]

        assert await refresh() == [False, False]
        await change(it, MODE, "open")
        assert await refresh() == [True, True]
        await change(it, "portal.apps_per_person", "7")
        assert await refresh() == [True, True]
        # The second worker waits until the first one had time to reload both.
        assert requested == [0]
        for path in (MODE, "portal.apps_per_person"):
            await it.perform(RESET_SETTING, {"setting": path})
        assert await refresh() == [False, False]

    run(tmp_path, story)


def test_records_that_could_not_be_applied_are_read_again(tmp_path: Path) -> None:
    class Failing(Followed[int]):
        applied = 0

        def read(self, tx: Transaction) -> int:
            return len(tx.stored_settings.all())

        def apply(self, stored: int) -> None:
            self.applied += 1
            if self.applied == 1:
                raise ValueError(stored)

    async def story(it: Harness) -> None:
        followed = Failing()
        with pytest.raises(ValueError, match="0"):
            await followed.refresh(it.foundation.store)
        for _ in range(2):
            await followed.refresh(it.foundation.store)
        assert followed.applied == 2

    run(tmp_path, story)
