"""Moments in the zone of the device, where the account names none."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.authorization.pages.examples.account import happened
from tests.authorization.pages.examples.person import person_examples
from valetkey.authorization.layout.assets import assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.contexts import AskingApp, CurrentUser, When
from valetkey.authorization.layout.render import content_security_policy, render
from valetkey.authorization.layout.viewer import ANYBODY, Viewer
from valetkey.authorization.site.account.activity import ActivityPage
from valetkey.kernel.moment import Instant

_AT = Instant(1_795_305_600)  # 2026-11-22 00:00:00 in UTC
_PAGE = ActivityPage(
    (
        happened("session.started", When(_AT, Instant(_AT + 180))),
        happened("user.registered", When(_AT, Instant(_AT + 9_000_000))),
    )
)
_PROFILE = person_examples(CurrentUser("ada"), AskingApp("A", "a.example"))["profile_empty"]


def _answer(route: Route) -> None:
    brand = Brand()
    path = route.request.url.removeprefix("https://auth.example")
    for asset in assets(brand):
        if asset.path == path:
            route.fulfill(body=asset.body, content_type=asset.content_type)
            return
    pages = {
        "/": (_PAGE, ANYBODY),
        "/named": (_PAGE, Viewer(zone="UTC")),
        "/me": (_PROFILE, ANYBODY),
    }
    page, viewer = pages.get(path, (_PAGE, ANYBODY))
    policy = content_security_policy(scripts=True)
    route.fulfill(
        body=render(page, brand=brand, viewer=viewer),
        content_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": policy},
    )


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab in New York."""
    context = browser.new_context(timezone_id="America/New_York")
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.route("**/*", _answer)
    yield tab
    context.close()
    assert not complaints


def test_times_are_shown_in_the_time_zone_of_the_device(tab: Page) -> None:
    tab.goto("https://auth.example/")
    soon, long_ago = tab.locator("time").all()
    assert soon.inner_text() == "3 minutes ago"
    for moment in (soon, long_ago):
        title = moment.get_attribute("title") or ""
        assert title.startswith("Saturday, November 21, 2026"), title
        assert "7:00:00" in title
    assert long_ago.inner_text() == "21 Nov 2026"


def test_times_are_shown_in_the_time_zone_of_the_account(tab: Page) -> None:
    tab.goto("https://auth.example/named")
    for moment in tab.locator("time").all():
        assert moment.get_attribute("title") == "22 Nov 2026, 00:00:00 UTC"


def test_time_zone_of_the_device_can_be_filled_in(tab: Page) -> None:
    tab.goto("https://auth.example/me")
    tab.get_by_role("button", name="Use this device’s time zone").click()
    assert tab.input_value("#zoneinfo") == "America/New_York"
