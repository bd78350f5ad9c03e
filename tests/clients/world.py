"""Both servers, the clients that the libraries speak for, and the people who walk the pages."""

import hashlib
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urldefrag

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.settings import PasswordSettings, Settings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.testing.person import Page, Person
from valetkey.testing.server import Servers

CALLBACK = "https://app.example/cb"
PASSWORD = "correct horse battery staple"
SCOPES = ("read", "notes:read", "notes:write", "account:read")
WEB, SPA, KEY, REFERENCE = "web-app", "spa", "key", "reference"
UID = 1001
# Form-encoding changes these, so a library that encodes what it puts into a Basic header and one
# that does not send different bytes (RFC 6749 section 2.3.1).
_AWKWARD = "+%/=:&"


def secret_of(client_id: str) -> str:
    """The secret of a client of this world: long enough to count as generated."""
    return hashlib.sha256(client_id.encode()).hexdigest() + _AWKWARD


@dataclass
class Site:
    """Where the two servers are, and a person for every errand."""

    issuer: str
    api_url: str
    tls: ssl.SSLContext | None = None

    @property
    def authorize(self) -> str:
        return f"{self.issuer}/oauth/authorize"

    @property
    def token(self) -> str:
        return f"{self.issuer}/oauth/token"

    @property
    def revoke(self) -> str:
        return f"{self.issuer}/oauth/revoke"

    @property
    def introspect(self) -> str:
        return f"{self.issuer}/oauth/introspect"

    @property
    def api(self) -> str:
        return f"{self.api_url}/v2"

    def arrive(self, url: str, user: str = "ada", *, only: Sequence[str] | None = None) -> str:
        """The user opens `url`, signs in and allows: the address that the app is asked for."""
        person = self._person()
        page = _sign_in(person, url, user)
        return requested(page if page.location else person.allow(page, only=only))

    def enter(self, url: str, user: str = "ada") -> str:
        """The user opens the link of a device, signs in and allows: what the page says."""
        person = self._person()
        page = _sign_in(person, url, user)
        return person.submit(page, "allow", boxes=("yes", *SCOPES)).text

    def refuse(self, url: str, user: str = "grace") -> str:
        """The user opens `url`, signs in and says no: the address that the app is asked for."""
        person = self._person()
        return requested(person.deny(_sign_in(person, url, user)))

    def arrive_unasked(self, url: str) -> str:
        """The user opens `url`, and is sent back before any question."""
        return requested(self._person().open(url))

    def _person(self) -> Person:
        return Person(self.issuer, self.tls)


@dataclass
class World(Site):
    """Servers of this process, which a test may ask for more and whose clock it may turn."""

    servers: Servers = field(kw_only=True)
    key: SigningKey = field(default_factory=lambda: SigningKey.generate(Algorithm.ES256))

    def populate(self) -> None:
        """Ada and Grace; a web app, a browser app, one with keys, one with opaque tokens."""
        self.servers.register_user("ada", PASSWORD, uid=UID, name="Ada Lovelace")
        self.servers.register_user("grace", PASSWORD, name="Grace Hopper")
        every = ("authorization_code", "refresh_token", "client_credentials", "password")
        self._client(WEB, grant_types=every)
        self._client(REFERENCE, access_token_format="reference")
        device = "urn:ietf:params:oauth:grant-type:device_code"
        granted = ("authorization_code", "refresh_token", device)
        self._client(SPA, type="public", secret=False, grant_types=granted)
        self._client(
            KEY,
            grant_types=("authorization_code", "refresh_token", "client_credentials"),
            key_set=KeySet.of(self.key.public).document().decode(),
            secret=False,
        )

    def _client(
        self,
        client_id: str,
        *,
        secret: bool = True,
        grant_types: tuple[str, ...] = ("authorization_code", "refresh_token"),
        type: str = "confidential",
        access_token_format: str = "jwt",
        key_set: str = "",
    ) -> None:
        metadata = ClientMetadata(
            name=client_id,
            redirect_uris=(CALLBACK,),
            grant_types=grant_types,
            scopes=SCOPES,
            type=type,
            access_token_format=access_token_format,
            key_set=key_set,
        )
        self.servers.register_client(metadata, client_id, secret_of(client_id) if secret else None)


def _sign_in(person: Person, url: str, user: str) -> Page:
    page = person.open(url)
    assert page.status == 200, page.text
    page = person.sign_in(page, user, PASSWORD)
    assert page.status in {200, 303}, page.text
    return page


def requested(page: Page) -> str:
    """What the browser asks the app for: where it was sent, less the fragment, which it keeps."""
    assert page.status == 303, page.text
    assert page.location.startswith(f"{CALLBACK}?"), page.location
    return urldefrag(page.location).url


@contextmanager
def world(directory: Path) -> Generator[World]:
    """A world with everyone in it."""
    settings = Settings(passwords=PasswordSettings(queue=100))
    with Servers(directory, settings=settings) as servers:
        found = World(servers.auth_url, servers.api_url, servers=servers)
        found.populate()
        yield found
