"""Example programs with an app's own ids filled in, and never its secret."""

import json
import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.model.client import (
    CLIENT_SCOPE,
    AuthenticationMethod,
    Client,
    GrantTypeName,
)
from valetkey.authorization.protocol.claims import OPENID
from valetkey.kernel.scope import Scope

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
            _filled(each, client, issuer, api)
            for each in _CODE
            # A page in a browser can keep no secret.
            if client.is_public or each.id != "browser"
        )
    if client.may_use(GrantTypeName.CLIENT_CREDENTIALS):
        return tuple(_filled(each, client, issuer, api) for each in _OWN)
    return ()


def _filled(snippet: Snippet, client: Client, issuer: str, api: str) -> Snippet:
    asked = client.default_scope - CLIENT_SCOPE or client.scope - CLIENT_SCOPE
    if client.may_use(GrantTypeName.AUTHORIZATION_CODE):
        asked |= client.scope & Scope.of(OPENID)
    values = {
        "ISSUER": issuer,
        "API": api,
        "CLIENT_ID": client.id,
        "REDIRECT_URI": client.redirect_uris[0] if client.redirect_uris else "",
        "SCOPE": str(asked),
    }
    basic = client.openid.token_endpoint_auth_method == _BASIC
    kept = {
        "secret": not client.is_public and not basic,
        "basic": not client.is_public and basic,
        "any": not client.is_public,
        "public": client.is_public,
        "openid": OPENID in asked,
        "scope": bool(asked),
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
