"""An object that an operator declared: people are asked with its sentence, and its API answers."""

from pathlib import Path

import requests

from tests.resource.objects.books import BOOK, write_objects
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

_CALLBACK = "http://127.0.0.1:9999/cb"


def test_consent_page_shows_sentences_of_a_declared_object(tmp_path: Path) -> None:
    write_objects(tmp_path, books_py=BOOK)
    settings = replace(Settings(), resource=ResourceSettings(objects="objects"))
    with Servers(tmp_path, settings=settings) as servers:
        servers.register_user("ada", "correct horse battery", uid=1001)
        servers.register_client(
            ClientMetadata(
                "Shelf", redirect_uris=(_CALLBACK,), scopes=("books:read", "books:write")
            ),
            "shelf",
            "a secret that is long enough for a client",
        )
        metadata = requests.get(
            f"{servers.auth_url}/.well-known/oauth-authorization-server", timeout=60
        ).json()
        assert {"books:read", "books:write"} <= set(metadata["scopes_supported"])
        ada = UserAgent(servers.auth_url)
        page = ada.open(
            f"{servers.auth_url}/oauth/authorize?response_type=code&client_id=shelf&scope=books:read%20books:write"
            f"&redirect_uri={_CALLBACK}"
        )
        page = ada.sign_in(page, "ada", "correct horse battery")
        assert "read your books" in page.text
        assert "change your books" in page.text
        code = ada.allow(page, only=["books:write"]).redirect_parameters["code"]
        tokens = requests.post(
            f"{servers.auth_url}/oauth/token",
            data={"grant_type": "authorization_code", "code": code, "redirect_uri": _CALLBACK},
            auth=("shelf", "a secret that is long enough for a client"),
            timeout=60,
        ).json()
        assert tokens["scope"] == "books:write"
        own = {"authorization": f"Bearer {tokens['access_token']}"}
        books = f"{servers.api_url}/v2/books"
        made = requests.post(books, json={"title": "Emma"}, headers=own, timeout=60)
        assert made.status_code == 201
        assert requests.get(books, headers=own, timeout=60).status_code == 403
