"""Push: what was committed arrives, signed, in order, however the receiver behaves."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.authorization.signals.clients import (
    CAEP,
    FETCH,
    RISC,
    happen,
    receiver_of,
    signal_client,
)
from tests.support.harness import ADA, Harness, run
from tests.support.wait import until, until_found
from valetkey.authorization.background.logout_delivery import RECEIVER_PAUSES
from valetkey.authorization.model.event.accounts import (
    PasskeyAdded,
    PasswordChanged,
    SessionEnded,
    UserDisabled,
    UserEnabled,
)
from valetkey.authorization.signals.model import LIFETIME, MOST_REJECTIONS
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.transaction import Transaction


def pushing(
    story: Callable[[Harness], object], path: Path, database: str = "", **more: object
) -> None:
    run(path, story, database, **FETCH, **more)  # type: ignore[arg-type]


def test_events_are_pushed_signed_and_in_order(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            stream_id = await client.push_to(receiver.url())

            def undone(tx: Transaction) -> None:
                tx.events.add(UserDisabled(ADA), it.clock.now)
                raise LookupError

            with suppress(LookupError):
                await it.write(undone)
            await happen(
                it,
                SessionEnded(ADA, "se_1", "signed_out"),
                PasswordChanged(ADA),
                PasskeyAdded(ADA, "pk_1"),
                UserDisabled(ADA),
                UserEnabled(ADA),
            )
            await until(lambda: len(receiver.of()) == 5)
            assert receiver.faults == []
            assert receiver.types() == [
                "session-revoked",
                "credential-change",
                "credential-change",
                "account-disabled",
                "account-enabled",
            ]
            ended, changed, added, *_ = receiver.of()
            user = {"format": "iss_sub", "iss": it.foundation.issuer, "sub": str(ADA)}
            assert ended["sub_id"] == {
                "format": "complex",
                "user": user,
                "session": {"format": "opaque", "id": "se_1"},
            }
            assert ended["events"] == {
                f"{CAEP}session-revoked": {
                    "event_timestamp": it.clock.now,
                    "initiating_entity": "admin",
                    "reason_admin": {"en": "session ended: signed out"},
                }
            }
            assert changed["sub_id"] == user
            assert changed["aud"] == "receiver"
            event = changed["events"][f"{CAEP}credential-change"]
            assert (event["credential_type"], event["change_type"]) == ("password", "update")
            event = added["events"][f"{CAEP}credential-change"]
            assert (event["credential_type"], event["change_type"]) == ("fido2-roaming", "create")
            assert len({claims["jti"] for claims in receiver.of()}) == 5
            assert len({claims["txn"] for claims in receiver.of()}) == 5
            stream = await it.read(lambda tx: SignalStreams.of(tx).find(stream_id))
            assert stream is not None
            assert (stream.failures, stream.last_delivery_at) == (0, it.clock.now)

    pushing(story, tmp_path, database_url)


def test_only_requested_types_are_sent(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            await client.push_to(receiver.url(), f"{RISC}account-disabled", "urn:unknown")
            await happen(it, UserEnabled(ADA), PasswordChanged(ADA), UserDisabled(ADA))
            await until(lambda: receiver.types() == ["account-disabled"])

    pushing(story, tmp_path)


def test_receiver_that_is_down_gets_everything_when_it_is_back(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            stream_id = await client.push_to(receiver.url())
            for status, headers, outcome in (
                ("", "", "fetch.answer"),
                ("302 Found", "location: http://127.0.0.1:1/\r\n", "302"),
                ("500 Internal Server Error", "", "500"),
                ("200 OK", "content-encoding: gzip\r\n", "fetch.encoding"),
            ):
                receiver.status, receiver.headers = status, headers
                await happen(it)
                before = receiver.requests
                it.clock.forward(RECEIVER_PAUSES[-1])
                await until(lambda before=before: receiver.requests > before)  # type: ignore[misc]

                async def logged(outcome: str = outcome) -> bool:
                    failures = await it.read(lambda tx: SignalStreams.of(tx).failures(stream_id, 1))
                    return bool(failures) and failures[0].outcome == outcome

                await until_found(logged)
            receiver.status, receiver.headers = "202 Accepted", ""
            it.clock.forward(RECEIVER_PAUSES[-1])
            await until(lambda: len(receiver.of()) == 4)
            assert receiver.faults == []
            stream = await it.read(lambda tx: SignalStreams.of(tx).find(stream_id))
            assert stream is not None
            assert (stream.dropped, stream.failing_since) == (0, None)

    pushing(story, tmp_path)


def test_rejected_token_is_dropped_after_some_attempts_and_does_not_block(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            stream_id = await client.push_to(receiver.url())
            receiver.status = "400 Bad Request"
            receiver.body = b'{"err":"invalid_audience","description":"not \\u0007 for us"}'
            await happen(it)
            for number in range(1, MOST_REJECTIONS + 1):
                await until(lambda number=number: receiver.requests == number)  # type: ignore[misc]

                async def counted(number: int = number) -> bool:
                    rejections = await it.read(
                        lambda tx: SignalStreams.of(tx).failures(stream_id, 10)
                    )
                    return len(rejections) == number

                await until_found(counted)
                it.clock.forward(RECEIVER_PAUSES[-1])
            failures = await it.read(lambda tx: SignalStreams.of(tx).failures(stream_id, 10))
            assert failures[0].dropped
            assert (failures[0].outcome, failures[0].description) == (
                "invalid_audience",
                "not   for us",
            )
            stream = await it.read(lambda tx: SignalStreams.of(tx).find(stream_id))
            assert stream is not None
            assert stream.dropped == 1
            receiver.status, receiver.body = "202 Accepted", b""
            await happen(it)
            await until(lambda: len(receiver.of()) == 1)

    pushing(story, tmp_path)


def test_tokens_stay_queued_while_the_receiver_denies_access(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            await client.push_to(receiver.url())
            receiver.status, receiver.body = "400 Bad Request", b'{"err":"access_denied"}'
            await happen(it)
            for number in range(1, MOST_REJECTIONS + 3):
                await until(lambda number=number: receiver.requests >= number)  # type: ignore[misc]
                await asyncio.sleep(0)
                it.clock.forward(RECEIVER_PAUSES[-1])
            receiver.status = "202 Accepted"
            it.clock.forward(RECEIVER_PAUSES[-1])
            await until(lambda: len(receiver.of()) == 1)

    pushing(story, tmp_path)


def test_token_that_waited_too_long_is_dropped(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            stream_id = await client.push_to(receiver.url())
            receiver.status = "503 Service Unavailable"
            await happen(it)
            await until(lambda: receiver.requests == 1)
            it.clock.forward(LIFETIME + 1)

            async def gone() -> bool:
                return await it.read(lambda tx: SignalQueue.of(tx).waiting_for(stream_id)) == 0

            await until_found(gone)

    pushing(story, tmp_path)
