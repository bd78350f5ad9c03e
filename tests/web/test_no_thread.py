"""What runs on a thread when the system starts none: an expected refusal, and nothing runs late."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.wait import CEILING
from valetkey.authorization.background.audit import AuditFile, NotExported
from valetkey.authorization.email.delivery import MailServer, NotDelivered
from valetkey.config.sections.people import MailSettings
from valetkey.config.settings import Settings
from valetkey.fetch import address
from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel.bounded_threads import DefaultThreads, NoThread
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.sdk.fetch import Fetcher, Unreachable
from valetkey.web.offload import Busy, Offload, start_background


def _outbound() -> OutboundHttp:
    return OutboundHttp((), lambda: Instant(0))


def _slow_work() -> Awaitable[object]:
    with closing(Offload(1, 1)) as offload:
        return offload.run(int)


def _mail() -> Awaitable[object]:
    return MailServer.from_settings(
        replace(Settings(), mail=MailSettings(host="localhost", port=1))
    ).check()


_USES: dict[str, tuple[Callable[[Path], Awaitable[object]], type[Exception]]] = {
    "slow work": (lambda _: _slow_work(), Busy),
    "certificates": (lambda _: _outbound().context(), NoThread),
    "another server": (lambda _: _outbound().get("https://app.example/"), Unfetchable),
    "the issuer": (lambda _: Fetcher().get("http://localhost:1/"), Unreachable),
    "a mail server": (lambda _: _mail(), NotDelivered),
    "the audit log": (lambda folder: AuditFile(folder / "log").deliver(()), NotExported),
}


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("name", _USES)
def test_refused_thread_is_an_expected_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    use, failure = _USES[name]
    monkeypatch.setattr(address, "_THREADS", DefaultThreads())

    async def main() -> None:
        start_background((), ())
        with monkeypatch.context() as system:
            system.setattr(threading.Thread, "start", _refuse)
            with pytest.raises(failure):
                await use(tmp_path)

    asyncio.run(main())


def test_work_runs_on_existing_threads_if_none_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    free = threading.Event()

    async def main() -> None:
        start_background((), ())
        with monkeypatch.context() as system:
            system.setattr(threading.Thread, "start", _refuse)
            with pytest.raises(NoThread, match="the system starts no thread"):
                await asyncio.to_thread(done.append, "refused")
        async with asyncio.timeout(CEILING):
            first = asyncio.create_task(asyncio.to_thread(free.wait))
            await asyncio.sleep(0)
            with monkeypatch.context() as system:
                system.setattr(threading.Thread, "start", _refuse)
                second = asyncio.create_task(asyncio.to_thread(done.append, "queued"))
                await asyncio.sleep(0)
            free.set()
            await asyncio.gather(first, second)

    asyncio.run(main())
    assert done == ["queued"]
