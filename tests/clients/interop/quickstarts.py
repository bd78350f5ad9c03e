"""`make interop`: quickstarts of the portal that need what CI does not install.

Needs Go, Maven, npm, and Debian's packages ruby-sinatra, ruby-oauth2 and php-cli. The quickstarts
in PHP, C# and Swift are checked for syntax alone: Debian has no Socialite and no such compilers.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from bench.ports import free_port
from tests.clients.interop.golang import HERE as GO
from tests.clients.interop.spring_boot import HERE as SPRING
from tests.clients.presets.site import (
    Registered,
    register_for_quickstart,
    running,
    sign_in,
)
from tests.support.wait import CEILING
from valetkey.authorization.portal.rules.quickstart import STACKS
from valetkey.testing.server import Servers

NEXT = ("next@16.4.6", "react@19", "react-dom@19", "next-auth@5.0.0-beta.32")
PARSERS = ("tree-sitter==0.26.1", "tree-sitter-c-sharp==0.23.5", "tree-sitter-swift==0.7.4")
PARSE = """
import sys
from importlib import import_module
from tree_sitter import Language, Parser
language = Language(import_module(f"tree_sitter_{sys.argv[1]}").language())
sys.exit(Parser(language).parse(sys.stdin.buffer.read()).root_node.has_error)
"""


def done(command: list[str | Path], folder: Path, **more: str) -> None:
    """Run a command in this folder; it must succeed."""
    environment = {**os.environ, **more}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def start(
    servers: Servers, name: str, folder: Path, path: str = "/back"
) -> tuple[str, Registered, dict[str, str]]:
    """Write the quickstart: the address of the app, its registration and its environment."""
    url = f"http://localhost:{free_port()}"
    app = register_for_quickstart(servers, name, f"{url}{path}")
    app.write(folder)
    return url, app, {**os.environ, "CLIENT_SECRET": app.secret}


def test_go_quickstart_signs_in(servers: Servers, tab: Page, tmp_path: Path) -> None:
    url, _, environment = start(servers, "go", tmp_path)
    for name in ("go.mod", "go.sum"):
        shutil.copy(GO / "go" / name, tmp_path)
    done(["go", "build", "-mod=readonly", "-o", "app", "."], tmp_path)
    with running([tmp_path / "app"], tmp_path, f"{url}/back", environment):
        tab.goto(url)
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/back?*")
        assert json.loads(tab.inner_text("body"))["email"] == "ada@example.com"


def test_spring_quickstart_signs_in(servers: Servers, tab: Page, tmp_path: Path) -> None:
    url, _, environment = start(servers, "spring", tmp_path)
    main = (SPRING / "App.java").read_text().replace('"/profile"', '"/other"')
    source = tmp_path / "src/main/java/com/example/demo/App.java"
    source.write_text(f"package com.example.demo;\n{main}")
    shutil.copy(SPRING / "pom.xml", tmp_path)
    done(["mvn", "--quiet", "--batch-mode", "package"], tmp_path)
    command = ["java", "-jar", "target/app-1.jar"]
    with running(command, tmp_path, f"{url}/none", environment):
        tab.goto(url)
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/**")
        assert json.loads(tab.inner_text("body"))["email"] == "ada@example.com"


def test_nextjs_quickstart_signs_in_and_out(servers: Servers, tab: Page, tmp_path: Path) -> None:
    url, _, environment = start(servers, "nextjs", tmp_path, "/api/auth/callback/valetkey")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / "jsconfig.json").write_text('{"compilerOptions": {"paths": {"@/*": ["./*"]}}}')
    (tmp_path / "app/layout.js").write_text(
        "export default function Layout({ children }) {\n"
        "  return <html><body>{children}</body></html>\n}\n"
    )
    done(["npm", "install", "--silent", *NEXT], tmp_path, PATH=path)
    port = url.rpartition(":")[2]
    next_js: list[str | Path] = [tmp_path / "node_modules/.bin/next", "dev", "--port", port]
    environment |= {"PATH": path, "NEXT_TELEMETRY_DISABLED": "1"}
    with running(next_js, tmp_path, f"{url}/api/auth/providers", environment):
        tab.goto(url)
        tab.click("button:has-text('Sign in')")
        tab.wait_for_url(f"{servers.auth_url}/**")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/")
        assert json.loads(tab.inner_text("p"))["email"] == "ada@example.com"
        tab.click("button:has-text('Sign out')")
        tab.wait_for_selector("button:has-text('Sign in')")


def test_ruby_quickstart_signs_in(servers: Servers, tab: Page, tmp_path: Path) -> None:
    url, _, environment = start(servers, "ruby", tmp_path)
    with running(["ruby", "app.rb"], tmp_path, f"{url}/none", environment):
        tab.goto(url)
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/")
        assert json.loads(tab.inner_text("body"))["email"] == "ada@example.com"


def test_syntax_of_laravel_quickstart(servers: Servers, tmp_path: Path) -> None:
    _, app, _ = start(servers, "laravel", tmp_path)
    for file in app.files:
        done(["php", "-l", file], tmp_path)


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the grammars of these languages."""
    folder = tmp_path_factory.mktemp("parsers")
    done([sys.executable, "-m", "venv", folder], folder)
    done([folder / "bin/pip", "install", "--quiet", *PARSERS], folder)
    return folder / "bin/python"


@pytest.mark.parametrize(("name", "language"), [("csharp", "c_sharp"), ("swift", "swift")])
def test_syntax_of_quickstart(parsers: Path, name: str, language: str) -> None:
    for file, text in STACKS[name].files.items():
        if not file.endswith(".plist"):
            # Where a list or a word is filled in, any will do.
            filled = text.replace("{scopes}", '"openid"').replace("{https}", "true")
            ran = subprocess.run(
                [parsers, "-c", PARSE, language],
                input=filled.encode(),
                timeout=CEILING,
                check=False,
            )
            assert ran.returncode == 0, file
