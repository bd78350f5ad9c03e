"""What belongs to apps: reached with tokens of their own, never with a person's."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.resource.objects.books import BOOK, STOCK, write_objects
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

_CALLBACK = "http://127.0.0.1:9999/cb"
_SECRET = "a secret that is long enough for a client"
_PASSWORD = "correct horse battery"
_EVERY = ("authorization_code", "client_credentials", "password", "implicit", "refresh_token")
_BOTH = ("stock:read", "stock:write")


@pytest.fixture
def servers(database_url: str, tmp_path: Path) -> Generator[Servers]:
    write_objects(tmp_path, books_py=BOOK, stock_json=STOCK)
    settings = replace(Settings(), resource=ResourceSettings(objects="objects"))
    settings = replace(
        settings, authorization=replace(settings.authorization, database=database_url)
    )
    with Servers(tmp_path, settings=settings) as running:
        running.register_user("ada", _PASSWORD, uid=1001)
        for name in ("shop", "depot"):
            own = ClientMetadata(name, grant_types=("client_credentials",), scopes=_BOTH)
            running.register_client(own, name, _SECRET)
        every = ClientMetadata(
            "Every",
            redirect_uris=(_CALLBACK,),
            grant_types=_EVERY,
            scopes=("books:read", "read", "write", *_BOTH),
        )
        running.register_client(every, "every", _SECRET)
        none = ClientMetadata("None", grant_types=("client_credentials",))
        running.register_client(none, "none", _SECRET)
        yield running


def _asked(servers: Servers, client: str, path: str = "/oauth/token", **form: str) -> Any:
    form = {"grant_type": "client_credentials", **form}
    answer = requests.post(
        f"{servers.auth_url}{path}", data=form, auth=(client, _SECRET), timeout=60
    )
    return answer.json()


def _call(servers: Servers, method: str, path: str, token: str, **more: Any) -> requests.Response:
    url, bearer = f"{servers.api_url}/v2/{path}", {"authorization": f"Bearer {token}"}
    return requests.request(method, url, headers=bearer, timeout=60, **more)


def test_each_app_has_objects_of_its_own(servers: Servers) -> None:
    shop, depot = (
        _asked(servers, name, path, scope=" ".join(_BOTH))["access_token"]
        for name, path in (("shop", "/token"), ("depot", "/oauth/token"))
    )
    made = _call(servers, "POST", "stock", shop, json={"article": "tea", "left": 3})
    assert made.status_code == 201
    path = f"stock/{made.json()['id']}"
    assert _call(servers, "PATCH", path, shop, json={"left": 2}).json()["left"] == 2
    assert _call(servers, "GET", "stock", shop).json()["items"][0]["version"] == 2
    assert _call(servers, "GET", "stock", depot).json()["items"] == []
    for method in ("GET", "PATCH", "DELETE"):
        body = {"json": {"left": 1}} if method == "PATCH" else {}
        assert _call(servers, method, path, depot, **body).status_code == 404
    assert _call(servers, "DELETE", path, shop).status_code == 204


def test_scope_of_client_objects_must_be_registered_and_requested(servers: Servers) -> None:
    for path in ("/token", "/oauth/token"):
        unasked = _asked(servers, "shop", path)
        assert unasked["scope"] == "client:read client:write"
        assert _call(servers, "GET", "stock", unasked["access_token"]).status_code == 403
        both = _asked(servers, "shop", path, scope="client:read stock:read")
        assert both["scope"] == "client:read stock:read"
        assert _call(servers, "GET", "client", both["access_token"]).status_code == 200
        assert _call(servers, "POST", "stock", both["access_token"], json={}).status_code == 403
        for client, scope in (
            ("none", "stock:read"),
            ("shop", "stock:read books:read"),
            ("every", "read"),
            ("every", "books:read"),
            ("shop", "stock"),
        ):
            assert _asked(servers, client, path, scope=scope)["error"] == "invalid_scope"


def test_users_cannot_grant_scopes_of_client_objects(servers: Servers) -> None:
    ada = UserAgent(servers.auth_url)
    url = f"{servers.auth_url}/oauth/authorize?client_id=every&redirect_uri={_CALLBACK}"
    for response_type in ("code", "token"):
        for scope in ("stock:read", "books:read%20stock:write"):
            page = ada.open(f"{url}&response_type={response_type}&scope={scope}")
            assert page.redirect_parameters["error"] == "invalid_scope"
    # Without a scope, all that the app is registered for is asked: that is not among it.
    page = ada.sign_in(ada.open(f"{url}&response_type=code"), "ada", _PASSWORD)
    assert "read your books" in page.text
    assert "stock" not in page.body
    code = ada.submit(page, "allow", boxes=["books:read", "read", "write", "stock:read"])
    form = {"grant_type": "authorization_code", "redirect_uri": _CALLBACK}
    code_tokens = (
        _asked(servers, "every", code=code.redirect_parameters["code"], **form)
        if code.location
        else {}
    )
    assert "stock" not in str(code_tokens.get("scope"))
    password = {"grant_type": "password", "username": "ada", "password": _PASSWORD}
    refused = _asked(servers, "every", scope="stock:read", **password)
    assert refused["error"] == "invalid_scope"
    password_tokens = _asked(servers, "every", **password)
    assert "stock" not in password_tokens["scope"]
    # `read` and `write` of a person do not stand for it.
    for method, body in (("GET", {}), ("POST", {"json": {"article": "tea", "left": 1}})):
        answer = _call(servers, method, "stock", password_tokens["access_token"], **body)
        assert answer.status_code == 403
        assert "insufficient_scope" in answer.headers["www-authenticate"]
    more = _asked(
        servers,
        "every",
        grant_type="refresh_token",
        refresh_token=password_tokens["refresh_token"],
        scope="stock:read",
    )
    assert more["error"] == "invalid_scope"


def test_client_token_has_no_access_to_objects_of_users(servers: Servers) -> None:
    token = _asked(servers, "every", scope="stock:read stock:write")["access_token"]
    for path in ("books", "notes", "account", "authorizations"):
        assert _call(servers, "GET", path, token).status_code == 403


def test_scope_of_client_objects_requires_client_credentials(servers: Servers) -> None:
    metadata = ClientMetadata("X", redirect_uris=(_CALLBACK,), scopes=("stock:read",))
    with pytest.raises(ValueError, match="client_credentials"):
        servers.register_client(metadata, "x", _SECRET)


def test_documentation_says_that_objects_belong_to_clients(servers: Servers) -> None:
    document = requests.get(f"{servers.api_url}/v2/openapi.json", timeout=60).json()
    flows = document["components"]["securitySchemes"]["oauth2"]["flows"]
    own = flows["clientCredentials"]["scopes"]
    assert {name: own[name] for name in _BOTH} == {
        "stock:read": "read its stock",
        "stock:write": "change its stock",
    }
    assert not set(_BOTH) & set(flows["authorizationCode"]["scopes"])
    page = requests.get(f"{servers.api_url}/v2/", timeout=60).text
    stock = page[page.index('<section id="stock">') :]
    stock = stock[: stock.index("</section>")]
    assert "Belongs to the client" in stock
    assert "grant_type=client_credentials" in stock
    assert "Consent page" not in stock
    for url in (
        f"{servers.auth_url}/.well-known/oauth-authorization-server",
        f"{servers.api_url}/.well-known/oauth-protected-resource",
    ):
        assert set(_BOTH) <= set(requests.get(url, timeout=60).json()["scopes_supported"])
