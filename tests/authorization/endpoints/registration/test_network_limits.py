"""How many apps one network may register: those that a user signs in to do not count."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.authorization.endpoints.registration.registering import JSON, PLAIN, Registry, run
from tests.support.asgi import basic, request
from tests.support.harness import CALLBACK
from tests.support.plain_browser import Browser, usual
from valetkey.authorization.actions.registrations import REGISTRATION_WINDOW
from valetkey.kernel.moment import hours

FEW = 3
ALTOGETHER = 10 * FEW
WORD = "a good long password"
APPS = 200


async def _person(it: Registry) -> Browser:
    service = it.service
    await service.password(WORD)
    here = service.browser(host="localhost:8400", scheme="http")
    page = await here.get("/oauth/sign-in")
    assert (await here.submit(page, "sign-in", username="ada", password=WORD)).status == 303
    return here


async def _sign_in(here: Browser, record: Mapping[str, Any]) -> None:
    """The user signs in to the app."""
    parameters = usual(client_id=record["client_id"], scope="openid", redirect_uri=CALLBACK)
    page = await here.follow(await here.get("/oauth/authorize", **parameters))
    assert (await here.allow(page)).told["code"]


async def _status(it: Registry, address: str) -> int:
    body = json.dumps(PLAIN).encode()
    headers = {"host": "localhost:8400", "content-type": JSON, "content-length": str(len(body))}
    app = it.service.app
    status, _, _ = await request(app, "POST", "/oauth/register", headers, body, address=address)
    return status


def test_200_users_of_one_address_can_register_apps_in_an_hour(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        here = await _person(it)
        for _ in range(APPS // 20):
            records = [await it.registered() for _ in range(20)]
            for record in records:
                await _sign_in(here, record)

    run(tmp_path, story, registrations_per_hour=20)


def test_registered_apps_without_sign_ins_are_limited_per_network(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Registry) -> None:
        answers = await asyncio.gather(*(it.register() for _ in range(64)))
        statuses = sorted(answer.status for answer in answers)
        assert statuses == [201] * FEW + [429] * (64 - FEW)
        refused = next(answer for answer in answers if answer.status == 429)
        refused.refused(429, "slow_down")
        wait = int(refused.headers["retry-after"])
        assert 0 < wait <= hours(1)
        assert "keep the client_id" in refused.text("error_description")
        assert await _status(it, "198.51.100.1") == 201
        it.service.clock.forward(wait)
        assert [(await it.register()).status for _ in range(2)] == [201, 429]

    run(tmp_path, story, database_url, registrations_per_hour=FEW)


def test_invalid_registrations_count_towards_the_limit(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        for _ in range(FEW):
            (await it.register({})).refused(400, "invalid_redirect_uri")
        (await it.register()).refused(429, "slow_down")

    run(tmp_path, story, registrations_per_hour=FEW)


def test_registrations_are_limited_even_if_every_app_is_used(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        here = await _person(it)
        for _ in range(ALTOGETHER):
            await _sign_in(here, await it.registered())
        (await it.register()).refused(429, "slow_down")

    run(tmp_path, story, registrations_per_hour=FEW)


def test_repeated_sign_ins_to_an_app_free_one_registration(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Registry) -> None:
        here = await _person(it)
        record, *_ = [await it.registered() for _ in range(FEW)]
        (await it.register()).refused(429, "slow_down")
        await _sign_in(here, record)
        parameters = usual(client_id=record["client_id"], scope="openid", redirect_uri=CALLBACK)
        answers = await asyncio.gather(
            *(here.get("/oauth/authorize", **parameters) for _ in range(32))
        )
        assert all(answer.told.get("code") for answer in answers)
        assert [(await it.register()).status for _ in range(2)] == [201, 429]

    run(tmp_path, story, database_url, registrations_per_hour=FEW)


def test_parallel_first_sign_ins_free_one_registration(database_url: str, tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        here = await _person(it)
        record, *_ = [await it.registered() for _ in range(FEW)]
        parameters = usual(client_id=record["client_id"], scope="openid", redirect_uri=CALLBACK)
        pages = [
            await here.follow(await here.get("/oauth/authorize", **parameters)) for _ in range(16)
        ]
        answers = await asyncio.gather(*(here.allow(page) for page in pages))
        assert any(answer.told.get("code") for answer in answers)
        assert [(await it.register()).status for _ in range(2)] == [201, 429]

    run(tmp_path, story, database_url, registrations_per_hour=FEW)


def test_first_sign_in_after_the_window_frees_no_registration(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        early = [await it.registered() for _ in range(FEW)]
        it.service.clock.forward(REGISTRATION_WINDOW + 10)
        here = await _person(it)
        assert [(await it.register()).status for _ in range(FEW + 1)] == [201] * FEW + [429]
        for record in early:
            await _sign_in(here, record)
        (await it.register()).refused(429, "slow_down")

    run(tmp_path, story, registrations_per_hour=FEW)


def test_use_without_a_user_frees_no_registration(tmp_path: Path) -> None:
    both = ("authorization_code", "refresh_token", "client_credentials")

    async def story(it: Registry) -> None:
        for _ in range(FEW):
            record = await it.registered(grant_types=list(both), scope="notes:read")
            proof = basic(record["client_id"], record["client_secret"])
            form = {"grant_type": "client_credentials"}
            assert (await it.service.post("/oauth/token", form, proof)).status == 200
        (await it.register()).refused(429, "slow_down")

    run(tmp_path, story, registrations_per_hour=FEW, grant_types=both, scopes=("notes:read",))


def test_successful_registrations_with_a_token_do_not_count(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        token = await it.invitation(uses=ALTOGETHER + 10)
        for _ in range(ALTOGETHER + 1):
            assert (await it.register(PLAIN, token)).status == 201
        # One that fails does: it may make this server fetch from others.
        for _ in range(FEW):
            (await it.register({}, token)).refused(400, "invalid_redirect_uri")
        (await it.register(PLAIN, token)).refused(429, "slow_down")

    run(tmp_path, story, registrations_per_hour=FEW, mode="token")


@pytest.mark.parametrize("mode", ["off", "token"])
def test_refused_tokens_do_not_use_up_the_registration_limit(tmp_path: Path, mode: str) -> None:
    async def story(it: Registry) -> None:
        for token in ("", "vk_in_x", await it.invitation()):
            used = token and mode == "token" and token != "vk_in_x"
            for _ in range(2 * FEW):
                answer = await it.register({} if used else PLAIN, "x" if used else token)
                answer.refused(401, "invalid_token")
        if mode == "token":
            assert (await it.register(PLAIN, await it.invitation())).status == 201

    run(tmp_path, story, registrations_per_hour=FEW, mode=mode)
