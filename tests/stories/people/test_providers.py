"""An owner adds, changes, disables and deletes a sign-in provider: a real second server."""

from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from time import monotonic, sleep

from tests.stories.people.test_federation import SECRET, WORD, Two
from valetkey.authorization.model.user import Role
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.providers.storage import Identities
from valetkey.config.sections.people import AccountSettings, SignUpMode
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.browser import Page, UserAgent
from valetkey.testing.server import Servers

WITHIN = 10.0
"""Seconds in which a change has to take effect; two are usual."""


class Console(Two):
    """Our server without a provider, the other one, and an owner of ours in the console."""

    def __init__(self, ours: Servers, other: Servers) -> None:
        super().__init__(ours, other)
        self.owner = UserAgent(ours.auth_url)
        self.typed = {
            "id": "other",
            "name": "Other",
            "issuer": other.auth_url,
            "client_id": "us",
            "client_secret": SECRET,
            "keep_claims": "name",
            "kind": "openid",
        }

    def page(self, path: str) -> Page:
        """A page as the owner sees it."""
        return self.owner.open(f"{self.ours.auth_url}{path}")

    def add(self, **typed: str) -> Page:
        """Fill in the form for a new provider."""
        form = self.page("/admin/providers/new?preset=openid")
        return self.owner.submit(form, "do", {**self.typed, **typed})

    def offers(self, name: str, *, offered: bool = True) -> None:
        """Wait until the sign-in page has the button, or has it no more."""
        end = monotonic() + WITHIN
        while (f"Sign in with {name}" in self.sign_in_page()) is not offered:
            assert monotonic() < end
            sleep(0.1)

    def sign_in_page(self) -> str:
        """The page as a new visitor sees it."""
        return UserAgent(self.ours.auth_url).open(f"{self.ours.auth_url}/oauth/sign-in").text

    def signs_up(self) -> None:
        """Ada creates her account with the provider."""
        sign_in = self.here.open(f"{self.ours.auth_url}/oauth/sign-in?to=/account/sessions")
        home = self.here.submit(self.travel(sign_in), "make", {"username": "ada"})
        assert home.url.endswith("/account/sessions")


@contextmanager
def console(directory: Path, database: str = "") -> Generator[Console]:
    """Both servers, running."""
    defaults = Settings()
    settings = replace(
        defaults,
        fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)),
        accounts=AccountSettings(sign_up=SignUpMode.OPEN),
    )
    if database:
        authorization = replace(defaults.authorization, database=database)
        settings = replace(settings, authorization=authorization)
    with (
        Servers(directory / "other", with_resource=False) as other,
        Servers(directory / "ours", settings=settings, with_resource=False) as ours,
    ):
        it = Console(ours, other)
        metadata = ClientMetadata(
            "Ours",
            redirect_uris=(f"{ours.auth_url}/oauth/sign-in/with/other/callback",),
            grant_types=("authorization_code",),
            scopes=("openid", "email", "profile"),
        )
        other.register_client(metadata, "us", SECRET)
        other.register_user("ada", WORD, name="Ada Lovelace")
        uid, now = ours.register_user("olga", WORD).uid, ours.clock.now()
        ours.write(lambda tx: tx.user_directory.set_role(uid, Role.OWNER, now))
        it.owner.sign_in(it.page("/oauth/sign-in"), "olga", WORD)
        yield it


def test_provider_is_added_tested_and_changed_in_the_console(
    tmp_path: Path, database_url: str
) -> None:
    with console(tmp_path, database_url) as it:
        assert "Sign in with Other" not in it.sign_in_page()
        choice = it.page("/admin/providers/new")
        assert 'href="/admin/providers/new?preset=microsoft"' in choice.body
        wrong = it.add(issuer="http://example.com", client_secret="not the secret")
        assert wrong.status == 400
        assert "not the secret" not in wrong.body
        page = it.add(client_secret="not the secret")
        assert page.url == f"{it.ours.auth_url}/admin/providers/other?done=new", page.text
        assert f"{it.ours.auth_url}/oauth/sign-in/with/other/callback" in page.text
        assert "The sign-in provider Other was added." in page.text
        assert 'href="/admin/events?subject=provider%3Aother"' in page.body
        it.offers("Other")
        # The wrong secret is noticed by the test, and replaced.
        tested = it.owner.submit(page, "test")
        assert "It does not accept the client ID or the client secret" in tested.text
        edit = it.page("/admin/providers/other/edit")
        typed = {"client_secret": SECRET, "name": "The other", "keep_claims": "name"}
        page = it.owner.submit(edit, "do", typed)
        assert page.url.endswith("/admin/providers/other?done=edit"), page.text
        # A form from before that change is not saved.
        stale = it.owner.submit(edit, "do", {"name": "Overwritten"})
        assert stale.status == 400
        assert "It was changed while you edited it" in stale.text
        page = it.page("/admin/providers/other")
        assert "is reachable and accepts" in it.owner.submit(page, "test").text

        it.offers("The other")
        it.signs_up()
        ada = it.ours.write(lambda tx: tx.users.find_by_name("ada"))
        assert ada is not None
        claims = it.ours.write(lambda tx: Identities.of(tx).claims_of(ada.uid))
        assert claims == {it.other.auth_url: {"name": "Ada Lovelace"}}
        events = it.ours.write(lambda tx: tx.events.newest(200))
        assert not any(SECRET in event.data or "not the secret" in event.data for event in events)
        assert [it.events().count(f"provider.{name}") for name in ("created", "changed")] == [1, 1]


def test_linked_accounts_survive_a_disabled_and_a_deleted_provider(
    tmp_path: Path, database_url: str
) -> None:
    with console(tmp_path, database_url) as it:
        it.add()
        it.offers("Other")
        it.signs_up()
        question = it.page("/admin/providers/other/disable")
        assert "have neither a password nor a passkey" in question.text
        it.owner.submit(question, "do")
        it.offers("Other", offered=False)
        assert it.here.open(f"{it.ours.auth_url}/account/sessions").status == 200
        old = f"{it.ours.auth_url}/oauth/sign-in/with/other?errand=sign_in&csrf=x"
        assert it.here.open(old).status == 404
        it.owner.submit(it.page("/admin/providers/other/enable"), "do")
        it.offers("Other")

        page = it.owner.submit(it.page("/admin/providers/other/delete"), "do")
        assert page.url == f"{it.ours.auth_url}/admin/providers?deleted=1"
        it.offers("Other", offered=False)
        linked = it.here.open(f"{it.ours.auth_url}/account/connections")
        assert it.other.auth_url in linked.text

        # The link works again with a provider of the same issuer.
        it.add(name="Other again")
        it.offers("Other again")
        again = Two(it.ours, it.other)
        again.there = it.there
        way = again.here.open(f"{it.ours.auth_url}/oauth/sign-in")
        assert again.travel(way).url == f"{it.ours.auth_url}/"
        named = [name for name in it.events() if name.startswith("provider.")]
        assert sorted(named) == [
            "provider.created",
            "provider.created",
            "provider.disabled",
            "provider.enabled",
            "provider.removed",
        ]
