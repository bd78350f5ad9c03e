"""Poll-based delivery (RFC 8936): acknowledgements, errors, bounds and waiting."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.authorization.signals.clients import FETCH, happen, receiver_of, signal_client
from tests.support.harness import ADA, Harness, run
from tests.support.wait import until
from valetkey.authorization.model.event.accounts import UserDisabled, UserEnabled
from valetkey.authorization.signals import endpoints
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams


def polling(story: Callable[[Harness], object], path: Path, database: str = "") -> None:
    run(path, story, database, **FETCH)  # type: ignore[arg-type]


def test_polled_tokens_come_again_until_they_are_acknowledged(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        assert await client.poll(stream_id) == {"sets": {}, "moreAvailable": False}
        await happen(it, UserDisabled(ADA), UserEnabled(ADA), UserDisabled(ADA))
        first = await client.poll(stream_id, maxEvents=2)
        assert (len(first["sets"]), first["moreAvailable"]) == (2, True)
        assert (await client.poll(stream_id, maxEvents=2))["sets"].keys() == first["sets"].keys()
        async with receiver_of(it) as receiver:
            verified_claims = [receiver.verify(token) for token in first["sets"].values()]
        assert [claims["jti"] for claims in verified_claims] == list(first["sets"])
        assert [next(iter(claims["events"])).rpartition("/")[2] for claims in verified_claims] == [
            "account-disabled",
            "account-enabled",
        ]
        rest = await client.poll(stream_id, ack=[*first["sets"], "unknown"])
        assert (len(rest["sets"]), rest["moreAvailable"]) == (1, False)
        none = await client.poll(stream_id, maxEvents=0, returnImmediately=False)
        assert none == {"sets": {}, "moreAvailable": True}
        assert await client.poll(stream_id, ack=list(rest["sets"])) == {
            "sets": {},
            "moreAvailable": False,
        }

    polling(story, tmp_path, database_url)


def test_token_that_the_receiver_cannot_read_is_dropped_and_listed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        await happen(it)
        (token_id,) = (await client.poll(stream_id))["sets"]
        errors = {
            token_id: {"err": "authentication_failed", "description": "no \n key"},
            "x": {"err": "y"},
        }
        for _ in range(2):
            assert (await client.poll(stream_id, setErrs=errors))["sets"] == {}
        (failure,) = await it.read(lambda tx: SignalStreams.of(tx).failures(stream_id, 10))
        assert (failure.token_id, failure.outcome, failure.description, failure.dropped) == (
            token_id,
            "authentication_failed",
            "no   key",
            True,
        )
        stream = await it.read(lambda tx: SignalStreams.of(tx).find(stream_id))
        assert stream is not None
        assert stream.dropped == 1

    polling(story, tmp_path)


def test_poll_waits_for_a_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        waiting = [
            asyncio.create_task(client.poll(stream_id, returnImmediately=False)) for _ in range(3)
        ]
        await asyncio.sleep(0)
        await happen(it)
        for poll in waiting:
            assert len((await poll)["sets"]) == 1

    polling(story, tmp_path)


def test_polls_that_wait_are_bounded(tmp_path: Path, monkeypatch: object) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        body = {"returnImmediately": False}
        path = f"/ssf/streams/{stream_id}/poll"
        tasks = [
            asyncio.create_task(client.call("POST", path, body))
            for _ in range(endpoints.MOST_POLLS + 8)
        ]
        await until(lambda: sum(task.done() for task in tasks) >= 8)
        early = [task.result() for task in tasks if task.done()]
        assert {answer.status for answer in early} == {200}
        await happen(it)
        answers = await asyncio.gather(*tasks)
        assert {answer.status for answer in answers} == {200}

    polling(story, tmp_path)


def test_revoked_token_ends_a_waiting_poll(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        path = f"/ssf/streams/{stream_id}/poll"
        waiting = asyncio.create_task(client.call("POST", path, {}))
        await asyncio.sleep(0)
        revoked = await it.token("receiver", "/oauth/revoke", token=client.token)
        assert revoked.status == 200
        assert (await waiting).status == 401

    polling(story, tmp_path)


def test_pushed_stream_cannot_be_polled(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            stream_id = await client.push_to(receiver.url())
            answer = await client.call("POST", f"/ssf/streams/{stream_id}/poll", {})
            answer.refused(404, "not_found")

    polling(story, tmp_path)


def test_paused_stream_gives_nothing_to_a_poll(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        await happen(it)
        paused = {"stream_id": stream_id, "status": "paused"}
        assert (await client.call("POST", "/ssf/status", paused)).status == 200
        assert (await client.poll(stream_id))["sets"] == {}
        assert await it.read(lambda tx: SignalQueue.of(tx).waiting_for(stream_id)) == 1
        enabled = {"stream_id": stream_id, "status": "enabled"}
        assert (await client.call("POST", "/ssf/status", enabled)).status == 200
        assert len((await client.poll(stream_id))["sets"]) == 1

    polling(story, tmp_path)
