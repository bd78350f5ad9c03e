"""Logout delivery: an app is told once it answers; a slow app does not delay others."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.harness import ADA, NOON, Clock
from tests.support.wait import until_found
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.app.foundation import Foundation, build_foundation, prepare
from valetkey.authorization.authentication.session import end_session
from valetkey.authorization.background.logout_delivery import PAUSES, LogoutDelivery, pause
from valetkey.authorization.model.client import Client, OpenIdRegistration
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.user import LEASE, Delivery, Session
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.client_keys import ClientSigner
from valetkey.authorization.tokens.id_token import EVENT, LogoutTokens, Subjects
from valetkey.config.settings import Settings, SettingsSource
from valetkey.fetch.outbound import Fetched, OutboundHttp, Unfetchable
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Fingerprint, Secret

T = TypeVar("T")

URL = "https://app.example/logout"
FAR = Instant(NOON + days(300))


@dataclass
class Town:
    """A database with ada and an app, and a delivery; the app answers `statuses`.

    A status of 0 is no answer at all.
    """

    foundation: Foundation
    clock: Clock
    client: Client
    statuses: list[int]
    told: list[str]
    logout_delivery: LogoutDelivery
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Until it is set, apps do not answer."""

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run it as a server would."""
        return await self.foundation.store.write(work, done_by=USUAL_ACTOR)

    async def events(self, name: str) -> list[str]:
        """What is in the events of this name."""
        page = await self.foundation.store.read(lambda tx: tx.events.page(Instant(0), "", 999))
        return [event.data for event in page if event.name == name]

    async def end(self, session_id: str = "se_1") -> Sequence[Delivery]:
        """A session ends, of which the app was told."""
        now = self.clock.now
        session = Session(session_id, ADA, now, ("pwd",), "", now, now, FAR, None)

        def work(tx: Transaction) -> Sequence[Delivery]:
            tx.sessions.start(session, Fingerprint(session_id))
            assert tx.participants.add(session_id, "web", now)
            assert end_session(tx, session, now, "signed_out")
            return tx.deliveries.lease(now, Instant(now + LEASE), 99)

        return await self.write(work)

    async def due(self) -> Sequence[Delivery]:
        """What may be attempted now."""
        now = self.clock.now
        return await self.write(lambda tx: tx.deliveries.lease(now, Instant(now + LEASE), 99))

    async def waiting(self) -> int:
        """How many wait."""
        return await self.foundation.store.read(lambda tx: tx.deliveries.waiting())

    async def none_waits(self) -> bool:
        """Whether every delivery is done."""
        return await self.waiting() == 0

    def claims(self, number: int) -> dict[str, object]:
        """What the token says that came as this one."""
        now = self.clock.now
        return jwt.verify(
            self.told[number],
            self.foundation.keys.published(now),
            typ=("logout+jwt",),
            algorithms=(Algorithm.ES256,),
            issuer=self.foundation.issuer,
            audience="web",
            now=now,
            leeway=days(2),
        )


@asynccontextmanager
async def town(directory: Path, *statuses: int, database: str = "") -> AsyncGenerator[Town]:
    clock = Clock()
    runtime = Runtime(lambda: clock.now, SYSTEM.random)
    defaults = Settings()
    settings = replace(
        defaults,
        authorization=replace(
            defaults.authorization, database=database or f"sqlite:///{directory}/auth.db"
        ),
        tokens=replace(defaults.tokens, signing_algorithms=(Algorithm.ES256,)),
        source=SettingsSource(None, directory, {}),
    )
    await prepare(settings, runtime)
    foundation = build_foundation(settings, runtime, {})
    await foundation.keep_keys(clock.now)
    metadata = ClientMetadata(
        "Web",
        redirect_uris=("https://app.example/cb",),
        openid=OpenIdRegistration(backchannel_logout_uri=URL),
    )
    record = UserRecord("ada", "ada@example.com", "Ada")

    def work(tx: Transaction) -> Client:
        foundation.accounts().register(tx, record, clock.now, uid=ADA)
        registrar = foundation.registrar("test")
        client = registrar.register(
            tx, metadata, clock.now, client_id="web", secret=Secret("s" * 40)
        )
        assert isinstance(client, Client), client
        return client

    client = await foundation.store.write(work, done_by=USUAL_ACTOR)
    signer = ClientSigner(
        foundation.keys, foundation.shared_secrets, foundation.client_keys, runtime.random
    )
    subjects = Subjects(foundation.keyring.fingerprint_key)

    async def post(url: str, fields: Mapping[str, str]) -> Fetched:
        assert url == URL
        it.told.append(fields["logout_token"])
        await it.heard.wait()
        status = it.statuses.pop(0) if it.statuses else 200
        if not status:
            raise Unfetchable("connect")
        return Fetched(status, "", b"")

    tokens = LogoutTokens(foundation.issuer, signer, subjects)
    logout_delivery = LogoutDelivery(foundation.store, tokens, post, runtime)
    it = Town(foundation, clock, client, list(statuses), [], logout_delivery)
    it.heard.set()
    try:
        yield it
    finally:
        await logout_delivery.close()
        await foundation.store.engine.close()


def run(
    directory: Path, story: Callable[[Town], Awaitable[None]], *statuses: int, database: str = ""
) -> None:
    async def tell() -> None:
        async with town(directory, *statuses, database=database) as it:
            await story(it)

    asyncio.run(tell())


def test_logout_token_has_exactly_the_specified_claims(tmp_path: Path) -> None:
    async def story(it: Town) -> None:
        (delivery,) = await it.end()
        await it.logout_delivery.at_once([delivery])
        assert it.claims(0) == {
            "iss": it.foundation.issuer,
            "sub": str(ADA),
            "aud": "web",
            "iat": NOON,
            "exp": NOON + 120,
            "jti": delivery.id,
            "sid": "se_1",
            "events": {EVENT: {}},
        }
        assert await it.waiting() == 0
        assert len(await it.events("logout_token.delivered")) == 1

    run(tmp_path, story)


@pytest.mark.parametrize("status", [0, 301, 400, 404, 500, 503])
def test_unconfirmed_logout_token_is_sent_again_after_a_pause(tmp_path: Path, status: int) -> None:
    async def story(it: Town) -> None:
        await it.logout_delivery.at_once(await it.end())
        assert await it.waiting() == 1
        it.clock.forward(PAUSES[0] - 1)
        assert not await it.due()
        it.clock.forward(1)
        await it.logout_delivery.at_once(await it.due())
        assert await it.waiting() == 0
        first, second = it.claims(0), it.claims(1)
        assert first["jti"] == second["jti"]
        assert (first["iat"], second["iat"]) == (NOON, NOON + PAUSES[0])
        assert second["exp"] == NOON + PAUSES[0] + 120

    run(tmp_path, story, status)


def test_pauses_between_attempts_grow_to_an_hour() -> None:
    assert [pause(attempts) for attempts in range(1, 9)] == [2, 10, 60, 300, 1800, 3600, 3600, 3600]


def test_logout_delivery_is_given_up_after_a_day(tmp_path: Path) -> None:
    async def story(it: Town) -> None:
        leased = await it.end()
        while leased:
            await it.logout_delivery.at_once(leased)
            it.clock.forward(3_600)
            leased = await it.due()
        assert it.clock.now <= NOON + days(1)
        assert 20 < len(it.told) < 30
        assert await it.waiting() == 0
        (event,) = await it.events("logout_token.given_up")
        assert '"because":"unheard"' in event

    run(tmp_path, story, *[503] * 99)


def test_disabled_app_or_app_without_logout_uri_receives_no_logout_token(tmp_path: Path) -> None:
    async def story(it: Town) -> None:
        off = replace(it.client, disabled_at=it.clock.now)
        silent = replace(it.client, openid=OpenIdRegistration.NOTHING)
        for number, changed in enumerate((off, silent)):
            await it.write(lambda tx: tx.clients.change(it.client))
            leased = await it.end(f"se_{number}")
            await it.write(lambda tx, changed=changed: tx.clients.change(changed))  # type: ignore[misc]
            await it.logout_delivery.at_once(leased)
        assert not it.told
        assert await it.waiting() == 0
        records = await it.events("logout_token.given_up")
        assert len(records) == 2
        assert all('"client_gone"' in record or '"no_address"' in record for record in records)

    run(tmp_path, story)


def test_logout_token_is_sent_to_the_current_uri_of_the_app(tmp_path: Path) -> None:
    async def story(it: Town) -> None:
        moved = OpenIdRegistration(backchannel_logout_uri="https://old.example/logout")
        await it.write(lambda tx: tx.clients.change(replace(it.client, openid=moved)))
        leased = await it.end()
        await it.write(lambda tx: tx.clients.change(it.client))
        await it.logout_delivery.at_once(leased)
        assert len(it.told) == 1

    run(tmp_path, story)


def test_slow_app_delays_no_sign_out_and_is_notified(tmp_path: Path) -> None:
    async def story(it: Town) -> None:
        it.heard.clear()
        leased = [await it.end(f"se_{number}") for number in range(4)]
        # The apps say nothing until this has returned.
        await it.logout_delivery.at_once([delivery for some in leased for delivery in some])
        assert len(it.told) == 4
        assert await it.waiting() == 4
        it.heard.set()
        await until_found(it.none_waits)

    run(tmp_path, story)


def test_expired_lease_of_a_killed_process_is_taken_over(database_url: str, tmp_path: Path) -> None:
    async def story(it: Town) -> None:
        assert await it.end()
        task = asyncio.create_task(it.logout_delivery.deliver())
        assert not await it.due()
        assert not it.told
        it.clock.forward(LEASE)
        await until_found(it.none_waits)
        task.cancel()
        assert len(it.told) == 1

    run(tmp_path, story, database=database_url)


def test_logout_to_an_internal_address_is_not_sent_and_stays_queued(tmp_path: Path) -> None:
    async def story(it: Town) -> None:
        inside = OpenIdRegistration(backchannel_logout_uri="https://169.254.169.254/logout")
        await it.write(lambda tx: tx.clients.change(replace(it.client, openid=inside)))
        door = OutboundHttp((ip_network("127.0.0.0/8"),), lambda: it.clock.now)
        logout_delivery = replace(it.logout_delivery, post=door.post_form)
        await logout_delivery.at_once(await it.end())
        assert await it.waiting() == 1

    run(tmp_path, story)
