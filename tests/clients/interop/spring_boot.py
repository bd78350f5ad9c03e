"""`make interop`: clients that need Maven or Go, each by its preset, in Chromium."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.clients.presets.site import free_port, provider, register, running, sign_in
from tests.support.wait import wait_until
from valetkey.testing.server import Servers

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with provider(tmp_path_factory.mktemp("provider")) as found:
        yield found


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_spring_boot_signs_in_and_out(servers: Servers, tab: Page, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://localhost:{port}"
    app = register(servers, "spring-boot", f"{url}/login/oauth2/code/valetkey")
    app.write(tmp_path)
    code = tmp_path / "src/main/java/example"
    code.mkdir(parents=True)
    for source in (tmp_path / "SecurityConfiguration.java", HERE / "spring/App.java"):
        (code / source.name).write_text(f"package example;\n{source.read_text()}")
    shutil.copy(HERE / "spring/pom.xml", tmp_path)
    built = subprocess.run(
        ["mvn", "--quiet", "--batch-mode", "package"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout
    command = ["java", "-jar", "target/app-1.jar", f"--server.port={port}"]
    with running(command, tmp_path, f"{url}/login", dict(os.environ)):
        tab.goto(f"{url}/profile")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/profile**")
        assert tab.inner_text("body") == "Ada Lovelace ada@example.com"
        tab.goto(f"{url}/logout")
        tab.click("button[type=submit]")
        tab.wait_for_load_state()
        assert tab.url.startswith(f"{servers.auth_url}/oauth/logout"), (
            tab.url,
            tab.inner_text("body"),
        )
        tab.click("#sign-out")
        tab.wait_for_url(f"{servers.auth_url}/**")
        assert tab.locator("#sign-in").count(), "the app asks to sign in again"


def test_x_oauth2_signs_in_by_device_code(servers: Servers, tab: Page, tmp_path: Path) -> None:
    shutil.copytree(HERE / "go", tmp_path, dirs_exist_ok=True)
    register(servers, "cli").write(tmp_path)
    with (tmp_path / "said").open("w") as said:
        built = subprocess.run(["go", "build", "-o", "tool", "."], cwd=tmp_path, check=False)
        assert built.returncode == 0
        process = subprocess.Popen([tmp_path / "tool"], stdout=said, stderr=said)
    try:
        shown = wait_until((tmp_path / "said").read_text, "it shows no address")
        tab.goto(shown.removeprefix("Open ").strip())
        tab.fill("#username", "ada")
        tab.fill("#password", "correct horse battery staple")
        tab.click("#sign-in")
        tab.check("#shown")
        tab.click("#allow")
        wait_until(lambda: process.poll() is not None, "it never got its token")
        assert "token bearer true" in (tmp_path / "said").read_text()
    finally:
        process.kill()
        process.wait()
