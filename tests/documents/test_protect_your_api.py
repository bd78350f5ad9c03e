"""Every API of the tutorial lets in whom it should, and says no as the tutorial says."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from bench.ports import free_port
from tests.documents.pages import Block, blocks
from tests.documents.shell import Terminal
from tests.support.wait import CEILING
from valetkey.kernel.jose.access_token import AccessToken
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope

PAGE = "docs/tutorials/protect-your-api.md"
AUDIENCE = "http://localhost:8402"
KEY = SigningKey.generate()
BIN = Path(sys.executable).parent


class Issuer(BaseHTTPRequestHandler):
    """An issuer that has a key and nothing else."""

    def do_GET(self) -> None:
        document = KeySet.of(KEY.public).document()
        self.send_response(200 if self.path == "/oauth/jwks" else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(document)))
        self.end_headers()
        self.wfile.write(document)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def issuer() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def write_files(folder: Path, issuer: str) -> None:
    """The files of the tutorial, with the issuer of this test."""
    for block in blocks(PAGE):
        if block.title.endswith(".py"):
            code = block.code.replace("http://localhost:8400", issuer)
            (folder / block.title).write_text(code)


def command_for(file: str) -> list[str]:
    """The command that the tutorial runs this file with."""
    name = file.removesuffix(".py")
    lines = [
        line
        for block in blocks(PAGE)
        if block.language == "sh"
        for line in block.code.splitlines()
        if name in line
    ]
    assert len(lines) == 1
    return lines[0].split(" ")


@contextmanager
def running(folder: Path, file: str) -> Generator[str]:
    """The API of this file, run as the tutorial runs it but for the port."""
    port = free_port()
    command = [str(port) if word == "8402" else word for word in command_for(file)]
    command[0] = str(BIN / command[0])
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate()


def token(issuer: str, scope: str) -> str:
    """An access token of Ada's."""
    now = Instant(int(time.time()))
    later = Instant(now + 600)
    return AccessToken(
        issuer, "1001", "printer", AUDIENCE, Scope.parse(scope), "t1", now, later, "g1", now
    ).sign(KEY)


def ask(url: str, bearer: str = "") -> tuple[int, str, Any]:
    """One request; status, challenge and body of the answer."""
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    until = time.monotonic() + CEILING
    while time.monotonic() < until:
        try:
            with urlopen(Request(url, headers=headers), timeout=60) as answer:
                return answer.status, "", json.load(answer)
        except HTTPError as refused:
            with refused:
                challenge = refused.headers["www-authenticate"] or ""
                return refused.code, challenge, json.load(refused)
        except URLError:
            time.sleep(0.1)
    raise AssertionError("the API did not start")


def block_with(text: str) -> Block:
    """The first block that says this."""
    return next(block for block in blocks(PAGE) if text in block.code)


def test_api_from_one_file_runs_within_five_minutes(tmp_path: Path) -> None:
    began = time.monotonic()
    terminal = Terminal(tmp_path, {"8400": str(free_port()), "8401": str(free_port())})
    for name in ("# valetkey.toml", "# apply.toml"):
        terminal.write(block_with(name))
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "stock.json").write_text(block_with('"x-valetkey"').code)
    *before, serve = block_with("valetkey serve").code.splitlines()
    terminal.run("\n".join(before))
    with terminal.start(serve) as servers:
        try:
            assert servers.stdout is not None
            assert servers.stdout.readline().startswith("ready ")
            made = terminal.run(block_with("TOKEN=$(").code)
            assert made.count('"article":"Tea","left":3') == 2
            mistaken, _, stranger = terminal.run(block_with('"many"').code).partition("HTTP/1.1 ")
            assert json.loads(mistaken)["errors"][0]["pointer"] == "/left"
            assert stranger.startswith("401 ")
            with urlopen(terminal.adapted("http://localhost:8401/v2/"), timeout=60) as page:
                assert b"/v2/stock" in page.read()
        finally:
            servers.send_signal(signal.SIGINT)
            servers.wait(60)
    # What somebody has to type is three files and seven commands; the machine's part is this.
    assert time.monotonic() - began < 300 - 120


@pytest.mark.parametrize("file", ["fastapi_api.py", "flask_api.py", "django_api.py"])
def test_tutorial_apis_accept_valid_tokens_and_refuse_others(
    file: str, tmp_path: Path, issuer: str
) -> None:
    write_files(tmp_path, issuer)
    with running(tmp_path, file) as url:
        nobody = ask(f"{url}/")
        welcome = ask(f"{url}/", token(issuer, "greeting:read"))
        not_enough = ask(f"{url}/", token(issuer, "account:read"))
        rubbish = ask(f"{url}/", "rubbish")
        metadata = ask(f"{url}/.well-known/oauth-protected-resource")
    assert welcome == (200, "", {"hello": "1001", "by": "printer"})
    assert nobody[0] == 401
    assert nobody[1].startswith("Bearer ")
    assert "error=" not in nobody[1]
    assert "/.well-known/oauth-protected-resource" in nobody[1]
    assert not_enough[0] == 403
    assert 'error="insufficient_scope"' in not_enough[1]
    assert rubbish[0] == 401
    assert 'error="invalid_token"' in rubbish[1]
    assert rubbish[2]["code"] == "invalid_token"
    assert metadata[2]["authorization_servers"] == [issuer]
    assert metadata[2]["scopes_supported"] == ["greeting:read"]


def test_each_tutorial_api_is_protected_in_three_or_four_lines() -> None:
    for block in blocks(PAGE):
        if block.title in {"fastapi_api.py", "flask_api.py", "django_api.py"}:
            code = [line for line in block.code.splitlines() if "import" not in line]
            assert sum("Gate(" in line or "require" in line for line in code) in {3, 4}


def test_the_tests_of_the_tutorial_pass(tmp_path: Path, issuer: str) -> None:
    write_files(tmp_path, issuer)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_api.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_declared_api_accepts_tokens_for_its_audience(tmp_path: Path) -> None:
    ours = {name: str(free_port()) for name in ("8400", "8401", "8402")}
    terminal = Terminal(tmp_path, ours)
    urls = (f"--{name}url http://localhost:{port}" for name, port in (("", 8400), ("api-", 8401)))
    terminal.run(f"valetkey init --no-input --owner-email g@example.com {' '.join(urls)}")
    for text in ("[[apis]]", "# fastapi_api.py"):
        terminal.write(block_with(text))
    terminal.run(next(b.code for b in blocks(PAGE) if b.code.startswith("valetkey apply")))
    processes = [terminal.start("valetkey serve --config valetkey.toml")]
    try:
        assert processes[0].stdout is not None
        assert processes[0].stdout.readline().startswith("ready ")
        processes.append(terminal.start(block_with("uvicorn").code.strip()))
        assert ask(terminal.adapted(AUDIENCE))[0] == 401
        output = terminal.run(block_with("resource=").code)
        assert '{"hello":null,"by":"visitor"}' in output
        (refused,) = (b for b in blocks(PAGE) if b.code.count("8401/v2/notes"))
        assert "HTTP/1.1 401" in terminal.run(refused.code)
        listed, issue = block_with("issue-secret").code.splitlines()
        api_id = terminal.run(listed).partition("api_")[2].split()[0]
        assert "vk_cs_" in terminal.run(issue.replace("api_…", f"api_{api_id}"))
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()


def test_tutorial_reads_its_credential_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_ID", "api_1")
    monkeypatch.setenv("API_SECRET", "vk_cs_x")
    (block,) = (block for block in blocks(PAGE) if block.title == "credential.py")
    names: dict[str, Any] = {}
    exec(compile(block.code, PAGE, "exec"), names)
    credential = names["gate"].credential
    assert (credential.client_id, credential.client_secret.reveal()) == ("api_1", "vk_cs_x")
