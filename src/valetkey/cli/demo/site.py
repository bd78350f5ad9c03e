"""The demo's site: Inkwell, a service for notes, its users and apps, and a second team's API.

It has an identifier with a path, which clients name as `resource` (RFC 8707), and accepts only
tokens for it. Everyone with the scope reads; adding an event also takes the role `planner`.

All that is made up agrees: who someone is, what they wrote, and which app may read it.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from valetkey.authorization.actions.admin.roles import set_role
from valetkey.authorization.actions.usage import (
    PEOPLE,
    PKCE_MISSING,
    SIGN_INS,
    grant_used,
)
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.operations.client_state import VERIFY
from valetkey.authorization.storage.images import PendingLogo
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import EVERY_CLIENT, day_of, start_of
from valetkey.cli.applying.export import toml_tables
from valetkey.cli.applying.file import read_site
from valetkey.cli.applying.plan import apply_plan, prepare
from valetkey.cli.operations.perform import perform
from valetkey.cli.register.store import OpenedStore, with_store
from valetkey.config.load import load
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret, to_base64url
from valetkey.sdk import Gate
from valetkey.sdk.adapters.wsgi import Protected, caller_of

PATH = "/calendar"
CALENDAR = "Calendar"
READ, WRITE = "calendar:read", "calendar:write"
SCOPES = {READ: "see your calendar", WRITE: "change your calendar"}
PLANNER = "planner"
"""The role of users who may add events."""

FIRST = "Flight to Lisbon, 12 May at 7:40"
"""The event in every calendar."""
_LARGEST = 4096  # bytes of a request
_KEPT = 100  # events of a user


class CalendarApi(ThreadingMixIn, WSGIServer):
    """The HTTP server of the API at `address`. Events are kept in memory."""

    daemon_threads = True
    _protected: Protected | None = None

    def __init__(self, address: tuple[str, int], auth_url: str) -> None:
        """Listen at `address` and trust the issuer at `auth_url`."""
        super().__init__(address, _Request)
        self.identifier = f"http://{address[0]}:{self.server_port}{PATH}"
        self._events = defaultdict[str, deque[str]](lambda: deque([FIRST], _KEPT))
        gate = Gate(auth_url, audience=self.identifier, name=CALENDAR, scopes=SCOPES)
        self._protected = Protected(self._answer, gate)
        self.set_app(self._protected)

    def server_close(self) -> None:
        """Close the socket, and follow the issuer no longer."""
        super().server_close()
        # None where the port was taken.
        if self._protected is not None:
            self._protected.close()

    def _answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        caller, reads = caller_of(environ), environ["REQUEST_METHOD"] == "GET"
        if environ["PATH_INFO"] != PATH:
            return _json(start, "404 Not Found", {"detail": f"Everything is at {PATH}."})
        if not caller.allows(READ if reads else WRITE):
            return _json(start, "403 Forbidden", {"detail": "The token lacks the scope."})
        events = self._events[caller.subject]
        if reads:
            return _json(start, "200 OK", {"events": list(events)})
        if PLANNER not in caller.roles:
            return _json(start, "403 Forbidden", {"detail": f"Adding takes the role {PLANNER}."})
        title = _title(environ)
        if not title:
            return _json(start, "400 Bad Request", {"detail": 'Send {"title": "…"}.'})
        events.append(title)
        return _json(start, "201 Created", {"title": title})


def _title(environ: WSGIEnvironment) -> str:
    """Return the title in the request's JSON, "" if there is none."""
    length = str(environ.get("CONTENT_LENGTH", ""))
    if not length.isdecimal() or int(length) > _LARGEST:
        return ""
    try:
        shown: object = json.loads(environ["wsgi.input"].read(int(length)))
    except (ValueError, RecursionError):
        return ""
    title = cast("dict[str, object]", shown).get("title") if isinstance(shown, dict) else None
    return title if isinstance(title, str) else ""


def _json(start: StartResponse, status: str, document: object) -> Iterable[bytes]:
    body = json.dumps(document).encode()
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    start(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]


class _Request(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the demo prints its own output."""


ADA = Uid(1001)
GRACE = Uid(1002)
APP = "printer"
_HOME = "https://notes-printer.example"
_LOGO = Path(__file__).parent / "notes_printer.webp"

_WEEK = (
    # Tokens for a code, by a refresh token, errors, users: the oldest day first.
    (12, 31, 0, 1),
    (17, 42, 1, 2),
    (15, 48, 0, 2),
    (23, 61, 3, 2),
    (9, 24, 0, 1),
    (6, 19, 1, 1),
    (21, 57, 0, 2),
)


def begin(tx: Transaction, now: Instant) -> None:
    """Make Grace the owner of the server, and Ada that of Notes Printer; give it its logo.

    Idempotent.
    """
    grace = tx.users.find(GRACE)
    if grace is not None and grace.role is None:
        set_role(tx, grace, Role.OWNER, None, now)
    if tx.members.add(Membership(APP, ADA, TeamRole.OWNER, now)):
        _week_of_usage(tx, now)
    # The copy that the server makes of a logo; the address of this one is an example.
    name = to_base64url(SYSTEM.random(16))
    tx.logos.store(PendingLogo(APP, f"{_HOME}/logo.png", attempts=0), name, _LOGO.read_bytes())


def _week_of_usage(tx: Transaction, now: Instant) -> None:
    """Store the usage counts of each of the seven days before today."""
    today = day_of(now)
    for day, (codes, refreshes, errors, people) in enumerate(_WEEK, today - len(_WEEK)):
        counted = {
            "tokens.authorization_code": codes,
            "tokens.refresh_token": refreshes,
            "errors.invalid_grant": errors,
            PEOPLE: people,
        }
        # A user who is signed in already opens an app without another sign-in.
        tx.usage.count(EVERY_CLIENT, day, SIGN_INS, codes // 2)
        for kind, amount in counted.items():
            if amount:
                for client in (APP, EVERY_CLIENT):
                    tx.usage.count(client, day, kind, amount)
        for uid in (ADA, GRACE)[:people]:
            for client in (APP, EVERY_CLIENT):
                tx.usage.was_active(client, uid, day)
    # Health: its requests carry no code challenge.
    yesterday = start_of(today - 1)
    for what in (PKCE_MISSING, grant_used("authorization_code"), grant_used("refresh_token")):
        tx.usage.record(APP, what, yesterday)


SERVICE = "Inkwell"
_THEME = Path(__file__).parent / "theme"

UID = 1001
USERNAME = "ada"
NAME = "Ada Lovelace"
EMAIL = "ada@example.com"
PASSWORD = "correct horse battery staple"

OWNER_UID = 1002
OWNER = "grace"
OWNER_PASSWORD = "a compiler for everyone"
"""The owner of the demo's server, who can sign in from the start."""

PRINTER = "printer"
DESK = "desk"
POCKET = "pocket"
VIEWER = "viewer"
CLUB = "club"
CLUB_CALLBACK = "https://club.example/callback"
CLUB_BACK = "https://club.example/"
GROUP = "readers"
"""The group with Ada and without Grace: its members can plan events and use Reading Club."""
SHORT_LIFE = 3
"""Lifetime of access tokens of the app POCKET, in seconds."""

_CONFIGURATION = "valetkey.toml"
_CONTENT = "apply.toml"
_WITH_SECRET = (PRINTER, DESK, CLUB)


@dataclass(frozen=True, slots=True)
class DemoSite:
    """Paths and URLs of the demo. `secrets` are the apps', by client id. URLs have no final slash.

    `calendar` is the identifier of the second API, and its address.
    """

    directory: Path
    auth_url: str
    api_url: str
    app_url: str
    calendar: str
    secrets: Mapping[str, str]

    @property
    def configuration(self) -> Path:
        """The file that both servers read."""
        return self.directory / _CONFIGURATION

    @property
    def settings(self) -> Settings:
        """Return the servers' settings, ignoring environment variables of this process."""
        return load(self.configuration, {})

    @property
    def callback(self) -> str:
        """The redirect URI that Notes Printer registered."""
        return f"{self.app_url}/callback"

    @property
    def mailbox(self) -> str:
        """Return the URL of the mailbox page, which shows the demo's emails."""
        return f"{self.auth_url}/mailbox"

    def secret(self, client_id: str) -> str:
        """Return the secret of an app that has one."""
        return self.secrets[client_id]


def known_secrets(directory: Path) -> Mapping[str, str]:
    """Return the apps' secrets: those of an earlier demo in this folder, otherwise new ones.

    Raises OperatorError for a folder that holds something else.
    """
    file = directory / _CONTENT
    if not file.exists():
        if directory.exists() and any(directory.iterdir()):
            raise OperatorError(
                f"{directory} is not empty, and no demo was kept there; name another"
            )
        return {
            name: fresh_secret(Prefix.CLIENT_SECRET, SYSTEM.random).reveal()
            for name in _WITH_SECRET
        }
    secrets: dict[str, str] = {}
    for client in read_site(file).clients:
        if client.secret is not None:
            secrets[client.text("client_id")] = client.secret.reveal()
    if not secrets.keys() >= set(_WITH_SECRET):
        raise OperatorError(f"{file} is not what a demo wrote; name another folder")
    return secrets


def prepare_demo(site: DemoSite) -> None:
    """Write both files and fill the databases. Idempotent."""
    site.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(site.configuration, _configuration(site))
    content = site.directory / _CONTENT
    _write(content, _content(site))
    declared = read_site(content)

    async def fill(opened: OpenedStore) -> None:
        await apply_plan(opened, await prepare(opened, content, declared, lambda _: None))
        await _verify(opened)
        await opened.store.write(lambda tx: begin(tx, opened.now))

    with_store(site.settings, fill, begins=True)


def verify_app(site: DemoSite) -> None:
    """Mark Notes Printer as verified, as its operator does after a change of the app."""
    with_store(site.settings, _verify)


async def _verify(opened: OpenedStore) -> None:
    await perform(opened, VERIFY, {"client_id": APP})


def _write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def _configuration(site: DemoSite) -> str:
    servers = {"authorization": site.auth_url, "resource": site.api_url}
    lines = ["# The servers of a Valetkey demo: valetkey serve --config " + _CONFIGURATION]
    for name, url in servers.items():
        lines += [
            f"[{name}]",
            f'url = "{url}"',
            f'listen = "{url.removeprefix("http://")}"',
            f'database = "sqlite:///{name}.db"',
            "",
        ]
    lines += ["[mail]", 'transport = "mailbox"', "", "[accounts]", 'sign_up = "open"', ""]
    lines += ["[brand]", f'name = "{SERVICE}"', 'accent = "#1f4e8c"']
    lines += [
        f"theme = {json.dumps(str(_THEME), ensure_ascii=False)}",
        "",
        "[log]",
        'level = "error"',
        "",
    ]
    return "\n".join(lines)


def _content(site: DemoSite) -> str:
    ada: dict[str, object] = {
        "uid": UID,
        "username": USERNAME,
        "email": EMAIL,
        "email_verified": True,
        "name": NAME,
        "password": PASSWORD,
    }
    owner: dict[str, object] = {
        "uid": OWNER_UID,
        "username": OWNER,
        "email": "grace@inkwell.example",
        "email_verified": True,
        "name": "Grace Hopper",
        "password": OWNER_PASSWORD,
    }
    clients = (
        _printer(site),
        _mobile_client(),
        _viewer(),
        _password_client(site),
        _openid_client(site),
    )
    tables = [
        ("users", ada),
        ("users", owner),
        *(("clients", client) for client in clients),
        ("apis", _calendar(site)),
        (
            "groups",
            {
                "name": GROUP,
                "description": "The reading club of the library",
                "members": [USERNAME],
            },
        ),
        ("roles", {"api": site.calendar, "role": PLANNER, "groups": [GROUP]}),
    ]
    return toml_tables(tables)


def _calendar(site: DemoSite) -> Mapping[str, object]:
    return {
        "identifier": site.calendar,
        "name": CALENDAR,
        "scopes": SCOPES,
        "roles": [PLANNER],
        # A demo that was kept and now has another port declares it again under that identifier.
        "shares_scopes": True,
    }


def _printer(site: DemoSite) -> Mapping[str, object]:
    return {
        "client_id": PRINTER,
        "client_secret": site.secret(PRINTER),
        "name": "Notes Printer",
        "description": "Prints your notes",
        "client_uri": _HOME,
        "logo_uri": f"{_HOME}/logo.png",
        "policy_uri": f"{_HOME}/privacy",
        "tos_uri": f"{_HOME}/terms",
        "redirect_uris": [site.callback],
        "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
        "scopes": ["notes:read", "notes:write", "account:read"],
        "default_scopes": ["notes:read"],
    }


def _mobile_client() -> Mapping[str, object]:
    return {
        "client_id": POCKET,
        "name": "Pocket Notes",
        "description": "Your notes on your phone, with tokens that live three seconds",
        "redirect_uris": ["http://127.0.0.1/pocket"],
        "grant_types": ["authorization_code", "refresh_token"],
        "scopes": ["notes:read", "notes:write"],
        "type": "public",
        "application_type": "native",
        "access_token_lifetime": f"{SHORT_LIFE}s",
    }


def _viewer() -> Mapping[str, object]:
    return {
        "client_id": VIEWER,
        "name": "Old Viewer",
        "description": "Shows your notes in a browser, as apps did in 2012",
        "redirect_uris": ["http://127.0.0.1:8410/viewer"],
        "grant_types": ["implicit"],
        "scopes": ["notes:read"],
        "type": "public",
    }


def _password_client(site: DemoSite) -> Mapping[str, object]:
    return {
        "client_id": DESK,
        "client_secret": site.secret(DESK),
        "name": "Front Desk",
        "description": "Inkwell's own app for its help desk, trusted with passwords",
        "grant_types": ["password", "refresh_token"],
        "scopes": ["read", "write"],
        "access_token_format": "reference",
    }


def _openid_client(site: DemoSite) -> Mapping[str, object]:
    return {
        "client_id": CLUB,
        "client_secret": site.secret(CLUB),
        "name": "Reading Club",
        "description": "The library's reading club: members sign in with Inkwell",
        "redirect_uris": [CLUB_CALLBACK],
        "post_logout_redirect_uris": [CLUB_BACK],
        "grant_types": ["authorization_code"],
        "scopes": ["openid", "profile", "email", "groups"],
        "required_groups": [GROUP],
    }
