"""A clock that was ahead and was set right extends no life; what it issued can be revoked."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.device.model import DeviceCode
from valetkey.authorization.email.notices import LIFETIMES, Links
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.model.user import Session
from valetkey.authorization.storage.revocations import RevokedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.keyring import Keyring, Ticket, open_ticket, seal_ticket
from valetkey.kernel.moment import Instant, days, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint

HOUR = 3_600
WEEK = days(7)


def test_code_issued_in_the_future_has_expired(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        it.clock.forward(HOUR)
        code = await it.code("web")
        it.clock.forward(-HOUR)
        refused = await it.exchange("web", code)
        refused.refused(400, "invalid_grant")
        assert refused.text("error_description") == "the code has expired"
        # Redeemed at the wrong time, it is a replay and no longer expired.
        it.clock.forward(HOUR)
        assert (await it.exchange("web", code)).status == 200
        it.clock.forward(-HOUR)
        replayed = await it.exchange("web", code)
        assert "already used" in replayed.text("error_description")

    run(tmp_path, story)


def test_code_of_a_clock_that_is_a_minute_ahead_works(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        it.clock.forward(60)
        codes = [await it.code("web") for _ in range(2)]
        it.clock.forward(-60)
        assert (await it.exchange("web", codes[0])).status == 200
        it.clock.forward(-1)
        (await it.exchange("web", codes[1])).refused(400, "invalid_grant")

    run(tmp_path, story)


@pytest.mark.parametrize("kind", ["jwt", "reference"])
def test_access_token_issued_in_the_future_is_not_active(tmp_path: Path, kind: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format=kind)
        it.clock.forward(HOUR)
        token = (await it.tokens("web")).text("access_token")
        assert (await it.introspect(token))["active"] is True
        it.clock.forward(-HOUR)
        assert await it.introspect(token) == {"active": False}

    run(tmp_path, story)


@pytest.mark.parametrize("kind", ["jwt", "reference"])
def test_access_token_issued_in_the_future_can_be_revoked(tmp_path: Path, kind: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format=kind)
        it.clock.forward(WEEK)
        token = (await it.tokens("web")).text("access_token")
        it.clock.forward(-WEEK)
        assert (await it.token("web", "/oauth/revoke", token=token)).status == 200
        assert await it.events() == ["access_token.revoked", "code.redeemed"]
        it.clock.forward(WEEK - 60)
        await it.write(lambda tx: tx.revocations.sweep(it.clock.now, 10))
        assert await it.introspect(token) == {"active": False}

    run(tmp_path, story)


@pytest.mark.parametrize("ended", ["client", "grant"])
def test_revocation_covers_tokens_issued_before_the_clock_was_set_back(
    tmp_path: Path, ended: str
) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web")
        it.clock.forward(WEEK)
        tokens = await it.tokens("web")
        it.clock.forward(-WEEK)
        if ended == "grant":
            refresh_token = tokens.text("refresh_token")
            await it.token("web", "/oauth/revoke", token=refresh_token)
        else:
            registrar = it.foundation.registrar("test")
            now = it.clock.now
            await it.write(lambda tx: registrar.disable(tx, client, now))
            disabled = replace(client, disabled_at=now)
            await it.write(lambda tx: registrar.enable(tx, disabled, now))
        it.clock.forward(WEEK)
        await it.write(lambda tx: tx.revocations.sweep(it.clock.now, 10))
        assert await it.introspect(tokens.text("access_token")) == {"active": False}
        # A resource server knows no more than the feed: it must still list it.
        listed = (await it.feed()).json["revocations"]
        kinds = {revocation["kind"] for revocation in listed}  # type: ignore[attr-defined]
        assert RevokedKind(ended) in kinds

    run(tmp_path, story)


def test_link_issued_in_the_future_has_expired(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        links = Links(it.foundation.issuer, it.foundation.keyring, SYSTEM.random)
        link, kind = links.fresh(), VoucherKind.PASSWORD_RESET
        now, until = it.clock.now, Instant(it.clock.now + HOUR + LIFETIMES[kind])

        def is_found(tx: Transaction, at: int) -> bool:
            return links.find(tx, kind, link.reveal(), Instant(at)) is not None

        await it.write(lambda tx: links.issue(tx, kind, link, {}, until, None))
        results = await it.read(lambda tx: [is_found(tx, now + by) for by in (0, HOUR - 60)])
        assert results == [False, True]

    run(tmp_path, story)


def test_device_code_issued_in_the_future_has_expired() -> None:
    of = Fingerprint("")
    times = (Instant(HOUR), Instant(HOUR + 600))
    code = DeviceCode(of, of, "tv", 0, Scope(), "", "gr_1", *times, seconds(5))
    assert [code.is_pending(Instant(at)) for at in (HOUR - 61, HOUR - 60)] == [False, True]


def test_api_token_issued_in_the_future_gives_no_access(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        it.clock.forward(HOUR)
        program = await caller(it)
        for by, status in ((-HOUR, 401), (HOUR - 61, 401), (1, 200)):
            it.clock.forward(by)
            assert (await program.call("GET", "/users")).status == status

    run(tmp_path, story)


def test_session_is_live_from_its_latest_sign_in() -> None:
    began = Session(
        "se_1", ADA, Instant(HOUR), ("pwd",), "", Instant(0), Instant(0), Instant(WEEK), None
    )
    assert [began.is_live(Instant(at)) for at in (HOUR - 61, HOUR - 60)] == [False, True]
    assert not began.is_live(Instant(WEEK))
    assert not replace(began, ended_at=Instant(HOUR)).is_live(Instant(HOUR))


def test_ticket_issued_in_the_future_has_expired() -> None:
    sealer, lifetime = Keyring.fresh(SYSTEM.random).sealer, seconds(600)
    ticket = Ticket(uid=ADA, browser="", expires_at=HOUR + 600)
    text = seal_ticket(ticket, "passkey", sealer, SYSTEM.random)
    opened = [
        open_ticket(text, Ticket, "passkey", sealer, lifetime, Instant(at)) is not None
        for at in (HOUR - 61, HOUR - 60, HOUR + 599, HOUR + 600)
    ]
    assert opened == [False, True, True, False]
