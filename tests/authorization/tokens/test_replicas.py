"""Introspection and userinfo by a real streaming replica, which must never know less than asked."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.support import postgres
from tests.support.harness import Harness, run
from tests.support.wait import wait_until
from valetkey.authorization.tokens import read
from valetkey.config.settings import AuthorizationSettings
from valetkey.database.engine import Connection
from valetkey.database.identity import CHANGE_TOKEN_STATE
from valetkey.kernel import metrics

INACTIVE = {"active": False}
_SCOPE = "openid email"
_SCOPES = ("openid", "email", "notes:read")


class Pair(NamedTuple):
    """A primary and its streaming replica."""

    primary: Path
    replica: Path

    def execute(self, folder: Path, sql: str) -> object:
        """Return the first value of a statement on one of them."""
        with psycopg.connect(postgres.url(folder, "postgres"), autocommit=True) as raw:
            row = (
                raw.execute(sql.encode()).fetchone()
                if "SELECT" in sql
                else raw.execute(sql.encode())
            )
        return row[0] if isinstance(row, tuple) else None

    def replay(self) -> None:
        """Wait until the replica has everything that is committed."""
        at = self.execute(self.primary, "SELECT pg_current_wal_insert_lsn()::text")
        sql = f"SELECT pg_last_wal_replay_lsn() >= '{at}'::pg_lsn"
        wait_until(lambda: self.execute(self.replica, sql))

    def pause(self) -> None:
        """Let the replica fall behind from now on."""
        self.replay()
        self.execute(self.replica, "SELECT pg_wal_replay_pause()::text")
        state = "SELECT pg_get_wal_replay_pause_state()"
        wait_until(lambda: self.execute(self.replica, state) == "paused")

    def resume(self) -> None:
        """Let the replica catch up."""
        self.execute(self.replica, "SELECT pg_wal_replay_resume()::text")
        self.replay()


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Start both."""
    with postgres.own_server() as primary, postgres.standby(primary, "second") as replica:
        yield Pair(primary, replica)


def told(result: str) -> float:
    """Return how many questions to replicas had this result."""
    return sum(value for labels, (value,) in metrics.REPLICA.samples() if result in labels)


class Since:
    """The results of questions to replicas since a moment."""

    def __init__(self) -> None:
        """Begin now."""
        self._before = {
            result: told(result) for result in ("answered", "behind", "failed", "undecided")
        }

    def __call__(self, result: str) -> float:
        """Return how many questions had the result since then."""
        return told(result) - self._before[result]


async def userinfo(it: Harness, token: str) -> tuple[int, object]:
    """Return the status and the email address that userinfo gives."""
    answer = await it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}")
    return answer.status, answer.json.get("email")


def served(pair: Pair, tmp_path: Path, story: Callable[[Harness], object], **more: object) -> None:
    """Run a story with a server that has the replica."""
    replicas = (postgres.url(pair.replica, "postgres"),)
    settings = AuthorizationSettings(replicas=replicas)
    run(
        tmp_path,
        story,  # type: ignore[arg-type]  # a coroutine function
        postgres.url(pair.primary, "postgres"),
        authorization=settings,
        **more,
    )


def uncompared(db: Connection, number: int) -> None:
    """Take any number for the right one."""
    del db, number


def rested(it: Harness) -> None:
    """Wait until the server asks the replica again."""
    wait_until(it.server.store.engine.has_replica)


@pytest.mark.parametrize("kind", ["jwt", "reference"])
def test_replica_is_not_used_if_it_lags_or_the_token_is_not_live(
    pair: Pair, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=_SCOPES, access_token_format=kind)
        await it.client("spa", type="public", scopes=_SCOPES, access_token_format=kind)
        access = [(await it.tokens("web", _SCOPE)).text("access_token") for _ in range(3)]
        used = (await it.tokens("spa", _SCOPE)).text("refresh_token")
        pair.replay()
        since = Since()
        assert (await it.introspect(access[0]))["active"] is True
        assert (await userinfo(it, access[0]))[0] == 200
        assert (since("answered"), since("behind"), since("failed")) == (2, 0, 0)

        pair.pause()
        since = Since()
        # A refresh token that was used; the replica has it as unused.
        refreshed = await it.refresh("spa", used)
        assert await it.introspect(used) == INACTIVE
        # Issued after the replica stopped: only the primary has it, unless it is a JWT.
        new = refreshed.text("access_token")
        assert (await it.introspect(new))["active"] is True
        assert (since("undecided"), since("answered")) == ((0, 1) if kind == "jwt" else (1, 0))

        since = Since()
        assert (await it.token("web", "/oauth/revoke", token=access[1])).status == 200
        assert await it.introspect(access[1]) == INACTIVE
        assert (since("behind"), since("answered")) == (1, 0)
        rested(it)
        assert (await userinfo(it, access[1]))[0] == 401
        rested(it)
        # So it is with whatever else the replica answers, though nothing ended there.
        assert (await it.introspect(access[2]))["active"] is True
        assert (since("behind"), since("answered")) == (3, 0)

        # This test finds it if the numbers are not compared.
        with monkeypatch.context() as broken:
            broken.setattr(read, "require_token_state", uncompared)
            rested(it)
            assert (await it.introspect(access[1]))["active"] is True
            assert since("answered") == 1
        pair.resume()
        await it.token("web", "/oauth/revoke", token=access[2])
        pair.replay()
        rested(it)
        # What is not live is asked of the primary, too: the replica cannot tell ended from unknown.
        since = Since()
        assert [await it.introspect(token) for token in access[1:3]] == [INACTIVE, INACTIVE]
        assert (since("undecided"), since("behind")) == (2, 0)

    served(pair, tmp_path, story)


def test_requests_succeed_while_the_replica_hangs_stops_and_restarts(
    pair: Pair, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=_SCOPES)
        access = [(await it.tokens("web")).text("access_token") for _ in range(5)]
        pair.replay()
        since = Since()
        assert (await it.introspect(access[0]))["active"] is True
        assert since("answered") == 1
        frozen = postgres.processes(pair.replica / "data")
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert (await it.introspect(access[1]))["active"] is True
            # It is left alone for a while.
            assert not it.server.store.engine.has_replica()
            assert (await it.introspect(access[2]))["active"] is True
            assert (since("failed"), since("answered")) == (1, 1)
        finally:
            for pid in frozen:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        postgres.kill(pair.replica / "data")
        rested(it)
        assert (await it.introspect(access[3]))["active"] is True
        assert since("failed") == 2
        postgres.start(pair.replica / "data", pair.replica)
        pair.replay()
        rested(it)
        assert (await it.introspect(access[4]))["active"] is True
        assert since("answered") == 2

    served(pair, tmp_path, story)


def test_promoted_replica_is_not_used(pair: Pair, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=_SCOPES)
        access = [(await it.tokens("web")).text("access_token") for _ in range(2)]
        pair.replay()
        postgres.promote(pair.replica / "data")
        since = Since()
        # Both have as many endings, of different tokens.
        assert (await it.token("web", "/oauth/revoke", token=access[0])).status == 200
        pair.execute(pair.replica, "SET default_transaction_read_only = off;" + CHANGE_TOKEN_STATE)
        assert await it.introspect(access[0]) == INACTIVE
        assert (since("behind"), since("answered")) == (1, 0)

    served(pair, tmp_path, story)


def test_userinfo_of_changed_account_ignores_a_lagging_replica(pair: Pair, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=_SCOPES)
        token = (await it.tokens("web", _SCOPE)).text("access_token")
        pair.replay()
        since = Since()
        assert await userinfo(it, token) == (200, "ada@example.com")
        assert since("answered") == 1
        pair.pause()
        await it.write(
            lambda tx: tx.db.send("UPDATE users SET email = 'new@example.com' WHERE uid = 1001")
        )
        assert await userinfo(it, token) == (200, "new@example.com")
        assert (since("behind"), since("answered")) == (1, 1)
        pair.resume()

    served(pair, tmp_path, story)
