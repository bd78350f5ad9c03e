"""requests-oauthlib as its users write it: four grants, PKCE, refresh by itself, its own errors."""

import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

import pytest
from oauthlib.oauth2 import BackendApplicationClient, LegacyApplicationClient
from oauthlib.oauth2.rfc6749 import errors
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session
from requests_oauthlib.oauth2_session import TokenUpdated

from tests.clients.site import SPA, UID, WEB, LocalSite, secret_of
from tests.support.live import CALLBACK, PASSWORD
from valetkey.kernel.moment import hours

SECRET = secret_of(WEB)
READ = ["account:read", "notes:read"]


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("OAUTHLIB_STRICT_TOKEN_TYPE", "1")


def held(token: Mapping[str, object], scope: list[str]) -> None:
    """The library parsed a whole token response for Ada."""
    assert token["token_type"] == "bearer"
    assert token["expires_in"] == 3600
    assert type(token["expires_in"]) is int
    assert isinstance(token["expires_at"], int | float)
    assert abs(token["expires_at"] - time.time() - 3600) < 60
    assert sorted(token["scope"]) == scope  # type: ignore[call-overload]
    assert token["uid"] == UID


def reads(session: OAuth2Session, world: LocalSite) -> None:
    """The session's token opens what it was granted, and shows whose it is."""
    account = session.get(f"{world.api}/account")
    assert account.status_code == 200, account.text
    assert account.json()["name"] == "Ada Lovelace"
    assert session.get(f"{world.api}/notes").status_code == 200


Way = Callable[[OAuth2Session, str, str], None]


def by_basic(session: OAuth2Session, url: str, arrived: str) -> None:
    session.fetch_token(url, authorization_response=arrived, client_secret=SECRET)


def by_auth(session: OAuth2Session, url: str, arrived: str) -> None:
    auth = HTTPBasicAuth(WEB, SECRET)
    session.fetch_token(url, authorization_response=arrived, auth=auth)


def in_body(session: OAuth2Session, url: str, arrived: str) -> None:
    session.fetch_token(
        url, authorization_response=arrived, client_secret=SECRET, include_client_id=True
    )


def in_query(session: OAuth2Session, url: str, arrived: str) -> None:
    session.fetch_token(
        url,
        authorization_response=arrived,
        client_secret=SECRET,
        include_client_id=True,
        force_querystring=True,
    )


@pytest.mark.parametrize("way", [by_basic, by_auth, in_body, in_query])
def test_code_flow_without_pkce_succeeds_with_the_secret_in_each_place(
    world: LocalSite, way: Way
) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ) as session:
        url, state = session.authorization_url(world.authorize)
        arrived = world.arrive(url)
        query = parse_qs(urlsplit(arrived).query)
        assert (query["state"], query["iss"]) == ([state], [world.issuer])
        way(session, world.token, arrived)
        token: dict[str, object] = dict(session.token)
        held(token, READ)
        assert token["refresh_token"]
        info = token["info"]
        assert isinstance(info, dict)
        assert (info["name"], info["email"]) == ("Ada Lovelace", "ada@example.com")
        reads(session, world)


def test_code_flow_with_pkce_succeeds(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ, pkce="S256") as session:
        url, _ = session.authorization_url(world.authorize)
        assert "code_challenge_method=S256" in url
        arrived = world.arrive(url)
        token = session.fetch_token(
            world.token, authorization_response=arrived, client_secret=SECRET
        )
        held(token, READ)
        reads(session, world)


def test_public_client_flow_with_pkce_succeeds(world: LocalSite) -> None:
    with OAuth2Session(SPA, redirect_uri=CALLBACK, scope=READ, pkce="S256") as session:
        arrived = world.arrive(session.authorization_url(world.authorize)[0])
        token = session.fetch_token(
            world.token, authorization_response=arrived, include_client_id=True
        )
        held(token, READ)
        refreshed = session.refresh_token(world.token, client_id=SPA)
        held(refreshed, READ)
        assert refreshed["refresh_token"] != token["refresh_token"]


def test_wrong_code_verifier_raises_invalid_grant(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ, pkce="S256") as session:
        arrived = world.arrive(session.authorization_url(world.authorize)[0])
        session.authorization_url(world.authorize)  # makes the session forget the first verifier
        code = parse_qs(urlsplit(arrived).query)["code"][0]
        with pytest.raises(errors.InvalidGrantError) as refused:
            session.fetch_token(world.token, code=code, client_secret=SECRET)
        assert str(refused.value.uri).startswith(f"{world.issuer}/errors/invalid_grant?")
        assert refused.value.description


def test_callback_with_an_empty_fragment_is_accepted(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ) as session:
        arrived = world.arrive(session.authorization_url(world.authorize)[0])
        token = session.fetch_token(
            world.token, authorization_response=f"{arrived}#", client_secret=SECRET
        )
        held(token, READ)


def test_reused_code_raises_invalid_grant(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ) as session:
        arrived = world.arrive(session.authorization_url(world.authorize)[0])
        session.fetch_token(world.token, authorization_response=arrived, client_secret=SECRET)
        with pytest.raises(errors.InvalidGrantError):
            session.fetch_token(world.token, authorization_response=arrived, client_secret=SECRET)


def test_wrong_secret_raises_invalid_client(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ) as session:
        arrived = world.arrive(session.authorization_url(world.authorize)[0])
        with pytest.raises(errors.InvalidClientError):
            session.fetch_token(world.token, authorization_response=arrived, client_secret="x" * 40)


def test_denied_consent_raises_access_denied_error(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ) as session:
        arrived = world.refuse(session.authorization_url(world.authorize)[0])
        with pytest.raises(errors.AccessDeniedError) as refused:
            session.fetch_token(world.token, authorization_response=arrived, client_secret=SECRET)
        assert str(refused.value.uri).startswith(f"{world.issuer}/errors/access_denied?")
        assert refused.value.description


def test_unknown_scope_raises_invalid_scope(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=["moon:read"]) as session:
        arrived = world.arrive_unasked(session.authorization_url(world.authorize)[0])
        with pytest.raises(errors.InvalidScopeError):
            session.fetch_token(world.token, authorization_response=arrived, client_secret=SECRET)


def test_state_of_another_session_is_rejected(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ) as session:
        arrived = world.arrive(session.authorization_url(world.authorize, state="theirs")[0])
        session.authorization_url(world.authorize)
        with pytest.raises(errors.MismatchingStateError):
            session.fetch_token(world.token, authorization_response=arrived, client_secret=SECRET)


def test_scope_that_the_user_deselected_raises_a_warning(world: LocalSite) -> None:
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ) as session:
        url, _ = session.authorization_url(world.authorize)
        arrived = world.arrive(url, "grace", only=["notes:read"])
        with pytest.raises(Warning, match="Scope has changed") as changed:
            session.fetch_token(world.token, authorization_response=arrived, client_secret=SECRET)
        assert changed.value.new_scope == ["notes:read"]  # type: ignore[attr-defined]


def test_password_flow_succeeds(world: LocalSite) -> None:
    client = LegacyApplicationClient(WEB, scope=" ".join(READ))
    with OAuth2Session(client=client) as session:
        token = session.fetch_token(
            world.token, username="ada", password=PASSWORD, client_secret=SECRET
        )
        held(token, READ)
        reads(session, world)


def test_wrong_password_raises_invalid_grant(world: LocalSite) -> None:
    client = LegacyApplicationClient(WEB, scope=" ".join(READ))
    with OAuth2Session(client=client) as session, pytest.raises(errors.InvalidGrantError):
        session.fetch_token(world.token, username="ada", password="wrong", client_secret=SECRET)


@pytest.mark.parametrize("path", ["/oauth/token", "/token"])
@pytest.mark.parametrize("in_body", [False, True])
def test_client_credentials_flow_succeeds_at_both_paths(
    world: LocalSite, path: str, in_body: bool
) -> None:
    with OAuth2Session(client=BackendApplicationClient(WEB)) as session:
        token = session.fetch_token(
            world.issuer + path, client_secret=SECRET, include_client_id=in_body
        )
        assert token["token_type"] == "bearer"
        assert token["expires_in"] == 3600
        assert token["scope"] == ["client:read", "client:write"]
        assert {"refresh_token", "uid", "info"}.isdisjoint(token)
        record = session.get(f"{world.api}/client")
        assert record.json()["client_id"] == WEB


def granted(world: LocalSite) -> dict[str, object]:
    """A token response for Ada, kept by an app over night."""
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=READ) as session:
        arrived = world.arrive(session.authorization_url(world.authorize)[0])
        token = session.fetch_token(
            world.token, authorization_response=arrived, client_secret=SECRET
        )
        return dict(token)


def test_expired_token_is_refreshed_automatically(own_world: LocalSite) -> None:
    world = own_world
    kept = granted(world)
    world.servers.clock.forward(hours(2))
    kept["expires_at"] = time.time() - 3600
    new: list[dict[str, object]] = []
    with OAuth2Session(
        WEB,
        token=kept,
        auto_refresh_url=world.token,
        auto_refresh_kwargs={"client_id": WEB, "client_secret": SECRET},
        token_updater=new.append,
    ) as session:
        reads(session, world)
    assert len(new) == 1
    held(new[0], READ)
    assert new[0]["access_token"] != kept["access_token"]
    assert new[0]["refresh_token"]


def test_refresh_with_basic_raises_token_updated(world: LocalSite) -> None:
    kept = granted(world)
    kept["expires_at"] = time.time() - 1
    with OAuth2Session(WEB, token=kept, auto_refresh_url=world.token) as session:
        with pytest.raises(TokenUpdated) as updated:
            session.request("GET", f"{world.api}/notes", client_id=WEB, client_secret=SECRET)
        held(updated.value.token, READ)


def test_unknown_refresh_token_raises_invalid_grant_error(world: LocalSite) -> None:
    auth = HTTPBasicAuth(WEB, SECRET)
    with OAuth2Session(WEB) as session, pytest.raises(errors.InvalidGrantError):
        session.refresh_token(world.token, refresh_token="vk_rt_nobody", auth=auth)
