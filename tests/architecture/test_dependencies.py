"""Each dependency has one owner, and nobody else imports it; a sentence says why it is there."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import chain

from tests.architecture.tree import ROOT, Source, imports, sources

ANYWHERE = ("*",)
OWNERS = {
    "acme": ("cli/serving/acme.py",),
    "aiosmtplib": ("authorization/email/delivery.py",),
    "apsw": ("database/sqlite*.py",),
    "click": ("cli/*", "authorization/*/commands.py"),
    "cryptography": (
        "kernel/*",
        "fetch/certificate.py",
        "authorization/authentication/password*.py",
        "authorization/authentication/factors.py",
        "authorization/authentication/passkey.py",
    ),
    "fido2": ("authorization/authentication/passkey.py",),
    "httptools": ("web/connection/reader.py",),
    "httpx2": ("sdk/fetch.py", "fetch/outbound.py"),
    "idna": ("authorization/model/user.py",),
    "jinja2": (
        "authorization/layout/render.py",
        "authorization/email/message.py",
        # What a template refers to, and in which line it is wrong.
        "authorization/layout/theme_check.py",
    ),
    "josepy": ("cli/serving/acme.py",),
    "jsonschema_rs": ("kernel/shapes.py",),
    "maxminddb": ("authorization/authentication/places.py",),
    "msgspec": ANYWHERE,
    "opentelemetry": ("cli/serving/trace_export.py",),
    "PIL": ("fetch/image.py",),
    "prometheus_client": ("cli/serving/scrape.py",),
    "psycopg": ("database/postgres*.py",),
    "pytest": ("testing/*.py",),
    "segno": ("authorization/layout/contexts.py",),
    "structlog": ("web/log.py",),
    "uvicorn": ("web/listen.py", "web/protocol.py", "web/connection/exchange.py"),
    "uvloop": ("web/listen.py",),
}
IMPORTED_AS = {"opentelemetry-proto": "opentelemetry", "pillow": "PIL"}
# What an adapter is for is brought by whoever uses the adapter.
BROUGHT = {
    "django": ("sdk/adapters/django.py", "sdk/adapters/drf.py"),
    "fastapi": ("sdk/adapters/fastapi.py",),
    "flask": ("sdk/adapters/flask.py",),
    "mcp": ("sdk/adapters/mcp.py",),
    "rest_framework": ("sdk/adapters/drf.py",),
}
CHOSEN_BY_UVICORN = {"httptools", "uvloop"}  # by name, so that no file of ours need import them

SERVER = ("authorization", "cli", "config", "database", "fetch", "resource", "testing", "web")
SERVER_ONLY = (
    "PIL",
    "acme",
    "aiosmtplib",
    "apsw",
    "click",
    "jinja2",
    "maxminddb",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "structlog",
    "uvicorn",
    "uvloop",
)
IMPORT_THE_SDK = """
import importlib, pkgutil, sys
import valetkey.sdk
for found in pkgutil.walk_packages(valetkey.sdk.__path__, "valetkey.sdk."):
    if found.name not in sys.argv:
        importlib.import_module(found.name)
print("\\n".join(sys.modules))
"""


def declared() -> set[str]:
    """The direct dependencies of pyproject.toml, extras included, by their import name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = (re.match(r"[\w.-]+", line) for line in lines)
    return {IMPORTED_AS.get(name.group(), name.group().replace("-", "_")) for name in names if name}


def third_party(source: Source) -> set[tuple[int, str]]:
    """What a file imports that is neither ours nor Python's."""
    return {
        (line, module.partition(".")[0])
        for line, module in imports(source)
        if module.partition(".")[0] not in sys.stdlib_module_names | {"valetkey"}
    }


def test_every_dependency_has_an_owner_and_every_owner_a_dependency() -> None:
    assert declared() == set(OWNERS)


def test_a_dependency_is_imported_by_its_owners_alone() -> None:
    strangers = [
        f"{source.path}:{line} imports {module}"
        for source in sources()
        for line, module in third_party(source)
        if not any(fnmatch(source.inside, owner) for owner in (OWNERS | BROUGHT).get(module, ()))
    ]
    assert not strangers


def _modules(source: Source) -> Iterator[str]:
    """Every module of ours that a file may import, from the package on."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("valetkey."):
            module = (node.module or "").removeprefix("valetkey.")
            yield from (module, f"{module}.__init__")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def test_the_wheel_of_the_sdk_declares_what_its_files_import() -> None:
    lines = tomllib.loads((ROOT / "release/sdk/pyproject.toml").read_text())["project"]
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(lines["dependencies"]) <= set(ours)
    names = {re.split(r"[^\w-]", line)[0] for line in lines["dependencies"]}
    by_name = {source.inside.removesuffix(".py").replace("/", "."): source for source in sources()}
    reached: dict[str, Source] = {}
    waiting = [name for name in by_name if name.startswith("sdk.")]
    while waiting:
        name = waiting.pop()
        if name in by_name and name not in reached:
            reached[name] = by_name[name]
            waiting += _modules(by_name[name])
    imported = {module for source in reached.values() for _, module in third_party(source)}
    assert imported - BROUGHT.keys() == names


def test_no_dependency_is_left_unused() -> None:
    used = {module for source in sources() for _, module in third_party(source)}
    assert used >= BROUGHT.keys()
    used -= BROUGHT.keys()
    assert declared() - CHOSEN_BY_UVICORN == used - CHOSEN_BY_UVICORN


def test_every_dependency_is_listed_in_the_decision_record() -> None:
    page = (ROOT / "docs/decisions/0004-dependencies.md").read_text()
    named = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    packages = {module: package for package, module in IMPORTED_AS.items()}
    assert sorted(named) == sorted(packages.get(n, n.replace("_", "-")) for n in declared())


def test_servers_load_at_most_22_dependencies() -> None:
    assert len(declared() - {"pytest"}) <= 22


def test_the_sdk_does_not_load_the_server() -> None:
    adapters = {
        "valetkey." + file.removesuffix(".py").replace("/", ".")
        for files in BROUGHT.values()
        for file in files
    }
    loaded = subprocess.run(
        [sys.executable, "-c", IMPORT_THE_SDK, *adapters],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert "valetkey.sdk" in loaded
    server = {f"valetkey.{package}" for package in SERVER} | set(SERVER_ONLY)
    assert not server & set(loaded)
    assert "valetkey.sdk.adapters.asgi" in loaded
    assert not BROUGHT.keys() & set(loaded)
