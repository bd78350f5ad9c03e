"""Everybody in a browser: a developer, a person and an owner, from sign-up to the end of it all."""

import re
import time
from base64 import b32decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as PlaywrightError

from tests.support.pages import Page as AppPage
from tests.support.pages import pages
from tests.support.wait import CEILING
from valetkey.authorization.actions.admin.owner import fresh_link, issue_link
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.authentication.factors import PERIOD, code_at
from valetkey.config.sections.people import AccountSettings, MailSettings, MailTransport, SignUpMode
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import AuthorizationSettings, Settings
from valetkey.kernel.moment import minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.testing.server import Servers

WORD = "a word that only {} would think of"
SOON = CEILING
"""Seconds within which what was ended is dead everywhere."""

_DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def servers(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Servers]:
    """Both servers; people may sign up, and letters lie in the mailbox."""
    settings = Settings(
        authorization=AuthorizationSettings(database=database_url),
        accounts=AccountSettings(sign_up=SignUpMode.OPEN),
        mail=MailSettings(transport=MailTransport.MAILBOX, from_address="no-reply@example.com"),
    )
    if database_url.startswith("postgresql"):
        another = request.getfixturevalue("another_postgres_url")
        settings = replace(settings, resource=ResourceSettings(database=another))
    running = Servers(tmp_path, settings=settings)
    # Passkeys belong to names, not to numbers.
    url = f"http://localhost:{urlsplit(running.auth_url).port}"
    named = replace(running.settings.authorization, url=url)
    running.settings = replace(running.settings, authorization=named)
    with running:
        yield running


@pytest.fixture
def callback() -> Iterator[str]:
    """Where the app waits for the answers; what it says to that is its own business."""

    class Anywhere(dict[str, AppPage]):
        def get(self, key: str, default: object = None) -> AppPage:
            return AppPage(b"<title>Printing</title>", "text/html")

    with pages() as app:
        app.at = Anywhere()
        yield f"{app.url}/cb"


@dataclass
class Somebody:
    """A person, their browser, and what they keep elsewhere."""

    servers: Servers
    page: Page
    name: str
    key: bytes = b""
    step: int = 0
    touch: Callable[[bool], object] = bool

    @property
    def word(self) -> str:
        return WORD.format(self.name)

    def goes(self, path: str) -> None:
        self.page.goto(f"{self.servers.auth_url}{path}")

    def presses(self, id: str) -> None:
        self.page.click(f"#{id}")

    def sees(self, text: str) -> None:
        expect(self.page.locator("main")).to_contain_text(text)

    def is_at(self, path: str) -> None:
        self.page.wait_for_url(f"{self.servers.auth_url}{path}")

    def signs_up(self, to: str = "/account/security") -> None:
        """Fill in the form, open the letter, press its button."""
        self.goes(f"/account/new?to={to}")
        fields = {"username": self.name, "email": f"{self.name}@example.com", "new": self.word}
        for field, text in fields.items():
            self.page.fill(f"[name={field}]", text)
        self.presses("create")
        self.sees("We sent an email to")
        self.goes("/mailbox")
        self.page.locator("main a", has_text="Finish creating your").first.click()
        self.page.locator("main a[href*='/account/new/confirm']").click()
        self.presses("finish")
        self.is_at(to)

    def signs_out(self) -> None:
        self.goes("/oauth/sign-out")
        self.presses("sign-out")
        self.sees("signed out")

    def shows_a_password(self, to: str = "/account/security") -> None:
        self.goes(f"/oauth/sign-in?to={to}")
        self.page.fill("#username", self.name)
        self.page.fill("#password", self.word)
        self.presses("sign-in")

    def adds_a_passkey(self) -> list[str]:
        """A virtual device keeps it; what comes back are the recovery codes."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("WebAuthn.enable")
        made = session.send("WebAuthn.addVirtualAuthenticator", {"options": _DEVICE})
        there = {"authenticatorId": made["authenticatorId"]}

        def touch(enabled: bool) -> None:
            parameters = {**there, "enabled": enabled}
            session.send("WebAuthn.setAutomaticPresenceSimulation", parameters)

        self.touch = touch
        self.goes("/account/security")
        self.presses("add-passkey")
        self.page.fill("#name", "the laptop")
        self.presses("add")
        self.page.wait_for_selector("#codes")
        codes = re.findall(r"[A-Z2-9]{4}(?:-[A-Z2-9]{4}){2}", self.page.inner_text("#codes"))
        self.presses("done")
        self.is_at("/account/security")
        return codes

    def shows_a_passkey(self, to: str) -> None:
        """Press the button; a device that is touched at once is offered before that."""
        self.touch(True)
        self.goes(f"/oauth/sign-in?to={to}")
        with suppress(PlaywrightError):
            self.page.click("#passkey", timeout=2_000)
        self.is_at(to)
        self.touch(False)

    def adds_an_authenticator(self) -> None:
        self.goes("/account/security")
        self.presses("add-authenticator")
        self.key = b32decode(self.page.inner_text("#key").replace(" ", ""))
        self.page.fill("#code", self.code())
        self.presses("set-up")
        self.page.wait_for_url(re.compile("/account/security"))
        if self.page.locator("#codes").count():
            self.presses("done")
        self.sees("Authenticator")

    def code(self) -> str:
        """The next code that was not used yet; time goes on where it must."""
        now = self.servers.clock.now() // PERIOD
        if now <= self.step:
            self.servers.clock.forward(minutes(1))
            now = self.servers.clock.now() // PERIOD
        self.step = now
        return code_at(self.key, now)


@pytest.fixture
def somebody(browser: Browser, servers: Servers) -> Iterator[Callable[[str], Somebody]]:
    """People by their names, each with a browser of their own that complains of nothing."""
    contexts = []
    complaints: list[str] = []

    def make(name: str) -> Somebody:
        context = browser.new_context()
        context.set_default_timeout(SOON * 1000)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        contexts.append(context)
        return Somebody(servers, context.new_page(), name)

    yield make
    for context in contexts:
        context.close()
    assert not complaints


def post(url: str, secret: tuple[str, str], **form: str) -> requests.Response:
    return requests.post(f"{url}/oauth/token", data=form, auth=secret, timeout=60)


def works(servers: Servers, token: str) -> bool:
    """Whether the API takes this token now."""
    bearer = {"Authorization": f"Bearer {token}"}
    answer = requests.get(f"{servers.api_url}/v2/notes", headers=bearer, timeout=60)
    assert answer.status_code in {200, 401}, answer.text
    return answer.status_code == 200


def dies(servers: Servers, token: str) -> bool:
    """Whether the API refuses the token soon."""
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        if not works(servers, token):
            return True
        time.sleep(0.1)
    return False


def registers(ada: Somebody, callback: str) -> tuple[str, str]:
    """Ada registers an app; its id and its secret, which is shown once."""
    page = ada.page
    ada.goes("/developer/new?kind=server")
    page.fill("[name=name]", "Notes Printer")
    page.fill("[name=redirect_uris] >> nth=0", f"{callback}#here")
    for scope in ("notes:read", "notes:write"):
        page.check(f'[name=scopes][value="{scope}"]')
    page.click("summary:has-text('Security')")
    page.check("[name=grant_types][value=refresh_token]")
    ada.presses("do")
    assert page.locator("[name=redirect_uris] >> nth=0").get_attribute("aria-invalid") == "true"
    page.fill("[name=redirect_uris] >> nth=0", callback)
    ada.presses("do")
    ada.sees("Notes Printer is registered")
    client_id, secret = page.inner_text("#client-id"), page.inner_text("#client-secret")
    ada.goes(f"/developer/apps/{client_id}")
    assert secret not in page.content()
    return client_id, secret


def tries(ada: Somebody, client_id: str, secret: str) -> None:
    """She runs the flow of her app, with herself as the person who is asked."""
    ada.goes(f"/developer/apps/{client_id}/try")
    ada.presses("begin")
    ada.page.get_by_text("Send", exact=True).click()
    ada.presses("allow")
    ada.sees("Authorization granted")
    ada.page.fill("[name=client_secret]", secret)
    ada.presses("exchange")
    ada.sees("The token endpoint answered 200")
    assert secret not in ada.page.content()


def breaks(ada: Somebody, callback: str, client_id: str) -> None:
    """She sends a redirect URI that is not registered, and reads what was wrong."""
    wrong = {"response_type": "code", "client_id": client_id, "redirect_uri": f"{callback}/"}
    ada.goes(f"/oauth/authorize?{urlencode(wrong)}")
    ada.page.get_by_text("View the details").click()
    ada.sees("redirect_uri.unknown")
    ada.sees(f"{callback}/")
    ada.sees("Add this redirect URI")


def rotates(ada: Somebody, client_id: str) -> str:
    """Another secret, while the first still works."""
    ada.goes(f"/developer/apps/{client_id}/secrets")
    ada.presses("new-secret")
    match = re.search(r"vk_cs_[0-9A-Za-z]+", ada.page.inner_text("main"))
    assert match is not None
    return match[0]


def connects(bob: Somebody, callback: str, client_id: str, *secrets: str) -> dict[str, str]:
    """Bob lets the app read his notes and not write them; every secret gets it tokens."""
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": callback,
        "scope": "notes:read notes:write",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
    }
    answers: list[dict[str, str]] = []
    for secret in secrets:
        bob.goes(f"/oauth/authorize?{urlencode(parameters)}")
        if bob.page.locator("#allow").count():
            bob.page.uncheck("input[name=scope][value='notes:write']")
            bob.presses("allow")
        bob.page.wait_for_url(re.compile(re.escape(callback)))
        redirect_parameters = dict(parse_qsl(urlsplit(bob.page.url).query))
        answer = post(
            bob.servers.auth_url,
            (client_id, secret),
            grant_type="authorization_code",
            code=redirect_parameters["code"],
            redirect_uri=callback,
            code_verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["scope"] == "notes:read"
        answers.append(answer.json())
        parameters["scope"] = "notes:read"
    return answers[-1]


def becomes_owner(olga: Somebody) -> None:
    """The link that `valetkey owner` prints, for somebody with a second factor."""
    servers = olga.servers
    link = fresh_link(SYSTEM.random)
    foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
    key, now = foundation.keyring.fingerprint_key, servers.clock.now()
    servers.write(lambda tx: issue_link(tx, link, key, now))
    olga.goes(f"/admin/owner?link={link.reveal()}")
    olga.presses("become")
    olga.is_at("/admin")


def test_users_go_from_sign_up_to_the_end_of_their_accounts(
    servers: Servers, somebody: Callable[[str], Somebody], callback: str
) -> None:
    ada, bob, olga = somebody("ada"), somebody("bob"), somebody("olga")

    # Ada signs up, secures her account and gets in by every way.
    ada.signs_up()
    codes = ada.adds_a_passkey()
    ada.adds_an_authenticator()
    ada.signs_out()
    ada.shows_a_passkey("/account/apps")
    ada.signs_out()
    ada.shows_a_password()
    ada.page.fill("#code", ada.code())
    ada.presses("with-code")
    ada.is_at("/account/security")
    ada.signs_out()
    ada.shows_a_password()
    ada.page.locator("summary").first.click()
    ada.page.fill("#recovery", codes[3])
    ada.presses("with-recovery")
    ada.is_at("/account/security")

    # She registers an app, tries it, breaks it, and changes its secret without an outage.
    client_id, secret = registers(ada, callback)
    tries(ada, client_id, secret)
    breaks(ada, callback, client_id)
    newer = rotates(ada, client_id)

    # Bob connects it, by the old secret and by the new one, and ends it.
    bob.signs_up("/account/apps")
    tokens = connects(bob, callback, client_id, secret, newer)
    assert works(servers, tokens["access_token"])
    bob.goes("/account/apps")
    bob.sees("Notes Printer")
    bob.page.locator("main a[href*='/account/apps/end?']").first.click()
    bob.presses("end")
    bob.sees("Notes Printer")
    assert dies(servers, tokens["access_token"])
    gone = post(
        servers.auth_url,
        (client_id, newer),
        grant_type="refresh_token",
        refresh_token=tokens["refresh_token"],
    )
    assert gone.json()["error"] == "invalid_grant"

    # He connects it again; the owner switches his account off, and everything of his dies.
    tokens = connects(bob, callback, client_id, newer)
    olga.signs_up()
    olga.adds_an_authenticator()
    becomes_owner(olga)
    olga.goes("/admin/users?q=bob")
    olga.page.get_by_role("link", name="bob", exact=True).click()
    olga.page.locator("main a[href$='/disable']").click()
    olga.presses("do")
    olga.sees("Disabled")
    assert dies(servers, tokens["access_token"])
    bob.goes("/account/apps")
    assert urlsplit(bob.page.url).path == "/oauth/sign-in"
    bob.shows_a_password()
    bob.sees("Incorrect username or password")
