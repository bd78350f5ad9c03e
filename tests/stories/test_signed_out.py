"""I signed out, and it was so at every app: told in the browser, told by the server, told late."""

import asyncio
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests
from playwright.sync_api import Browser, BrowserContext, Page

from tests.stories.processes.serving import PASSWORD, configure, serving, together
from tests.support.relying_party import RelyingParty
from tests.support.wait import CEILING, wait_until
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.background import logout_delivery
from valetkey.authorization.model.client import Client, OpenIdRegistration
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.load import load
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings
from valetkey.fetch import outbound
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret
from valetkey.testing.browser import Page as Shown
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

LOOPBACK = FetchSettings(allow=(ip_network("127.0.0.0/8"),))


def metadata_of(app: RelyingParty, *, front: bool = False, back: bool = False) -> ClientMetadata:
    """How the app registers."""
    return ClientMetadata(
        app.client_id.title(),
        redirect_uris=(f"{app.url}/cb",),
        scopes=("openid",),
        openid=OpenIdRegistration(
            post_logout_redirect_uris=(f"{app.url}/bye",),
            frontchannel_logout_uri=f"{app.url}/out" if front else "",
            frontchannel_logout_session_required=front,
            backchannel_logout_uri=f"{app.url}/logout" if back else "",
            backchannel_logout_session_required=back,
        ),
    )


def an_app(name: str) -> RelyingParty:
    return RelyingParty(name, f"{name}-" + "s" * 40)


@contextmanager
def provider(directory: Path, database: str) -> Generator[Servers]:
    base_settings = Settings(fetch=LOOPBACK)
    settings = replace(
        base_settings, authorization=replace(base_settings.authorization, database=database)
    )
    with Servers(directory, settings=settings, with_resource=False) as servers:
        servers.register_user("ada", PASSWORD)
        yield servers


def register(
    servers: Servers, app: RelyingParty, *, front: bool = False, back: bool = False
) -> None:
    app.issuer = servers.auth_url
    servers.register_client(metadata_of(app, front=front, back=back), app.client_id, app.secret)


@pytest.fixture
def apps() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def visit(person: UserAgent, app: RelyingParty) -> str:
    """The person signs in to the app, wherever they are asked; its cookie."""
    parameters = {
        "response_type": "code",
        "client_id": app.client_id,
        "redirect_uri": f"{app.url}/cb",
        "scope": "openid",
    }
    page = person.open(f"{app.issuer}/oauth/authorize?{urlencode(parameters)}")
    if any(button.id == "sign-in" for button in page.buttons):
        page = person.sign_in(page, "ada", PASSWORD)
    if any(button.id == "allow" for button in page.buttons):
        page = person.allow(page)
    answer = requests.get(page.location, allow_redirects=False, timeout=60)
    return answer.headers["set-cookie"].partition(";")[0]


def is_in(app: RelyingParty, cookie: str) -> bool:
    return requests.get(f"{app.url}/", headers={"cookie": cookie}, timeout=60).status_code == 200


def leave(person: UserAgent, issuer: str, app: RelyingParty | None = None) -> Shown:
    parameters = (
        {"client_id": app.client_id, "post_logout_redirect_uri": f"{app.url}/bye"} if app else {}
    )
    page = person.open(f"{issuer}/oauth/logout?{urlencode(parameters)}")
    return person.submit(page, "sign-out")


def enter(tab: Page, app: RelyingParty) -> None:
    tab.goto(f"{app.url}/sign-in")
    if tab.locator("#sign-in").count():
        tab.fill("#username", "ada")
        tab.fill("#password", PASSWORD)
        tab.click("#sign-in")
    if tab.locator("#allow").count():
        tab.click("#allow")
    tab.wait_for_url(f"{app.url}/")
    assert tab.inner_text("body") == "signed in"


def shows(context: BrowserContext, app: RelyingParty) -> str:
    tab = context.new_page()
    tab.goto(f"{app.url}/")
    return tab.inner_text("body")


def test_front_and_back_channel_logout_sign_out_of_every_app(
    database_url: str, tmp_path: Path, apps: ExitStack, browser: Browser
) -> None:
    front, back = (apps.enter_context(an_app(name)) for name in ("front", "back"))
    with provider(tmp_path, database_url) as servers:
        register(servers, front, front=True)
        register(servers, back, back=True)
        context = browser.new_context()
        tab = context.new_page()
        complaints: list[str] = []
        tab.on("console", lambda message: complaints.append(message.text))
        for app in (front, back):
            enter(tab, app)
        query = urlencode(
            {"client_id": "back", "post_logout_redirect_uri": f"{back.url}/bye", "state": "s"}
        )
        tab.goto(f"{servers.auth_url}/oauth/logout?{query}")
        assert [shows(context, app) for app in (front, back)] == ["signed in"] * 2
        tab.click("#sign-out")
        assert tab.inner_text("h1") == "You are signed out"
        # Nobody presses anything: the page goes on by itself when the frames had their time.
        tab.wait_for_url(f"{back.url}/bye?state=s")
        assert [shows(context, app) for app in (front, back)] == ["nobody"] * 2
        tab.goto(f"{servers.auth_url}/")
        assert tab.locator("#sign-out").count() == 0
        assert len(back.heard) == 1
        assert [complaint for complaint in complaints if "401" not in complaint] == []
        context.close()


def test_logout_notifies_all_apps_in_parallel_before_the_redirect(
    database_url: str, tmp_path: Path, apps: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logout_delivery, "_HELD_UP", CEILING)
    monkeypatch.setattr(outbound, "ANSWER_WITHIN", CEILING)
    four = [apps.enter_context(an_app(f"app{number}")) for number in range(4)]
    with provider(tmp_path, database_url) as servers:
        for app in four:
            register(servers, app, back=True)
        person = UserAgent(servers.auth_url)
        cookies = [visit(person, app) for app in four]
        assert all(is_in(app, cookie) for app, cookie in zip(four, cookies, strict=True))
        # Each answers only when all four were asked.
        all_asked = threading.Barrier(4)
        for app in four:
            app.all_asked = all_asked
        page = leave(person, servers.auth_url, four[0])
        assert page.location == f"{four[0].url}/bye"
        assert not any(is_in(app, cookie) for app, cookie in zip(four, cookies, strict=True))
        assert [len(app.heard) for app in four] == [1] * 4
        assert len({str(app.heard[0]["sid"]) for app in four}) == 1


def test_logout_token_is_sent_again_after_an_app_was_down(
    database_url: str, tmp_path: Path, apps: ExitStack
) -> None:
    up, down = (apps.enter_context(an_app(name)) for name in ("up", "down"))
    with provider(tmp_path, database_url) as servers:
        for app in (up, down):
            register(servers, app, back=True)
        person = UserAgent(servers.auth_url)
        cookies = [visit(person, app) for app in (up, down)]
        down.stop()
        leave(person, servers.auth_url)
        assert not is_in(up, cookies[0])
        down.start()
        down.wait_until_heard()
        assert not is_in(down, cookies[1])
        # An app that could not do it is told again, and knows the token by its jti.
        down.status = 500
        visit(person, down)
        leave(person, servers.auth_url)
        down.wait_until_heard(2)
        down.status = 200
        down.wait_until_heard(3)
        assert down.heard[1]["jti"] == down.heard[2]["jti"] != down.heard[0]["jti"]


@pytest.mark.parametrize("because", ["password", "disabled", "another person"])
def test_every_way_to_end_a_session_sends_a_logout_token(
    database_url: str, tmp_path: Path, apps: ExitStack, because: str
) -> None:
    app = apps.enter_context(an_app("app"))
    with provider(tmp_path, database_url) as servers:
        register(servers, app, back=True)
        servers.register_user("grace", PASSWORD)
        person = UserAgent(servers.auth_url)
        cookie = visit(person, app)
        accounts, now = Accounts(SYSTEM.random), servers.clock.now()
        if because == "another person":
            parameters = {"client_id": app.client_id, "response_type": "code", "scope": "openid"}
            parameters |= {"redirect_uri": f"{app.url}/cb", "prompt": "login"}
            page = person.open(f"{servers.auth_url}/oauth/authorize?{urlencode(parameters)}")
            person.sign_in(page, "grace", PASSWORD)
        else:

            def work(tx: Transaction) -> None:
                user = tx.users.find_by_name("ada")
                assert user is not None
                if because == "password":
                    accounts.set_password(tx, user, "another hash", now)
                else:
                    assert accounts.disable(tx, user, now)

            servers.write(work)
        wait_until(lambda: not is_in(app, cookie))
        assert len(app.heard) == 1


def test_each_app_receives_one_logout_token_for_64_concurrent_sign_outs(
    database_url: str, tmp_path: Path, apps: ExitStack
) -> None:
    two = [apps.enter_context(an_app(name)) for name in ("one", "two")]
    with provider(tmp_path, database_url) as servers:
        for app in two:
            register(servers, app, back=True)
        person = UserAgent(servers.auth_url)
        for app in two:
            visit(person, app)
        page = person.open(f"{servers.auth_url}/oauth/sign-out")
        form = next(candidate for candidate in page.forms if candidate.action != "/language")

        def press() -> int:
            answer = requests.post(
                f"{servers.auth_url}{form.action}",
                dict(form.fields),
                cookies=dict(person.cookies),
                allow_redirects=False,
                timeout=CEILING,
            )
            return answer.status_code

        assert set(together(press)) == {303}
        wait_until(
            lambda: (
                servers.write(lambda tx: tx.db.row("SELECT 1 FROM outbox WHERE queue = 'logout'"))
                is None
            )
        )
        assert [len(app.heard) for app in two] == [1, 1]


@pytest.mark.parametrize("when", ["it waits", "it is on its way"])
def test_logout_token_is_sent_after_a_crash_between_sign_out_and_delivery(
    database_url: str, tmp_path: Path, apps: ExitStack, when: str
) -> None:
    app = apps.enter_context(an_app("app"))
    config = configure(tmp_path, database_url)
    config.write_text(config.read_text() + '[fetch]\nallow = ["127.0.0.0/8"]\n')
    register_in(config, app)
    with serving(tmp_path, database_url) as servers:
        app.issuer = servers.auth
        person = UserAgent(servers.auth)
        cookie = visit(person, app)
        if when == "it waits":
            app.stop()
        else:
            app.held = threading.Event()
        leave(person, servers.auth)
        servers.kill()
    app.stop()
    if app.held is not None:
        app.held.set()
        app.held = None
    app.start()
    assert is_in(app, cookie)
    with serving(tmp_path, database_url):
        app.wait_until_heard()
        assert not is_in(app, cookie)


def register_in(config: Path, app: RelyingParty) -> None:
    """Register the app beside the servers, as the command line does."""
    foundation = build_foundation(load(config, {}), SYSTEM, {})
    registrar, now = foundation.registrar("test"), SYSTEM.now()

    async def work() -> None:
        try:
            result = await foundation.store.write(
                lambda tx: registrar.register(
                    tx,
                    metadata_of(app, back=True),
                    now,
                    client_id=app.client_id,
                    secret=Secret(app.secret),
                ),
                done_by=USUAL_ACTOR,
            )
            assert isinstance(result, Client), result
        finally:
            await foundation.store.engine.close()

    # A thread of its own: a browser's driver may have a loop running in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work()).result()
