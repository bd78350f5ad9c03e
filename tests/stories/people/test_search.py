"""Search by keyboard, in a real browser, in the console and in the developer portal."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.authorization.pages.test_accessible import AXE, EVERYTHING, LOOK
from tests.stories.people.test_console import sign_in
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.user import Role
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers

_PASSWORD = "correct horse battery staple"


@pytest.fixture
def servers(tmp_path: Path, database_url: str) -> Iterator[Servers]:
    """A server with an owner who has an app, and with three more users."""
    defaults = Settings()
    settings = replace(
        defaults, authorization=replace(defaults.authorization, database=database_url)
    )
    with Servers(tmp_path, settings=settings) as servers:
        olive = servers.register_user("olive", _PASSWORD)
        for name in ("nora", "noah", "bob"):
            servers.register_user(name, _PASSWORD)
        metadata = ClientMetadata(
            name="Notes Printer",
            redirect_uris=("https://app.example/cb",),
            grant_types=("authorization_code",),
            scopes=("read",),
        )
        servers.register_client(metadata, "printer", "s" * 40)

        def work(tx: Transaction) -> None:
            now = servers.clock.now()
            tx.user_directory.set_role(olive.uid, Role.OWNER, now)
            tx.members.add(Membership("printer", olive.uid, TeamRole.OWNER, now))

        servers.write(work)
        yield servers


def _enter(servers: Servers, page: Page) -> None:
    page.goto(f"{servers.auth_url}/admin")
    sign_in(page, "olive", _PASSWORD)
    page.wait_for_url("**/admin")


def _chosen(page: Page) -> str:
    """The option that the search field points to."""
    field = page.get_by_role("combobox", name="Search")
    option = page.locator(f"#{field.get_attribute('aria-activedescendant')}")
    expect(option).to_have_attribute("aria-selected", "true")
    assert page.locator("[role=option][aria-selected=true]").count() == 1
    return option.inner_text()


def test_user_is_opened_by_keyboard_alone(servers: Servers, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    _enter(servers, page)
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    # Without a text, the pages of the navigation.
    expect(page.get_by_role("option", name="Signing keys")).to_be_visible()
    page.keyboard.type("no")
    expect(page.get_by_role("option", name="Noah")).to_be_visible()
    expect(page.get_by_role("group", name="Apps").get_by_role("option")).to_have_count(1)
    assert _chosen(page).startswith("Noah")
    page.keyboard.press("ArrowDown")
    assert _chosen(page).startswith("Nora")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    # Before the first comes the last.
    assert _chosen(page) == page.locator("dialog [role=option]").last.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/users/*")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Noah")

    page.keyboard.press("Control+k")
    expect(field).to_be_focused()
    page.keyboard.type("nothing of this name")
    expect(page.get_by_role("status")).to_contain_text("Nothing found")
    expect(field).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(1)
    expect(page.locator("dialog")).to_be_hidden()
    context.close()


def test_slash_is_typed_in_fields_and_its_shortcut_can_be_switched_off(
    servers: Servers, browser: Browser
) -> None:
    context = browser.new_context()
    page = context.new_page()
    _enter(servers, page)
    page.goto(f"{servers.auth_url}/admin/search")
    field = page.locator("#q")
    field.focus()
    page.keyboard.type("a/b")
    expect(field).to_have_value("a/b")
    expect(page.locator("dialog")).to_have_count(0)
    page.get_by_role("checkbox", name="The key / opens").uncheck()
    page.goto(f"{servers.auth_url}/admin/users")
    page.keyboard.press("/")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    expect(page.locator("dialog")).to_be_visible()
    context.close()


def test_search_works_without_script(servers: Servers, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    _enter(servers, page)
    page.get_by_role("link", name="Search").click()
    page.fill("#q", "printer")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Notes Printer").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Notes Printer")
    context.close()


def test_developer_opens_a_page_of_an_app(servers: Servers, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    _enter(servers, page)
    page.goto(f"{servers.auth_url}/developer")
    page.keyboard.press("/")
    page.keyboard.type("printer health")
    expect(page.get_by_role("option", name="Health")).to_be_visible()
    assert "Notes Printer" in _chosen(page)
    page.keyboard.press("Enter")
    page.wait_for_url("**/developer/apps/printer/health")
    context.close()


def test_ended_session_redirects_to_sign_in_and_back(servers: Servers, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    _enter(servers, page)
    context.clear_cookies()
    page.keyboard.press("/")
    page.wait_for_url("**/oauth/sign-in**")
    sign_in(page, "olive", _PASSWORD)
    page.wait_for_url("**/admin/search")
    context.close()


@pytest.mark.parametrize("colors", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_reports_nothing_on_the_dialog(
    tmp_path: Path, browser: Browser, colors: str, width: int
) -> None:
    with Servers(tmp_path) as servers:
        olive = servers.register_user("olive", _PASSWORD)
        now = servers.clock.now()
        servers.write(lambda tx: tx.user_directory.set_role(olive.uid, Role.OWNER, now))
        context = browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme="dark" if colors == "dark" else "light",
            locale="de-DE",
            bypass_csp=True,
            reduced_motion="reduce",
        )
        context.add_init_script(path=AXE)
        page = context.new_page()
        _enter(servers, page)
        page.get_by_role("link", name="Suchen").click()
        page.keyboard.type("e")
        expect(page.get_by_role("group", name="Einstellungen")).to_be_attached()
        assert page.evaluate(LOOK, EVERYTHING) == []
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide
        context.close()
