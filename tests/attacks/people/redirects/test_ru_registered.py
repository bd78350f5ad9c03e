"""RU: what may be registered as a redirect URI, through the register and through the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import pytest
import requests

from tests.attacks.people.told import back, fetch, shown
from tests.support.live import CALLBACK, CODE_GRANT, LiveServers
from tests.vectors.rows import rows
from valetkey.authorization.actions.clients import Faults
from valetkey.testing.browser import Page, UserAgent

_REFUSED = {
    "ru-03-user-name": ("https://user@app.example/cb", "https://app.example:x@evil.test/cb"),
    "ru-05-several-at": ("https://a@b@evil.test/cb", "https://app.example%40evil.test/cb"),
    "ru-07-backslash": (r"https://app.example\cb", r"https:\\app.example/cb"),
    "ru-17-scheme": (
        "http://app.example/cb",
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\nscript:alert(1)",
        "javascript://app.example/%0aalert(1)",
        "data:text/html;base64,PHNjcmlwdD4=",
        "vbscript:msgbox(1)",
        "file:///etc/passwd",
        "about:blank",
        "blob:https://app.example/1",
        "view-source:https://app.example/",
        "ftp://app.example/cb",
        "wss://app.example/cb",
        "mailto:x@app.example",
        "urn:ietf:wg:oauth:2.0:oob",
        "oob",
        "myapp:/cb",
        "com.example.app:/cb",
    ),
    "ru-19-relative": (
        "//app.example/cb",
        "/cb",
        "cb",
        "",
        " ",
        "https:///cb",
        "https:app.example",
    ),
    "ru-19-fragment": ("https://app.example/cb#", "https://app.example/cb#x", "https://a.example#"),
    "ru-25-loopback": (
        "http://127.1/cb",
        "http://2130706433/cb",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://[::ffff:127.0.0.1]/cb",
        "http://0.0.0.0/cb",
        "http://127.0.0.2/cb",
        "http://localhost.evil.test/cb",
        "http://10.0.0.1/cb",
        "http://[fe80::1]/cb",
    ),
    "ru-27-ports": tuple(
        f"https://app.example:{port}/cb"
        for port in ("0", "65536", "99999999999", "abc", "-1", "", "0443", "４４３")
    ),
    "ru-29-international": (
        "https://аpp.example/cb",
        "https://evil。example/cb",
        "https://app.example／cb",
        "https://app.example/ｃb",
        "https://app.example/\u202ecb",
        "https://app.example/\U0001f600",
        "https://APP.example/cb",
    ),
    "ru-31-wildcard": (
        "https://*.example/cb",
        "https://app.example*",
        "*",
        "https://app.example/*",
        "https://app.example/cb?*",
        "https://app.example:*/cb",
    ),
    "ru-33-long": ("https://app.example/" + "x" * 1_981, "https://" + "a" * 64 + ".example/cb"),
    "ru-control": tuple(
        f"https://app.example/{letter}cb"
        for letter in ("\0", "\t", "\n", "\r\nSet-Cookie: x=y\r\n", "\x1b", "\x7f", " ", "\x85")
    ),
    "ru-markup": tuple(
        f"https://app.example/{letter}"
        for letter in ('"', "'><script>", "<", "`", "{{7*7}}", "|", "^", "%", "%zz", "[", "]")
    ),
    "ru-host": (
        "https://app.example./cb",
        "https://.example/cb",
        "https://app..example/cb",
        "https://-app.example/cb",
        "https://app_1.example/cb",
        "https://app%2eexample/cb",
        "https://app.example;script-src.evil.test/cb",
        "https://app.example,evil.test/cb",
        "https://[::1/cb",
        "https://[1::2::3]/cb",
        "https://[v1.x]/cb",
        "https://[fe80::1%25eth0]/cb",
    ),
}


def _faults(world: LiveServers, *uris: str, **metadata: object) -> Faults:
    with pytest.raises(ValueError, match="MetadataError") as refused:
        world.client("refused1", secret="", redirect_uris=uris, **metadata)
    faults: Faults = refused.value.args[0]
    return faults


def _own(world: LiveServers, client_id: str, **metadata: object) -> str:
    """A client that may change itself, and the token with which it does."""
    grant_types = (*CODE_GRANT, "client_credentials")
    world.client(client_id, secret="", grant_types=grant_types, **metadata)
    answer = world.token(client_id, path="/token", grant_type="client_credentials")
    answer.ok()
    return answer.json["access_token"]


def _change(
    world: LiveServers, token: str, change: Mapping[str, object], method: str = "PATCH"
) -> requests.Response:
    response = requests.request(
        method,
        f"{world.api}/v2/client",
        json=change,
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    )
    assert response.status_code < 500, response.text
    return response


def _refused(response: requests.Response, pointer: str) -> None:
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"
    if "U+0000" in response.json()["detail"]:
        return  # no text at all, wherever it stands
    assert {error["pointer"] for error in response.json()["errors"]} == {pointer}, response.text
    assert all(error["detail"] for error in response.json()["errors"])


def _ask(world: LiveServers, client_id: str, redirect_uri: str) -> Page:
    parameters = {"response_type": "code", "client_id": client_id, "redirect_uri": redirect_uri}
    query = urlencode({**parameters, "scope": "nothing", "state": "xyz"})
    return fetch(UserAgent(world.auth), "GET", f"{world.auth}/oauth/authorize?{query}")


@pytest.mark.parametrize("uris", _REFUSED.values(), ids=_REFUSED)
def test_ru_invalid_redirect_uri_is_not_registered(
    world: LiveServers, uris: tuple[str, ...]
) -> None:
    with world.nothing_changes():
        for uri in uris:
            assert {fault.field for fault in _faults(world, uri)} == {"redirect_uris/0"}, uri
            faults = _faults(world, CALLBACK, uri)
            assert {fault.field for fault in faults} == {"redirect_uris/1"}, uri


@pytest.mark.parametrize("uris", _REFUSED.values(), ids=_REFUSED)
def test_ru_the_api_refuses_invalid_redirect_uris(
    world: LiveServers, uris: tuple[str, ...]
) -> None:
    client_id = f"own-{list(_REFUSED.values()).index(uris)}"
    token = _own(world, client_id)
    with world.nothing_changes():
        for uri in uris:
            _refused(_change(world, token, {"redirect_uri": uri}), "/redirect_uri")
            put = {"redirect_uris": [CALLBACK, uri], "description": "x"}
            _refused(_change(world, token, put, "PUT"), "/redirect_uris/1")
        back(world, _ask(world, client_id, CALLBACK), "invalid_scope")


@dataclass(frozen=True, slots=True)
class _Uri:
    text: str
    why: str
    native: bool = False
    refused: str = ""


def test_ru_every_vector_of_registration_holds_through_the_api(world: LiveServers) -> None:
    tokens = {
        False: _own(world, "web-vectors"),
        True: _own(world, "native-vectors", application_type="native"),
    }
    for vector in rows("redirect_uri.toml", "uri", _Uri):
        if vector.refused == "redirect_uri.own":
            continue  # these are another server's own; ours follow below
        answer = _change(world, tokens[vector.native], {"redirect_uri": vector.text})
        if vector.refused:
            _refused(answer, "/redirect_uri")
        else:
            assert answer.status_code == 200, (vector, answer.text)
            assert answer.json()["redirect_uri"] == vector.text


def test_ru_39_redirect_uris_on_own_servers_cannot_be_registered(world: LiveServers) -> None:
    token = _own(world, "circle1")
    auth, api = urlsplit(world.auth), urlsplit(world.api)
    with world.nothing_changes():
        for uri in (
            f"{world.auth}/oauth/authorize?client_id=web1",
            f"{world.auth}/",
            world.auth,
            f"http://localhost:{auth.port}/oauth/sign-out",
            f"http://[::1]:{auth.port}/",
            f"{world.api}/v2/notes",
            f"http://localhost:{api.port}/",
        ):
            assert {fault.field for fault in _faults(world, uri)} == {"redirect_uris/0"}, uri
            _refused(_change(world, token, {"redirect_uri": uri}), "/redirect_uri")


def test_ru_implicit_client_cannot_register_a_private_use_uri_scheme(world: LiveServers) -> None:
    with world.nothing_changes():
        faults = _faults(
            world,
            "com.example.app:/cb",
            application_type="native",
            grant_types=("implicit", "authorization_code"),
        )
        assert {fault.field for fault in faults} == {"redirect_uris/0"}


def test_ru_too_many_repeated_or_no_redirect_uris_are_refused(world: LiveServers) -> None:
    many = tuple(f"{CALLBACK}/{number}" for number in range(10_000))
    token = _own(world, "few1")
    with world.nothing_changes():
        for uris in (many, many[:21], (CALLBACK, CALLBACK), ()):
            assert {fault.field for fault in _faults(world, *uris)} == {"redirect_uris"}
            _refused(_change(world, token, {"redirect_uris": list(uris)}), "/redirect_uris")


@pytest.mark.parametrize(
    "value",
    [None, 5, 1.5, True, [], [CALLBACK], {"uri": CALLBACK}, [[CALLBACK]]],
    ids=repr,
)
def test_ru_redirect_uri_must_be_a_string(world: LiveServers, value: object) -> None:
    name = f"text-{abs(hash(repr(value)))}"
    token = _own(world, name)
    with world.nothing_changes():
        _refused(_change(world, token, {"redirect_uri": value}), "/redirect_uri")
        several = _change(world, token, {"redirect_uris": [CALLBACK, value]})
        assert several.status_code == 400, several.text
        both = _change(
            world, token, {"redirect_uri": "https://other.example/", "redirect_uris": [CALLBACK]}
        )
        _refused(both, "/redirect_uri")


def test_ru_redirect_uri_with_a_lone_surrogate_is_refused(world: LiveServers) -> None:
    token = _own(world, "surrogate1")
    with world.nothing_changes():
        for text in ('"https://app.example/\\ud800"', '"\\udfff"', '"https://\\ud83d.example/"'):
            response = requests.patch(
                f"{world.api}/v2/client",
                data='{"redirect_uri": ' + text + "}",
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                timeout=60,
            )
            assert response.status_code == 400, response.text


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_ru_37_redirect_uri_change_takes_effect_at_once(world: LiveServers, method: str) -> None:
    client_id = f"moves-{method.lower()}"
    token = _own(world, client_id)
    for number in range(5):
        before, after = f"{CALLBACK}{number or ''}", f"{CALLBACK}{number + 1}"
        back(world, _ask(world, client_id, before), "invalid_scope", to=before)
        change = {"redirect_uri": after, "description": f"moved {number}"}
        assert _change(world, token, change, method).status_code == 200
        shown(_ask(world, client_id, before), 400, "invalid_request")
        back(world, _ask(world, client_id, after), "invalid_scope", to=after)


def test_ru_redirect_uri_of_another_client_cannot_be_changed(world: LiveServers) -> None:
    mallory = _own(world, "mallorys")
    alices = world.tokens("web1", scope="read write")["access_token"]
    evil = "https://evil.test/cb"
    with world.nothing_changes():
        assert _change(world, alices, {"redirect_uri": evil}).status_code == 403
        assert (
            _change(world, mallory, {"client_id": "web1", "redirect_uri": evil}).status_code == 400
        )
        for path in ("/v2/client/web1", "/v2/client?client_id=web1"):
            response = requests.patch(
                f"{world.api}{path}",
                json={"redirect_uri": evil},
                headers={"Authorization": f"Bearer {mallory}"},
                timeout=60,
            )
            assert response.status_code in {400, 404, 405}, response.text
        shown(_ask(world, "web1", evil), 400, "invalid_request")
