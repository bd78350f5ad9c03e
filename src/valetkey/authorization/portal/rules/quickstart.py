"""Example programs, filled with the client id and the addresses of an app."""

import base64
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.resources import files
from types import MappingProxyType
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.presets import (
    PRESET_GROUPS,
    PRESETS,
    SECRET_TO_FILL_IN,
    AppKind,
    ConfigurationFile,
    Preset,
    fill,
    kind_of,
    presets_of,
)
from valetkey.authorization.model.client import (
    CLIENT_SCOPE,
    AuthenticationMethod,
    Client,
    GrantTypeName,
)
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.tokens.client_keys import default_id_token_algorithm
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.url import origin

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
)
_LOCAL = frozenset({"localhost", "127.0.0.1"})
_TAKEN = frozenset({"", "/", "/sign-in", "/login", "/logout", "/auth/valetkey"})
# Characters that no language escapes in strings; values with others are not filled in.
_PLAIN = re.compile(r"[A-Za-z0-9:/._~%?=&+@\[\]-]*", re.ASCII)
# The file and the command of each program without a framework.
_PROGRAMS = {
    "curl": ("signin.sh", "sh signin.sh"),
    "python": ("signin.py", "python signin.py"),
    "authlib": ("signin.py", "python signin.py"),
    "node": ("signin.mjs", "node signin.mjs"),
    "browser": ("index.html", ""),
}
_PROGRAM, _PROGRAMS_GROUP = "program-", "program"
# Presets whose framework has a stack, and one that is a program.
_SHOWN_AS = MappingProxyType(
    {
        "authjs": "nextjs",
        "express": "node",
        "go": "go",
        "service": f"{_PROGRAM}curl",
        "spring-boot": "spring",
    }
)
# Paths that say nothing of the framework.
_COMMON_PATHS = frozenset({"", "/", "/callback"})


class Stack(Struct, frozen=True):
    """A language with the framework and library that its quickstart uses: a file of quickstarts/.

    `files` are for apps of `kind`. `redirect_uri` is what the code listens at if the app has none
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
    folder = files("valetkey.authorization.portal.rules").joinpath("quickstarts")
    texts = {name: folder.joinpath(f"{name}.toml").read_text() for name in _ORDER}
    return MappingProxyType(
        {name: msgspec.convert(tomllib.loads(text), Stack) for name, text in texts.items()}
    )


STACKS: Mapping[str, Stack] = _read()
"""Every stack by its name, in the order in which they are shown."""


class Choice(Struct, frozen=True):
    """A framework, product or program that has a quickstart.

    `group` is that of a preset, or `program`; `hint` says what its code uses.
    """

    name: str
    label: str
    group: str
    hint: str = ""


class Quickstart(Struct, frozen=True):
    """The quickstart of an app for one choice.

    `needs_secret`: the files have a placeholder for the secret, which others read from the
    environment. `missing_redirect_uri` is used by the code and not registered yet;
    `missing_openid` says that the app may not request the scope `openid`, without which it cannot
    sign users in.
    """

    title: str
    install: str
    run: str
    files: tuple[ConfigurationFile, ...]
    #: The address to open in a browser, "" for none.
    url: str = ""
    missing_redirect_uri: str = ""
    missing_openid: bool = False
    needs_secret: bool = False


def plain_program(snippet: str) -> str:
    """Return the name of the choice of a program without a framework; "" for an unknown one."""
    return _PROGRAM + snippet if snippet in _PROGRAMS else ""


class Quickstarts(Struct, frozen=True):
    """Fills in the quickstarts with the addresses of this server."""

    issuer: str
    api: str
    algorithms: Collection[Algorithm]
    random: Callable[[int], bytes]

    def choices_of(self, client: Client) -> tuple[Choice, ...]:
        """Return what has a quickstart for this app: stacks, presets, then plain programs."""
        choices = (
            *(
                Choice(name, stack.label, stack.kind.value, stack.title)
                for name, stack in STACKS.items()
                if stack.kind is kind_of(client) and _is_plain(client)
            ),
            *(
                Choice(preset.name, preset.label, preset.group)
                for preset in presets_of(kind_of(client))
                if preset.name not in _SHOWN_AS and _is_plain(client)
            ),
            *(
                Choice(_PROGRAM + snippet.id, snippet.language, _PROGRAMS_GROUP)
                for snippet in self._snippets(client)
            ),
        )
        order = (*PRESET_GROUPS, _PROGRAMS_GROUP)
        return tuple(sorted(choices, key=lambda choice: order.index(choice.group)))

    def chosen(self, client: Client, name: str) -> str:
        """Return the name of the choice that is wanted, of its preset or of its program.

        The preset of the app's redirect URI, or the first, if there is none such; "" for an app
        without choices.
        """
        names = [choice.name for choice in self.choices_of(client)]
        likely = (_SHOWN_AS.get(name, name), _PROGRAM + name, *_presets_like(client))
        return next((candidate for candidate in (*likely, *names) if candidate in names), "")

    def quickstart(self, client: Client, name: str) -> Quickstart:
        """Return the quickstart of a name of `choices_of`."""
        if name in STACKS:
            return self._filled(STACKS[name], client)
        if name in PRESETS:
            return self._configured(PRESETS[name], client)
        snippet = next(
            candidate for candidate in self._snippets(client) if name == _PROGRAM + candidate.id
        )
        file, run = _PROGRAMS[snippet.id]
        return Quickstart(
            snippet.language, snippet.needs, run, (ConfigurationFile(file, snippet.code),)
        )

    def _snippets(self, client: Client) -> "tuple[Snippet, ...]":
        return snippets_of(client, self.issuer, self.api)

    def _configured(self, preset: Preset, client: Client) -> Quickstart:
        usual = urlsplit(preset.redirect_uri).path
        uris = [uri for uri in client.redirect_uris if _PLAIN.fullmatch(uri)]
        registered = next((uri for uri in uris if urlsplit(uri).path.endswith(usual)), "")
        expected = preset.redirect_uri
        if uris and uris[0].startswith("http") and expected.startswith("http"):
            expected = f"{origin(uris[0])}{usual}"
        app = replace(client, redirect_uris=(registered or expected,))
        shown = preset.configuration(app, client.id, self.issuer, "", self.random)
        return Quickstart(
            preset.label,
            "",
            "",
            shown,
            missing_redirect_uri="" if registered else expected,
            missing_openid=OPENID in preset.scopes and OPENID not in client.scope,
            needs_secret=any(SECRET_TO_FILL_IN in file.text for file in shown),
        )

    def _filled(self, stack: Stack, client: Client) -> Quickstart:
        registered = stack.redirect_uri_of(client)
        uri = registered or stack.redirect_uri
        parts = urlsplit(uri)
        app = f"{parts.scheme}://{parts.netloc}"
        requested = client.default_scope - CLIENT_SCOPE or client.scope - CLIENT_SCOPE
        names = [
            OPENID,
            *(name for name in requested if name != OPENID and _PLAIN.fullmatch(name)),
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


def _is_plain(client: Client) -> bool:
    """Return whether the client is like one registered for a framework, with an id to fill in."""
    has_secret = kind_of(client) is AppKind.SERVER
    proof = AuthenticationMethod.CLIENT_SECRET if has_secret else AuthenticationMethod.NONE
    return (
        client.authentication_method == proof
        and client.may_use(GrantTypeName.AUTHORIZATION_CODE)
        and _PLAIN.fullmatch(client.id) is not None
    )


def _presets_like(client: Client) -> Iterator[str]:
    """Yield the presets of the app's redirect URIs, those with the same registration first."""
    paths = {urlsplit(uri).path for uri in client.redirect_uris} - _COMMON_PATHS
    presets = [
        candidate
        for candidate in presets_of(kind_of(client))
        if urlsplit(candidate.redirect_uri).path in paths
    ]
    metadata = metadata_of(client)
    for preset in sorted(presets, key=lambda candidate: candidate.completed(metadata) != metadata):
        yield _SHOWN_AS.get(preset.name, preset.name)


_BASIC = "client_secret_basic"


class Snippet(Struct, frozen=True):
    """An example program. `language` is its display name, `needs` what must be installed first."""

    id: str
    language: str
    needs: str
    code: str


def snippets_of(client: Client, issuer: str, api: str) -> tuple[Snippet, ...]:
    """Return complete programs that get this client a token; none if it has no grant type for one.

    A secret is read from the environment: this server could not fill it in, and would not.
    """
    if client.authentication_method not in {
        AuthenticationMethod.CLIENT_SECRET,
        AuthenticationMethod.NONE,
    }:
        return ()
    if client.may_use(GrantTypeName.AUTHORIZATION_CODE) and client.redirect_uris:
        return tuple(
            _filled(snippet, client, issuer, api)
            for snippet in _CODE
            # A page in a browser can keep no secret.
            if client.is_public or snippet.id != "browser"
        )
    if client.may_use(GrantTypeName.CLIENT_CREDENTIALS):
        return tuple(_filled(snippet, client, issuer, api) for snippet in _OWN)
    return ()


def _filled(snippet: Snippet, client: Client, issuer: str, api: str) -> Snippet:
    requested = client.default_scope - CLIENT_SCOPE or client.scope - CLIENT_SCOPE
    if client.may_use(GrantTypeName.AUTHORIZATION_CODE):
        requested |= client.scope & Scope.of(OPENID)
    values = {
        "ISSUER": issuer,
        "API": api,
        "CLIENT_ID": client.id,
        "REDIRECT_URI": client.redirect_uris[0] if client.redirect_uris else "",
        "SCOPE": str(requested),
    }
    basic = client.openid.token_endpoint_auth_method == _BASIC
    kept = {
        "secret": not client.is_public and not basic,
        "basic": not client.is_public and basic,
        "any": not client.is_public,
        "public": client.is_public,
        "openid": OPENID in requested,
        "scope": bool(requested),
    }
    lines: list[str] = []
    for line in snippet.code.split("\n"):
        mark, _, rest = line.partition("|")
        if mark in kept:
            if kept[mark]:
                lines.append(rest.removeprefix(" "))
        else:
            lines.append(line)
    code = "\n".join(lines)
    quote = _QUOTES[snippet.id]
    for name, value in values.items():
        code = code.replace(f"@{name}@", quote(value))
    return Snippet(snippet.id, snippet.language, snippet.needs, code)


def _script(value: str) -> str:
    """Return a string literal for JavaScript or Python that is also safe inside an HTML element."""
    return json.dumps(value).replace("<", "\\u003c")


_QUOTES: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "curl": shlex.quote,
        "python": _script,
        "authlib": _script,
        "node": _script,
        "browser": _script,
    }
)

_CURL = """\
#!/bin/sh
any| # Reads the client secret from the environment: export CLIENT_SECRET=…
issuer=@ISSUER@
client_id=@CLIENT_ID@
redirect_uri=@REDIRECT_URI@
scope=@SCOPE@

# A secret of this request and its hash (PKCE), and a state to know the answer by.
verifier=$(openssl rand -hex 32)
challenge=$(printf %s "$verifier" | openssl dgst -sha256 -binary | openssl base64 -A |
  tr '+/' '-_' | tr -d '=')
state=$(openssl rand -hex 16)

echo "Open this address in a browser:"
curl -sS -G -o /dev/null -w '%{url_effective}\\n' --max-redirs 0 "$issuer/oauth/authorize" \\
  -d response_type=code -d "state=$state" \\
  --data-urlencode "client_id=$client_id" \\
  --data-urlencode "redirect_uri=$redirect_uri" \\
  --data-urlencode "scope=$scope" \\
  -d "code_challenge=$challenge" -d code_challenge_method=S256

echo "Paste the address where you landed:"
read -r landed
case "$landed" in *"state=$state"*) ;; *) echo "not the answer to this request"; exit 1 ;; esac
code=$(printf %s "$landed" | sed 's/.*[?&]code=\\([^&#]*\\).*/\\1/')

curl -sS "$issuer/oauth/token" \\
  -d grant_type=authorization_code -d "code=$code" -d "code_verifier=$verifier" \\
basic|   -u "$client_id:$CLIENT_SECRET" \\
secret|   --data-urlencode "client_id=$client_id" \\
secret|   --data-urlencode "client_secret=$CLIENT_SECRET" \\
public|   --data-urlencode "client_id=$client_id" \\
  --data-urlencode "redirect_uri=$redirect_uri"
echo
"""

_PYTHON = """\
import base64
import hashlib
import json
import os
import secrets
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from urllib.request import Request, urlopen

ISSUER = @ISSUER@
CLIENT_ID = @CLIENT_ID@
REDIRECT_URI = @REDIRECT_URI@

# A secret of this request and its hash (PKCE), and a state to know the answer by.
verifier = secrets.token_urlsafe(32)
digest = hashlib.sha256(verifier.encode()).digest()
state = secrets.token_urlsafe(16)
request = {
    "response_type": "code",
    "client_id": CLIENT_ID,
    "redirect_uri": REDIRECT_URI,
    "scope": @SCOPE@,
    "state": state,
    "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
    "code_challenge_method": "S256",
}
print("Open this address in a browser:")
print(f"{ISSUER}/oauth/authorize?{urlencode(request)}", flush=True)

landed = input("Paste the address where you landed: ")
answer = parse_qs(urlsplit(landed).query)
if answer.get("state") != [state]:
    raise SystemExit("not the answer to this request")

form = {
    "grant_type": "authorization_code",
    "code": answer["code"][0],
    "redirect_uri": REDIRECT_URI,
    "code_verifier": verifier,
secret|     "client_id": CLIENT_ID,
secret|     "client_secret": os.environ["CLIENT_SECRET"],
public|     "client_id": CLIENT_ID,
}
exchange = Request(f"{ISSUER}/oauth/token", urlencode(form).encode())
basic| both = f"{quote(CLIENT_ID, safe='')}:{quote(os.environ['CLIENT_SECRET'], safe='')}"
basic| exchange.add_header("Authorization", "Basic " + base64.b64encode(both.encode()).decode())
with urlopen(exchange) as response:
    tokens = json.load(response)
print("Allowed:", tokens["scope"])
openid|
openid| bearer = {"Authorization": "Bearer " + tokens["access_token"]}
openid| with urlopen(Request(f"{ISSUER}/oauth/userinfo", headers=bearer)) as response:
openid|     print("Who it is:", json.load(response))
"""

_AUTHLIB = """\
import os

from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session

ISSUER = @ISSUER@

session = OAuth2Session(
    client_id=@CLIENT_ID@,
any|     client_secret=os.environ["CLIENT_SECRET"],
secret|     token_endpoint_auth_method="client_secret_post",
public|     token_endpoint_auth_method="none",
    redirect_uri=@REDIRECT_URI@,
    scope=@SCOPE@,
    code_challenge_method="S256",
)
verifier = generate_token(48)
url, state = session.create_authorization_url(
    f"{ISSUER}/oauth/authorize", code_verifier=verifier
)
print("Open this address in a browser:")
print(url, flush=True)

landed = input("Paste the address where you landed: ").partition("#")[0]
tokens = session.fetch_token(
    f"{ISSUER}/oauth/token",
    authorization_response=landed,
    state=state,
    code_verifier=verifier,
)
print("Allowed:", tokens["scope"])
openid| print("Who it is:", session.get(f"{ISSUER}/oauth/userinfo").json())
"""

_NODE = """\
import { createHash, randomBytes } from "node:crypto";
import { createInterface } from "node:readline/promises";

const issuer = @ISSUER@;
const clientId = @CLIENT_ID@;
const redirectUri = @REDIRECT_URI@;

// A secret of this request and its hash (PKCE), and a state to know the answer by.
const verifier = randomBytes(32).toString("base64url");
const state = randomBytes(16).toString("base64url");
const request = new URLSearchParams({
  response_type: "code",
  client_id: clientId,
  redirect_uri: redirectUri,
  scope: @SCOPE@,
  state,
  code_challenge: createHash("sha256").update(verifier).digest("base64url"),
  code_challenge_method: "S256",
});
console.log("Open this address in a browser:");
console.log(`${issuer}/oauth/authorize?${request}`);

const terminal = createInterface({ input: process.stdin, output: process.stdout });
const landed = await terminal.question("Paste the address where you landed: ");
terminal.close();
const answer = new URL(landed.trim()).searchParams;
if (answer.get("state") !== state) throw new Error("not the answer to this request");

const form = new URLSearchParams({
  grant_type: "authorization_code",
  code: answer.get("code"),
  redirect_uri: redirectUri,
  code_verifier: verifier,
secret|   client_id: clientId,
secret|   client_secret: process.env.CLIENT_SECRET,
public|   client_id: clientId,
});
const headers = {};
basic| const both = [clientId, process.env.CLIENT_SECRET].map(encodeURIComponent).join(":");
basic| headers.authorization = "Basic " + Buffer.from(both).toString("base64");
const response = await fetch(`${issuer}/oauth/token`, { method: "POST", headers, body: form });
const tokens = await response.json();
if (!response.ok) throw new Error(`${tokens.error}: ${tokens.error_description}`);
console.log("Allowed:", tokens.scope);
openid|
openid| const bearer = { authorization: `Bearer ${tokens.access_token}` };
openid| const who = await fetch(`${issuer}/oauth/userinfo`, { headers: bearer });
openid| console.log("Who it is:", await who.json());
"""

_BROWSER = """\
<!DOCTYPE html>
<meta charset="utf-8">
<title>Sign in</title>
<button id="sign-in">Sign in</button>
<pre id="said"></pre>
<script type="module">
  // Serve this page at the redirect URI of the app.
  const issuer = @ISSUER@;
  const clientId = @CLIENT_ID@;
  const redirectUri = @REDIRECT_URI@;
  const say = (text) => { document.getElementById("said").textContent = text; };
  const base64url = (bytes) =>
    btoa(String.fromCharCode(...new Uint8Array(bytes)))
      .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

  document.getElementById("sign-in").addEventListener("click", async () => {
    const verifier = random(), state = random();
    sessionStorage.setItem("verifier", verifier);
    sessionStorage.setItem("state", state);
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
    location.assign(`${issuer}/oauth/authorize?` + new URLSearchParams({
      response_type: "code",
      client_id: clientId,
      redirect_uri: redirectUri,
      scope: @SCOPE@,
      state,
      code_challenge: base64url(digest),
      code_challenge_method: "S256",
    }));
  });

  const answer = new URLSearchParams(location.search);
  if (answer.has("error")) say(answer.get("error_description"));
  if (answer.has("code") && answer.get("state") === sessionStorage.getItem("state")) {
    history.replaceState(null, "", location.pathname);
    const response = await fetch(`${issuer}/oauth/token`, {
      method: "POST",
      body: new URLSearchParams({
        grant_type: "authorization_code",
        code: answer.get("code"),
        client_id: clientId,
        redirect_uri: redirectUri,
        code_verifier: sessionStorage.getItem("verifier"),
      }),
    });
    const tokens = await response.json();
    say(response.ok ? `Allowed: ${tokens.scope}` : tokens.error_description);
  }
</script>
"""

_CURL_OWN = """\
#!/bin/sh
# Reads the client secret from the environment: export CLIENT_SECRET=…
issuer=@ISSUER@
client_id=@CLIENT_ID@

curl -sS "$issuer/oauth/token" -d grant_type=client_credentials \\
basic|   -u "$client_id:$CLIENT_SECRET"
secret|   --data-urlencode "client_id=$client_id" \\
secret|   --data-urlencode "client_secret=$CLIENT_SECRET"
echo
"""

_PYTHON_OWN = """\
import base64
import json
import os
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

ISSUER = @ISSUER@
CLIENT_ID = @CLIENT_ID@

form = {
    "grant_type": "client_credentials",
secret|     "client_id": CLIENT_ID,
secret|     "client_secret": os.environ["CLIENT_SECRET"],
}
exchange = Request(f"{ISSUER}/oauth/token", urlencode(form).encode())
basic| both = f"{quote(CLIENT_ID, safe='')}:{quote(os.environ['CLIENT_SECRET'], safe='')}"
basic| exchange.add_header("Authorization", "Basic " + base64.b64encode(both.encode()).decode())
with urlopen(exchange) as response:
    tokens = json.load(response)
print("Lasts for", tokens["expires_in"], "seconds; may:", tokens["scope"])
"""

_NODE_OWN = """\
const issuer = @ISSUER@;
const clientId = @CLIENT_ID@;

const form = new URLSearchParams({
  grant_type: "client_credentials",
secret|   client_id: clientId,
secret|   client_secret: process.env.CLIENT_SECRET,
});
const headers = {};
basic| const both = [clientId, process.env.CLIENT_SECRET].map(encodeURIComponent).join(":");
basic| headers.authorization = "Basic " + Buffer.from(both).toString("base64");
const response = await fetch(`${issuer}/oauth/token`, { method: "POST", headers, body: form });
const tokens = await response.json();
if (!response.ok) throw new Error(`${tokens.error}: ${tokens.error_description}`);
console.log(`Lasts for ${tokens.expires_in} seconds; may: ${tokens.scope}`);
"""

_CODE = (
    Snippet("curl", "curl", "", _CURL),
    Snippet("python", "Python", "", _PYTHON),
    Snippet("authlib", "Python, Authlib", "pip install authlib requests", _AUTHLIB),
    Snippet("node", "JavaScript, Node", "", _NODE),
    Snippet("browser", "JavaScript, browser", "", _BROWSER),
)
_OWN = (
    Snippet("curl", "curl", "", _CURL_OWN),
    Snippet("python", "Python", "", _PYTHON_OWN),
    Snippet("node", "JavaScript, Node", "", _NODE_OWN),
)
