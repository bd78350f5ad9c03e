"""How many device codes one network and one client may request without users allowing them."""

import asyncio
from pathlib import Path

from tests.support.asgi import FORM, request
from tests.support.harness import Harness, run
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.device.settings import DeviceSettings
from valetkey.authorization.model.client import GrantTypeName

FEW = 3
ALTOGETHER = 10 * FEW
FOR_A_NETWORK = DeviceSettings(codes_per_address=FEW)
WORD = "a good long password"
DEVICES = 200


async def _person(it: Harness) -> Browser:
    """Ada is signed in, and there is a television."""
    await it.client(
        "tv",
        type="public",
        redirect_uris=(),
        grant_types=(GrantTypeName.DEVICE_CODE.value, "refresh_token"),
        scopes=("notes:read",),
    )
    await it.password(WORD)
    here = it.browser(host="localhost:8400", scheme="http")
    page = await here.get("/oauth/sign-in")
    assert (await here.submit(page, "sign-in", username="ada", password=WORD)).status == 303
    return here


async def _begin(it: Harness) -> str:
    answer = await it.post("/oauth/device-authorization", {"client_id": "tv"})
    assert answer.status == 200, answer.body
    return answer.text("user_code")


async def _statuses(it: Harness, count: int) -> list[int]:
    form = {"client_id": "tv"}
    return [(await it.post("/oauth/device-authorization", form)).status for _ in range(count)]


async def _decide(here: Browser, code: str, decision: str = "allow") -> Answer:
    page = await here.get(f"/device/{code}")
    return await here.submit(page, decision, decision=decision, shown="yes")


def test_200_devices_behind_one_address_are_connected_within_ten_minutes(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = await _person(it)
        for _ in range(DEVICES // 20):
            for code in [await _begin(it) for _ in range(20)]:
                assert (await _decide(here, code)).status == 200

    run(tmp_path, story, features=(DeviceSettings(codes_per_address=20, codes_per_client=20),))


def test_device_codes_without_approval_are_limited_per_network(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await _person(it)
        form = {"client_id": "tv"}
        path = "/oauth/device-authorization"
        answers = await asyncio.gather(*(it.post(path, form) for _ in range(64)))
        statuses = sorted(answer.status for answer in answers)
        assert statuses == [200] * FEW + [429] * (64 - FEW)
        refused = next(answer for answer in answers if answer.status == 429)
        refused.refused(429, "slow_down")
        wait = int(refused.headers["retry-after"])
        assert 0 < wait <= it.settings.section(DeviceSettings).code_lifetime
        assert "enter the codes" in refused.text("error_description")
        headers = {"host": "localhost:8400", "content-type": FORM, "content-length": "12"}
        elsewhere, _, _ = await request(
            it.app, "POST", path, headers, b"client_id=tv", address="198.51.100.1"
        )
        assert elsewhere == 200
        it.clock.forward(wait)
        assert await _statuses(it, 2) == [200, 429]

    run(tmp_path, story, database_url, features=(FOR_A_NETWORK,))


def test_denied_codes_count_toward_the_limit(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = await _person(it)
        for _ in range(FEW):
            assert (await _decide(here, await _begin(it), "deny")).status == 200
        assert await _statuses(it, 1) == [429]

    run(tmp_path, story, features=(FOR_A_NETWORK,))


def test_allowed_codes_are_limited_in_total(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = await _person(it)
        for _ in range(ALTOGETHER):
            assert (await _decide(here, await _begin(it))).status == 200
        assert await _statuses(it, 1) == [429]

    run(tmp_path, story, features=(FOR_A_NETWORK,))


def test_parallel_approvals_of_a_code_free_one_place_in_the_limit(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        here = await _person(it)
        code, *_ = [await _begin(it) for _ in range(FEW)]
        page = await here.get(f"/device/{code}")
        allow = {"decision": "allow", "shown": "yes"}
        answers = await asyncio.gather(*(here.submit(page, "allow", **allow) for _ in range(32)))
        assert [answer.status for answer in answers].count(200) == 1
        assert await _statuses(it, 2) == [200, 429]

    device = DeviceSettings(codes_per_address=FEW, wrong_codes=1_000)
    run(tmp_path, story, database_url, features=(device,))


def test_allowed_codes_do_not_count_toward_the_client_limit(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = await _person(it)
        for _ in range(ALTOGETHER):
            assert (await _decide(here, await _begin(it))).status == 200
        assert await _statuses(it, FEW + 1) == [200] * FEW + [429]

    run(tmp_path, story, features=(DeviceSettings(codes_per_client=FEW, codes_per_address=100),))


def test_page_of_too_many_wrong_codes_says_how_long_to_wait(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = await _person(it)
        for _ in range(FEW):
            assert (await here.get("/device/BCDF-GHJK")).status == 400
        page = await here.get("/device/BCDF-GHJK")
        assert page.status == 429
        assert int(page.header("retry-after")) > 0
        assert "Try again in" in page.body
        assert "the developers of the app" not in page.body

    run(tmp_path, story, features=(DeviceSettings(wrong_codes=FEW),))
