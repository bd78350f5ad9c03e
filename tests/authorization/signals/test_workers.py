"""Two processes push to 64 receivers, and one is killed: all arrives, in order."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.authorization.signals.clients import CAEP, FETCH, happen, receiver_of, signal_client
from tests.support.harness import ADA, Harness, run
from tests.support.signal_receiver import SECRET
from tests.support.wait import until, until_found
from valetkey.authorization.model.event.accounts import SessionEnded
from valetkey.authorization.signals.model import LEASE, MOST_STREAMS_OF_CLIENT
from valetkey.authorization.signals.operations import (
    CREATE_STREAM,
    SignalStreamShown,
    SignalStreamWanted,
)
from valetkey.authorization.signals.storage import SignalQueue

_STREAMS = 64
_EVENTS = 6
_HOSTS = 16


def _start(directory: Path, database: str, ahead: int) -> "subprocess.Popen[str]":
    worker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.authorization.signals.worker",
            str(directory),
            database,
            str(ahead),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def test_killed_worker_loses_no_events_and_keeps_their_order(
    tmp_path: Path, postgres_url: str
) -> None:
    async def story(it: Harness) -> None:
        workers = list["subprocess.Popen[str]"]()
        try:
            async with receiver_of(it, _HOSTS) as receiver:
                for number in range(_STREAMS):
                    client_id = f"receiver-{number // MOST_STREAMS_OF_CLIENT}"
                    if number % MOST_STREAMS_OF_CLIENT == 0:
                        await signal_client(it, client_id)
                    stream = SignalStreamWanted(
                        client_id,
                        receiver.url(f"/{number}", number % _HOSTS + 1),
                        ["session-revoked"],
                        authorization_header=SECRET,
                    )
                    made = await it.perform(CREATE_STREAM, {}, stream)
                    assert isinstance(made, SignalStreamShown)
                workers += [_start(tmp_path, postgres_url, 0) for _ in range(2)]
                ended = [f"se_{number}" for number in range(_EVENTS)]
                await happen(
                    it, *(SessionEnded(ADA, session_id, "signed_out") for session_id in ended)
                )
                await until(lambda: sum(map(len, receiver.tokens.values())) > _STREAMS)
                workers[0].kill()
                assert workers[0].wait() != 0
                workers.append(_start(tmp_path, postgres_url, LEASE + 1))

                def all_arrived() -> bool:
                    return all(
                        len({claims["jti"] for claims in receiver.of(f"/{number}")}) == _EVENTS
                        for number in range(_STREAMS)
                    )

                await until(all_arrived)
                assert receiver.faults == []
                for number in range(_STREAMS):
                    session_ids = [
                        claims["sub_id"]["session"]["id"] for claims in receiver.of(f"/{number}")
                    ]
                    # At least once: what the killed worker had sent may come again.
                    assert list(dict.fromkeys(session_ids)) == ended
                    assert {
                        next(iter(claims["events"])) for claims in receiver.of(f"/{number}")
                    } == {f"{CAEP}session-revoked"}

                async def delivered() -> bool:
                    return await it.read(lambda tx: SignalQueue.of(tx).waiting()) == 0

                await until_found(delivered)
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()

    run(tmp_path, story, postgres_url, background=False, **FETCH)
