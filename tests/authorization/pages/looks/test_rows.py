"""Lists of a form whose entries a script adds and removes, without a request."""

from playwright.sync_api import Browser, Page, Route, expect

from tests.authorization.pages.examples.every import EXAMPLES
from valetkey.authorization.layout.assets import assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import content_security_policy, render
from valetkey.authorization.site.admin.input_form import InputFormPage

NAME = "admin_api_new"


def _values(tab: Page, name: str) -> list[str]:
    return [field.input_value() for field in tab.locator(f'input[name="{name}"]').all()]


def test_rows_are_added_and_removed_by_script(browser: Browser) -> None:
    page = EXAMPLES[NAME]
    assert isinstance(page, InputFormPage)
    methods = list[str]()

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix("https://auth.example")
        for asset in assets(Brand()):
            if asset.path == path:
                route.fulfill(body=asset.body, content_type=asset.content_type)
                return
        methods.append(route.request.method)
        route.fulfill(
            body=render(page, brand=Brand()),
            content_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": content_security_policy(scripts=True)},
        )

    context = browser.new_context()
    tab = context.new_page()
    tab.route("**/*", answer)
    tab.goto("https://auth.example/")
    scopes = tab.locator('fieldset[data-rows="scopes"]')
    tab.locator("details", has=scopes).locator("summary").click()
    had = _values(tab, "scopes")[:-1]
    texts = _values(tab, "text-scopes")[:-1]
    scopes.get_by_role("button", name="Add an entry").click()
    names = tab.locator('input[name="scopes"]')
    expect(names).to_have_count(len(had) + 2)
    expect(names.last).to_be_focused()
    # Ids stay unique, and labels those of their fields.
    ids = [entry_field.get_attribute("id") for entry_field in scopes.locator("input").all()]
    assert len(set(ids)) == len(ids)
    for number in (len(had) + 1, len(had) + 2):
        field = tab.get_by_label(f"Scopes {number}: Name", exact=True)
        field.fill(f"scope{number}")
        tab.get_by_label(f"Scopes {number}: Description", exact=True).fill(f"see {number}")
    last = len(had) + 2
    scopes.get_by_role("button", name=f"Remove scope{last - 1}").click()
    assert _values(tab, "scopes") == [*had, f"scope{last}"]
    assert _values(tab, "text-scopes") == [*texts, f"see {last}"]
    values = [
        button.get_attribute("value") for button in scopes.locator("button[name=remove]").all()
    ]
    assert values == [f"scopes/{number}" for number in range(len(had) + 1)]
    assert methods == ["GET"]
    # A form takes 100 fields: the server answers when a list gets longer.
    while len(tab.locator(".entry-row input").all()) < 60:
        scopes.get_by_role("button", name="Add an entry").click()
    assert methods == ["GET"]
    scopes.get_by_role("button", name="Add an entry").click()
    tab.wait_for_load_state()
    assert methods == ["GET", "POST"]
    context.close()
