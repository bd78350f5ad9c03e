"""People sign in from another server: two real servers, each engine, and every way it may end."""

import json
import re
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from html import unescape
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx2

from tests.support.pages import Page as Pointed
from tests.support.pages import pages
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.user import Role
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.providers.settings import (
    FederationSettings,
    ProviderKind,
    ProviderSettings,
)
from valetkey.authorization.providers.storage import Identities
from valetkey.config.sections.people import AccountSettings, MailSettings, MailTransport, SignUpMode
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings
from valetkey.kernel.jose import foreign
from valetkey.kernel.moment import minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.testing.browser import Page, UserAgent
from valetkey.testing.server import Servers

WORD = "a good long password of hers"
SECRET = "the secret that the other server gave to us"


class Two:
    """Our server, the other one, and Ada's two browsers, which are one."""

    def __init__(self, ours: Servers, other: Servers) -> None:
        self.ours, self.other = ours, other
        self.here, self.there = UserAgent(ours.auth_url), UserAgent(other.auth_url)

    def link(self, page: Page, id: str = "with-other") -> str:
        """Where the link of that id leads."""
        match = re.search(rf'<a[^>]*id="{id}"[^>]*href="([^"]*)"', page.body)
        assert match, page.text
        return unescape(match[1])

    def travel(self, page: Page, *, id: str = "with-other", deny: bool = False) -> Page:
        """Press the link, prove it over there if asked, and come back."""
        away = self.here.open(urljoin(page.url, self.link(page, id)))
        assert away.location.startswith(self.other.auth_url), away.text
        their_page = self.there.open(away.location)
        if not their_page.location:
            their_page = self.there.sign_in(their_page, "ada", WORD)
        if not their_page.location:
            their_page = self.there.deny(their_page) if deny else self.there.allow(their_page)
        assert their_page.location.startswith(self.ours.auth_url)
        return self.here.open(their_page.location)

    def events(self) -> list[str]:
        """What happened at ours, by name."""
        newest_events = self.ours.write(lambda tx: tx.events.newest(200))
        return [event.name for event in newest_events if not event.name.startswith("signing_key")]


@contextmanager
def two(
    directory: Path,
    database: str = "",
    *,
    sign_up: SignUpMode = SignUpMode.OPEN,
    mail: MailSettings | None = None,
    keep: tuple[str, ...] = (),
) -> Generator[Two]:
    """Both, running."""
    with Servers(directory / "other", with_resource=False) as other:
        provider = ProviderSettings(
            "other", "Other", ProviderKind.OPENID, other.auth_url, "us", keep_claims=keep
        )
        defaults = Settings()
        settings = replace(
            defaults,
            features=(FederationSettings((provider,), Secret(f"other={SECRET}")),),
            fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)),
            accounts=AccountSettings(sign_up=sign_up),
            mail=mail or defaults.mail,
        )
        if database:
            authorization = replace(defaults.authorization, database=database)
            settings = replace(settings, authorization=authorization)
        with Servers(directory / "ours", settings=settings, with_resource=False) as ours:
            callback = f"{ours.auth_url}/oauth/sign-in/with/other/callback"
            metadata = ClientMetadata(
                "Ours",
                redirect_uris=(callback,),
                grant_types=("authorization_code",),
                scopes=("openid", "email", "profile"),
            )
            other.register_client(metadata, "us", SECRET)
            other.register_user("ada", WORD, name="Ada Lovelace")
            yield Two(ours, other)


def test_new_federated_user_creates_an_account_and_signs_in_again(
    tmp_path: Path, database_url: str
) -> None:
    with two(tmp_path, database_url) as it:
        sign_in = it.here.open(f"{it.ours.auth_url}/oauth/sign-in?to=/account/sessions")
        arrived = it.travel(sign_in)
        assert "You signed in with Other as ada@example.com" in arrived.text
        home = it.here.submit(arrived, "make", {"username": "ada"})
        assert home.url.endswith("/account/sessions")
        user = it.ours.write(lambda tx: tx.users.find_by_name("ada"))
        assert user is not None
        assert user.email_verified_at is not None
        assert (user.email, user.name) == ("ada@example.com", "Ada Lovelace")

        again = Two(it.ours, it.other)
        again.there = it.there
        page = again.travel(again.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        assert page.url == f"{it.ours.auth_url}/"
        assert it.events().count("user.registered") == 1
        assert it.events().count("identity.linked") == 1
        assert it.events().count("session.started") == 2


def test_kept_claims_are_stored_and_updated_at_sign_in(tmp_path: Path, database_url: str) -> None:
    keep = ("preferred_username", "name")
    with two(tmp_path, database_url, keep=keep) as it:
        sign_in = it.here.open(f"{it.ours.auth_url}/oauth/sign-in")
        arrived = it.travel(sign_in)
        # The username is refused once: the claims wait for the next attempt.
        assert it.here.submit(arrived, "make", {"username": "a/b"}).status == 400
        it.here.submit(arrived, "make", {"username": "ada"})

        def kept() -> dict[str, object]:
            user = it.ours.write(lambda tx: tx.users.find_by_name("ada"))
            assert user is not None
            return dict(it.ours.write(lambda tx: Identities.of(tx).claims_of(user.uid)))

        claims = {"preferred_username": "ada", "name": "Ada Lovelace"}
        assert kept() == {it.other.auth_url: claims}
        ada = it.other.write(lambda tx: tx.users.find_by_name("ada"))
        assert ada is not None
        assert it.other.write(lambda tx: tx.users.change(replace(ada, name="Countess")))
        again = Two(it.ours, it.other)
        again.there = it.there
        again.travel(again.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        assert kept() == {it.other.auth_url: {**claims, "name": "Countess"}}


def test_owner_tests_a_provider_from_the_console(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        uid, now = it.ours.register_user("olga", WORD).uid, it.ours.clock.now()
        it.ours.write(lambda tx: tx.user_directory.set_role(uid, Role.OWNER, now))
        it.here.sign_in(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"), "olga", WORD)
        page = it.here.open(f"{it.ours.auth_url}/admin/providers")
        assert "Configuration file" in page.text
        page = it.here.open(f"{it.ours.auth_url}/admin/providers/other")
        assert f"{it.ours.auth_url}/oauth/sign-in/with/other/callback" in page.text
        assert "Edit provider" not in page.text
        tested = it.here.submit(page, "test")
        assert "is reachable and accepts the client ID and the client secret" in tested.text
        it.other.write(lambda tx: tx.clients.remove("us", now))
        tested = it.here.submit(page, "test")
        assert "The test failed." in tested.text
        assert "It does not accept the client ID" in tested.text
        assert "invalid_client" in tested.text
        assert "session.started" in it.events()
        assert "identity.linked" not in it.events()


def test_xs_01_federated_sign_up_refuses_the_usernames_that_sign_up_refuses(
    tmp_path: Path,
) -> None:
    with two(tmp_path) as it:
        arrived = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        for name in ("Administrator", "valetkey", "\u0430da", "a", "a/b"):
            page = it.here.submit(arrived, "make", {"username": name})
            assert page.status == 400, name
            assert "Choose another username" in page.text
        assert "user.registered" not in it.events()


def test_app_gets_a_code_after_a_sign_in_elsewhere(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        metadata = ClientMetadata(
            "Printer", redirect_uris=("http://127.0.0.1:9/cb",), scopes=("openid",), type="public"
        )
        it.ours.register_client(metadata, "printer")
        url = (
            f"{it.ours.auth_url}/oauth/authorize?response_type=code&client_id=printer&scope=openid"
            "&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcb&code_challenge_method=S256"
            "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        )
        arrived = it.travel(it.here.open(url))
        consent = it.here.submit(arrived, "make", {"username": "ada"})
        assert "Printer" in consent.text
        assert "code" in it.here.allow(consent).redirect_parameters


_NEEDS = {
    "response_type": "code",
    "client_id": "printer",
    "redirect_uri": "http://127.0.0.1:9/cb",
    "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    "code_challenge_method": "S256",
    "scope": "openid",
}


def without(url: str, *names: str) -> str:
    """The URL without these parameters, as its user may change it."""
    parts = urlsplit(url)
    kept = [pair for pair in parse_qsl(parts.query) if pair[0] not in names]
    return parts._replace(query=urlencode(kept)).geturl()


def test_required_reauthentication_refuses_an_older_session_of_the_provider(
    tmp_path: Path, database_url: str
) -> None:
    with two(tmp_path, database_url) as it:
        metadata = ClientMetadata(
            "Printer", redirect_uris=("http://127.0.0.1:9/cb",), scopes=("openid",), type="public"
        )
        it.ours.register_client(metadata, "printer")
        arrived = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        it.here.submit(arrived, "make", {"username": "ada"})
        for more in ({"prompt": "login"}, {"max_age": "30"}):
            for server in (it.ours, it.other):
                server.clock.forward(minutes(2))
            browser = UserAgent(it.ours.auth_url)
            url = f"{it.ours.auth_url}/oauth/authorize?{urlencode({**_NEEDS, **more})}"

            def leave(browser: UserAgent = browser, url: str = url) -> str:
                page = browser.open(url)
                return browser.open(urljoin(page.url, it.link(page))).location

            away = leave()
            sent = dict(parse_qsl(urlsplit(away).query))
            assert (sent["prompt"], sent["max_age"]) == ("login", "0")
            # The session there is older than the departure.
            back = it.there.open(without(away, "prompt", "max_age")).location
            assert "code=" in back
            refused = browser.open(back)
            assert (refused.status, refused.redirect_parameters) == (403, {}), refused.text
            page = it.there.sign_in(it.there.open(leave()), "ada", WORD)
            consent = browser.open(page.location or it.there.allow(page).location)
            assert "Printer" in consent.text


def test_auth_time_of_a_session_is_that_of_the_provider(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        arrived = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        it.here.submit(arrived, "make", {"username": "ada"})
        for server in (it.ours, it.other):
            server.clock.forward(minutes(5))
        again = Two(it.ours, it.other)
        again.there = it.there
        again.travel(again.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        ages = it.ours.write(
            lambda tx: tx.db.rows("SELECT created_at - auth_time FROM sessions ORDER BY created_at")
        )
        assert ages[0][0] < 60
        assert ages[1][0] >= minutes(5)


def test_email_address_alone_does_not_match_an_account(tmp_path: Path) -> None:
    with two(tmp_path, mail=MailSettings(transport=MailTransport.MAILBOX)) as it:
        it.ours.register_user("ada", "another good long password")
        arrived = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        assert "You already have an account" in arrived.text
        assert "make" not in {button.id for button in arrived.buttons}
        assert "identity.linked" not in it.events()
        assert "session.started" not in it.events()

        # She signs in as she always did, and connects the two.
        way = it.here.open(f"{it.ours.auth_url}/oauth/sign-in?to=/account/connections")
        page = it.here.sign_in(way, "ada", "another good long password")
        assert "You signed in with Other as ada@example.com" in page.text
        page = it.here.submit(page, "connect-arrived")
        assert "Other is linked" in page.text
        now = it.ours.clock.now()
        kept = it.ours.write(lambda tx: tx.mails.for_mailbox(now, 9))
        assert [mail.kind for mail in kept].count(EmailKind.WAY_IN_ADDED) == 1
        again = Two(it.ours, it.other)
        again.there = it.there
        page = again.travel(again.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        assert page.url == f"{it.ours.auth_url}/"


def test_disabled_sign_up_blocks_federated_sign_up(tmp_path: Path) -> None:
    with two(tmp_path, sign_up=SignUpMode.OFF) as it:
        arrived = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        assert "No linked account" in arrived.text
        assert "user.registered" not in it.events()


def test_denied_sign_in_at_the_provider_shows_a_message(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        page = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"), deny=True)
        assert "You canceled the sign-in at Other" in page.text
        assert page.status == 200


def test_response_is_accepted_once_in_its_own_browser(tmp_path: Path, database_url: str) -> None:
    with two(tmp_path, database_url) as it:
        page = it.here.open(f"{it.ours.auth_url}/oauth/sign-in")
        away = it.here.open(urljoin(page.url, it.link(page)))
        back = it.there.allow(it.there.sign_in(it.there.open(away.location), "ada", WORD)).location

        stranger = UserAgent(it.ours.auth_url)
        stranger.open(f"{it.ours.auth_url}/oauth/sign-in")
        assert stranger.open(back).status == 400
        assert UserAgent(it.ours.auth_url).open(back).status == 400

        def come_back(_: int) -> int:
            one = UserAgent(it.ours.auth_url)
            one.cookies = dict(it.here.cookies)
            return one.open(back).status

        with ThreadPoolExecutor(16) as threads:
            statuses = list(threads.map(come_back, range(16)))
        assert statuses.count(200) == 1
        assert statuses.count(400) == 15


def test_sign_ins_that_succeed_are_not_limited_by_network(
    tmp_path: Path, database_url: str
) -> None:
    with two(tmp_path, database_url) as it, it.ours.clock.stopped():
        it.here.submit(
            it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in")),
            "make",
            {"username": "ada"},
        )

        def leave(browser: UserAgent) -> Page:
            page = browser.open(f"{it.ours.auth_url}/oauth/sign-in")
            return browser.open(urljoin(page.url, it.link(page)))

        for _ in range(65):
            browser = UserAgent(it.ours.auth_url)
            back = it.there.open(leave(browser).location).location
            assert browser.open(back).status == 200
        # Those that never come back are.
        statuses = [leave(UserAgent(it.ours.auth_url)).status for _ in range(61)]
        assert statuses.count(429) == 1


def test_forged_federation_links_are_refused(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        url = f"{it.ours.auth_url}/oauth/sign-in/with/other"
        assert it.here.open(url).status == 400
        assert it.here.open(f"{url}?errand=sign_in").status == 403
        it.here.open(f"{it.ours.auth_url}/oauth/sign-in")
        assert it.here.open(f"{url}?errand=sign_in&csrf=x").status == 403
        assert it.here.open(f"{it.ours.auth_url}/oauth/sign-in/with/nobody").status == 404
        assert it.here.open(f"{url}/callback?state=x&code=y").status == 400
        assert it.here.open(f"{url}/callback").status == 400


def test_linked_account_is_unlinked_unless_it_is_the_only_sign_in_method(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        arrived = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        it.here.submit(arrived, "make", {"username": "ada"})
        page = it.here.open(f"{it.ours.auth_url}/account/security")
        assert "You can sign in with 1 linked account" in page.text
        page = it.here.open(urljoin(page.url, it.link(page, "connections")))
        assert "This is your only sign-in method" in page.text
        assert "Disconnect" not in page.text

        user = it.ours.write(lambda tx: tx.users.find_by_name("ada"))
        assert user is not None
        now = it.ours.clock.now()
        it.ours.write(lambda tx: tx.users.set_password_hash(user.uid, "cr_x", "x", now))
        page = it.here.open(f"{it.ours.auth_url}/account/connections")
        page = it.here.submit(page, "disconnect-0")
        assert "The account was unlinked" in page.text
        assert "identity.unlinked" in it.events()


def test_second_factor_is_required_after_a_sign_in_elsewhere(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        arrived = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        it.here.submit(arrived, "make", {"username": "ada"})
        user = it.ours.write(lambda tx: tx.users.find_by_name("ada"))
        assert user is not None
        it.ours.write(
            lambda tx: tx.db.run(
                "INSERT INTO credentials (id, uid, kind, data, created_at)"
                " VALUES ('cr_1', :uid, 'totp', 'sealed', 1)",
                uid=user.uid,
            )
        )
        fresh = Two(it.ours, it.other)
        fresh.there = it.there
        page = fresh.travel(fresh.here.open(f"{it.ours.auth_url}/oauth/sign-in?to=/account/apps"))
        assert "/oauth/second-factor" in page.url
        assert it.events().count("session.started") == 1
        home = fresh.here.open(f"{it.ours.auth_url}/account/apps")
        assert "/oauth/sign-in" in home.url


def test_required_second_factor_is_added_after_a_sign_in_elsewhere(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        home = f"{it.ours.auth_url}/oauth/sign-in?to=/account/sessions"
        it.here.submit(it.travel(it.here.open(home)), "make", {"username": "ada"})
        user, now = it.ours.write(lambda tx: tx.users.find_by_name("ada")), it.ours.clock.now()
        assert user is not None
        it.ours.write(lambda tx: tx.users.require_factor(user.uid, now))
        assert "Add a second factor" in it.here.open(f"{it.ours.auth_url}/account/connections").text
        again = Two(it.ours, it.other)
        again.there = it.there
        page = again.travel(again.here.open(home))
        assert page.url.endswith("/account/security/second-factor?to=/account/sessions")


def test_disabled_account_is_refused_at_federated_sign_in(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        arrived = it.travel(it.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        it.here.submit(arrived, "make", {"username": "ada"})
        user = it.ours.write(lambda tx: tx.users.find_by_name("ada"))
        assert user is not None
        closed = replace(user, disabled_at=it.ours.clock.now())
        it.ours.write(lambda tx: tx.users.change(closed))
        fresh = Two(it.ours, it.other)
        fresh.there = it.there
        page = fresh.travel(fresh.here.open(f"{it.ours.auth_url}/oauth/sign-in"))
        assert page.status == 403
        assert it.events().count("session.started") == 1


def test_form_post_response_is_accepted_only_in_the_same_browser(tmp_path: Path) -> None:
    with two(tmp_path) as it:
        page = it.here.open(f"{it.ours.auth_url}/oauth/sign-in")
        away = it.here.open(urljoin(page.url, it.link(page)))
        back = it.there.allow(it.there.sign_in(it.there.open(away.location), "ada", WORD)).location
        callback, _, query = back.partition("?")
        # Browsers send no cookies of ours with a form of another site.
        answer = httpx2.post(
            callback,
            content=f"{query}&user=%7B%22name%22%3A%22x%22%7D",
            headers={
                "content-type": "application/x-www-form-urlencoded",
                "origin": it.other.auth_url,
                "sec-fetch-site": "cross-site",
            },
        )
        assert (answer.status_code, "set-cookie" in answer.headers) == (303, False)
        again = urljoin(callback, answer.headers["location"])
        assert dict(parse_qsl(urlsplit(again).query)) == {
            name: value for name, value in parse_qsl(query) if name in {"code", "state", "iss"}
        }
        assert UserAgent(it.ours.auth_url).open(again).status == 400
        assert "You signed in with Other as ada@example.com" in it.here.open(again).text
        assert it.here.open(again).status == 400
        for content in ("", "state=x", f"code={'x' * 9_000}&state=y", "code=a&code=b"):
            sent = httpx2.post(
                callback,
                content=content,
                headers={"content-type": "application/x-www-form-urlencoded"},
                follow_redirects=True,
            )
            assert sent.status_code == 400, content[:20]


def test_provider_that_requires_private_key_jwt_receives_a_client_assertion(tmp_path: Path) -> None:
    with pages() as them:
        document = {
            "issuer": them.url,
            "authorization_endpoint": f"{them.url}/authorize",
            "token_endpoint": f"{them.url}/token",
            "jwks_uri": f"{them.url}/jwks",
            "token_endpoint_auth_methods_supported": ["private_key_jwt", "tls_client_auth"],
        }
        path = "/.well-known/openid-configuration"
        them.at[path] = Pointed(json.dumps(document).encode())
        provider = ProviderSettings("other", "Other", ProviderKind.OPENID, them.url, "us")
        settings = replace(
            Settings(),
            features=(FederationSettings((provider,), Secret("other=unused")),),
            fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)),
        )
        with Servers(tmp_path, settings=settings, with_resource=False) as ours:
            browser = UserAgent(ours.auth_url)
            page = browser.open(f"{ours.auth_url}/oauth/sign-in")
            link = re.search(r'<a[^>]*id="with-other"[^>]*href="([^"]*)"', page.body)
            assert link
            away = browser.open(urljoin(page.url, unescape(link[1])))
            state = dict(parse_qsl(urlsplit(away.location).query))["state"]
            back = f"{ours.auth_url}/oauth/sign-in/with/other/callback"
            assert browser.open(f"{back}?{urlencode({'state': state, 'code': 'a'})}").status == 403
            sent = them.sent[-1]
            assert "client_secret" not in sent
            assert sent["client_assertion_type"].endswith("jwt-bearer")
            published = httpx2.get(f"{ours.auth_url}{path}").json()["jwks_uri"]
            verified = foreign.verify(
                sent["client_assertion"],
                foreign.ForeignKeys.parse(httpx2.get(published).content),
                typ=("",),
                audience=f"{them.url}/token",
                issuer="us",
                now=ours.clock.now(),
                leeway=60,
            )
            assert verified.claims["sub"] == "us"
            assert verified.claims["jti"]
