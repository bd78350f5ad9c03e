"""Sign-in from a real upstream provider (oidc-provider): what is believed, and what is not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import pytest

from tests.clients.node.library import Script
from tests.support.wait import wait_until
from valetkey.authorization.providers.settings import (
    FederationSettings,
    ProviderKind,
    ProviderSettings,
)
from valetkey.config.sections.people import AccountSettings, SignUpMode
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings
from valetkey.kernel.moment import minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.testing.browser import Page, UserAgent
from valetkey.testing.server import Servers

_SECRET = "a-secret-of-ours"


@dataclass
class Federated:
    """Our server, the upstream provider, and a second name for it that it does not go by."""

    servers: Servers
    upstream: Script
    issuer: str

    def leave(self, here: UserAgent, name: str = "real") -> Page:
        """Open the sign-in page and follow the link to the provider of that name."""
        page = here.open(f"{self.servers.auth_url}/oauth/sign-in")
        link = re.search(rf'<a[^>]*id="with-{name}"[^>]*href="([^"]*)"', page.body)
        assert link, page.text
        return here.open(urljoin(page.url, unescape(link[1])))

    def answer(self, here: UserAgent, **changed: str) -> str:
        """Where the provider sends the browser, with parameters of the request `changed`."""
        return UserAgent(self.issuer).open(_with(self.leave(here).location, **changed)).location

    def arrive(self) -> Page:
        """What a user sees who came from the provider in a new browser."""
        here = UserAgent(self.servers.auth_url)
        return here.open(self.answer(here))

    def refused_by(self, page: Page) -> str:
        """The check that refused, as the record behind the reference on the page names it."""
        reference = re.search(r"VK-\w{4}-\w{4}-\w{4}", page.text)
        assert reference, page.text
        decision = wait_until(
            lambda: self.servers.write(lambda tx: tx.decisions.find(reference[0]))
        )
        assert decision is not None
        return decision.check


@pytest.fixture(scope="module")
def it(node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federated]:
    with Script(node, "upstream.mjs") as upstream:
        issuer = str(upstream.ask({})["issuer"])
        alias = issuer.replace("127.0.0.1", "localhost")
        providers = tuple(
            ProviderSettings(name, name.title(), ProviderKind.OPENID, url, "us")
            for name, url in (("real", issuer), ("alias", alias))
        )
        secrets = Secret(f"real={_SECRET},alias={_SECRET}")
        settings = replace(
            Settings(),
            features=(FederationSettings(providers, secrets),),
            fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"), ip_network("::1/128"))),
            accounts=AccountSettings(sign_up=SignUpMode.OPEN),
        )
        folder: Path = tmp_path_factory.mktemp("upstream")
        with Servers(folder, settings=settings, with_resource=False) as servers:
            callback = f"{servers.auth_url}/oauth/sign-in/with/real/callback"
            upstream.ask({"callback": callback})
            yield Federated(servers, upstream, issuer)


def _with(url: str, **changed: str) -> str:
    parts = urlsplit(url)
    pairs = {**dict(parse_qsl(parts.query)), **changed}
    return parts._replace(query=urlencode({k: v for k, v in pairs.items() if v})).geturl()


def test_unverified_email_of_the_provider_proves_no_address(it: Federated) -> None:
    it.upstream.ask({"verified": False})
    try:
        arrived = it.arrive()
    finally:
        it.upstream.ask({"verified": True})
    assert "is not linked to an account" in arrived.text
    assert "make" not in {button.id for button in arrived.buttons}


def test_user_signs_up_signs_out_and_signs_in_again_after_the_provider_rotated_its_keys(
    it: Federated,
) -> None:
    here = UserAgent(it.servers.auth_url)
    arrived = here.open(it.answer(here))
    assert "You signed in with Real as ada@example.com" in arrived.text, it.refused_by(arrived)
    here.submit(arrived, "make", {"username": "ada"})
    user = it.servers.write(lambda tx: tx.users.find_by_name("ada"))
    assert user is not None
    assert user.email_verified_at is not None
    sessions = f"{it.servers.auth_url}/account/sessions"
    assert here.open(sessions).url == sessions

    here.submit(here.open(f"{it.servers.auth_url}/oauth/sign-out"), "sign-out")
    assert "/oauth/sign-in" in here.open(sessions).url
    it.upstream.ask({"kid": "second"})
    # A key set that was just read is not read again at once.
    it.servers.clock.forward(minutes(1))
    here.open(it.answer(here))
    assert here.open(sessions).url == sessions


@pytest.mark.parametrize(
    ("request_", "answer", "check"),
    [
        ({"nonce": "another"}, {}, "federation.nonce"),
        ({}, {"iss": "https://attacker.example"}, "federation.iss"),
        ({}, {"iss": ""}, "federation.iss"),
        ({"code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, {}, "federation.token"),
    ],
    ids=["nonce", "mix-up", "no issuer", "code challenge"],
)
def test_answer_to_another_request_or_of_another_server_is_refused(
    it: Federated, request_: dict[str, str], answer: dict[str, str], check: str
) -> None:
    here = UserAgent(it.servers.auth_url)
    page = here.open(_with(it.answer(here, **request_), **answer))
    assert (page.status, it.refused_by(page)) == (403, check)
    assert "/oauth/sign-in" in here.open(f"{it.servers.auth_url}/account/sessions").url


def test_provider_metadata_with_another_issuer_is_refused(it: Federated) -> None:
    page = it.leave(UserAgent(it.servers.auth_url), "alias")
    assert (page.status, page.location) == (403, "")
    assert it.refused_by(page) == "federation.discovery_issuer"
