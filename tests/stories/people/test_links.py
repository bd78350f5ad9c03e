"""Every link and every form of every page leads somewhere, for everybody, with and without data."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.stories.people.crawler import Crawl, pages_of
from tests.stories.people.full_site import (
    CALENDAR,
    PRINTER,
    WORD,
    browser,
    give,
    password_given,
    signs_in,
    site,
)
from tests.support.asgi import basic
from tests.support.harness import CALLBACK, SECRET, Harness
from valetkey.authorization.actions.admin.owner import fresh_link, issue_link
from valetkey.authorization.model.user import Role
from valetkey.kernel.runtime import SYSTEM

_ASKED = {"response_type": "code", "client_id": PRINTER, "scope": "notes:read"}
REQUEST = f"/oauth/authorize?{urlencode({**_ASKED, 'redirect_uri': CALLBACK})}"
REFUSED = f"/oauth/authorize?{urlencode({**_ASKED, 'redirect_uri': 'https://other.example/'})}"
"""What an app asks for; the second has an address that is not registered."""

STARTS = (
    "/",
    "/mailbox",
    "/account/confirm",
    "/account/email",
)
"""Pages to begin with; most of them are where letters or the server itself send people."""

TYPED = {
    "client_secret": SECRET,
    "current": WORD,
    "email": "someone@example.com",
    "landed": CALLBACK,
    "name": "Ada",
    "new": WORD,
    "password": WORD,
    "permission": "every",
    "q": "ada",
    "redirect_uris": CALLBACK,
    "username": "ada",
}

REFUSALS = (
    "This request was already answered",
    "Diese Anfrage wurde schon beantwortet",
    "This link is no longer valid",
    "redirect_uri is not registered for this app",
    "client_id names no app that is registered here",
    "Link expired",
    "This code is invalid",
    "ungültig",
    "abgelaufen",
)
"""Sentences of pages that are meant to refuse."""

DATA = re.compile(r"see your calendar|use (?:\w+:)?(?:read|write)\b")
"""The sentences about scopes, which operators write in one language."""

BY_PROGRAMS = {
    ("/oauth/authorize", "POST"): "an app sends it (OpenID Connect Core 3.1.2.1)",
    ("/oauth/check-session", "GET"): "an app shows it in a frame",
    ("/oauth/logout", "GET"): "an app sends people there",
    ("/oauth/logout", "POST"): "an app sends people there",
    ("/oauth/sign-in/arrived", "GET"): "another server sends people there: test_federation",
    ("/oauth/sign-in/arrived", "POST"): "another server sends people there: test_federation",
    ("/oauth/sign-in/with/{provider}/callback", "GET"): "another server sends people there",
    ("/oauth/sign-in/with/{provider}/callback", "POST"): "the same, by form_post",
    ("/oauth/start", "GET"): "another site links to it",
    ("/admin/events/live", "GET"): "a script asks for new events: test_live",
    ("/admin/clients/selected/{act}", "GET"): "a change of the language on the page before",
    ("/admin/apis/selected/{act}", "GET"): "a change of the language on the page before",
    ("/admin/selected-groups/{act}", "GET"): "a change of the language on the page before",
    ("/admin/selected-groups/{act}", "POST"): "the list of groups, if there are any: test_selected",
    ("/account", "GET"): "people type it",
    ("/account/security/second-factor", "GET"): "a secured account: test_required_factor",
    ("/logos/{name}", "GET"): "an app whose logo was fetched from elsewhere: test_logos",
    ("/pictures/{name}", "GET"): "the profile of a user who uploaded a picture: test_picture",
    ("/account/profile/picture/remove", "POST"): "the same profile: test_picture",
    ("/admin/settings/brand/logo/remove", "POST"): "the same for a brand: test_console",
    ("/admin/settings/brand/preview/{page}", "GET"): "the brand's page shows it in a frame",
    ("/admin/settings/{setting}/{act}", "GET"): "a setting that was changed: test_server",
    ("/device/{user_code}/qr.svg", "GET"): "a device shows it",
    ("/docs/", "GET"): "footers link to it where the site is built: test_site",
    ("/docs/{+file}", "GET"): "pages of the documentation link to it: test_site",
    ("/developer/failures", "GET"): "people who got a reference open it by hand",
}
"""What no page of ours links to, and who does."""


async def crawl(folder: Path, who: str, *, full: bool) -> Crawl:
    """Everything that `who` can reach."""
    folder.mkdir()  # noqa: ASYNC240 - once, before anything else runs
    async with site(folder, full=full) as (it, key):
        here = browser(it)
        crawler = Crawl(here, it.app.routes, typed=TYPED, refusals=REFUSALS)
        crawler.never = (f"{CALENDAR.id}#",)

        async def again() -> None:
            await it.password(WORD)  # one of the forms removes it
            await signs_in(it, here, key)

        starts: tuple[str, ...] = (*STARTS, REFUSED) if full else STARTS
        if who == "visitor, half signed in":
            starts, crawler.below = (await password_given(here, REQUEST),), "/oauth"
        elif who == "user, asked by an app":
            await give(it, None)
            starts, crawler.below = (f"{REQUEST}&prompt=consent",), "/oauth"
        elif who == "user, asked by a device":
            await give(it, None)
            starts, crawler.below = await _device_codes(it), "/device"
        elif who == "holder of the link":
            await give(it, None)
            starts, crawler.below = (await _owner_link(it),), "/admin/owner"
        elif who in {*Role}:
            await give(it, Role(who))
            starts, crawler.below = ("/admin",), "/admin"
        else:
            await give(it, None)
            crawler.changing = ("/mailbox",)
        if who == "visitor":
            starts = (*starts, REQUEST)
            # What was wrong is for the team of the app.
            crawler.refusals += ("This refusal does not exist", "Diese Ablehnung gibt es nicht")
        if "visitor" not in who and (full or who != "holder of the link"):
            crawler.again = again
            await again()
        await crawler.everything(*starts)
        return crawler


async def _device_codes(it: Harness) -> tuple[str, ...]:
    """Where a user enters the code of a device, and the pages of two: one to allow, one to deny."""
    form, secret = {"client_id": PRINTER}, basic(PRINTER, SECRET)
    begun = [await it.post("/oauth/device-authorization", form, secret) for _ in "12"]
    return ("/device", *(f"/device/{answer.text('user_code')}" for answer in begun))


async def _owner_link(it: Harness) -> str:
    link, key = fresh_link(SYSTEM.random), it.foundation.keyring.fingerprint_key
    await it.write(lambda tx: issue_link(tx, link, key, it.clock.now))
    return f"/admin/owner?link={link.reveal()}"


CRAWLS = (
    ("visitor", True),
    ("visitor, half signed in", True),
    ("holder of the link", False),
    ("holder of the link", True),
    ("user, asked by an app", True),
    ("user, asked by a device", True),
    ("user", False),
    ("user", True),
    ("owner", False),
    *((role.value, True) for role in Role),
)
"""Who visits, and whether there is something to see."""


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Crawl]:
    """Every crawl, by who visits."""

    async def story() -> dict[str, Crawl]:
        folder = tmp_path_factory.mktemp("crawls")
        return {
            f"{who}, {'full' if full else 'empty'} site": await crawl(
                folder / str(number), who, full=full
            )
            for number, (who, full) in enumerate(CRAWLS)
        }

    return asyncio.run(story())


def test_crawl_finds_no_error_and_reaches_every_page(crawls: Mapping[str, Crawl]) -> None:
    findings = [f"{who}: {finding}" for who, crawl in crawls.items() for finding in crawl.findings]
    pages = {page for crawl in crawls.values() for page in pages_of(crawl.routes)}
    reached = {page for crawl in crawls.values() for page in crawl.reached}

    assert not findings, "\n".join(findings)
    assert pages - reached == BY_PROGRAMS.keys()


def test_no_english_sentence_is_left_on_a_german_page(crawls: Mapping[str, Crawl]) -> None:
    texts = {text: page for crawl in crawls.values() for text, page in crawl.english.items()}

    assert any(map(DATA.search, texts))
    assert {text: page for text, page in texts.items() if not DATA.search(text)} == {}


def test_every_control_that_is_shown_works_without_a_script(crawls: Mapping[str, Crawl]) -> None:
    """The crawl itself has no scripts: it follows every link and sends every form."""
    controls = {written: page for crawl in crawls.values() for written, page in crawl.dead.items()}

    assert controls == {}
