"""Authlib's OpenID client, as a Flask application uses it: what it discovered is all it knows."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import flask
import pytest
from authlib.integrations.base_client.errors import MismatchingStateError, OAuthError
from authlib.integrations.flask_client import OAuth

from tests.openid.provider import Provider, provider
from tests.openid.relying_party import PASSWORD, REDIRECT_URI
from valetkey.testing.browser import UserAgent

SCOPE = "openid profile email offline_access"


class Site:
    """A site with "Sign in with Valetkey", out of Authlib's documentation."""

    def __init__(self, op: Provider, **metadata: object) -> None:
        registered = op.register("code", "", **metadata).registration
        self.op = op
        self.client_id = str(registered["client_id"])
        self.app = flask.Flask(__name__)
        self.app.secret_key = "of the test"
        self.oauth: Any = OAuth(self.app)
        issuer = op.servers.auth_url
        self.oauth.register(
            "valetkey",
            client_id=self.client_id,
            client_secret=registered.get("client_secret"),
            server_metadata_url=f"{issuer}/.well-known/openid-configuration",
            client_kwargs={
                "scope": SCOPE,
                "code_challenge_method": "S256",
                "token_endpoint_auth_method": registered["token_endpoint_auth_method"],
                "timeout": 20,
            },
        )

    def sign_in(self, person: UserAgent, **more: str) -> Mapping[str, Any]:
        """What Authlib makes of the token response, once Ada signed in and allowed."""
        with self.app.test_client() as browser:
            arrived = self.arrive(browser, person, **more)
            return self.finish(browser, arrived)

    def arrive(self, browser: Any, person: UserAgent, **more: str) -> str:
        """The address that the browser is sent to."""
        with self.app.test_request_context("/"):
            sent = self.oauth.valetkey.authorize_redirect(REDIRECT_URI, **more)
            kept = dict(flask.session)
        with browser.session_transaction() as session:
            session.update(kept)
        page = person.open(sent.location)
        if any(button.id == "sign-in" for button in page.buttons):
            page = person.sign_in(page, "ada", PASSWORD)
        if any(button.id == "allow" for button in page.buttons):
            page = person.allow(page)
        assert page.location.startswith(REDIRECT_URI), page.text
        return page.location

    def finish(self, browser: Any, arrived: str) -> Mapping[str, Any]:
        """Authlib redeems the code and judges the ID token."""
        with browser.session_transaction() as session:
            kept = dict(session)
        with self.app.test_request_context(f"/callback?{urlsplit(arrived).query}"):
            flask.session.update(kept)
            token: Mapping[str, Any] = self.oauth.valetkey.authorize_access_token()
            return token


@contextmanager
def a_site(folder: Path, database_url: str = "", **metadata: object) -> Generator[Site]:
    with provider(folder, database_url) as op:
        yield Site(op, **metadata)


def test_user_is_identified_and_tokens_are_refreshed(tmp_path: Path, database_url: str) -> None:
    with a_site(tmp_path, database_url) as site:
        token = site.sign_in(site.op.person())
        seen = token["userinfo"]
        assert (seen["iss"], seen["aud"]) == (site.op.servers.auth_url, site.client_id)
        with site.app.test_request_context("/"):
            userinfo = site.oauth.valetkey.userinfo(token=token)
        assert userinfo["sub"] == seen["sub"]
        assert (userinfo["given_name"], userinfo["email"]) == ("Ada", "ada@example.com")
        with site.app.test_request_context("/"):
            metadata = site.oauth.valetkey.load_server_metadata()
            session = site.oauth.valetkey._get_oauth_client(**metadata)
            renewed = session.refresh_token(metadata["token_endpoint"], token["refresh_token"])
        assert renewed["access_token"] != token["access_token"]
        with site.app.test_request_context("/"):
            again = site.oauth.valetkey.parse_id_token(renewed, nonce=None)
        assert (again["sub"], again["auth_time"]) == (seen["sub"], seen["auth_time"])


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
def test_id_token_is_verified_with_the_published_keys(tmp_path: Path, alg: str) -> None:
    with a_site(tmp_path, id_token_signed_response_alg=alg) as site:
        token = site.sign_in(site.op.person(), max_age="100")
        assert token["userinfo"]["auth_time"]


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_flow_succeeds_with_each_authentication_method(tmp_path: Path, method: str) -> None:
    with a_site(tmp_path, token_endpoint_auth_method=method) as site:
        assert site.sign_in(site.op.person())["userinfo"]["sub"]


def test_refused_silent_sign_in_raises_login_required(tmp_path: Path) -> None:
    with a_site(tmp_path) as site, site.app.test_client() as browser:
        arrived = site.arrive(browser, site.op.person(), prompt="none")
        with pytest.raises(OAuthError) as refused:
            site.finish(browser, arrived)
        assert refused.value.error == "login_required"


def test_response_for_another_session_is_refused(tmp_path: Path) -> None:
    with a_site(tmp_path) as site, site.app.test_client() as one:
        arrived = site.arrive(one, site.op.person())
        with site.app.test_client() as other, pytest.raises(MismatchingStateError):
            site.finish(other, arrived)
