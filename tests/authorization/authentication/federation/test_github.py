"""GitHub's ways, spoken by a server on loopback as GitHub Enterprise would."""

import asyncio
import json
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from tests.support.pages import Page, Pages, pages
from valetkey.authorization.providers.rules.identities import (
    ClaimedIdentity,
    ProviderConnection,
    UpstreamState,
)
from valetkey.authorization.providers.rules.openid import GitHubProvider
from valetkey.authorization.providers.settings import ProviderKind, ProviderSettings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret

JOURNEY = UpstreamState("state", "nonce", "v" * 43, "https://us.example/callback")
NOW = SYSTEM.now()


def answer(value: object, status: int = 200) -> Page:
    return Page(json.dumps(value).encode(), status=status)


@pytest.fixture
def github() -> Iterator[Pages]:
    """One at which Ada has an account."""
    with pages() as server:
        server.at["/login/oauth/access_token"] = answer({"access_token": "gho_1"})
        server.at["/api/v3/user"] = answer({"id": 583231, "login": "ada", "name": "Ada Lovelace"})
        server.at["/api/v3/user/emails"] = answer(
            [
                {"email": "old@example.com", "primary": False, "verified": True},
                {"email": "ada@example.com", "primary": True, "verified": True},
            ]
        )
        yield server


def provider(server: Pages, *keep: str) -> GitHubProvider:
    settings = ProviderSettings(
        "github", "GitHub", ProviderKind.GITHUB, server.url, "us", keep_claims=keep
    )
    door = OutboundHttp([ip_network("127.0.0.0/8")], lambda: NOW)
    return GitHubProvider(ProviderConnection(settings, Secret("the-secret"), door, lambda: NOW))


def read(server: Pages) -> ClaimedIdentity:
    return asyncio.run(provider(server).read({"code": "abc"}, JOURNEY, NOW))


def check(server: Pages) -> str:
    with pytest.raises(Refused) as refused:
        read(server)
    return refused.value.refusal.check


def test_identity_is_the_numeric_id(github: Pages) -> None:
    assert read(github) == ClaimedIdentity(
        github.url, "583231", "ada@example.com", email_verified=True, name="Ada Lovelace",
        username="ada",
    )  # fmt: skip
    assert github.sent[-1]["client_secret"] == "the-secret"
    assert github.sent[-1]["code_verifier"] == JOURNEY.verifier


def test_claims_of_the_user_that_are_named_are_kept(github: Pages) -> None:
    user = {"id": 583231, "login": "ada", "name": "Ada", "company": "Analytical", "bio": None}
    github.at["/api/v3/user"] = answer(user)
    keeping = provider(github, "company", "bio", "plan")
    identity = asyncio.run(keeping.read({"code": "abc"}, JOURNEY, NOW))
    assert identity.kept_claims == {"company": "Analytical"}
    assert read(github).kept_claims is None


def test_probe_sends_a_code_that_github_never_issued(github: Pages) -> None:
    github.at["/login/oauth/access_token"] = answer({"error": "bad_verification_code"})
    asyncio.run(provider(github).probe(JOURNEY))
    assert github.sent[-1]["client_secret"] == "the-secret"
    github.at["/login/oauth/access_token"] = answer({"error": "incorrect_client_credentials"})
    with pytest.raises(Refused) as refused:
        asyncio.run(provider(github).probe(JOURNEY))
    assert refused.value.refusal.check == "federation.client"


def test_unverified_github_email_is_not_used(github: Pages) -> None:
    emails = [{"email": "ada@example.com", "primary": True, "verified": False}]
    github.at["/api/v3/user/emails"] = answer(emails)
    assert read(github).proven_email == ""
    github.at["/api/v3/user/emails"] = answer({"message": "Not Found"}, 404)
    assert read(github).subject == "583231"
    assert read(github).proven_email == ""


def test_an_error_with_status_200_is_an_error(github: Pages) -> None:
    github.at["/login/oauth/access_token"] = answer({"error": "bad_verification_code"})
    assert check(github) == "federation.answer"


@pytest.mark.parametrize("id", [0, -1, "583231", None, True, 1.5])
def test_missing_numeric_id_is_refused(github: Pages, id: object) -> None:
    github.at["/api/v3/user"] = answer({"id": id, "login": "ada"})
    assert check(github) in {"federation.answer", "federation.user"}


def test_a_token_that_would_break_the_header_is_not_sent(github: Pages) -> None:
    github.at["/login/oauth/access_token"] = answer({"access_token": "x\r\nhost: evil.example"})
    assert read(github).subject == "583231"  # that server does not look at the token


def test_server_error_of_the_user_endpoint_is_refused(github: Pages) -> None:
    github.at["/api/v3/user"] = Page(status=502)
    assert check(github) == "federation.user"


def test_authorization_url_has_a_pkce_challenge(github: Pages) -> None:
    async def url() -> str:
        return await provider(github).authorization_url(JOURNEY)

    address = asyncio.run(url())
    assert address.startswith(f"{github.url}/login/oauth/authorize?client_id=us&")
    assert "code_challenge_method=S256" in address
    assert JOURNEY.verifier not in address


def test_required_reauthentication_is_refused_before_the_redirect(github: Pages) -> None:
    with pytest.raises(Refused) as refused:
        asyncio.run(provider(github).authorization_url(replace(JOURNEY, fresh=True)))
    assert refused.value.refusal.check == "federation.fresh"
