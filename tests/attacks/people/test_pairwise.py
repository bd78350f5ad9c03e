"""Two apps that compare notes do not find out whom they share (Core section 17.3)."""

import html
import json
import re
from urllib.parse import parse_qs, urlsplit

from tests.attacks.people.told import owed
from tests.support.live import PASSWORD, LiveServers
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose import jwt
from valetkey.testing.browser import Page, UserAgent

_APPS = ("one", "two")
_SAME_FOR_ALL = {"iss", "acr", "amr", "typ", "token_type", "scope", "expires_in", "active"}
_OF_THE_HOUR = {"auth_time", "iat", "exp"}


def test_az_two_pairwise_apps_receive_no_common_identifiers_of_one_session(
    world: LiveServers,
) -> None:
    person, heard = UserAgent(world.auth), dict[str, dict[str, object]]()
    for app in _APPS:
        redirect_uri = f"https://{app}.example/cb"
        world.client(
            app,
            redirect_uris=(redirect_uri,),
            grant_types=("authorization_code", "refresh_token", "implicit"),
            scopes=("openid", "notes:read"),
            openid=OpenIdRegistration(
                subject_type="pairwise",
                frontchannel_logout_uri=f"https://{app}.example/out",
                frontchannel_logout_session_required=True,
            ),
        )
        page = world.ask(
            person,
            app,
            redirect_uri=redirect_uri,
            scope="openid notes:read",
            response_type="code id_token token",
            nonce=f"nonce of {app}",
            state=f"state of {app}",
        )
        page = page if "password" not in page.body else person.sign_in(page, "alice", PASSWORD)
        page = page if page.location else person.allow(page)
        answer = world.exchange(page.redirect_parameters["code"], app, redirect_uri=redirect_uri)
        answer.ok()
        heard[app] = {
            **page.redirect_parameters,
            **{f"later {name}": value for name, value in answer.json.items()},
            **_claims(page.redirect_parameters["id_token"]),
            **world.introspect(answer.json["access_token"], app),
        }
        assert _claims(answer.json["id_token"])["sid"] == heard[app]["sid"]
    frames = _frames(owed(person.submit(person.open(f"{world.auth}/oauth/sign-out"), "sign-out")))
    assert {frames[f"{app}.example"] for app in _APPS} == {heard[app]["sid"] for app in _APPS}
    one, two = heard.values()
    # However often an app asks, and for its refresh token as well, it never reads the uid.
    uid = str(world.servers.write(_uid_of_alice))
    for app in _APPS:
        for token in ("later access_token", "later refresh_token", "later access_token"):
            for _ in range(2):
                introspection = world.introspect(str(heard[app][token]), app)
                assert introspection["sub"] == heard[app]["sub"] != uid
    common = {name for name in one.keys() & two.keys() if one[name] == two[name]}
    assert "sid" in one
    allowed = _SAME_FOR_ALL | _OF_THE_HOUR | {f"later {name}" for name in _SAME_FOR_ALL}
    assert common <= {*allowed, "aud"}, common


def _uid_of_alice(tx: Transaction) -> int:
    user = tx.users.find_by_name("alice")
    assert user is not None
    return user.uid


def _claims(token: str) -> dict[str, object]:
    claims: dict[str, object] = json.loads(jwt.parse(token, ("jwt",)).payload)
    return claims


def _frames(page: Page) -> dict[str, str]:
    urls = map(html.unescape, re.findall(r'<iframe src="([^"]+)"', page.body))
    return {urlsplit(url).netloc: parse_qs(urlsplit(url).query)["sid"][0] for url in urls}
