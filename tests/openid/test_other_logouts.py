"""What the Front-Channel, Back-Channel and Session profiles and third-party login ask."""

import hashlib
import json
import re
from urllib.parse import parse_qsl, urlencode, urlsplit

import requests
from joserfc import jws, jwt
from joserfc.jwk import KeySet

from tests.openid.provider import Provider
from tests.openid.relying_party import REDIRECT_URI, SECONDS, RelyingParty
from tests.support.pages import Page as LiesThere
from tests.support.pages import pages
from valetkey.testing.browser import Page, UserAgent

BACK = "https://rp.example/signed-out"
EVENT = "http://schemas.openid.net/event/backchannel-logout"


def sign_out(rp: RelyingParty, person: UserAgent, hint: str) -> Page:
    query = urlencode({"id_token_hint": hint, "post_logout_redirect_uri": BACK, "state": "x"})
    page = person.open(f"{rp.at('end_session_endpoint')}?{query}")
    return person.submit(page, "sign-out")


def test_back_channel_logout_is_sent_before_the_user_is_redirected(op: Provider) -> None:
    with pages() as it:
        it.at["/logout"] = LiesThere()
        rp = op.register(
            backchannel_logout_uri=f"{it.url}/logout",
            backchannel_logout_session_required=True,
            post_logout_redirect_uris=[BACK],
        )
        person = op.person()
        tokens = rp.tokens(rp.authenticate(person))
        claims = tokens["claims"]
        assert isinstance(claims, dict)
        page = sign_out(rp, person, str(tokens["id_token"]))
        assert page.location == f"{BACK}?state=x"
        (token,) = [form["logout_token"] for form in it.sent]
    keys = KeySet.import_key_set(requests.get(rp.at("jwks_uri"), timeout=SECONDS).json())
    header = jws.extract_compact(token.encode()).headers()
    logout_claims = jwt.decode(token, keys, ["RS256"]).claims
    assert header["typ"] == "logout+jwt"
    assert header["alg"] == "RS256"
    assert (logout_claims["iss"], logout_claims["aud"]) == (op.servers.auth_url, rp.client_id)
    assert (logout_claims["sub"], logout_claims["sid"]) == (claims["sub"], claims["sid"])
    assert logout_claims["events"] == {EVENT: {}}
    assert isinstance(logout_claims["jti"], str)
    assert 0 < logout_claims["exp"] - logout_claims["iat"] <= 120
    assert "nonce" not in logout_claims


def test_front_channel_logout_page_has_a_frame_for_the_app(op: Provider) -> None:
    uri = "https://rp.example/front-channel?x=1"
    rp = op.register(
        frontchannel_logout_uri=uri,
        frontchannel_logout_session_required=True,
        post_logout_redirect_uris=[BACK],
    )
    person = op.person()
    tokens = rp.tokens(rp.authenticate(person))
    claims = tokens["claims"]
    assert isinstance(claims, dict)
    page = sign_out(rp, person, str(tokens["id_token"]))
    (source,) = re.findall(r'<iframe[^>]*\ssrc="([^"]+)"', page.body)
    address = source.replace("&amp;", "&")
    assert address.startswith(f"{uri}&")
    assert dict(parse_qsl(urlsplit(address).query)) == {
        "x": "1",
        "iss": op.servers.auth_url,
        "sid": claims["sid"],
    }
    policy = page.headers["content-security-policy"]
    assert "frame-src https://rp.example" in policy
    assert f"{BACK}?state=x" in page.body


def test_session_state_matches_that_of_the_check_session_iframe(op: Provider) -> None:
    rp, person = op.register(), op.person()
    answer = rp.authenticate(person)
    digest, _, salt = answer.said["session_state"].partition(".")
    parts = urlsplit(REDIRECT_URI)
    states = [
        hashlib.sha256(
            f"{rp.client_id} {parts.scheme}://{parts.netloc} {cookie} {salt}".encode()
        ).hexdigest()
        for cookie in person.cookies.values()
    ]
    assert digest in states
    frame = requests.get(rp.at("check_session_iframe"), timeout=SECONDS)
    assert frame.status_code == requests.codes.ok
    assert "x-frame-options" not in frame.headers
    assert "frame-ancestors 'none'" not in frame.headers["content-security-policy"]


def test_a_login_can_begin_at_the_provider(op: Provider) -> None:
    rp = op.register(initiate_login_uri="https://rp.example/begin")
    person = op.person()
    page = person.open(f"{op.servers.auth_url}/oauth/start?client_id={rp.client_id}")
    if not page.location:
        (address,) = set(re.findall(r'"(https://rp\.example/begin[^"]*)"', page.body))
        page = Page(page.status, page.url, page.body, page.headers, address.replace("&amp;", "&"))
    parameters = dict(parse_qsl(urlsplit(page.location).query))
    assert page.location.startswith("https://rp.example/begin?")
    assert parameters["iss"] == op.servers.auth_url


def test_discovery_document_announces_front_and_back_channel_logout(op: Provider) -> None:
    document = json.dumps(op.discovered)
    for name in ("frontchannel", "backchannel"):
        assert f'"{name}_logout_supported": true' in document
        assert f'"{name}_logout_session_supported": true' in document
