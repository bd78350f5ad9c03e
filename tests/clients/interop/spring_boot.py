"""`make interop`: a Spring Boot client by its preset, and an API by its page in the console."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Page

from bench.ports import free_port
from tests.clients.presets.site import register, running, sign_in
from tests.clients.protected import issuer
from valetkey.testing.server import Servers

HERE = Path(__file__).parent / "spring"
API = HERE / "Api.java"


def build(folder: Path, sources: Mapping[str, str]) -> Sequence[str]:
    """Build an application of these classes: the command that runs it."""
    code = folder / "src/main/java/example"
    code.mkdir(parents=True)
    for name, text in sources.items():
        (code / name).write_text(f"package example;\n{text}")
    shutil.copy(HERE / "pom.xml", folder)
    command = ["mvn", "--quiet", "--batch-mode", "package"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout
    return ["java", "-jar", "target/app-1.jar"]


def test_spring_boot_signs_in_and_out(servers: Servers, tab: Page, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://localhost:{port}"
    app = register(servers, "spring-boot", f"{url}/login/oauth2/code/valetkey")
    app.write(tmp_path)
    security = "SecurityConfiguration.java"
    sources = {security: app.files[security], "App.java": (HERE / "App.java").read_text()}
    command = [*build(tmp_path, sources), f"--server.port={port}"]
    with running(command, tmp_path, f"{url}/login", dict(os.environ)):
        tab.goto(f"{url}/profile")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/profile**")
        assert tab.inner_text("body") == "Ada Lovelace ada@example.com"
        tab.goto(f"{url}/logout")
        tab.click("button[type=submit]")
        tab.wait_for_url(lambda at: at.startswith(f"{servers.auth_url}/oauth/logout"))
        tab.click("#sign-out")
        tab.wait_for_url(f"{servers.auth_url}/**")
        assert tab.locator("#sign-in").count(), "the app asks to sign in again"


def test_spring_resource_server_accepts_tokens_for_its_api_only(tmp_path: Path) -> None:
    with issuer(tmp_path / "issuer") as it:
        port = free_port()
        it.write("spring", tmp_path, {"8080": port})
        shown = (tmp_path / "ApiSecurity.java").read_text()
        command = build(tmp_path, {"ApiSecurity.java": shown, "Api.java": API.read_text()})
        url = f"http://localhost:{port}/"
        with running(command, tmp_path, url, dict(os.environ)):
            it.refuses_others(url)
