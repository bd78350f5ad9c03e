"""Pages in a real browser: nothing sticks out, everything can be hit, the policy is kept."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.authorization.pages.examples.every import EXAMPLES, HOSTILE, consent
from valetkey.authorization.pages.looks.asset import assets
from valetkey.authorization.pages.looks.brand import Brand
from valetkey.authorization.pages.page import content_security_policy, render, scripts_of

BRAND = Brand("Acme", terms_url="/terms", privacy_url="/privacy")
SERVER = "https://auth.example"
SHOWN = [
    name
    for name in EXAMPLES
    if not name.startswith("explanation") or "invalid_grant" in name or "header_fields" in name
]

# Links within a sentence are exempt (WCAG 2.2, 2.5.8); a box is hit through its label.
TOO_SMALL = """() => [...document.querySelectorAll('a, button, input, label.scope')]
    .filter(e => e.checkVisibility() && !e.matches('.by-return'))
    .filter(e => !['hidden', 'checkbox', 'radio'].includes(e.type))
    .filter(e => !e.closest('p:not(.papers), dl.facts') || e.matches('.button'))
    .filter(e => e.getBoundingClientRect().height < 44 || e.getBoundingClientRect().width < 24)
    .map(e => e.outerHTML)"""
STICKING_OUT = """() => [...document.querySelectorAll('body *')]
    .filter(e => !e.closest('pre, svg, .bar ul, .ways-around ul'))
    .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map(e => e.outerHTML)"""
FOCUS = """() => {
    const style = getComputedStyle(document.activeElement);
    return [document.activeElement.id, style.outlineStyle, parseFloat(style.outlineWidth)];
}"""


def _answer(route: Route) -> None:
    path = route.request.url.removeprefix(SERVER)
    for asset in assets(BRAND):
        if asset.path == path:
            route.fulfill(body=asset.body, content_type=asset.content_type)
            return
    name = path.removeprefix("/")
    if name not in EXAMPLES:
        route.fulfill(status=204)
        return
    policy = content_security_policy(brand=BRAND, scripts=bool(scripts_of(EXAMPLES[name])))
    route.fulfill(
        body=render(EXAMPLES[name], brand=BRAND),
        content_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": policy},
    )


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab that gets the examples by their names; complaints of the browser fail the test."""
    context = browser.new_context(java_script_enabled=True)
    tab = context.new_page()
    complaints: list[str] = []
    # Advice on forms with a password, which may be the secret of an app.
    tab.on("console", lambda m: None if "[DOM]" in m.text else complaints.append(m.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.route("**/*", _answer)
    yield tab
    context.close()
    assert not complaints


@pytest.mark.parametrize("width", [320, 390, 1600])
def test_nothing_sticks_out_and_everything_can_be_hit(tab: Page, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 700})
    found: dict[str, list[str]] = {}
    for name in SHOWN:
        tab.goto(f"{SERVER}/{name}")
        found[name] = [*tab.evaluate(STICKING_OUT), *tab.evaluate(TOO_SMALL)]

    assert {name: elements for name, elements in found.items() if elements} == {}


def test_the_focus_can_be_seen_on_every_control(tab: Page) -> None:
    tab.goto(f"{SERVER}/consent")
    seen: list[str] = []
    for _ in range(5):
        tab.keyboard.press("Tab")
        name, style, width = tab.evaluate(FOCUS)
        seen.append(name)
        assert style == "solid"
        assert width >= 2

    assert seen == ["switch-account", "scope-2", "scope-3", "deny", "allow"]


def test_sends_what_was_chosen(tab: Page) -> None:
    tab.goto(f"{SERVER}/consent")
    tab.uncheck("#scope-3")
    with tab.expect_request("**/oauth/consent*") as sent:
        tab.click("#allow")

    assert sent.value.post_data == "csrf=csrf-value&scope=notes%3Aread&decision=allow"


def test_follows_the_visitor_into_the_dark(tab: Page) -> None:
    tab.goto(f"{SERVER}/sign_in")
    tab.emulate_media(color_scheme="light")
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.emulate_media(color_scheme="dark")
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")

    assert [light, dark] == ["rgb(244, 245, 247)", "rgb(15, 17, 20)"]


def test_a_hostile_name_stays_within_its_own_text(tab: Page) -> None:
    tab.goto(f"{SERVER}/consent_hostile")

    heading = tab.inner_text("h1")

    assert heading.endswith("wants to use your Acme account")
    assert "<script>alert(1)</script>" in heading
    assert consent(HOSTILE).app.name not in heading
