"""What pages and files show of scopes that belong to a declared API."""

import asyncio
import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

from tests.stories.people.full_site import CALENDAR, PRINTER, WORD, browser, signs_in, site
from tests.support.harness import CALLBACK, Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.wait import until_found
from valetkey.authorization.actions.bulk_revocation import continue_oldest, end_all_of_api
from valetkey.authorization.storage.transaction import Transaction

READS = "Bei Calendar: see your calendar"


def shown(page: Answer) -> str:
    """The words of a page."""
    assert page.status == 200, (page.status, page.body)
    text = " ".join(unescape(re.sub(r"<[^>]*>", " ", page.body)).split()).replace(" :", ":")
    assert f"{CALENDAR.id}#" not in text
    return text


async def authorize(here: Browser, resource: str) -> Answer:
    query = [
        ("response_type", "code"),
        ("client_id", PRINTER),
        ("redirect_uri", CALLBACK),
        ("scope", "notes:read calendar:read"),
        ("prompt", "consent"),
        ("resource", "http://localhost:8401"),
        ("resource", resource),
    ]
    return await here.follow(await here.get(f"/oauth/authorize?{urlencode(query)}"))


async def exported(here: Browser) -> dict[str, list[dict[str, object]]]:
    """The file with the user's data."""
    page = await here.get("/account/data")
    answer = await here.submit(page, "download")
    if answer.status == 303:
        page = await here.follow(answer)
        page = await here.follow(await here.submit(page, "confirm", password=WORD))
        answer = await here.submit(page, "download")
    return json.loads(answer.body)  # type: ignore[no-any-return]


async def remove(it: Harness) -> None:
    """Delete the API and everything that was issued for it."""

    def work(tx: Transaction) -> None:
        api = tx.apis.find_to_change(CALENDAR.id)
        assert api is not None
        tx.apis.remove(api.id)
        end_all_of_api(tx, api, it.clock.now, "api_removed")

    await it.write(work)
    while await it.write(lambda tx: continue_oldest(tx, it.clock.now)):
        pass


def test_pages_show_scopes_of_an_api_by_its_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path, full=True) as (it, key):
            here = browser(it)
            await signs_in(it, here, key)
            page = await authorize(here, CALENDAR.identifier)
            assert READS in shown(page)
            assert "code=" in (await here.allow(page)).location
            for address in (
                "/account/apps",
                f"/account/apps/app?app={PRINTER}",
                f"/account/apps/end?app={PRINTER}",
            ):
                assert READS in shown(await here.get(address)), address
            people = shown(await here.get(f"/developer/apps/{PRINTER}/people"))
            assert "Bei Calendar: calendar:read" in people
            events = shown(await here.get("/admin/events?name=consent.given"))
            assert f"scope notes:read calendar:read apis {CALENDAR.identifier}" in events
            for address in ("/account/activity", "/admin/events", "/admin/users/1001"):
                shown(await here.get(address))

            file = await exported(here)
            apis = [
                {"identifier": CALENDAR.identifier, "name": "Calendar", "scope": "calendar:read"}
            ]
            consent = next(entry for entry in file["consents"] if entry["client_id"] == PRINTER)
            assert (consent["scope"], consent["apis"]) == ("notes:read calendar:read", apis)
            assert any(grant["apis"] == apis for grant in file["grants"])
            assert f"{CALENDAR.id}#" not in json.dumps(file)

            await it.client("reader")
            token = (await it.tokens("reader", "authorizations:read")).text("access_token")
            records = (await it.ask(token, "authorizations", "list")).json["records"]
            assert isinstance(records, list)
            assert ("notes:read calendar:read", apis) in [
                (record["scope"], record["apis"]) for record in records
            ]
            assert f"{CALENDAR.id}#" not in json.dumps(records)

            refused = await authorize(here, "https://other.example/")
            assert "error=invalid_target" in refused.location
            failures = f"/developer/apps/{PRINTER}/requests"
            seen = await until_found(lambda: _failure(here, failures))
            assert CALENDAR.identifier in shown(await here.get(seen))

            await remove(it)
            for address in ("/account/apps", f"/developer/apps/{PRINTER}/people"):
                text = shown(await here.get(address))
                assert "notes" in text
                assert "alendar" not in text, address

    asyncio.run(story())


async def _failure(here: Browser, failures: str) -> str:
    page = await here.get(failures, code="invalid_target")
    match = re.search(r'href="(/developer/apps/[^"]*/failures/VK-[^"]*)"', page.body)
    return "" if match is None else match[1]
