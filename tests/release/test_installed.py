"""From the built wheels in an empty environment, every adapter and every extra answers a request.

Modules are imported when they are first needed, so only a request shows what is not declared.
"""

import json
import signal
import subprocess
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.ports import free_port
from release.package import ROOT
from tests.clients.presets.site import running
from tests.clients.protected import READ, SECRET, SYNC, Issuer, ask, issuer, with_ports
from tests.documents.pages import blocks
from tests.documents.shell import Terminal
from tests.fetch.canary import certificate
from tests.release.environment import UV, alone, installed, output, packages_of
from tests.support.otlp import otlp_receiver
from tests.support.pages import Page, pages
from tests.support.wait import CEILING, wait_until
from valetkey.authorization.apis.pages import FRAMEWORKS

_REFERENCE, _MCP = "docs/reference/sdk.md", "docs/how-to/apis/protect-an-mcp-server.md"
_UVICORN = ("-m", "uvicorn", "app:app", "--port", "8080")
_WSGI = """
from wsgiref.simple_server import make_server
from wsgi_app import app
make_server("127.0.0.1", 8080, app).serve_forever()
"""
_DJANGO = """
from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1"],
    SECRET_KEY="x",
    REST_FRAMEWORK={"UNAUTHENTICATED_USER": None},
)
from django.urls import path
from drf_views import Notes, require
urlpatterns = [path("", Notes.as_view()), *require.urls()]
if __name__ == "__main__":
    execute_from_command_line()
"""
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
# What the SDK may load: the interpreter's own modules, these, and itself.
_LOADED = """
import os, pkgutil, sys, valetkey.sdk
for found in pkgutil.walk_packages(valetkey.sdk.__path__, "valetkey.sdk."):
    if "adapters" not in found.name:
        __import__(found.name)
from valetkey.sdk.client import Client, Secret
client = Client(sys.argv[1], "robot", secret=Secret(os.environ["SECRET"]), scope="calendar:read",
                resource="https://calendar.example.com")
assert client.headers()["Authorization"].startswith("Bearer ")
own = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(name for name in own if not name.startswith("_")))
"""
# CPU time, so that other load on the machine does not count.
_IMPORTED = "import time, valetkey.sdk; print(time.process_time())"
_CONFORMANCE = """
import pytest
from valetkey.testing.storage_conformance import StorageConformance
from valetkey.testing.storage_conformance import Memory


class TestStores(StorageConformance):
    @pytest.fixture
    def memory(self, tmp_path):
        memory = Memory(f"sqlite:///{tmp_path}/test.db", tmp_path)
        yield memory
        memory.close()
"""


@dataclass(frozen=True)
class Example:
    """The documented code for one adapter, and how it is started."""

    packages: tuple[str, ...]
    command: tuple[str, ...]
    files: Callable[[Issuer], Mapping[str, str]]
    path: str = "/"


def _of_console(name: str) -> Example:
    framework = FRAMEWORKS[name]
    program, *rest = framework.run.split()
    module = () if program == "python" else ("-m", program)
    return Example(
        tuple(packages_of(framework.install)),
        (*module, *rest),
        lambda it: {
            file.name: file.text for file in framework.code(it.calendar, it.servers.auth_url)
        },
    )


def _of_page(
    page: str, title: str, packages: tuple[str, ...], start: str = "", path: str = "/"
) -> Example:
    """Return an example of a page; `start` is the text of the file that serves it."""

    def files(it: Issuer) -> Mapping[str, str]:
        (block,) = (candidate for candidate in blocks(page) if candidate.title == title)
        code = block.code.replace("notes:read", READ)
        for named, ours in (
            ("https://auth.example.com", it.servers.auth_url),
            ("https://api.example.com", it.calendar.identifier),
            ("http://127.0.0.1:8400", it.servers.auth_url),
            ("http://127.0.0.1:8000/mcp", it.calendar.identifier),
        ):
            code = code.replace(named, ours)
        return {title: code, "start.py": start} if start else {"app.py": code}

    command = ("start.py", "runserver", "--noreload", "8080") if start else _UVICORN
    return Example(packages, command, files, path)


EXAMPLES = {
    "fastapi": _of_console("fastapi"),
    "flask": _of_console("flask"),
    "django": _of_console("django"),
    "drf": _of_page(_REFERENCE, "drf_views.py", ("django", "djangorestframework"), _DJANGO),
    "asgi": _of_page(_REFERENCE, "asgi_app.py", ("starlette", "uvicorn")),
    "wsgi": _of_page(_REFERENCE, "wsgi_app.py", (), _WSGI),
    "mcp": _of_page(_MCP, "calendar_server.py", ("mcp", "uvicorn"), path="/mcp"),
    "mcp-fastmcp": _of_page(_MCP, "calendar_fastmcp.py", ("fastmcp", "uvicorn"), path="/mcp"),
}


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """Return an issuer with an API and a client that may use it."""
    with issuer(tmp_path_factory.mktemp("issuer")) as running_issuer:
        yield running_issuer


def test_every_adapter_has_an_example() -> None:
    adapters = {path.stem for path in (ROOT / "src/valetkey/sdk/adapters").glob("*.py")}
    shared = {"__init__", "gate", "running"}
    assert adapters - shared == {name.partition("-")[0] for name in EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_adapter_of_the_sdk_alone_protects_an_api(
    it: Issuer, sdk_wheel: Path, name: str, tmp_path: Path
) -> None:
    example = EXAMPLES[name]
    programs = installed(tmp_path / "environment", sdk_wheel, *example.packages)
    port = free_port()
    for file, text in example.files(it).items():
        (tmp_path / file).write_text(with_ports(text, {"8080": port}))
    command = [with_ports(word, {"8080": port}) for word in example.command]
    url = f"http://127.0.0.1:{port}{example.path}"
    environment = alone({"API_SECRET": SECRET})
    with running([programs / "python", *command], tmp_path, url, environment):
        log = (tmp_path / "log").read_text
        assert _status(url, example, it.token(READ)) == 200, log()
        assert _status(url, example, it.token(SYNC)) == 403, log()
        assert _status(url, example, it.token(READ, "https://files.example.com")) == 401, log()
        assert _status(url, example, "") == 401, log()
        metadata = f"http://127.0.0.1:{port}/.well-known/oauth-protected-resource"
        assert it.servers.auth_url in ask(metadata)[1]["authorization_servers"]


def _status(url: str, example: Example, token: str) -> int:
    """Return the status of a request; to an MCP server it is the first of its protocol."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = None
    if example.path == "/mcp":
        body = json.dumps(_INITIALIZE).encode()
        headers |= {"Content-Type": "application/json"}
        headers |= {"Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=CEILING) as response:
            status: int = response.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_sdk_works_without_server_packages(it: Issuer, sdk_wheel: Path, tmp_path: Path) -> None:
    assert sdk_wheel.stat().st_size < 150_000
    programs = installed(tmp_path / "environment", sdk_wheel)
    python = programs / "python"
    assert float(output(python, "-c", _IMPORTED, cwd=tmp_path)) < 1
    ran = subprocess.run(
        [python, "-c", _LOADED, it.servers.auth_url],
        cwd=tmp_path,
        env=alone({"SECRET": SECRET}),
        capture_output=True,
        text=True,
        timeout=CEILING,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    declared = tomllib.loads((ROOT / "release/sdk/pyproject.toml").read_text())["project"]
    ours = {name.partition(">")[0] for name in declared["dependencies"]}
    assert ours == {"cryptography", "httpx2", "msgspec"}
    below = {"anyio", "certifi", "h11", "httpcore2", "idna", "truststore", "typing_extensions"}
    assert ours | {"valetkey"} <= set(ran.stdout.split()) <= ours | below | {"valetkey"}
    listed = output(*UV, "pip", "list", "--python", python, cwd=tmp_path)
    names = {line.split()[0].replace("-", "_") for line in listed.splitlines()[2:]}
    assert names - below == ours | {"cffi", "pycparser", "valetkey_sdk"}


def test_every_extra_has_a_test() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tried = {name.removeprefix("test_extra_").partition("_")[0] for name in globals()}
    assert project["optional-dependencies"].keys() <= tried


@contextmanager
def _serving(
    wheel: str, folder: Path, options: str = "", more: Callable[[Path], str] | None = None
) -> Generator[str]:
    """Serve both servers of an installation; yield the issuer. `more` follows its settings."""
    programs = installed(folder / "environment", wheel)
    here = folder / "server"
    here.mkdir()
    terminal = Terminal(here, programs=programs)
    issuer_url, api = (f"http://localhost:{free_port()}" for _ in range(2))
    urls = f"--url {issuer_url} --api-url {api} --owner-email grace@example.com"
    terminal.run(f"valetkey init --no-input {urls} {options}")
    if more is not None:
        with (here / "valetkey.toml").open("a") as file:
            file.write(more(here))
    with terminal.start("valetkey serve") as servers:
        try:
            assert servers.stdout is not None
            assert servers.stdout.readline().startswith("ready ")
            discovery = f"{issuer_url}/.well-known/openid-configuration"
            assert ask(discovery)[1]["issuer"] == issuer_url
            assert ask(f"{api}/v2/notes")[0] == 401
            yield issuer_url
        finally:
            servers.send_signal(signal.SIGINT)
            servers.wait(CEILING)


def test_extra_postgres_serves_from_postgresql(
    server_wheel: Path, postgres_url: str, another_postgres_url: str, tmp_path: Path
) -> None:
    databases = f"--database '{postgres_url}' --api-database '{another_postgres_url}'"
    with _serving(f"{server_wheel}[postgres]", tmp_path, databases) as url:
        assert ask(f"{url}/health/ready")[0] == 200
    assert not list((tmp_path / "server").glob("**/*.db"))


def test_extra_otel_sends_the_trace_of_a_request(server_wheel: Path, tmp_path: Path) -> None:
    with otlp_receiver() as heard:
        section = f'\n[traces]\nendpoint = "{heard.url}"\nsampling = 1.0\n'
        with _serving(f"{server_wheel}[otel]", tmp_path, more=lambda _: section):
            wait_until(lambda: heard.named("GET /.well-known/openid-configuration"))


def test_extra_acme_sends_requests_to_the_authority(server_wheel: Path, tmp_path: Path) -> None:
    programs = installed(tmp_path / "environment", f"{server_wheel}[acme]")
    shown = certificate(tmp_path, "localhost")
    port = free_port()
    with ExitStack() as stack:
        authority = stack.enter_context(pages(shown.context))
        places = {"newNonce": "nonce", "newAccount": "account", "newOrder": "order"}
        directory = {name: f"{authority.url}/{path}" for name, path in places.items()}
        authority.at["/dir"] = Page(json.dumps(directory).encode())
        (tmp_path / "valetkey.toml").write_text(
            f'[authorization]\nurl = "https://localhost:{port}"\nlisten = "127.0.0.1:{port}"\n'
            f'[tls]\nacme = "{authority.url}/dir"\nacme_ca_file = "{shown.ca_file}"\n'
            '[log]\nlevel = "info"\n'
        )
        log = stack.enter_context((tmp_path / "log").open("w"))
        server = subprocess.Popen(
            [programs / "valetkey", "serve", "authorization"],
            cwd=tmp_path,
            env=alone(),
            stdout=log,
            stderr=log,
        )
        try:
            wait_until(lambda: "certificate.not_issued" in (tmp_path / "log").read_text())
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(CEILING)
    assert authority.asked[0] == "/dir", (tmp_path / "log").read_text()


def test_extra_testing_runs_conformance_tests_of_stores(server_wheel: Path, tmp_path: Path) -> None:
    programs = installed(tmp_path / "environment", f"{server_wheel}[testing]")
    (tmp_path / "test_stores.py").write_text(_CONFORMANCE)
    report = output(
        programs / "python", "-m", "pytest", "-q", "-k", "voucher", "test_stores.py", cwd=tmp_path
    )
    assert " passed" in report
