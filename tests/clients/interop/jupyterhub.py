"""`make interop`: JupyterHub with its preset, from PyPI, behind its proxy from npm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from bench.ports import free_port
from tests.clients.presets.site import register, running, sign_in
from tests.support.wait import wait_until
from valetkey.testing.server import Servers

VERSIONS = ("jupyterhub==6.1.1", "oauthenticator==17.4.0")
PROXY = "configurable-http-proxy@5.3.0"
# Where it listens, and that it starts notebooks as the user who runs this; it starts none here.
PLACE = """
c.JupyterHub.bind_url = "{url}"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.JupyterHub.spawner_class = "simple"
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of JupyterHub, in an environment of their own: the folder they are in."""
    folder = tmp_path_factory.mktemp("hub")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin/pip"), "install", "--quiet", *VERSIONS],
        ["npm", "install", "--silent", "--prefix", str(folder), PROXY],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_jupyterhub_signs_in_and_out(
    servers: Servers, tab: Page, hub: Path, tmp_path: Path
) -> None:
    url = f"http://localhost:{free_port()}"
    register(servers, "jupyterhub", f"{url}/hub/oauth_callback").write(tmp_path)
    config = tmp_path / "jupyterhub_config.py"
    addresses = PLACE.format(url=url, hub=free_port(), api=free_port())
    config.write_text(config.read_text() + addresses)
    variables = (line.split("=", 1) for line in (tmp_path / "environment").read_text().split())
    places = (hub / "bin", hub / "node_modules/.bin", Path(sys.executable).parent)
    path = ":".join([*map(str, places), os.environ["PATH"]])
    environment = {"HOME": str(tmp_path), **dict(variables), "PATH": path}
    with running([hub / "bin/jupyterhub"], tmp_path, f"{url}/hub/login", environment):
        # Its proxy answers before the hub is there.
        wait_until(lambda: tab.request.get(f"{url}/hub/login").ok, "the hub never began")
        tab.goto(f"{url}/hub/home")
        tab.click("a:has-text('Sign in with Valetkey')")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/hub/**")
        tab.goto(f"{url}/hub/home")
        assert "ada" in tab.inner_text("#login_widget, .navbar")
        tab.goto(f"{url}/hub/logout")
        tab.wait_for_url(f"{servers.auth_url}/oauth/logout**")
        tab.click("#sign-out")
        tab.goto(f"{url}/hub/oauth_login")
        assert tab.locator("#sign-in").count(), "the session at the server has ended as well"
