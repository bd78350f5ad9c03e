"""The first tutorial, read from top to bottom by somebody who types what it says."""

import json
import re
import signal
import time
from pathlib import Path

from bench.ports import free_port
from tests.documents.pages import Block, blocks
from tests.documents.shell import Terminal
from tests.support.wait import CEILING
from valetkey.testing.browser import UserAgent

PAGE = "docs/tutorials/first-server.md"


def block_with(text: str) -> Block:
    """The first block that says this."""
    return next(block for block in blocks(PAGE) if text in block.code)


def test_first_tutorial_works_as_written(tmp_path: Path) -> None:
    ours, theirs = (free_port(), free_port())
    terminal = Terminal(tmp_path, {"8400": str(ours), "8401": str(theirs)})
    for block in blocks(PAGE):
        if block.language == "toml":
            terminal.write(block)
    assert "password: " in terminal.run(block_with("valetkey init").code)
    *before, serve = block_with("valetkey serve").code.splitlines()
    assert "Done: 4 created" in terminal.run("\n".join(before))
    with terminal.start(serve) as servers:
        try:
            assert servers.stdout is not None
            assert servers.stdout.readline().startswith("ready ")
            tell_the_story(terminal)
        finally:
            servers.send_signal(signal.SIGINT)
            servers.wait(60)
    assert servers.returncode == 0


def tell_the_story(terminal: Terminal) -> None:
    """Everything after the servers are there."""
    asks, reads = (b for b in blocks(PAGE) if "client_credentials" in b.code and b.language == "sh")
    assert set(json.loads(terminal.run(asks.code))) == {
        "access_token",
        "token_type",
        "expires_in",
        "scope",
    }
    assert json.loads(terminal.run(reads.code))["client_id"] == "robot"

    terminal.run(block_with("CODE=paste").code.replace("paste-it-here", be_ada(terminal)))
    answer = json.loads(terminal.run(block_with("ANSWER=").code))
    assert isinstance(answer["uid"], int)
    assert "refresh_token" in answer

    assert json.loads(terminal.run(block_with("/userinfo").code))["groups"] == ["readers"]

    notes = terminal.run(block_with("Milk").code)
    assert notes.count("two bottles") == 2

    assert "DeviceAuth" in terminal.run(block_with("--preset cli").code)
    shown = json.loads(terminal.run(block_with("DEVICE_CODE=").code))
    person = UserAgent(shown["verification_uri"].partition("/device")[0])
    page = person.open(shown["verification_uri_complete"])
    page = person.sign_in(page, "ada", "correct horse battery staple")
    person.submit(page, "allow", boxes=("yes", "openid", "profile"))
    assert "id_token" in json.loads(terminal.run(block_with("device_code=$DEVICE").code))

    again = next(b for b in blocks(PAGE) if b.code.startswith("curl") and "$CODE" in b.code)
    refused = json.loads(terminal.run(again.code))
    assert refused["error"] == "invalid_grant"
    assert refused["error_uri"]
    reference = re.search(r"VK-[0-9A-Z-]{14}", json.dumps(refused))
    assert reference
    explanation = patient(
        terminal, f"valetkey explain {reference[0]} --config valetkey.toml || true", "VK-"
    )
    assert "expected" in explanation
    assert "printer" in explanation
    (closed,) = [b for b in blocks(PAGE) if b.code.startswith("curl") and b.code.count("/v2/") == 1]
    assert patient(terminal, closed.code, "Invalid Token Error")


def patient(terminal: Terminal, code: str, waits_for: str) -> str:
    """What the code prints once it prints this, which takes five seconds at most."""
    until = time.monotonic() + CEILING
    while waits_for not in (output := terminal.run(code)):
        assert time.monotonic() < until, output
    return output


def be_ada(terminal: Terminal) -> str:
    """Open the address of the page, sign in, allow; the code from the address bar."""
    address = terminal.adapted(block_with("response_type=code").code.strip())
    person = UserAgent(address.partition("/oauth")[0])
    consent = person.sign_in(person.open(address), "ada", "correct horse battery staple")
    back = person.allow(consent)
    assert {"code", "state", "iss"} <= set(back.redirect_parameters)
    assert back.redirect_parameters["state"] == "lesson"
    return back.redirect_parameters["code"]
