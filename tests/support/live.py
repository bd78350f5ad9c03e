"""Both servers on loopback with users and clients, requests to them, and what must always hold."""

import hashlib
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import requests

from tests.support.wait import CEILING
from valetkey.authorization.background.maintenance import SWEEPS
from valetkey.authorization.features import FEATURES
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.settings import (
    AuthorizationSettings,
    PasswordSettings,
    Settings,
)
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.replace import replace
from valetkey.testing.browser import Page, UserAgent
from valetkey.testing.server import QUICK_PASSWORDS, Servers

CALLBACK = "https://app.example/cb"
PASSWORD = "correct horse battery staple"
SCOPES = ("read", "write", "notes:read", "notes:write", "account:read")
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636 appendix B
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
CODE_GRANT = ("authorization_code", "refresh_token")

_HARDENED = (
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "x-frame-options",
    "permissions-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
)
_TABLES = (
    "clients", "client_secrets", "users", "credentials", "sessions", "consents", "vouchers",
    "grants", "access_tokens", "revocations", "device_codes",
)  # fmt: skip
_COLUMNS = {
    # Without last_used_at, which the server writes up to 30 seconds after a request.
    "client_secrets": "id, client_id, fingerprint, created_at, expires_at, retired_at, sealed,"
    " ending",
}


_SWEEPS = (*SWEEPS, *(sweep for feature in FEATURES for sweep in feature.sweeps))


def secret_of(client_id: str) -> str:
    """Return the secret of a client: long enough to count as generated."""
    return f"{client_id}-" + hashlib.sha256(client_id.encode()).hexdigest()


@dataclass
class LiveServers:
    """Both servers, and one key for clients that authenticate with one."""

    servers: Servers
    key: SigningKey = field(default_factory=lambda: SigningKey.generate(Algorithm.ES256))

    @property
    def auth(self) -> str:
        return self.servers.auth_url

    @property
    def api(self) -> str:
        return self.servers.api_url

    def populate(self) -> None:
        """Register alice, mallory, and all clients of the catalogue."""
        for name in ("alice", "mallory"):
            self.servers.register_user(name, PASSWORD)
        self.client("web1", name="Web One")
        self.client("web2", name="Web Two")
        self.client("strict1", name="Strict One", profile="modern")
        self.client("ref1", name="Reference One", access_token_format="reference")
        self.client("spa1", name="Browser One", type="public", secret=None)
        self.client(
            "nat1",
            name="Native One",
            type="public",
            application_type="native",
            redirect_uris=("http://127.0.0.1/cb",),
            secret=None,
        )
        self.client("svc1", name="Service One", grant_types=("client_credentials",))
        self.client(
            "pk1",
            name="Key One",
            grant_types=(*CODE_GRANT, "client_credentials"),
            key_set=KeySet.of(self.key.public).document().decode(),
            secret=None,
        )
        self.client(
            "old1",
            name="Old One",
            grant_types=(*CODE_GRANT, "implicit", "password"),
        )

    def client(self, client_id: str, *, secret: str | None = "", **changes: object) -> None:
        """Register a client; `changes` are to its metadata, `secret` may be None for no secret."""
        metadata = ClientMetadata(
            name=client_id, redirect_uris=(CALLBACK,), grant_types=CODE_GRANT, scopes=SCOPES
        )
        if changes.get("grant_types") == ("client_credentials",):
            metadata = replace(metadata, redirect_uris=(), scopes=())
        metadata = replace(metadata, **changes)  # type: ignore[arg-type]
        if secret == "":
            secret = secret_of(client_id)
        self.servers.register_client(metadata, client_id, secret)

    def ask(self, person: UserAgent, client_id: str = "web1", **changes: str) -> Page:
        """Open a valid authorization request with these `changes`; "" leaves a parameter out."""
        parameters = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "scope": "notes:read",
            "state": "xyz",
            **changes,
        }
        query = urlencode({name: value for name, value in parameters.items() if value})
        return person.open(f"{self.auth}/oauth/authorize?{query}")

    def allow(self, client_id: str = "web1", user: str = "alice", **changes: str) -> Page:
        """Sign in and allow; return the redirect to the client."""
        person = UserAgent(self.auth)
        page = self.ask(person, client_id, **changes)
        assert page.status == 200, page.text
        page = person.sign_in(page, user, PASSWORD)
        if not page.location:
            page = person.allow(page)
        assert page.status == 303, page.text
        return page

    def code(self, client_id: str = "web1", **changes: str) -> str:
        """Return a fresh code for this client."""
        if client_id in {"spa1", "nat1", "strict1"}:
            changes = {"code_challenge": CHALLENGE, "code_challenge_method": "S256", **changes}
        return self.allow(client_id, **changes).redirect_parameters["code"]

    def token(
        self, client_id: str = "web1", *, path: str = "/oauth/token", **parameters: str
    ) -> "Answer":
        """Send a token request in the body, with the client's secret; "" leaves a parameter out."""
        form = {"client_id": client_id, **parameters}
        if client_id not in {"spa1", "nat1", "pk1"}:
            form.setdefault("client_secret", secret_of(client_id))
        return self.post(path, {name: value for name, value in form.items() if value})

    def exchange(self, code: str, client_id: str = "web1", **parameters: str) -> "Answer":
        """Redeem a code as its client would."""
        if client_id in {"spa1", "nat1", "strict1"}:
            parameters = {"code_verifier": VERIFIER, **parameters}
        form = {"code": code, "redirect_uri": CALLBACK, **parameters}
        return self.token(client_id, grant_type="authorization_code", **form)

    def refresh(self, token: str, client_id: str = "web1", **parameters: str) -> "Answer":
        """Send a refresh request as the client would."""
        return self.token(client_id, grant_type="refresh_token", refresh_token=token, **parameters)

    def tokens(self, client_id: str = "web1", **changes: str) -> dict[str, str]:
        """Return a token response for alice."""
        answer = self.exchange(self.code(client_id, **changes), client_id)
        answer.ok()
        return answer.json

    def introspect(self, token: str, client_id: str = "web1") -> Mapping[str, object]:
        """Return the introspection response for this client."""
        answer = self.token(client_id, path="/oauth/introspect", token=token)
        answer.ok()
        return answer.json

    def post(
        self,
        path: str,
        body: Mapping[str, str] | str | bytes = "",
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> "Answer":
        """POST to the authorization server; a mapping is sent as a form."""
        response = requests.post(
            f"{self.auth}{path}{'?' if query else ''}{query}",
            data=body,
            headers=dict(headers or {}),
            allow_redirects=False,
            timeout=CEILING,
        )
        return Answer(response)

    def call(self, token: str, path: str = "/v2/notes", method: str = "GET") -> "Answer":
        """Send a request to the API with a bearer token."""
        response = requests.request(
            method,
            f"{self.api}{path}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=CEILING,
        )
        return Answer(response)

    def events(self, name: str) -> int:
        """Return the number of events of this name."""
        return self.servers.write(
            lambda tx: len(tx.db.rows("SELECT id FROM events WHERE name = :name", name=name))
        )

    @contextmanager
    def nothing_changes(self) -> Generator[None]:
        """Fail if the block changes what the server stores: NC of the catalogue.

        Nothing expires meanwhile, and what has expired is deleted before: the server deletes it
        at any moment.
        """
        with self.servers.clock.stopped():
            now = self.servers.clock.now()
            self.servers.write(lambda tx: [sweep(tx, now) for sweep in _SWEEPS])
            before = self._state()
            yield
            after = self._state()
            changed = [table for table in _TABLES if before[table] != after[table]]
            assert not changed, f"something changed: {changed}"

    def _state(self) -> dict[str, object]:
        return self.servers.write(
            lambda tx: {
                table: sorted(
                    map(repr, tx.db.rows(f"SELECT {_COLUMNS.get(table, '*')} FROM {table}"))
                )
                for table in _TABLES
            }
        )


@dataclass(frozen=True)
class Answer:
    """A response that is checked for what holds of all: no 5xx, bounded size, security headers."""

    response: requests.Response

    def __post_init__(self) -> None:
        assert self.status < 500, self.response.text
        assert len(self.response.content) < 65_536
        for name in _HARDENED:
            assert name in self.response.headers, name

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def json(self) -> dict[str, str]:
        document: dict[str, str] = self.response.json()
        return document

    def ok(self) -> None:
        """Fail unless it is a success."""
        assert self.status == 200, self.response.text

    def refused(self, status: int, code: str) -> None:
        """Fail unless it is this error (RFC 6749 section 5.2): TOK of the catalogue."""
        assert (self.status, self.json.get("error")) == (status, code), self.response.text
        assert self.response.headers["cache-control"] == "no-store"
        assert self.response.headers["pragma"] == "no-cache"
        assert self.response.headers["content-type"] == "application/json"
        assert self.json["error_description"]
        reference = self.json["reference"]
        assert self.json["error_uri"].endswith(f"/errors/{code}?reference={reference}")
        assert re.fullmatch(r"VK(-[0-9A-HJKMNP-TV-Z]{4}){3}", self.json["reference"])
        if status == 401:
            assert "www-authenticate" in self.response.headers


def basic(user: str, password: str) -> dict[str, str]:
    """Return an HTTP Basic header; the caller encodes what must be encoded."""
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def raw_jwt(header: object, claims: object, signature: bytes = b"") -> str:
    """Return a JWT of these parts, valid or not."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@contextmanager
def live_servers(
    directory: Path,
    database: str = "",
    *,
    resource: bool = True,
    algorithms: tuple[Algorithm, ...] = (Algorithm.ES256,),
    settings: Settings | None = None,
    populate: Callable[[LiveServers], None] = LiveServers.populate,
) -> Generator[LiveServers]:
    """Start both servers with the users and clients that `populate` registers."""
    base_settings = settings or Settings()
    quick = base_settings.passwords == PasswordSettings()
    passwords = replace(QUICK_PASSWORDS, queue=100) if quick else base_settings.passwords
    settings = replace(
        base_settings,
        passwords=passwords,
        tokens=replace(base_settings.tokens, signing_algorithms=algorithms),
    )
    if database:
        settings = replace(settings, authorization=AuthorizationSettings(database=database))
    with Servers(directory, settings=settings, with_resource=resource) as servers:
        live = LiveServers(servers)
        populate(live)
        yield live
