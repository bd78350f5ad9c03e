"""The guide to signing in, followed in both languages by somebody who then signs in."""

import re
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from bench.ports import free_port
from tests.architecture.tree import ROOT
from tests.documents.pages import Block, blocks
from tests.documents.shell import Terminal
from valetkey.testing.browser import UserAgent

PAGE = "docs/how-to/people/sign-in-with-valetkey.md"
PASSWORD = "correct horse battery staple"
USER = f"""
[[users]]
username = "ada"
email = "ada@example.com"
name = "Ada Lovelace"
password = "{PASSWORD}"
"""
APPS = {"python": "shop.py", "javascript": "shop.mjs"}


def _block(language: str, word: str = "") -> Block:
    (block,) = (b for b in blocks(PAGE) if b.language == language and word in b.code)
    return block


@contextmanager
def _running(terminal: Terminal, command: str, address: str) -> Generator[None]:
    with terminal.start(command) as process:
        try:
            for _ in range(300):
                try:
                    requests.get(address, timeout=60)
                    break
                except requests.ConnectionError:
                    time.sleep(0.1)
            else:
                raise AssertionError(command)
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.mark.parametrize("language", APPS)
def test_app_of_the_guide_signs_a_user_in(tmp_path: Path, language: str) -> None:
    modules = ROOT / "tests/clients/node_modules"
    if language == "javascript":
        assert shutil.which("node"), "node is among the tools of this project"
        (tmp_path / "node_modules").symlink_to(modules)
    ports = {name: str(free_port()) for name in ("8400", "8401", "5000")}
    terminal = Terminal(tmp_path, ports)
    (tmp_path / "valetkey.toml").write_text(
        terminal.adapted(
            '[authorization]\nurl = "http://localhost:8400"\nlisten = "127.0.0.1:8400"\n'
            '[resource]\nurl = "http://localhost:8401"\nlisten = "127.0.0.1:8401"\n'
            '[tokens]\nsigning_algorithms = ["ES256"]\n'
        )
    )
    (tmp_path / "apply.toml").write_text(USER)
    terminal.run("chmod 600 apply.toml; valetkey apply apply.toml --config valetkey.toml --yes")
    made = terminal.run(_block("sh", "client create").code)
    secret = re.search(r"client_secret\s+(\S+)", made)
    assert secret is not None
    (tmp_path / APPS[language]).write_text(terminal.adapted(_block(language).code))
    start = "flask --app shop run --port 5000" if language == "python" else "node shop.mjs"
    assert start in _block("sh", start).code
    here, home = (
        terminal.adapted("http://127.0.0.1:5000"),
        terminal.adapted("http://localhost:8400"),
    )
    serve = _running(terminal, "valetkey serve --config valetkey.toml", f"{home}/health/ready")
    with serve, _with_secret(terminal, secret[1]), _running(terminal, start, f"{here}/"):
        browser = requests.Session()
        redirect = browser.get(f"{here}/sign-in", allow_redirects=False, timeout=60)
        person = UserAgent(home)
        page = person.sign_in(person.open(redirect.headers["location"]), "ada", PASSWORD)
        arrived = person.allow(page).location
        assert arrived.startswith(f"{here}/callback?")
        welcome = browser.get(arrived, timeout=60)
        assert (welcome.status_code, welcome.text) == (200, "Hello Ada Lovelace")
        stranger = requests.get(arrived, timeout=60)
        assert "Ada" not in stranger.text


@contextmanager
def _with_secret(terminal: Terminal, secret: str) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLIENT_SECRET", secret)
        yield
