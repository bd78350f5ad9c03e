"""Quickstarts of the portal, run as they are shown: others are in ../interop/quickstarts.py."""

import json
import os
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from bench.ports import free_port
from tests.clients.presets.site import register_for_quickstart, running, sign_in
from tests.clients.presets.test_node import PACKAGES, node_app
from valetkey.testing.server import Servers

METHODS = ["", "client_secret_post"]


@pytest.mark.parametrize("method", METHODS)
def test_python_quickstart_signs_in(
    servers: Servers, tab: Page, tmp_path: Path, method: str
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    app = register_for_quickstart(servers, "python", f"{url}/back/here", method)
    app.write(tmp_path)
    environment = {**os.environ, "CLIENT_SECRET": app.secret}
    with running([sys.executable, "app.py"], tmp_path, f"{url}/none", environment):
        tab.goto(url)
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/")
        assert json.loads(tab.inner_text("body"))["email"] == "ada@example.com"


@pytest.mark.parametrize("method", METHODS)
def test_node_quickstart_signs_in(
    node: str, servers: Servers, tab: Page, tmp_path: Path, method: str
) -> None:
    url = f"http://localhost:{free_port()}"
    app = register_for_quickstart(servers, "node", f"{url}/back/here", method)
    app.write(tmp_path)
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    environment = {"PATH": os.environ["PATH"], "CLIENT_SECRET": app.secret}
    with running([node, "app.mjs"], tmp_path, f"{url}/none", environment):
        tab.goto(url)
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/")
        assert json.loads(tab.inner_text("body"))["email"] == "ada@example.com"


@pytest.mark.parametrize("method", METHODS)
def test_authjs_of_the_nextjs_quickstart_signs_in(
    node: str, servers: Servers, tab: Page, tmp_path: Path, method: str
) -> None:
    url = f"http://localhost:{free_port()}"
    uri = f"{url}/api/auth/callback/valetkey"
    app = register_for_quickstart(servers, "nextjs", uri, method)
    app.write(tmp_path)
    # Next.js itself fills in variables; the Node of this test does not.
    file = tmp_path / ".env.local"
    file.write_text(file.read_text().replace("$CLIENT_SECRET", app.secret))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    with node_app(node, tmp_path, "serve.mjs", f"{url}/api/auth/providers", ".env.local"):
        tab.goto(f"{url}/api/auth/signin")
        tab.click("button:has-text('Valetkey')")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/**")
        session = json.loads(tab.request.get(f"{url}/api/auth/session").text())
        assert session["user"] == {"name": "Ada Lovelace", "email": "ada@example.com"}
