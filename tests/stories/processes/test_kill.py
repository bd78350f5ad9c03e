"""What was answered with 200 is on disk: the power goes in the middle of load, and comes back."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from tests.stories.processes.races import CODES, Round, administrator, register
from tests.stories.processes.serving import Serving, serving
from tests.support.wait import CEILING
from valetkey.authorization.storage.revocations import BATCH
from valetkey.database.connect import connect

_CALLERS = 16
_BEFORE_THE_CUT = 150
_GRANTS = 2_000
_LIVE = "SELECT COUNT(*) FROM grants WHERE uid = 2000 AND revoked_at IS NULL"
_COLUMNS = (
    "client_id, uid, session_id, scope, audience, grant_type, auth_time, created_at,"
    " last_used_at, expires_at, refresh_print, refresh_expires_at, generation, sid, methods,"
    " claims, client_generation, user_generation, app_generation"
)
_COPIES = (
    f"INSERT INTO grants (id, {_COLUMNS}) SELECT id || i, {_COLUMNS} FROM grants,"
    " (WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < :many)"
    " SELECT i FROM c) n WHERE id = :like"
)


def test_crash_loses_no_answered_request(database_url: str, tmp_path: Path) -> None:
    answered: list[dict[str, str]] = []
    enough = threading.Event()

    def load(servers: Serving, token: str) -> None:
        while True:
            try:
                answer = servers.refresh(token)
            except requests.RequestException:
                return
            assert answer.status_code == 200, answer.text
            token = answer.json()["refresh_token"]
            answered.append({"family": token.partition(".")[2], "token": token})
            if len(answered) >= _BEFORE_THE_CUT:
                enough.set()

    with (
        ThreadPoolExecutor(_CALLERS) as threads,
        serving(tmp_path, database_url, workers=2) as servers,
    ):
        spent = servers.code()
        assert servers.redeem(spent).status_code == 200
        redeemed = [servers.redeem(servers.code("phone"), "phone") for _ in range(_CALLERS)]
        tokens = [answer.json()["refresh_token"] for answer in redeemed]
        callers = [threads.submit(load, servers, token) for token in tokens]
        assert enough.wait(60)
        servers.kill()
        for caller in callers:
            caller.result(60)

    with serving(tmp_path, database_url, workers=2) as servers:
        assert servers.redeem(spent).json()["error"] == "invalid_grant"
        latest = {entry["family"]: entry["token"] for entry in answered}
        assert len(latest) == _CALLERS
        for token in latest.values():
            # Current, or just replaced by a rotation whose answer was cut off: both still work.
            answer = servers.refresh(token)
            assert answer.status_code == 200, answer.text
        first = {entry["family"]: entry["token"] for entry in reversed(answered)}
        # And nothing old came back to life (RT-09).
        for token in first.values():
            assert servers.refresh(token).json()["error"] == "invalid_grant"


def test_ending_of_many_grants_continues_after_a_crash(database_url: str, tmp_path: Path) -> None:
    with serving(tmp_path, database_url, workers=2) as servers:
        name = "ended"
        admin = administrator(tmp_path)
        register(tmp_path, {name: 2000}, name)
        before = Round(servers, tmp_path, admin, name, 2000)
        like = before.grant_of(before.families[0])
        asyncio.run(_ask(database_url, _COPIES, like=like, many=_GRANTS))
        assert before.admin("POST", "/users/2000/disable").status_code == 200
        assert before.admin("POST", "/users/2000/enable").status_code == 200
        left = asyncio.run(_kill_between_batches(servers, database_url))
    assert 0 < left < _GRANTS - BATCH

    with serving(tmp_path, database_url, workers=2) as servers:
        before.servers = servers
        # Nothing issued before works, written as ended or not: the user is enabled again.
        assert before.survivors(before.families) == []
        assert [before.redeem(code).status_code for code in before.codes] == [400] * CODES
        asyncio.run(_wait_for_rest(database_url))


async def _ask(url: str, sql: str, **values: object) -> int:
    """Run a statement beside the server; the number that it returns, or the number of rows."""
    engine = connect(url, directory=Path())
    try:
        if values:
            return await engine.write(lambda db: db.run(sql, **values))
        row = await engine.row(sql)
        return 0 if row is None else int(row[0])
    finally:
        await engine.close()


async def _kill_between_batches(servers: Serving, url: str) -> int:
    """Kill the server once the background has written some grants; how many it has not."""
    engine = connect(url, directory=Path())
    try:
        end = time.monotonic() + CEILING
        while True:
            row = await engine.row(_LIVE)
            assert row is not None
            if row[0] < _GRANTS - BATCH:
                servers.kill()
                break
            assert time.monotonic() < end, "the background did not begin"
            await asyncio.sleep(0.01)
    finally:
        await engine.close()
    return await _ask(url, _LIVE)


async def _wait_for_rest(url: str) -> None:
    end = time.monotonic() + CEILING
    while await _ask(url, "SELECT COUNT(*) FROM endings"):
        assert time.monotonic() < end, "the rest was not written"
        await asyncio.sleep(0.1)
    assert await _ask(url, _LIVE) == 0
