"""The servers that client libraries are tested against, and the users who sign in there."""

import hashlib
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urldefrag

from tests.support.live import CALLBACK, CODE_GRANT, PASSWORD, LiveServers, live_servers
from valetkey.authorization.model.client import GrantTypeName
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.testing.browser import Page, UserAgent
from valetkey.testing.server import Servers

SCOPES = ("read", "notes:read", "notes:write", "account:read")
WEB, SPA, KEY, REFERENCE = "web-app", "spa", "key", "reference"
UID = 1001
# Form-encoding changes these, so a library that encodes what it puts into a Basic header and one
# that does not send different bytes (RFC 6749 section 2.3.1).
_AWKWARD = "+%/=:&"


def secret_of(client_id: str) -> str:
    """Return the secret of a client: long enough to count as generated."""
    return hashlib.sha256(client_id.encode()).hexdigest() + _AWKWARD


@dataclass
class Site:
    """The URLs of both servers, and users with a fresh browser for each visit."""

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
        """Open `url`, sign in and allow; return the URL that the app receives."""
        person = self._person()
        page = _sign_in(person, url, user)
        return requested(page if page.location else person.allow(page, only=only))

    def enter(self, url: str, user: str = "ada") -> str:
        """Open the link of a device, sign in and allow; return the text of the page."""
        person = self._person()
        page = _sign_in(person, url, user)
        return person.submit(page, "allow", boxes=("yes", *SCOPES)).text

    def refuse(self, url: str, user: str = "grace") -> str:
        """Open `url`, sign in and deny; return the URL that the app receives."""
        person = self._person()
        return requested(person.deny(_sign_in(person, url, user)))

    def arrive_unasked(self, url: str) -> str:
        """Open `url`, expect a redirect at once; return the URL that the app receives."""
        return requested(self._person().open(url))

    def _person(self) -> UserAgent:
        return UserAgent(self.issuer, self.tls)


@dataclass
class LocalSite(Site):
    """Servers in this process, whose clock a test may move."""

    live: LiveServers = field(kw_only=True)

    @property
    def servers(self) -> Servers:
        return self.live.servers

    @property
    def key(self) -> SigningKey:
        """Return the key of the client KEY."""
        return self.live.key


def _populate(live: LiveServers) -> None:
    """Ada and Grace; a web app, a browser app, one with keys, one with opaque tokens."""
    live.servers.register_user("ada", PASSWORD, uid=UID, name="Ada Lovelace")
    live.servers.register_user("grace", PASSWORD, name="Grace Hopper")
    confidential = (*CODE_GRANT, "client_credentials")
    clients: dict[str, dict[str, object]] = {
        WEB: {"grant_types": (*confidential, "password")},
        REFERENCE: {"access_token_format": "reference"},
        SPA: {"type": "public", "grant_types": (*CODE_GRANT, GrantTypeName.DEVICE_CODE.value)},
        KEY: {
            "grant_types": confidential,
            "key_set": KeySet.of(live.key.public).document().decode(),
        },
    }
    for client_id, metadata in clients.items():
        secret = None if client_id in {SPA, KEY} else secret_of(client_id)
        live.client(client_id, secret=secret, scopes=SCOPES, **metadata)


def _sign_in(person: UserAgent, url: str, user: str) -> Page:
    page = person.open(url)
    assert page.status == 200, page.text
    page = person.sign_in(page, user, PASSWORD)
    assert page.status in {200, 303}, page.text
    return page


def requested(page: Page) -> str:
    """Return the URL that the app receives: the redirect without the fragment."""
    assert page.status == 303, page.text
    assert page.location.startswith(f"{CALLBACK}?"), page.location
    return urldefrag(page.location).url


@contextmanager
def local_site(directory: Path) -> Generator[LocalSite]:
    """Start both servers with the clients and users of these tests."""
    with live_servers(directory, populate=_populate) as live:
        yield LocalSite(live.auth, live.api, live=live)
