"""Health endpoints: they answer in time, and name what failed to those who may know."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

import pytest

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.web import log
from valetkey.web.exchange import Headers, Request, Response, json_response
from valetkey.web.health import Health

TOKEN = "a-token-of-whoever-watches"


class Away(Exception):
    """The database is gone."""


async def _well(now: Instant) -> None:
    """Work."""


async def _away(now: Instant) -> None:
    raise Away("disk full")


async def _hangs(now: Instant) -> None:
    await asyncio.Event().wait()


def _health(**checks: Callable[[Instant], Awaitable[object]]) -> Health:
    return Health(checks, (Away,), TOKEN)


def _ask(health: Health, path: str, token: str = "") -> Response:
    routes = {route.path: route for route in health.routes(lambda _: _never)}
    shown = ((b"authorization", f"Bearer {token}".encode()),) if token else ()
    request = Request("GET", path, headers=Headers(shown), at=Instant(1))

    async def answer() -> Response:
        return await routes[path].methods["GET"](request)

    return asyncio.run(answer())


def _never(request: Request, refusal: object) -> Response:
    raise AssertionError


def test_failed_parts_are_named_with_the_token_only() -> None:
    health = _health(database=_away, signing_key=_well)
    for token in ("", TOKEN[:-1], TOKEN + "x"):
        with pytest.raises(Refused) as refused:
            _ask(health, "/health/ready", token)
        assert "disk" not in refused.value.refusal.description
    answer = _ask(health, "/health/ready", TOKEN)
    checks = {"database": "Away: disk full", "signing_key": "ok"}
    assert answer == json_response({"status": "not ready", "checks": checks}, 503)
    assert _ask(health, "/health/live").status == 200


def test_a_check_that_hangs_is_answered_within_a_second() -> None:
    health = _health(database=_hangs, signing_key=_well)
    began = monotonic()
    answer = _ask(health, "/health/ready", TOKEN)
    assert monotonic() - began < 5
    assert answer.status == 503
    assert b'"database":"no answer in time"' in answer.body


def test_started_is_answered_while_the_database_is_away() -> None:
    started = _ask(_health(database=_away), "/health/started")
    assert started == json_response({"status": "started"})


def test_unexpected_exception_of_a_check_is_raised() -> None:
    async def faulty(now: Instant) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        _ask(_health(database=faulty), "/health/ready", TOKEN)


def test_cause_of_not_ready_is_logged_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    log._seldom.clear()
    for _ in range(3):
        _ask(_health(database=_away, signing_key=_well), "/health/ready", TOKEN)
    (line,) = capsys.readouterr().err.splitlines()
    assert '"event":"health.not_ready","cause":"database: Away: disk full"' in line
