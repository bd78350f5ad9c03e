"""Answers about tokens are cached until something that tokens depend on changes, and no longer."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.support.harness import ADA, Harness, run
from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.operations.operation import Operation
from valetkey.authorization.operations.user_records import UserChange
from valetkey.authorization.tokens import read as module
from valetkey.authorization.tokens.read import AnswerCache

_BY_ID = {operation.id: operation for operation in OPERATIONS}
_STEPS = 60


def test_answer_is_used_until_a_token_is_affected(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        cache, now = AnswerCache[str](it.foundation.store), it.clock.now
        await it.client("app", grant_types=("client_credentials",))
        await cache.find("token", now)
        cache.add("token", cache.number, "answer", now)
        await it.own_token("app")
        assert await cache.find("token", now) == "answer"
        assert await cache.find("another", now) is None
        await it.perform(_BY_ID["disable_client"], {"client_id": "app"})
        assert await cache.find("token", now) is None

    run(tmp_path, story, database_url)


def test_answer_that_was_read_before_a_change_is_not_kept(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        cache, now = AnswerCache[str](it.foundation.store), it.clock.now
        await it.client("app")
        await cache.find("token", now)
        number = cache.number
        await it.perform(_BY_ID["disable_client"], {"client_id": "app"})
        cache.add("token", number, "answer", now)
        assert await cache.find("token", now) is None

    run(tmp_path, story)


def test_answer_is_not_used_for_longer_than_five_seconds(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        cache, now = AnswerCache[str](it.foundation.store), it.clock.now
        await cache.find("token", now)
        cache.add("token", cache.number, "answer", now)
        it.clock.forward(4)
        assert await cache.find("token", it.clock.now) == "answer"
        it.clock.forward(1)
        assert await cache.find("token", it.clock.now) is None
        # A clock that was set back says nothing about the age.
        it.clock.forward(-10)
        assert await cache.find("token", it.clock.now) is None

    run(tmp_path, story)


def test_cache_is_bounded_and_evicts_the_oldest(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        cache, now = AnswerCache[int](it.foundation.store), it.clock.now
        await cache.find("token", now)
        number = cache.number
        with patch.object(module, "MOST_KNOWN", 3):
            for index in (0, 1, 2, 0, 3):
                # Half a character is a token like any other.
                cache.add(f"token {index} \ud800", number, index, now)
        kept = [
            index
            for index in range(4)
            if await cache.find(f"token {index} \ud800", now) is not None
        ]
        assert kept == [0, 2, 3]

    run(tmp_path, story)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_answer_is_older_than_the_last_change(
    tmp_path: Path, database_url: str, seed: int
) -> None:
    """Random changes by another process, each followed by questions about every token so far."""

    async def story(it: Harness) -> None:
        draw = random.Random(seed)
        model = _Model(it)
        for number in range(2):
            await it.client(
                f"app{number}",
                access_token_format=("jwt", "reference")[number],
                scopes=("openid", "profile"),
            )
        for step in range(_STEPS):
            await draw.choice(model.steps)(draw)
            await model.check(f"seed {seed}, step {step}")

    run(tmp_path, story, database_url)


class _Model:
    """What every token must be answered with."""

    def __init__(self, it: Harness) -> None:
        self.it = it
        self.tokens: dict[str, tuple[str, bool]] = {}
        self.disabled = {"app0": False, "app1": False, "ada": False}
        self.name = "Ada"
        self.steps: list[Callable[[random.Random], Awaitable[None]]] = [
            self._issue,
            self._issue,
            self._revoke,
            self._end_app,
            self._toggle_client,
            self._toggle_user,
            self._rename,
            self._wait,
        ]

    async def check(self, where: str) -> None:
        for token, (client, live) in self.tokens.items():
            usable = live and not self.disabled[client] and not self.disabled["ada"]
            for _ in range(2):
                assert (await self.it.introspect(token))["active"] is usable, (where, client)
                answer = await self.it.call(
                    "GET", "/oauth/userinfo", authorization=f"Bearer {token}"
                )
                assert answer.status == (200 if usable else 401), (where, client)
                assert not usable or answer.json["name"] == self.name, where

    async def _issue(self, draw: random.Random) -> None:
        client = draw.choice(("app0", "app1"))
        if not self.disabled[client] and not self.disabled["ada"]:
            answer = await self.it.tokens(client, "openid profile")
            self.tokens[answer.text("access_token")] = (client, True)

    async def _revoke(self, draw: random.Random) -> None:
        live = [token for token, (_, is_live) in self.tokens.items() if is_live]
        if live:
            token = draw.choice(live)
            client, _ = self.tokens[token]
            answer = await self.it.token(client, "/oauth/revoke", token=token)
            if answer.status == 200:
                self.tokens[token] = (client, False)

    async def _end_app(self, draw: random.Random) -> None:
        client = draw.choice(("app0", "app1"))
        await self._perform("delete_user_app", uid=str(ADA), client_id=client)
        self._end(client)

    async def _toggle_client(self, draw: random.Random) -> None:
        client = draw.choice(("app0", "app1"))
        verb = "enable" if self.disabled[client] else "disable"
        await self._perform(f"{verb}_client", client_id=client)
        self.disabled[client] = not self.disabled[client]
        self._end(client)

    async def _toggle_user(self, draw: random.Random) -> None:
        verb = "enable" if self.disabled["ada"] else "disable"
        await self._perform(f"{verb}_user", uid=str(ADA))
        self.disabled["ada"] = not self.disabled["ada"]
        self._end("app0")
        self._end("app1")

    async def _rename(self, draw: random.Random) -> None:
        self.name = f"Ada {draw.randrange(1_000_000)}"
        await self.it.perform(_BY_ID["change_user"], {"uid": str(ADA)}, UserChange(name=self.name))

    async def _wait(self, draw: random.Random) -> None:
        self.it.clock.forward(draw.randrange(3))

    async def _perform(self, name: str, **arguments: str) -> None:
        operation: Operation = _BY_ID[name]
        await self.it.perform(operation, arguments)

    def _end(self, client: str) -> None:
        self.tokens = {
            token: (of, live and of != client) for token, (of, live) in self.tokens.items()
        }
