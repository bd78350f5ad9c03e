"""Debian's mod_auth_openidc guards a page; people sign in and out of it with a real browser."""

import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, Page

from tests.clients.openid.apache import CLIENT, Site, guarded
from tests.clients.programs import find_apache
from tests.openid.provider import RECORD
from tests.openid.relying_party import PASSWORD
from tests.support.wait import CEILING
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers


@pytest.fixture(scope="module")
def apache() -> str:
    """The program; without it, no test passes for lack of it."""
    program = find_apache()
    assert program is not None, "Apache or its module is missing"
    return program


@contextmanager
def a_site(apache: str, folder: Path, database_url: str) -> Generator[Site]:
    defaults = Settings(fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)))
    settings = replace(
        defaults, authorization=replace(defaults.authorization, database=database_url)
    )
    with Servers(folder, settings=settings, with_resource=False) as servers:
        ada = servers.register_user("ada", PASSWORD, name="Ada King Lovelace")
        assert servers.write(lambda tx: tx.users.change(replace(ada, claims=RECORD)))
        with guarded(apache, servers) as site:
            yield site


def enter(tab: Page, site: Site) -> None:
    """Open the page, and sign in and allow on the way."""
    tab.goto(site.page)
    assert tab.url.startswith(site.servers.auth_url), tab.content()
    tab.fill("#username", "ada")
    tab.fill("#password", PASSWORD)
    tab.click("#sign-in")
    if tab.locator("#allow").count():
        tab.click("#allow")
    tab.wait_for_url(site.page)
    assert tab.inner_text("#page") == "for members"


def is_in(tab: Page, site: Site) -> bool:
    """Whether the page opens without a question."""
    tab.goto(site.page)
    return tab.url == site.page and tab.inner_text("#page") == "for members"


def test_user_signs_in_is_identified_and_signs_out(
    apache: str, browser: Browser, tmp_path: Path, database_url: str
) -> None:
    with a_site(apache, tmp_path, database_url) as site:
        tab = browser.new_context().new_page()
        enter(tab, site)
        shown = tab.goto(site.page)
        assert shown is not None
        assert shown.header_value("x-seen-name") == "Ada"
        assert shown.header_value("x-seen-subject")
        tab.goto(f"{site.url}/guarded/back?logout={quote(site.bye, safe='')}")
        assert tab.url.startswith(f"{site.servers.auth_url}/oauth/logout")
        tab.click("#sign-out")
        tab.wait_for_url(f"{site.bye}*")
        assert tab.inner_text("#bye") == "good bye"
        tab.goto(site.page)
        assert tab.locator("#sign-in").count(), "who signed out is asked again"


def test_back_channel_logout_ends_the_session_in_apache(
    apache: str, browser: Browser, tmp_path: Path, database_url: str
) -> None:
    """Apache hears of it from the server, not from the browser."""
    with a_site(apache, tmp_path, database_url) as site:
        context = browser.new_context()
        tab = context.new_page()
        enter(tab, site)
        assert is_in(tab, site)
        elsewhere = context.new_page()
        elsewhere.goto(f"{site.servers.auth_url}/oauth/logout?{urlencode({'client_id': CLIENT})}")
        elsewhere.click("#sign-out")
        deadline = time.monotonic() + CEILING
        while is_in(tab, site):
            assert time.monotonic() < deadline, site.log.read_text()
            time.sleep(0.1)
        assert tab.locator("#sign-in").count()


def test_session_at_the_server_signs_in_again_without_a_prompt(
    apache: str, browser: Browser, tmp_path: Path
) -> None:
    with a_site(apache, tmp_path, "sqlite:///a.db") as site:
        context = browser.new_context()
        tab = context.new_page()
        enter(tab, site)
        context.clear_cookies(name=re.compile("^mod_auth_openidc"))
        assert is_in(tab, site), "the session at the server is enough"
