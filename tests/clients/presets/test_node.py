"""Auth.js, express-openid-connect and oidc-client-ts, each by its preset, in Chromium."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from playwright.sync_api import Page

from bench.ports import free_port
from tests.clients.presets.site import register, running, sign_in
from valetkey.testing.server import Servers

PACKAGES = Path(__file__).parent.parent / "node_modules"
# What next-auth adds to @auth/core: the values of the environment, and handlers of Next.
NEXT_AUTH = """
import { Auth, setEnvDefaults } from "@auth/core"
export default function NextAuth(config) {
  const handler = (request) => {
    const filled = { ...config, basePath: "/api/auth" }
    setEnvDefaults(process.env, filled)
    return Auth(request, filled)
  }
  return { handlers: { GET: handler, POST: handler } }
}
"""
SERVE = """
import { createServer } from "node:http"
import { handlers } from "./auth.js"
createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = request.method === "POST" ? Buffer.concat(chunks) : undefined
  const url = new URL(request.url, process.env.AUTH_URL)
  const found = await handlers[request.method](
    new Request(url, { method: request.method, headers: request.headers, body }),
  )
  response.writeHead(found.status, {
    ...Object.fromEntries(found.headers), "set-cookie": found.headers.getSetCookie(),
  })
  response.end(Buffer.from(await found.arrayBuffer()))
}).listen(new URL(process.env.AUTH_URL).port)
"""
PAGE = """<!DOCTYPE html>
<script type="importmap">{"imports": {
  "oidc-client-ts": "/node_modules/oidc-client-ts/dist/esm/oidc-client-ts.js",
  "jwt-decode": "/node_modules/jwt-decode/build/esm/index.js"
}}</script>
<script type="module">
  import { users } from "./auth.js"
  window.users = users
  if (location.search.includes("code=")) await users.signinCallback()
  document.body.id = "ready"
</script>
"""


@contextmanager
def node_app(node: str, folder: Path, script: str, url: str, env_file: str) -> Generator[None]:
    (folder / "node_modules").mkdir()
    for package in PACKAGES.iterdir():
        (folder / "node_modules" / package.name).symlink_to(package)
    if script == "serve.mjs":
        (folder / script).write_text(SERVE)
        shim = folder / "node_modules/next-auth"
        shim.mkdir()
        (shim / "index.js").write_text(NEXT_AUTH)
        (shim / "package.json").write_text('{"type": "module", "exports": "./index.js"}')
    command = [node, f"--env-file={env_file}", script]
    with running(command, folder, url, {"PATH": os.environ["PATH"]}):
        yield


def test_authjs_signs_in_and_out_with_name_and_email(
    node: str, servers: Servers, tab: Page, tmp_path: Path
) -> None:
    url = f"http://localhost:{free_port()}"
    register(servers, "authjs", f"{url}/api/auth/callback/valetkey").write(tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    with node_app(node, tmp_path, "serve.mjs", f"{url}/api/auth/providers", ".env.local"):
        tab.goto(f"{url}/api/auth/signin")
        tab.click("button:has-text('Valetkey')")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/**")
        session = json.loads(tab.request.get(f"{url}/api/auth/session").text())
        assert session["user"] == {"name": "Ada Lovelace", "email": "ada@example.com"}
        tab.goto(f"{url}/api/auth/signout")
        tab.click("button[type=submit]")
        assert json.loads(tab.request.get(f"{url}/api/auth/session").text()) is None


def test_express_openid_connect_signs_in_and_out(
    node: str, servers: Servers, tab: Page, tmp_path: Path
) -> None:
    url = f"http://localhost:{free_port()}"
    register(servers, "express", f"{url}/callback").write(tmp_path)
    with node_app(node, tmp_path, "app.js", url, ".env"):
        tab.goto(f"{url}/profile")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/profile")
        user = json.loads(tab.inner_text("body"))
        assert (user["name"], user["email"]) == ("Ada Lovelace", "ada@example.com")
        tab.goto(url)
        assert "Signed in as Ada Lovelace" in tab.inner_text("body")
        tab.goto(f"{url}/logout")
        assert tab.url.startswith(servers.auth_url)
        tab.click("#sign-out")
        tab.wait_for_url(f"{url}/**")
        assert "Sign in" in tab.inner_text("body")
        tab.goto(f"{url}/profile")
        assert tab.locator("#sign-in").count(), "the session at the server has ended as well"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def static_site(folder: Path) -> Generator[str]:
    """Serve the page of the app at / and at its redirect URI."""
    (folder / "index.html").write_text(PAGE)
    (folder / "callback").symlink_to(folder / "index.html")
    (folder / "node_modules").symlink_to(PACKAGES)
    _Quiet.extensions_map |= {"": "text/html"}
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_oidc_client_ts_signs_in_renews_and_signs_out(
    servers: Servers, tab: Page, tmp_path: Path
) -> None:
    with static_site(tmp_path) as url:
        register(servers, "single-page-app", f"{url}/callback").write(tmp_path)
        tab.goto(url)
        tab.wait_for_selector("#ready", state="attached")
        tab.evaluate("() => { users.signinRedirect() }")  # Not awaited: the page goes.
        tab.wait_for_url(f"{servers.auth_url}/**")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/callback?*")
        tab.wait_for_selector("#ready", state="attached")
        user = tab.evaluate("users.getUser()")
        assert user["profile"]["name"] == "Ada Lovelace"
        renewed = tab.evaluate("users.signinSilent()")
        assert renewed["access_token"] != user["access_token"]
        assert renewed["profile"]["sub"] == user["profile"]["sub"]
        tab.evaluate("() => { users.signoutRedirect() }")
        tab.wait_for_url(f"{servers.auth_url}/oauth/logout?*")
        tab.click("#sign-out")
        tab.wait_for_url(f"{url}/*")
        tab.wait_for_selector("#ready", state="attached")
        assert tab.evaluate("users.getUser()") is None
