"""`make interop`: programs in Go, built from what presets and the console print."""

import os
import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import Page

from bench.ports import free_port
from tests.clients.presets.site import PASSWORD, register, running, sign_in
from tests.clients.protected import issuer
from tests.support.wait import wait_until
from valetkey.testing.server import Servers

HERE = Path(__file__).parent


def build(folder: Path, program: str = "") -> Path:
    """Build a program of the folder go/, or that in `folder`, with what was printed for it."""
    for name in ("go.mod", "go.sum", *([f"{program}/main.go"] if program else [])):
        shutil.copy(HERE / "go" / name, folder)
    command = ["go", "build", "-mod=readonly", "-o", "tool", "."]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "tool"


def test_go_oidc_signs_in(servers: Servers, tab: Page, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://localhost:{port}"
    register(servers, "go", f"{url}/callback").write(tmp_path)
    tool = build(tmp_path, "oidc")
    with running([tool, f"localhost:{port}"], tmp_path, f"{url}/callback-less", dict(os.environ)):
        tab.goto(url)
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/callback?*")
        assert tab.inner_text("body").strip() == "Ada Lovelace ada@example.com"


def test_x_oauth2_signs_in_by_device_code(servers: Servers, tab: Page, tmp_path: Path) -> None:
    register(servers, "cli").write(tmp_path)
    tool = build(tmp_path, "device")
    with (tmp_path / "said").open("w") as output:
        process = subprocess.Popen([tool], stdout=output, stderr=output)
    try:
        shown = wait_until((tmp_path / "said").read_text, "it shows no address")
        tab.goto(shown.removeprefix("Open ").strip())
        tab.fill("#username", "ada")
        tab.fill("#password", PASSWORD)
        tab.click("#sign-in")
        tab.check("#shown")
        tab.click("#allow")
        wait_until(lambda: process.poll() is not None, "it never got its token")
        assert "token bearer true" in (tmp_path / "said").read_text()
    finally:
        process.kill()
        process.wait()


def test_go_api_accepts_tokens_for_its_api_only(tmp_path: Path) -> None:
    with issuer(tmp_path / "issuer") as it:
        port = free_port()
        it.write("go", tmp_path, {"8080": port})
        url = f"http://127.0.0.1:{port}/"
        with running([build(tmp_path)], tmp_path, url, dict(os.environ)):
            it.refuses_others(url)
