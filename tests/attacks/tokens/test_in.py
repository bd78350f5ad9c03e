"""IN: who may ask about tokens and end them, and how userinfo is tricked into telling too much."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests

from tests.support.live import LiveServers, live_servers, raw_jwt, secret_of
from valetkey.config.paths import database_file
from valetkey.kernel.moment import hours

WHO = "who1"
SCOPE = "openid email notes:read"
_LOCK = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1])
other.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""
INACTIVE = b'{"active":false}'


@pytest.fixture(scope="module")
def known(world: LiveServers) -> LiveServers:
    """The world with a client that people sign in to."""
    world.client(WHO, name="Who One", scopes=("openid", "email", "offline_access", "notes:read"))
    return world


@contextmanager
def _locked(file: Path) -> Generator[None]:
    """Nobody else writes to this database meanwhile."""
    command = [sys.executable, "-c", _LOCK, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        try:
            yield
        finally:
            other.communicate(b"")


def _userinfo(
    world: LiveServers,
    method: str = "GET",
    *,
    query: str = "",
    body: str = "",
    headers: dict[str, str] | None = None,
) -> requests.Response:
    url = f"{world.auth}/oauth/userinfo{'?' if query else ''}{query}"
    header_fields = dict(headers or {})
    if body:
        header_fields.setdefault("content-type", "application/x-www-form-urlencoded")
    return requests.request(method, url, data=body, headers=header_fields, timeout=60)


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _refused(response: requests.Response, status: int, error: str) -> None:
    assert response.status_code == status, response.text
    assert "alice" not in response.text
    assert response.headers["www-authenticate"].startswith("Bearer ")
    assert (f'error="{error}"' in response.headers["www-authenticate"]) == bool(error)
    assert response.headers["cache-control"] == "no-store"
    for name in ("content-security-policy", "x-content-type-options", "referrer-policy"):
        assert name in response.headers


def test_in_01_revocation_requires_client_authentication(world: LiveServers) -> None:
    held = world.tokens()
    for token in (held["access_token"], held["refresh_token"]):
        for proof in ({}, {"client_secret": "x" * 40}, {"client_secret": secret_of("web2")}):
            form = {"token": token, "client_id": "web1", **proof}
            with world.nothing_changes():
                world.post("/oauth/revoke", form).refused(401, "invalid_client")
    assert world.introspect(held["access_token"])["active"] is True
    assert world.refresh(held["refresh_token"]).status == 200


def test_in_03_revocation_of_another_clients_token_changes_nothing(world: LiveServers) -> None:
    held = world.tokens()
    for token in (held["access_token"], held["refresh_token"], "x", raw_jwt({}, {})):
        with world.nothing_changes():
            assert world.token("web2", path="/oauth/revoke", token=token).status == 200
    assert world.introspect(held["access_token"])["active"] is True


def test_in_05_failed_write_is_not_reported_as_revoked(tmp_path: Path) -> None:
    with live_servers(tmp_path, resource=False) as fresh:
        held = fresh.tokens()
        settings = fresh.servers.settings
        file = database_file(settings, settings.authorization)
        assert file is not None
        with _locked(file):
            answer = requests.post(
                f"{fresh.auth}/oauth/revoke",
                data={
                    "token": held["refresh_token"],
                    "client_id": "web1",
                    "client_secret": secret_of("web1"),
                },
                timeout=60,
            )
        assert answer.status_code == 503, answer.text
        assert answer.headers["retry-after"]
        assert fresh.refresh(held["refresh_token"]).status == 200


def test_in_07_unusable_tokens_are_reported_inactive_without_details(known: LiveServers) -> None:
    held = known.tokens(WHO, scope=SCOPE)
    others = known.tokens("web2")
    revoked = known.tokens(WHO, scope=SCOPE)["access_token"]
    known.token(WHO, path="/oauth/revoke", token=revoked).ok()
    expired = known.tokens(WHO, scope=SCOPE)["access_token"]
    assert known.introspect(held["access_token"], WHO)["active"] is True
    hinted = known.token(
        WHO,
        path="/oauth/introspect",
        token=held["access_token"],
        token_type_hint="refresh_token",
    )
    assert hinted.response.json()["active"] is True
    dead = [
        *("x", "vk_at_x", "a.b.c", "." * 2_000, "\u00e9", raw_jwt({"alg": "none"}, {"sub": "1"})),
        *(held["id_token"], known.code(WHO, scope=SCOPE), others["access_token"]),
        *(others["refresh_token"], revoked, held["refresh_token"][:-1]),
    ]
    for token in dead:
        answer = known.token(WHO, path="/oauth/introspect", token=token)
        assert (answer.status, answer.response.content) == (200, INACTIVE), token
    known.servers.clock.forward(hours(1))
    answer = known.token(WHO, path="/oauth/introspect", token=expired)
    assert answer.response.content == INACTIVE


def test_in_09_userinfo_takes_a_token_in_the_header_or_a_posted_form(known: LiveServers) -> None:
    token = known.tokens(WHO, scope=SCOPE)["access_token"]
    form = urlencode({"access_token": token})
    responses = [
        _userinfo(known, headers=_bearer(token)),
        _userinfo(known, headers={"authorization": f"bEaReR {token}"}),
        _userinfo(known, "POST", headers=_bearer(token)),
        _userinfo(known, "POST", body=form),
    ]
    for response in responses:
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/json"
        assert response.json()["email"] == "alice@example.com"


def test_in_09_userinfo_refuses_a_token_in_the_query(known: LiveServers) -> None:
    token = known.tokens(WHO, scope=SCOPE)["access_token"]
    for query in (f"access_token={token}", f"access%5Ftoken={token}", f"x=1&access_token={token}"):
        for headers in ({}, _bearer(token)):
            for method in ("GET", "POST"):
                answer = _userinfo(known, method, query=query, headers=headers)
                _refused(answer, 400, "invalid_request")
                assert token not in answer.text
    # A body under GET is no form, and a JSON body none either.
    form = urlencode({"access_token": token})
    _refused(_userinfo(known, body=form), 401, "")
    wrong = {"content-type": "application/json"}
    assert _userinfo(known, "POST", body=form, headers=wrong).status_code == 400


def test_in_09_userinfo_refuses_several_or_malformed_tokens(known: LiveServers) -> None:
    token = known.tokens(WHO, scope=SCOPE)["access_token"]
    form = urlencode({"access_token": token})
    _refused(_userinfo(known, "POST", body=form, headers=_bearer(token)), 400, "invalid_request")
    _refused(_userinfo(known, "POST", body=f"{form}&{form}"), 400, "invalid_request")
    for field in (f"Bearer {token} {token}", f"Bearer  {token}", f"Bearer {token},", "Bearer "):
        _refused(_userinfo(known, headers={"authorization": field}), 401, "invalid_token")
    for field in (f"DPoP {token}", f"Basic {token}", token, f"Bearer{token}"):
        _refused(_userinfo(known, headers={"authorization": field}), 401, "")
    # A parameter without a value counts as omitted.
    _refused(_userinfo(known, "POST", body="access_token="), 401, "")


def test_in_09_userinfo_answers_head_without_a_body(known: LiveServers) -> None:
    token = known.tokens(WHO, scope=SCOPE)["access_token"]
    answer = _userinfo(known, "HEAD", headers=_bearer(token))
    assert (answer.status_code, answer.content) == (200, b"")
    _refused(_userinfo(known, "HEAD", query=f"access_token={token}"), 400, "invalid_request")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_in_09_userinfo_refuses_other_methods(known: LiveServers, method: str) -> None:
    token = known.tokens(WHO, scope=SCOPE)["access_token"]
    answer = _userinfo(known, method, headers=_bearer(token))
    assert answer.status_code == 405
    assert "alice" not in answer.text


def test_in_09_userinfo_requires_a_user_token_with_scope_openid(known: LiveServers) -> None:
    without = known.tokens(WHO, scope="email notes:read")["access_token"]
    own = known.token("svc1", grant_type="client_credentials").json["access_token"]
    for token in (without, own):
        answer = _userinfo(known, headers=_bearer(token))
        _refused(answer, 403, "insufficient_scope")
        assert 'scope="openid"' in answer.headers["www-authenticate"]
    held = known.tokens(WHO, scope=SCOPE)
    for wrong in (
        *(held["id_token"], held["refresh_token"], secret_of(WHO)),
        *(raw_jwt({"alg": "none", "typ": "at+jwt"}, {"sub": "1"}), held["access_token"][:-2]),
    ):
        _refused(_userinfo(known, headers=_bearer(wrong)), 401, "invalid_token")


def test_in_09_userinfo_refuses_the_token_after_its_code_is_replayed(known: LiveServers) -> None:
    code = known.code(WHO, scope=SCOPE)
    token = known.exchange(code, WHO).json["access_token"]
    assert _userinfo(known, headers=_bearer(token)).status_code == 200
    known.exchange(code, WHO).refused(400, "invalid_grant")
    _refused(_userinfo(known, headers=_bearer(token)), 401, "invalid_token")


def test_in_09_userinfo_ignores_cookies_of_cross_origin_requests(known: LiveServers) -> None:
    headers = {"origin": "https://evil.test", "cookie": "valetkey-session=1"}
    answer = _userinfo(known, headers=headers)
    _refused(answer, 401, "")
    assert "access-control-allow-credentials" not in answer.headers
    preflight = _userinfo(known, "OPTIONS", headers=headers)
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, "*")
    assert "access-control-allow-credentials" not in preflight.headers
