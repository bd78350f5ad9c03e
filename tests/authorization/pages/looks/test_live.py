"""The event log that follows new events: they appear on top, and it ends with the session."""

from playwright.sync_api import Browser, Route, expect

from tests.authorization.pages.examples.every import EXAMPLES
from valetkey.authorization.layout.assets import assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import content_security_policy, render
from valetkey.authorization.site.admin.events.events import EventsPage
from valetkey.kernel.replace import replace


def test_new_events_appear_on_top_until_the_session_ends(browser: Browser) -> None:
    page = EXAMPLES["admin_events"]
    assert isinstance(page, EventsPage)
    page = replace(page, live_url="/live")
    newer = replace(page.listed[0], id="ev_3")
    answers = [replace(page, listed=(newer, *page.listed))]

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix("https://auth.example")
        for asset in assets(Brand()):
            if asset.path == path:
                route.fulfill(body=asset.body, content_type=asset.content_type)
                return
        shown = page if path == "/" else answers.pop(0) if answers else None
        route.fulfill(
            status=404 if shown is None else 200,
            body=b"" if shown is None else render(shown, brand=Brand()),
            content_type="text/html; charset=utf-8",
            headers={
                "Content-Security-Policy": content_security_policy(scripts=True, connects=True)
            },
        )

    context = browser.new_context()
    tab = context.new_page()
    tab.clock.install()
    tab.route("**/*", answer)
    tab.goto("https://auth.example/")
    events = tab.locator("#events li")
    expect(events).to_have_count(2)
    tab.locator("#ev_1 summary").click()
    tab.get_by_role("switch", name="Live").check()
    expect(tab.get_by_role("status")).to_have_text("New events appear every few seconds.")
    expect(events).to_have_count(3)
    assert [event.get_attribute("id") for event in events.all()] == ["ev_3", "ev_1", "ev_2"]
    assert "fresh" in (events.first.get_attribute("class") or "")
    expect(tab.locator("#ev_1 dl")).to_be_visible()
    tab.clock.fast_forward(3_000)
    expect(tab.get_by_role("status")).to_contain_text("Your session has ended.")
    expect(tab.get_by_role("switch", name="Live")).to_be_disabled()
    expect(events).to_have_count(3)
    context.close()
