"""The guide to an installation, followed from `valetkey init` to a consent page."""

import re
import signal
from pathlib import Path

from bench.ports import free_port
from tests.documents.pages import blocks
from tests.documents.shell import Terminal
from valetkey.testing.browser import UserAgent

PAGE = "docs/how-to/operate/install.md"


def test_install_guide_works_from_init_to_the_consent_page(tmp_path: Path) -> None:
    follow(Terminal(tmp_path))


def follow(terminal: Terminal) -> None:
    """Follow the guide after the installation, up to the code at the redirect URI."""
    terminal.instead = {port: str(free_port()) for port in ("8400", "8401")}
    codes = [block.code.strip() for block in blocks(PAGE)]
    install, init, serve, client, address = codes
    assert "pip install .\n" in f"{install}\n"
    # Without a terminal nothing is asked: the answers are those that the table recommends.
    answers = "--no-input --url http://localhost:8400 --api-url http://localhost:8401"
    output = terminal.run(f"{init} {answers} --owner-email grace@example.com")
    assert terminal.adapted("http://localhost:8400/admin") in output
    password = re.search(r"password: (\S+)", output)
    assert password is not None
    with terminal.start(serve) as servers:
        try:
            assert servers.stdout is not None
            assert servers.stdout.readline().startswith("ready ")
            assert "client_secret" in terminal.run(client)
            opened = terminal.adapted(address)
            person = UserAgent(opened.partition("/oauth")[0])
            consent = person.sign_in(person.open(opened), "grace@example.com", password[1])
            assert "My first app" in consent.text
            assert set(person.allow(consent).redirect_parameters) >= {"code", "state", "iss"}
        finally:
            servers.send_signal(signal.SIGINT)
            servers.wait(60)
