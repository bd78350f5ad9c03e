"""npm openid-client and oauth4webapi: by metadata alone, with every check that they know."""

import json
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.clients.node.library import SCOPE, Library, Script, Told
from tests.clients.site import KEY, REFERENCE, SPA, UID, WEB, LocalSite, secret_of
from tests.support.live import CALLBACK
from valetkey.kernel.moment import hours

SECRET = secret_of(WEB)
Scripts = Mapping[str, Script]


@pytest.fixture(scope="module")
def scripts(node: str) -> Iterator[Scripts]:
    """Both libraries, waiting to be asked."""
    with Script(node, "openid_client.mjs") as one, Script(node, "oauth4webapi.mjs") as other:
        yield {"openid-client": one, "oauth4webapi": other}


@pytest.fixture(params=["openid-client", "oauth4webapi"])
def library(request: pytest.FixtureRequest, world: LocalSite, scripts: Scripts) -> Library:
    """Each of the two, as the web app with its secret in a Basic header."""
    return web(scripts[request.param], world)


def web(script: Script, world: LocalSite) -> Library:
    """The web app."""
    return Library(script, world).of(WEB, "basic", secret=SECRET)


def held(token: Told, scope: str = SCOPE) -> None:
    """The library parsed a whole token response for Ada."""
    assert (token["token_type"], token["expires_in"]) == ("bearer", 3600)
    assert (token["scope"], token["uid"]) == (scope, UID)
    assert token["refresh_token"]


def reads(library: Library, token: Told) -> None:
    """The token opens what it was granted."""
    api = library.site.api
    account = library.step("read", token=token["access_token"], url=f"{api}/account")
    assert (account["status"], account["name"]) == (200, "Ada Lovelace")


def test_metadata_is_discovered(library: Library, world: LocalSite) -> None:
    metadata = library.step("metadata")
    assert (metadata["issuer"], metadata["token_endpoint"]) == (world.issuer, world.token)
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True


@pytest.mark.parametrize("proof", ["basic", "post"])
@pytest.mark.parametrize("pkce", [True, False], ids=["with PKCE", "without PKCE"])
def test_authorization_code_flow_succeeds(library: Library, proof: str, pkce: bool) -> None:
    token = library.of(WEB, proof, secret=SECRET).sign_in(pkce=pkce)
    held(token)
    reads(library, token)


def test_openid_client_flow_succeeds_with_its_default_authentication(
    world: LocalSite, scripts: Scripts
) -> None:
    library = Library(scripts["openid-client"], world).of(WEB, "", secret=SECRET)
    token = library.sign_in()
    held(token)
    assert token["remaining"] in {3599, 3600}


def test_public_client_flow_succeeds_and_rotates_refresh_tokens(library: Library) -> None:
    public = library.of(SPA, "none")
    first = public.sign_in()
    held(first)
    second = public.step("refresh", refresh_token=first["refresh_token"])
    held(second)
    assert second["refresh_token"] != first["refresh_token"]


def test_private_key_jwt_flow_succeeds(library: Library, world: LocalSite) -> None:
    by_key = library.of(KEY, "key", jwk=json.loads(world.key.private_jwk()))
    token = by_key.sign_in()
    held(token)
    held(by_key.step("refresh", refresh_token=token["refresh_token"]))
    assert by_key.step("own")["scope"] == "client:read client:write"
    assert by_key.step("introspect", token=token["access_token"])["active"] is True
    assert by_key.step("revoke", token=token["access_token"]).said == {}
    assert by_key.step("introspect", token=token["access_token"]).said == {"active": False}


def test_callback_with_an_empty_fragment_is_accepted(library: Library) -> None:
    arrived = library.arrive()
    held(library.step("finish", **{**arrived, "arrived": f"{arrived['arrived']}#"}))


def test_client_credentials_flow_succeeds(library: Library, world: LocalSite) -> None:
    token = library.step("own")
    assert (token["token_type"], token["expires_in"]) == ("bearer", 3600)
    assert token["scope"] == "client:read client:write"
    assert not {"refresh_token", "uid", "info"} & token.said.keys()
    record = library.step("read", token=token["access_token"], url=f"{world.api}/client")
    assert (record["status"], record["client_id"]) == (200, WEB)


@pytest.mark.parametrize("client_id", [WEB, REFERENCE])
def test_introspection_shows_a_token_until_it_is_revoked(
    library: Library, world: LocalSite, client_id: str
) -> None:
    own = library.of(client_id, "basic", secret=secret_of(client_id))
    token = own.sign_in()
    reads(own, token)
    introspection = own.step("introspect", token=token["access_token"])
    assert (introspection["active"], introspection["scope"], introspection["client_id"]) == (
        True,
        SCOPE,
        client_id,
    )
    assert (introspection["iss"], introspection["sub"], introspection["aud"]) == (
        world.issuer,
        str(UID),
        world.api_url,
    )
    assert own.step("revoke", token=token["refresh_token"]).said == {}
    for kind in ("access_token", "refresh_token"):
        assert own.step("introspect", token=token[kind]).said == {"active": False}
    refused = own.step("refresh", refresh_token=token["refresh_token"]).problem
    assert (refused["name"], refused["error"]) == ("ResponseBodyError", "invalid_grant")


def test_expired_token_raises_a_challenge_and_can_be_refreshed(
    own_world: LocalSite, scripts: Scripts
) -> None:
    libraries = [web(script, own_world) for script in scripts.values()]
    tokens = [library.sign_in() for library in libraries]
    own_world.servers.clock.forward(hours(2))
    for library, token in zip(libraries, tokens, strict=True):
        url = f"{own_world.api}/account"
        expired = library.step("read", token=token["access_token"], url=url).problem
        assert expired["name"] == "WWWAuthenticateChallengeError"
        assert expired["status"] == 401
        challenges = expired["challenge"]
        assert isinstance(challenges, list)
        assert challenges[0]["scheme"] == "bearer"
        assert challenges[0]["error"] == "invalid_token"
        fresh = library.step("refresh", refresh_token=token["refresh_token"])
        held(fresh)
        reads(library, fresh)


def test_denied_consent_raises_an_authorization_error(library: Library, world: LocalSite) -> None:
    begun = library.step("begin")
    denied = world.refuse(str(begun["url"]))
    problem = library.step("finish", **{**begun.said, "arrived": denied}).problem
    assert problem["name"] == "AuthorizationResponseError"
    assert problem["error"] == "access_denied"
    assert problem["error_description"]


def test_reused_code_raises_invalid_grant(library: Library) -> None:
    arrived = library.arrive()
    held(library.step("finish", **arrived))
    problem = library.step("finish", **arrived).problem
    assert (problem["name"], problem["error"]) == ("ResponseBodyError", "invalid_grant")
    assert problem["status"] == 400
    assert problem["error_description"]


def test_wrong_code_verifier_raises_invalid_grant(library: Library) -> None:
    arrived = library.arrive()
    other = {**arrived, "verifier": "x" * 43}
    assert library.step("finish", **other).problem["error"] == "invalid_grant"


def test_wrong_secret_raises_a_challenge_error(library: Library) -> None:
    problem = library.of(WEB, "basic", secret="x" * 40).step("own").problem
    # The challenge of RFC 6749 section 5.2 is what both look at first.
    assert problem["name"] == "WWWAuthenticateChallengeError"
    assert problem["status"] == 401


@pytest.mark.parametrize("name", ["iss", "state"])
def test_response_with_another_issuer_or_state_is_rejected(library: Library, name: str) -> None:
    arrived = library.arrive()
    pairs = dict(parse_qsl(urlsplit(str(arrived["arrived"])).query))
    forged = f"{CALLBACK}?{urlencode({**pairs, name: 'https://evil.example'})}"
    problem = library.step("finish", **{**arrived, "arrived": forged}).problem
    assert problem["code"] == "OAUTH_INVALID_RESPONSE"
    assert name in str(problem["message"])
    held(library.step("finish", **arrived))


def test_response_without_an_issuer_is_rejected(library: Library) -> None:
    arrived = library.arrive()
    pairs = dict(parse_qsl(urlsplit(str(arrived["arrived"])).query))
    del pairs["iss"]
    forged = f"{CALLBACK}?{urlencode(pairs)}"
    problem = library.step("finish", **{**arrived, "arrived": forged}).problem
    assert problem["code"] == "OAUTH_INVALID_RESPONSE"


def test_access_token_is_validated_by_the_library_for_its_audience_only(
    world: LocalSite, scripts: Scripts
) -> None:
    library = web(scripts["oauth4webapi"], world)
    token = library.sign_in()["access_token"]
    claims = library.step("validate", token=token, audience=world.api_url)
    assert (claims["sub"], claims["client_id"], claims["scope"]) == (str(UID), WEB, SCOPE)
    elsewhere = library.step("validate", token=token, audience="https://elsewhere.example")
    assert elsewhere.problem["name"] == "OperationProcessingError"


def test_device_flow_succeeds(world: LocalSite, scripts: Scripts) -> None:
    library = Library(scripts["openid-client"], world).of(SPA, "none")
    begun = library.step("device").said
    assert "Device connected" in world.enter(str(begun["verification_uri_complete"]))
    token = library.step("poll", device=begun)
    held(token)
    reads(library, token)
    assert library.step("poll", device=begun).problem["error"] == "invalid_grant"
