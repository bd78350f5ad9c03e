"""A host of client metadata documents over real TLS, and a server that may ask it."""

import base64
import hashlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import requests

from tests.fetch.canary import LOOPBACK, certificate
from tests.support.pages import Page, Pages, pages
from tests.support.wait import CEILING
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import RegistrationSettings, Settings
from valetkey.testing.browser import Page as Shown
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

PASSWORD = "correct horse battery staple"
CALLBACK = "http://127.0.0.1/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode()[:-1]


@dataclass
class Documents:
    """The server, and what lies on the other host."""

    servers: Servers
    host: Pages

    def put(
        self, path: str, changes: Mapping[str, object] | None = None, *, cache: str = ""
    ) -> str:
        """Publish a good document, with `changes`; return its URL."""
        url = self.host.url + path
        document = {
            "client_id": url,
            "client_name": "Assistant",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token"],
            **(changes or {}),
        }
        body = json.dumps({name: value for name, value in document.items() if value is not None})
        self.host.at[path] = Page(body.encode(), headers=(("cache-control", cache),))
        return url

    def address(self, client_id: str, **changes: str) -> str:
        """The authorization request of a client."""
        query = {
            "client_id": client_id,
            "response_type": "code",
            "redirect_uri": "http://127.0.0.1:49152/callback",
            "scope": "openid profile offline_access",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "s",
            **changes,
        }
        return f"{self.servers.auth_url}/oauth/authorize?{urlencode(query)}"

    def ask(self, client_id: str, **changes: str) -> requests.Response:
        """The server's first response to that request: a redirect, or an error page."""
        url = self.address(client_id, **changes)
        return requests.get(url, allow_redirects=False, timeout=CEILING)

    def consent(self, client_id: str) -> tuple[UserAgent, Shown]:
        """Ada signs in for that request and sees the consent page."""
        person = UserAgent(self.servers.auth_url)
        page = person.sign_in(person.open(self.address(client_id)), "ada", PASSWORD)
        return person, page

    def token(self, client_id: str, **form: str) -> requests.Response:
        return requests.post(
            f"{self.servers.auth_url}/oauth/token",
            data={"client_id": client_id, **form},
            timeout=CEILING,
        )

    def connect(self, client_id: str, **proof: str) -> dict[str, str]:
        """The whole flow: the token response."""
        person, page = self.consent(client_id)
        parameters = person.allow(page).redirect_parameters
        response = self.token(
            client_id,
            grant_type="authorization_code",
            code=parameters["code"],
            redirect_uri="http://127.0.0.1:49152/callback",
            code_verifier=VERIFIER,
            **proof,
        )
        assert response.status_code == 200, response.text
        return dict(response.json())

    def rows(self) -> list[str]:
        """The ids of the stored clients of this kind."""
        return self.servers.write(
            lambda tx: [
                row[0] for row in tx.db.rows("SELECT id FROM clients WHERE id LIKE 'https://%'")
            ]
        )


@contextmanager
def documents(folder: Path, **registration_settings: object) -> Generator[Documents]:
    """Both, with `registration_settings` beside the feature itself."""
    shown = certificate(folder, "localhost")
    with pages(shown.context) as host:
        settings = Settings(
            fetch=FetchSettings(allow=LOOPBACK, ca_file=str(shown.ca_file)),
            registration=RegistrationSettings(
                **{"metadata_documents": True, **registration_settings}  # type: ignore[arg-type]
            ),
        )
        with Servers(folder, settings=settings, with_resource=False) as servers:
            servers.register_user("ada", PASSWORD)
            yield Documents(servers, host)
