"""What should be looked at is found from inside, and nothing else is."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.authorization.actions.admin.test_owner import there
from tests.authorization.endpoints.world import ADA, NOON, Service, run
from tests.fetch.test_certificate import certificate
from valetkey.authorization.actions.admin.findings import FindingName, Inspector
from valetkey.authorization.actions.admin.permissions import CommandLine, Person
from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.account.user import Uid
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import Refused


async def _found(it: Service, settings: Settings | None = None) -> dict[FindingName, bool]:
    inspector = Inspector(settings or it.settings, it.foundation.roles)
    inside = await it.read(lambda tx: inspector.inside(tx, CommandLine(), it.clock.now))
    return {each.about: each.is_bad for each in inside}


def test_a_lonely_owner_without_a_second_factor_is_told_of(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        assert await _found(it) == {FindingName.MAIL_OFF: False}
        await it.write(lambda tx: tx.people.set_role(ADA, Role.OWNER, NOON))
        assert await _found(it) == {
            FindingName.MAIL_OFF: False,
            FindingName.ONE_OWNER: False,
            FindingName.UNPROTECTED: True,
        }
        await there(it, ADA)
        assert await _found(it) == {FindingName.MAIL_OFF: False, FindingName.ONE_OWNER: False}
        inspector = Inspector(it.settings, it.foundation.roles)
        with pytest.raises(Refused):
            await it.read(lambda tx: inspector.inside(tx, Person(Uid(7), "se_7"), NOON))

    run(tmp_path, story)


def test_keys_that_are_missing_are_told_of(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        await it.write(
            lambda tx: tx.db.run("DELETE FROM signing_keys WHERE activates_at > 1800000000")
        )
        assert FindingName.NO_NEXT_KEY in await _found(it)
        await it.write(lambda tx: tx.db.run("DELETE FROM signing_keys"))
        assert (await _found(it))[FindingName.NO_KEY]

    run(tmp_path, story)


def test_a_certificate_that_ends_is_told_of_in_time(tmp_path: Path) -> None:
    file = tmp_path / "tls.pem"
    until = Instant(NOON + days(20))
    file.write_bytes(certificate(datetime.fromtimestamp(until, UTC)))

    async def story(it: Service) -> None:
        with_tls = replace(
            it.settings,
            authorization=replace(
                it.settings.authorization, tls_certificate="tls.pem", tls_key="tls.key"
            ),
        )
        inspector = Inspector(with_tls, it.foundation.roles)

        def told(now: int) -> list[tuple[FindingName, bool, int]]:
            found = inspector.outside(Instant(now))
            return [(f.about, f.is_bad, f.count) for f in found if f.about is not FindingName.DISK]

        assert told(NOON - days(2)) == []
        assert told(NOON) == [(FindingName.CERTIFICATE, False, 20)]
        assert told(NOON + days(14)) == [(FindingName.CERTIFICATE, True, 6)]
        assert told(NOON + days(40)) == [(FindingName.CERTIFICATE, True, 0)]
        file.unlink()
        assert told(NOON) == [(FindingName.CERTIFICATE_UNREAD, True, 0)]

    run(tmp_path, story)
