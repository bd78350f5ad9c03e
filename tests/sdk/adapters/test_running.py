"""A gate at work: one protection for each event loop, one thread for each process."""

import asyncio
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from threading import Thread

import pytest

from tests.sdk.adapters.stories import gate
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.sdk.adapters.gate import Background, Gate, Running
from valetkey.sdk.protect import Protection
from valetkey.sdk.testing import Mint, trusted


def _fields(mint: Mint, scope: str = "read") -> list[str]:
    return [mint.headers(scope)["Authorization"]]


def test_each_event_loop_has_exactly_one_protection() -> None:
    at = gate()
    running = Running(at)

    async def story(mint: Mint) -> None:
        callers = await asyncio.gather(*(running.admit(_fields(mint)) for _ in range(20)))
        assert len(callers) == 20
        assert await running.start() is await running.start()
        followers = len(asyncio.all_tasks())
        await running.close()
        assert len(asyncio.all_tasks()) < followers
        await running.admit(_fields(mint))
        await running.close()
        await running.close()

    with trusted(at) as mint:
        for _ in range(2):
            asyncio.run(story(mint))


def test_trusted_issuer_may_change_while_the_gate_is_running() -> None:
    at = gate()
    running = Running(at)

    async def story() -> None:
        with trusted(at) as first:
            await running.admit(_fields(first))
        with trusted(at) as second:
            await running.admit(_fields(second))
            with pytest.raises(Refused):
                await running.admit(_fields(first))
        await running.close()

    asyncio.run(story())


def test_failed_follower_restarts_with_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = gate()
    running = Running(at)
    follow = Protection.follow
    begun: list[Protection] = []

    async def fails_at_first(protection: Protection, now: Callable[[], Instant]) -> None:
        begun.append(protection)
        if len(begun) == 1:
            raise RuntimeError("cannot schedule new futures after shutdown")
        await follow(protection, now)

    async def story(mint: Mint) -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context["exception"])
        )
        for _ in range(3):
            await running.admit(_fields(mint))
            await asyncio.sleep(0)
        assert len(begun) == 2
        await running.close()
        assert list(map(str, failures)) == ["cannot schedule new futures after shutdown"]

    monkeypatch.setattr(Protection, "follow", fails_at_first)
    with trusted(at) as mint:
        asyncio.run(story(mint))


def test_many_threads_share_one_loop_and_closing_ends_it() -> None:
    at = gate()
    background = Background(at)
    made: list[Protection] = []
    admitted: list[str] = []
    with trusted(at) as mint:

        def make(_: Gate) -> Protection:
            made.append(mint.protection())
            return made[-1]

        def call() -> None:
            admitted.append(background.admit(_fields(mint), "read").subject)

        at.replace(make)
        threads = [Thread(target=call) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(admitted) == 16
        assert len(made) == 1
        own = background._thread
        assert own is not None
        assert own.is_alive()
        background.close()
        background.close()
        assert not own.is_alive()
        call()
        assert len(made) == 2
        background.close()


def test_gate_works_in_a_forked_child_process() -> None:
    at = gate()
    background = Background(at)
    with trusted(at) as mint:
        fields = _fields(mint)
        background.admit(fields)
        with warnings.catch_warnings():
            # Newer Pythons warn of forks beside threads; servers fork all the same.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if background.admit(fields).subject == "1001" else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert background.admit(fields).subject == "1001"
        background.close()


def test_program_exits_cleanly_without_closing_the_gate() -> None:
    code = (
        "from valetkey.sdk.adapters.gate import Background\n"
        "from tests.sdk.adapters.stories import gate\n"
        "from valetkey.sdk.testing import trusted\n"
        "at = gate()\n"
        "background = Background(at)\n"
        "with trusted(at) as mint:\n"
        "    print(background.admit([mint.headers()['Authorization']]).subject)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1001\n", "")
