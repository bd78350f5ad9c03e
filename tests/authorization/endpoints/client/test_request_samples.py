"""Samples of successful requests: one of a kind in a minute, bounded, and without secrets."""

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.resource.api import api
from tests.support.asgi import basic
from tests.support.harness import CREDENTIAL, SECRET, USER_SCOPES, Harness, run
from tests.support.wait import until_found
from valetkey.authorization.background.maintenance import SWEEPS, sweep_all
from valetkey.authorization.model.client import RESOURCE_SERVER
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import SLOTS, StoredSample
from valetkey.kernel.moment import Instant, days, hours, minutes
from valetkey.kernel.tracing import RequestSample, RequestSamples


async def _samples(it: Harness, at_least: int) -> list[StoredSample]:
    async def enough() -> list[StoredSample]:
        arguments = "web", Instant(1 << 53), ""
        samples = await it.read(lambda tx: tx.request_samples.of_client(*arguments, 500))
        return list(samples) if len(samples) >= at_least else []

    return await until_found(enough)


def _add(samples: Sequence[RequestSample], tx: Transaction) -> None:
    tx.request_samples.add(samples, 60)


def test_first_success_of_a_kind_in_a_minute_is_recorded(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=("openid", *USER_SCOPES))
        tokens = await it.tokens("web", "openid notes:read")
        token = tokens.text("access_token")
        await it.tokens("web", "openid notes:read")
        await it.refresh("web", tokens.text("refresh_token"))
        assert (
            await it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}")
        ).status == 200
        (await it.token("web", grant_type="none")).refused(400, "unsupported_grant_type")
        await it.token("web", "/oauth/introspect", token=token)
        await it.introspect(token)
        visit = {
            "client_id": "web",
            "at": it.clock.now,
            "method": "GET",
            "endpoint": "/v2/notes/{id}",
            "status": 200,
            "milliseconds": 3,
            "scope": "notes:read",
            "request_id": "5f2b",
        }
        for body, status in (
            ({"requests": [visit] * 2}, 204),
            ({"requests": [visit | {"status": 99}]}, 400),
        ):
            text = json.dumps(body).encode()
            who = basic(RESOURCE_SERVER, CREDENTIAL)
            answer = await it.call("POST", "/oauth/uses", text, "application/json", who)
            assert answer.status == status
        samples = await _samples(it, 5)
        told_of = {
            (sample.method, sample.endpoint, sample.grant_type, sample.scope) for sample in samples
        }
        assert told_of == {
            ("POST", "/oauth/token", "authorization_code", "openid notes:read"),
            ("POST", "/oauth/token", "refresh_token", "openid notes:read"),
            ("GET", "/oauth/userinfo", "", ""),
            ("POST", "/oauth/introspect", "", ""),
            ("GET", "/v2/notes/{id}", "", "notes:read"),
        }
        assert len(samples) == 5
        (of_api,) = (sample for sample in samples if sample.endpoint.startswith("/v2/"))
        assert (of_api.milliseconds, of_api.request_id) == (3, "5f2b")
        assert all(sample.request_id and sample.status == 200 for sample in samples)
        assert SECRET not in str(samples)
        assert token not in str(samples)
        it.clock.forward(minutes(1))
        await it.tokens("web")
        assert len(await _samples(it, 6)) == 6

    run(tmp_path, story, database_url)


def test_samples_of_an_app_are_limited_and_kept_a_week(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        start = it.clock.now
        hourly = [
            RequestSample("web", Instant(start + hours(hour)), "GET", "/v2/notes", 200, 1)
            for hour in range(SLOTS + 9)
        ]
        again = [RequestSample("web", Instant(start + 30), "GET", "/v2/notes", 200, 7)]
        for written in (hourly[:1], again, hourly[1:]):
            await it.write(partial(_add, written))
        samples = await _samples(it, SLOTS)
        assert [sample.at for sample in samples] == [sample.at for sample in reversed(hourly[9:])]
        assert {sample.milliseconds for sample in samples} == {1}, "another process was first"
        assert await it.write(lambda tx: tx.request_samples.sweep_beyond(SLOTS, 500)) == 0
        assert await it.write(lambda tx: tx.request_samples.sweep_beyond(SLOTS - 1, 500)) == 1
        last = Instant(hourly[-1].at + days(7))
        await sweep_all(it.foundation.store, Instant(last - 1), SWEEPS)
        assert [sample.at for sample in await _samples(it, 1)] == [hourly[-1].at]
        await sweep_all(it.foundation.store, last, SWEEPS)
        gone = await it.read(lambda tx: tx.request_samples.of_client("web", last, "", 9))
        assert gone == []

    run(tmp_path, story, database_url)


def test_queued_samples_are_bounded_and_interval_zero_turns_sampling_off() -> None:
    samples, now = RequestSamples(60), Instant(6_000)
    taken = [index for index in range(2_100) if samples.due(f"app{index}", "GET", "/v2/notes", now)]
    assert len(taken) == 2_000
    assert not samples.due("app1", "GET", "/v2/notes", Instant(now + 59))
    assert samples.due("app1", "GET", "/v2/notes", Instant(now - 1)), "a clock that was set back"
    for number in range(10_100):
        samples.add(f"app{number}", "GET", "/v2/notes", now)
    first = samples.drain(3)
    assert [sample.client_id for sample in first] == ["app100", "app101", "app102"]
    samples.add("new", "GET", "/v2/notes", now)
    samples.give_back(first)
    assert len(samples) == 10_000
    assert samples.drain(1)[0].client_id == "app101"
    off = RequestSamples(0)
    off.add_samples(first)
    assert not off.due("web", "GET", "/v2/notes", now)
    assert not len(off)


def test_successful_api_requests_are_reported_to_the_authorization_server(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            token = call.issuer.token("notes:read notes:write")
            made = await call("POST", "/v2/notes", {"title": "x"}, token=token)
            for _ in range(3):
                await call("GET", f"/v2/notes/{made.json['id']}", token=token, x_request_id="")
            assert (await call("GET", "/v2/notes/none", token=token)).status == 404
            call.issuer.uses.clear()
        (report,) = (use["requests"] for use in call.issuer.uses if "requests" in use)
        assert [
            (request["method"], request["endpoint"], request["status"]) for request in report
        ] == [
            ("POST", "/v2/notes", 201),
            ("GET", "/v2/notes/{id}", 200),
        ]
        assert [request["scope"] for request in report] == ["notes:write", "notes:read"]
        assert made.json["id"] not in str(report)

    asyncio.run(story())
