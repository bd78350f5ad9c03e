"""Quickstarts: a complete app for each stack, with the ids of a registration filled in.

Each stack is a file of quickstarts/. The code reads the client secret from the environment
variable CLIENT_SECRET, so that it can be shown again and committed.
"""

import base64
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from importlib.resources import files
from types import MappingProxyType
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from valetkey.authorization.actions.developer.presets import (
    AppKind,
    ConfigurationFile,
    fill,
    kind_of,
)
from valetkey.authorization.actions.developer.snippets import Snippet, snippets_of
from valetkey.authorization.model.client import (
    CLIENT_SCOPE,
    AuthenticationMethod,
    Client,
    GrantTypeName,
)
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.tokens.client_keys import default_id_token_algorithm
from valetkey.kernel.jose.algorithm import Algorithm

_ORDER = (
    "python",
    "node",
    "nextjs",
    "go",
    "spring",
    "laravel",
    "ruby",
    "csharp",
    "swift",
    "curl",
)
_LOCAL = frozenset({"localhost", "127.0.0.1"})
_TAKEN = frozenset({"", "/", "/sign-in", "/login", "/logout", "/auth/valetkey"})
# Characters that no language escapes in strings; values with others are not filled in.
_PLAIN = re.compile(r"[A-Za-z0-9:/._~%?=&+@\[\]-]*", re.ASCII)
# The file and the command of each program of "First request".
_PROGRAMS = {
    "curl": ("signin.sh", "sh signin.sh"),
    "python": ("signin.py", "python signin.py"),
    "node": ("signin.mjs", "node signin.mjs"),
    "browser": ("index.html", ""),
}


class Stack(Struct, frozen=True):
    """A language with the framework and library that its quickstart uses: a file of quickstarts/.

    `files` are for apps of `kind`; `snippets` names the program of "First request" that apps of
    other kinds are shown instead. `redirect_uri` is what the code listens at if the app has none
    on this computer; with `fixed_path` the framework accepts no other path. `start` is the path
    to open in a browser. `tested` is documentation.
    """

    label: str
    title: str
    tested: str
    install: str
    run: str
    redirect_uri: str = ""
    start: str = ""
    kind: AppKind = AppKind.SERVER
    fixed_path: bool = False
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    snippets: Mapping[AppKind, str] = field(default_factory=dict[AppKind, str])

    def redirect_uri_of(self, client: Client) -> str:
        """Return the redirect URI of the app at which the code can listen, "" for none."""
        return next((uri for uri in client.redirect_uris if self._listens_at(uri)), "")

    def _listens_at(self, uri: str) -> bool:
        parts = urlsplit(uri)
        if not _PLAIN.fullmatch(uri) or parts.query:
            return False
        if self.kind is AppKind.DEVICE:
            return parts.scheme not in {"http", "https"}
        return (
            parts.scheme == "http"
            and parts.hostname in _LOCAL
            and parts.path not in _TAKEN
            and (not self.fixed_path or parts.path == urlsplit(self.redirect_uri).path)
        )


def _read() -> Mapping[str, Stack]:
    folder = files("valetkey.authorization.actions.developer").joinpath("quickstarts")
    texts = {name: folder.joinpath(f"{name}.toml").read_text() for name in _ORDER}
    return MappingProxyType(
        {name: msgspec.convert(tomllib.loads(text), Stack) for name, text in texts.items()}
    )


STACKS: Mapping[str, Stack] = _read()
"""Every stack by its name, in the order in which they are shown."""


class Quickstart(Struct, frozen=True):
    """The quickstart of an app for one stack.

    `missing_redirect_uri` is used by the code and not registered yet; `missing_openid` says that
    the app may not request the scope `openid`, without which it cannot sign users in.
    """

    title: str
    install: str
    run: str
    files: tuple[ConfigurationFile, ...]
    #: The address to open in a browser, "" for none.
    url: str = ""
    missing_redirect_uri: str = ""
    missing_openid: bool = False


class Quickstarts(Struct, frozen=True):
    """Fills in the quickstarts with the addresses of this server."""

    issuer: str
    api: str
    algorithms: Collection[Algorithm]
    random: Callable[[int], bytes]

    def stacks_of(self, client: Client) -> tuple[str, ...]:
        """Return the names of the stacks that have a quickstart for this app."""
        snippets = self._snippets(client)
        return tuple(
            name
            for name, stack in STACKS.items()
            if self._has_files(stack, client) or stack.snippets.get(kind_of(client)) in snippets
        )

    def of(self, client: Client, name: str) -> Quickstart:
        """Return the quickstart for one of `stacks_of`."""
        stack = STACKS[name]
        if self._has_files(stack, client):
            return self._filled(stack, client)
        snippet = self._snippets(client)[stack.snippets[kind_of(client)]]
        file, run = _PROGRAMS[snippet.id]
        return Quickstart(
            snippet.language, snippet.needs, run, (ConfigurationFile(file, snippet.code),)
        )

    def _snippets(self, client: Client) -> Mapping[str, Snippet]:
        return {each.id: each for each in snippets_of(client, self.issuer, self.api)}

    def _has_files(self, stack: Stack, client: Client) -> bool:
        proof = (
            AuthenticationMethod.CLIENT_SECRET
            if stack.kind is AppKind.SERVER
            else AuthenticationMethod.NONE
        )
        return (
            bool(stack.files)
            and stack.kind is kind_of(client)
            and client.authentication_method == proof
            and client.may_use(GrantTypeName.AUTHORIZATION_CODE)
            and _PLAIN.fullmatch(client.id) is not None
        )

    def _filled(self, stack: Stack, client: Client) -> Quickstart:
        registered = stack.redirect_uri_of(client)
        uri = registered or stack.redirect_uri
        parts = urlsplit(uri)
        app = f"{parts.scheme}://{parts.netloc}"
        asked = client.default_scope - CLIENT_SCOPE or client.scope - CLIENT_SCOPE
        names = [
            OPENID,
            *(name for name in asked if name != OPENID and _PLAIN.fullmatch(name)),
        ]
        method = client.openid.token_endpoint_auth_method or "client_secret_basic"
        places = {
            "issuer": self.issuer,
            "https": str(self.issuer.startswith("https:")).lower(),
            "client_id": client.id,
            "auth_method": method,
            "ruby_auth_method": "basic_auth" if method == "client_secret_basic" else "request_body",
            "algorithm": client.openid.id_token_signed_response_alg
            or default_id_token_algorithm(self.algorithms),
            "redirect_uri": uri,
            "app": app,
            "scheme": parts.scheme,
            "host": parts.hostname or "",
            "port": str(parts.port or 80),
            "path": parts.path,
            "scope": " ".join(names),
            "scope_commas": ",".join(names),
            "scopes": ", ".join(json.dumps(name) for name in names),
            "random": base64.urlsafe_b64encode(self.random(32)).decode(),
        }
        return Quickstart(
            stack.title,
            fill(stack.install, places),
            fill(stack.run, places),
            tuple(
                ConfigurationFile(name, fill(text, places)) for name, text in stack.files.items()
            ),
            url=f"{app}{stack.start}" if stack.start else "",
            missing_redirect_uri="" if registered else uri,
            missing_openid=OPENID not in client.scope,
        )
