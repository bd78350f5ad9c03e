"""Authlib as its users write it: code, password, own account, refresh, revocation, keys."""

# The stubs that pyright brings along do not know that Authlib's session is one of requests.
# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false

import json
import time
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from authlib.common.security import generate_token
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2 import rfc8414, rfc9207
from authlib.oauth2.rfc6749.errors import (
    MismatchingStateException,
    MissingCodeException,
    MissingTokenException,
)
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from authlib.oauth2.rfc9068 import JWTBearerTokenValidator
from joserfc.jwk import ECKey, KeySet

from tests.clients.site import KEY, REFERENCE, SPA, UID, WEB, LocalSite, secret_of
from tests.support.live import CALLBACK, PASSWORD
from tests.support.wait import CEILING
from valetkey.kernel.moment import hours

SECRET = secret_of(WEB)
READ = "account:read notes:read"


def web(world: LocalSite, **options: object) -> OAuth2Session:
    """The web app's session."""
    options = {"client_secret": SECRET, "scope": READ, **options}
    return OAuth2Session(
        WEB, redirect_uri=CALLBACK, token_endpoint=world.token, default_timeout=CEILING, **options
    )


def held(token: Mapping[str, object], scope: str = READ) -> None:
    """The library parsed a whole token response for Ada."""
    assert token["token_type"] == "bearer"
    assert token["expires_in"] == 3600
    assert type(token["expires_in"]) is int
    assert isinstance(token["expires_at"], int)
    assert abs(token["expires_at"] - time.time() - 3600) < 60
    assert (token["scope"], token["uid"]) == (scope, UID)


def reads(session: OAuth2Session, world: LocalSite) -> None:
    """The session's token opens what it was granted, and shows whose it is."""
    account = session.get(f"{world.api}/account")
    assert account.status_code == 200, account.text
    assert account.json()["name"] == "Ada Lovelace"
    assert session.get(f"{world.api}/notes").status_code == 200


def signed_in(session: OAuth2Session, world: LocalSite) -> dict[str, object]:
    """Ada allows what the session asks; the token response."""
    arrived = world.arrive(session.create_authorization_url(world.authorize)[0])
    return dict(session.fetch_token(authorization_response=arrived))


def test_the_metadata_is_valid(world: LocalSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    url = rfc8414.get_well_known_url(world.issuer, external=True)
    document = requests.get(url, timeout=60).json()
    metadata = rfc8414.AuthorizationServerMetadata(document)
    metadata.validate(metadata_classes=[rfc9207.AuthorizationServerMetadata])
    assert metadata["token_endpoint"] == world.token
    assert metadata["authorization_response_iss_parameter_supported"] is True


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_code_flow_without_pkce_succeeds(world: LocalSite, method: str) -> None:
    with web(world, token_endpoint_auth_method=method) as session:
        url, state = session.create_authorization_url(world.authorize)
        arrived = world.arrive(url)
        query = parse_qs(urlsplit(arrived).query)
        assert (query["state"], query["iss"]) == ([state], [world.issuer])
        token = session.fetch_token(authorization_response=arrived, state=state)
        held(token)
        assert token["refresh_token"]
        assert token["info"]["name"] == "Ada Lovelace"
        assert token["info"]["email"] == "ada@example.com"
        reads(session, world)


def test_code_flow_with_pkce_succeeds(world: LocalSite) -> None:
    verifier = generate_token(48)
    with web(world, code_challenge_method="S256") as session:
        url, _ = session.create_authorization_url(world.authorize, code_verifier=verifier)
        assert "code_challenge_method=S256" in url
        arrived = world.arrive(url)
        held(session.fetch_token(authorization_response=arrived, code_verifier=verifier))
        reads(session, world)


def test_wrong_code_verifier_raises_invalid_grant(world: LocalSite) -> None:
    with web(world, code_challenge_method="S256") as session:
        url, _ = session.create_authorization_url(world.authorize, code_verifier=generate_token(48))
        arrived = world.arrive(url)
        with pytest.raises(OAuthError) as refused:
            session.fetch_token(authorization_response=arrived, code_verifier=generate_token(48))
        assert refused.value.error == "invalid_grant"
        assert refused.value.description


def test_public_client_flow_succeeds_and_rotates_refresh_tokens(world: LocalSite) -> None:
    verifier = generate_token(48)
    with OAuth2Session(
        SPA,
        redirect_uri=CALLBACK,
        scope=READ,
        token_endpoint=world.token,
        code_challenge_method="S256",
    ) as session:
        url, _ = session.create_authorization_url(world.authorize, code_verifier=verifier)
        first = session.fetch_token(
            authorization_response=world.arrive(url), code_verifier=verifier
        )
        held(first)
        second = session.refresh_token()
        held(second)
        assert second["refresh_token"] != first["refresh_token"]
        revoked = session.revoke_token(world.revoke)
        assert revoked.status_code == 200
        with pytest.raises(OAuthError) as refused:
            session.refresh_token(refresh_token=second["refresh_token"])
        assert refused.value.error == "invalid_grant"


def test_callback_with_an_empty_fragment_is_refused_without_spending_the_code(
    world: LocalSite,
) -> None:
    # The guard's empty fragment reaches no web server; pasted by hand it makes this library
    # believe in the implicit grant, and it says so without spending the code.
    with web(world) as session:
        arrived = world.arrive(session.create_authorization_url(world.authorize)[0])
        with pytest.raises(MissingTokenException):
            session.fetch_token(authorization_response=f"{arrived}#")
        held(session.fetch_token(authorization_response=arrived))


def test_reused_code_raises_invalid_grant(world: LocalSite) -> None:
    with web(world) as session:
        arrived = world.arrive(session.create_authorization_url(world.authorize)[0])
        held(session.fetch_token(authorization_response=arrived))
        with pytest.raises(OAuthError) as refused:
            session.fetch_token(authorization_response=arrived)
        assert refused.value.error == "invalid_grant"


def test_wrong_secret_raises_invalid_client(world: LocalSite) -> None:
    with web(world, client_secret="x" * 40) as session:
        with pytest.raises(OAuthError) as refused:
            session.fetch_token(username="ada", password=PASSWORD)
        assert refused.value.error == "invalid_client"


def test_state_of_another_session_is_rejected(world: LocalSite) -> None:
    with web(world) as session:
        arrived = world.arrive(session.create_authorization_url(world.authorize)[0])
        with pytest.raises(MismatchingStateException):
            session.fetch_token(authorization_response=arrived, state="mine")


def test_denied_consent_returns_access_denied_without_a_code(world: LocalSite) -> None:
    with web(world) as session:
        url, state = session.create_authorization_url(world.authorize)
        query = parse_qs(urlsplit(world.refuse(url)).query)
        assert (query["error"], query["state"]) == (["access_denied"], [state])
        assert query["iss"] == [world.issuer]
        with pytest.raises(MissingCodeException):
            session.fetch_token(grant_type="authorization_code", **query)


def test_password_flow_succeeds_with_the_right_password_only(world: LocalSite) -> None:
    with web(world) as session:
        held(session.fetch_token(username="ada", password=PASSWORD))
        reads(session, world)
        with pytest.raises(OAuthError) as refused:
            session.fetch_token(username="ada", password="wrong")
        assert refused.value.error == "invalid_grant"


@pytest.mark.parametrize("path", ["/oauth/token", "/token"])
def test_client_credentials_flow_succeeds_at_both_paths(world: LocalSite, path: str) -> None:
    with web(world, scope=None) as session:
        token = session.fetch_token(world.issuer + path, grant_type="client_credentials")
        assert (token["token_type"], token["expires_in"]) == ("bearer", 3600)
        assert token["scope"] == "client:read client:write"
        assert {"refresh_token", "uid", "info"}.isdisjoint(token)
        assert session.get(f"{world.api}/client").json()["client_id"] == WEB


def test_expired_token_is_refreshed_automatically(own_world: LocalSite) -> None:
    world = own_world
    with web(world) as session:
        kept = signed_in(session, world)
    world.servers.clock.forward(hours(2))
    kept["expires_at"] = int(time.time()) - 3600
    tokens: list[object] = []

    def keep(token: object, **_: str) -> None:
        tokens.append(token)

    with web(world, token=kept, update_token=keep) as session:
        reads(session, world)
        held(session.token)
        assert tokens == [session.token]
        assert session.token["access_token"] != kept["access_token"]


@pytest.mark.parametrize("client_id", [WEB, REFERENCE])
def test_introspection_shows_a_token_until_it_is_revoked(world: LocalSite, client_id: str) -> None:
    with OAuth2Session(
        client_id,
        secret_of(client_id),
        redirect_uri=CALLBACK,
        scope=READ,
        token_endpoint=world.token,
    ) as session:
        token = signed_in(session, world)
        access = token["access_token"]
        introspection = session.introspect_token(
            world.introspect, token=access, token_type_hint="access_token"
        ).json()
        assert (introspection["active"], introspection["scope"]) == (True, READ)
        assert (introspection["client_id"], introspection["iss"]) == (client_id, world.issuer)
        ended = session.revoke_token(world.revoke, token=access, token_type_hint="access_token")
        assert ended.status_code == 200
        assert session.introspect_token(world.introspect, token=access).json() == {"active": False}


def by_key(world: LocalSite, **options: object) -> OAuth2Session:
    """A session that signs its assertions."""
    key = ECKey.import_key(json.loads(world.key.private_jwk()))
    session = OAuth2Session(
        KEY,
        key,
        redirect_uri=CALLBACK,
        token_endpoint=world.token,
        token_endpoint_auth_method="private_key_jwt",
        revocation_endpoint_auth_method="private_key_jwt",
        **options,
    )
    session.register_client_auth_method(brief(world.token))
    return session


def brief(audience: str) -> PrivateKeyJWT:
    """The library's own assertion, for a minute instead of its hour (RFC 7523 section 3)."""
    return PrivateKeyJWT(audience, claims={"exp": int(time.time()) + 60}, alg="ES256")


def test_private_key_jwt_flow_succeeds(world: LocalSite) -> None:
    with by_key(world, scope=READ) as session:
        held(signed_in(session, world))
        reads(session, world)
        session.register_client_auth_method(brief(world.token))
        held(session.refresh_token())
        session.register_client_auth_method(brief(world.token))
        answer = session.introspect_token(world.introspect, token=session.token["access_token"])
        assert answer.json()["active"] is True
        session.register_client_auth_method(brief(world.token))
        assert session.revoke_token(world.revoke).status_code == 200
        assert session.get(f"{world.api}/notes", withhold_token=True).status_code == 401


def test_reused_assertion_raises_invalid_client(world: LocalSite) -> None:
    with by_key(world) as session:
        # This library keeps the jti with the claims it was given, so it sends the same one again.
        assert session.fetch_token(grant_type="client_credentials")["token_type"] == "bearer"
        with pytest.raises(OAuthError) as refused:
            session.fetch_token(grant_type="client_credentials")
        assert refused.value.error == "invalid_client"


def test_assertion_with_the_library_default_lifetime_is_accepted(world: LocalSite) -> None:
    with by_key(world) as session:
        session.register_client_auth_method(PrivateKeyJWT(world.token, alg="ES256"))
        assert session.fetch_token(grant_type="client_credentials")["token_type"] == "bearer"


class Validator(JWTBearerTokenValidator):  # type: ignore[misc]
    """Authlib's resource server, with our published keys."""

    def __init__(self, world: LocalSite) -> None:
        super().__init__(issuer=world.issuer, resource_server=world.api_url)
        self._url = f"{world.issuer}/oauth/jwks"

    def get_jwks(self) -> KeySet:
        return KeySet.import_key_set(requests.get(self._url, timeout=60).json())


def test_access_token_is_validated_by_the_authlib_resource_server(world: LocalSite) -> None:
    with web(world) as session:
        text = signed_in(session, world)["access_token"]
    validator = Validator(world)
    claims = validator.authenticate_token(text)
    validator.validate_token(claims, ["notes:read"], None)
    assert (claims["client_id"], claims["sub"]) == (WEB, str(UID))
