"""Features: what imports them, what they import, and that each can be taken out.

A feature is a package beside the layers of the authorization server. It has only those of these
modules that it needs, each a file or a folder, and a folder `schema`.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from grimp import build_graph

from tests.architecture.tree import ROOT
from valetkey.authorization.feature import Feature
from valetkey.authorization.features import FEATURES
from valetkey.authorization.operations.operation import Operation
from valetkey.authorization.operations.table import CORE
from valetkey.config.features import NAMES, feature_sections
from valetkey.config.settings import Settings

_AUTHORIZATION = "valetkey.authorization"
_OPENAPI = "/admin/api/v1/openapi.json"
_LAYERS = (
    {"commands"},
    {"feature"},
    {"applied", "doctor", "endpoints", "jobs", "pages"},
    {"operations"},
    {"rules"},
    {"storage"},
    {"model"},
    {"settings"},
)
_FACES = _LAYERS[2] | {"commands"}
"""Nobody but the module `feature` imports them, and nobody the module `commands`."""

_AREAS = {"portal": ("developer",)}
"""The first segment of the addresses of an area that a feature has of its own."""

_OPENID_PROVIDER = "openid connect provider"
"""What this server is, not one at which users sign in."""

_WITHOUT = """
import importlib, json, sys
from pathlib import Path
from types import ModuleType

name, folder, sections = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
blocked = f"valetkey.authorization.{name}"
OF_FEATURES = {"portal": ("/developer/",), "webhooks": ("/webhooks",)}


class Gone:
    def find_spec(self, module, path=None, target=None):
        if name and module == blocked or module.startswith(blocked + "."):
            raise ModuleNotFoundError(f"{module} was taken out")


sys.meta_path.insert(0, Gone())
import valetkey.config as package

source = Path(package.__file__).with_name("features.py").read_text()
line = f'    "{name}",\\n' if name else ""
assert not name or source.count(line) == 1
module = ModuleType("valetkey.config.features")
sys.modules[module.__name__] = package.features = module
exec(compile(source.replace(line, ""), "features.py", "exec"), vars(module))
# From here on it is the server without the feature.
from click.testing import CliRunner
from docs.catalogue import catalogue as every_command
from tests.support.live import PASSWORD, live_servers
from valetkey.authorization.actions.teams import add_member
from valetkey.authorization.layout.render import TREES
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.model.user import Role
from valetkey.cli import catalogue, main
from valetkey.config.catalogue import sections as every_section
from valetkey.config.load import OperatorErrors, load
from valetkey.testing.browser import UserAgent

TREES.pop(f"{name}/" if name else "", None)
# As `make docs` writes it.
described = folder / "catalogue.json"
described.write_text(every_command())
catalogue.FILE = described
catalogue._entries.cache_clear()
importlib.reload(main)


def make_owner(world):
    def change(tx):
        now = world.servers.clock.now()
        user = tx.users.find_by_name("alice")
        tx.user_directory.set_role(user.uid, Role.OWNER, now)
        # Pages of the core name APIs.
        api = Api(
            identifier="https://books.example", name="Books", roles=("editor",), id="api_1",
            created_at=now, changed_at=now,
        )
        tx.apis.hold_all()
        assert tx.apis.add(api, api.identifier)
        assert tx.api_roles.assign(user.uid, "api_1", "editor")
        add_member(tx, "web1", user.uid, TeamRole.OWNER, now)
        return user.uid

    return world.servers.write(change)


found = {}
with live_servers(folder) as world:
    uid = make_owner(world)
    tokens = world.tokens()
    assert world.call(tokens["access_token"]).status == 200
    assert world.refresh(tokens["refresh_token"]).status == 200
    assert world.introspect(tokens["access_token"], "web1")["active"]
    person = UserAgent(world.auth)
    person.sign_in(person.open(f"{world.auth}/oauth/sign-in"), "alice", PASSWORD)
    links = UserAgent(world.auth).open(f"{world.auth}/").body
    for path in (
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server",
        "/admin/api/v1/openapi.json",
        "/account",
        "/account/security",
        "/admin",
        "/admin/clients/new?kind=server",
        "/developer/new?kind=server",
        "/developer/apps/web1/webhooks",
        "/admin/registration",
        "/admin/webhooks",
        "/admin/api/v1/webhooks",
        "/errors/invalid_grant?reference=VK-ABCD-EFGH-JKMN",
    ):
        of_feature = any(each in path for each in OF_FEATURES.get(name, ()))
        answer = person.open(world.auth + path)
        if path != "/admin/api/v1/webhooks":
            assert answer.status == (404 if of_feature else 200), (path, answer.status)
        elif of_feature:
            assert answer.status == 404
        else:
            assert answer.status == 401
        links += answer.body
        if not of_feature:
            found[path] = answer.text
        if path == "/admin":
            found["console"] = answer.body
    user_page = person.open(f"{world.auth}/admin/users/{uid}").body
    assert "editor" in user_page
    found["console"] += user_page
for arguments in ((), ("apply",), ("doctor",), ("user",), ("client",), ("client", "create")):
    answer = CliRunner().invoke(main.valetkey, [*arguments, "--help"])
    assert answer.exit_code == 0, answer.output
    found[" ".join(arguments)] = answer.output
found["settings"] = " ".join(every_section())
found["links"] = links
for section in sections:
    file = folder / "valetkey.toml"
    file.write_text(f"[{section}]\\n")
    try:
        load(file, {f"VALETKEY__{section}__ENABLED".upper(): "true"})
    except OperatorErrors as error:
        wrong = {(problem.path.lower(), problem.wrong) for problem in error.problems}
    assert wrong == {
        (section, "unknown section"), (f"valetkey__{section}__enabled", "unknown setting")
    }, wrong
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def imports() -> Mapping[str, AbstractSet[str]]:
    """The modules that each module imports."""
    graph = build_graph("valetkey", exclude_type_checking_imports=True)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def _place(module: str) -> tuple[str, str]:
    """Return the feature that a module is in and its part of it; "" for one of the core."""
    feature, _, inside = module.removeprefix(f"{_AUTHORIZATION}.").partition(".")
    if not module.startswith(f"{_AUTHORIZATION}.") or feature not in NAMES:
        return "", ""
    return feature, inside.partition(".")[0]


def test_core_imports_no_feature_and_a_feature_only_earlier_ones(
    imports: Mapping[str, AbstractSet[str]],
) -> None:
    order = ("", *NAMES)
    wrong = {
        (module, imported_module)
        for module, imported in imports.items()
        for imported_module in imported
        if order.index(_place(imported_module)[0]) > order.index(_place(module)[0])
    }
    assert not wrong


def test_modules_of_a_feature_import_only_those_below_them(
    imports: Mapping[str, AbstractSet[str]],
) -> None:
    level = {name: number for number, names in enumerate(_LAYERS) for name in names}
    unknown = {
        module for module in imports if (at := _place(module))[0] and at[1] not in {"", *level}
    }
    assert not unknown
    wrong = set[tuple[str, str]]()
    for module, imported in imports.items():
        feature, name = _place(module)
        for imported_module in imported:
            other, part = _place(imported_module)
            if not other or not part:
                continue
            if feature == other and name not in {"", part} and level[part] <= level[name]:
                wrong.add((module, imported_module))
            if feature != other and part in _FACES:
                wrong.add((module, imported_module))
    assert not wrong


def test_settings_of_a_feature_import_no_server(imports: Mapping[str, AbstractSet[str]]) -> None:
    wrong = {
        (module, imported_module)
        for module, imported in imports.items()
        for imported_module in imported
        if _place(module)[1] == "settings"
        and not imported_module.startswith(("valetkey.config.", "valetkey.kernel."))
    }
    assert not wrong


def test_sections_of_features_have_names_of_their_own() -> None:
    core = {field.name for field in fields(Settings)}
    assert not core & feature_sections().keys()


def test_every_feature_package_is_listed() -> None:
    packages = {
        file.parent.name for file in (ROOT / "src/valetkey/authorization").glob("*/feature.py")
    }
    assert packages == set(NAMES)


def shown_without(name: str, folder: Path, *sections: str, root: Path = ROOT) -> dict[str, str]:
    """Run the server without a feature, "" for none of them; return what it shows, by place."""
    run = subprocess.run(
        [sys.executable, "-c", _WITHOUT, name, str(folder), *sections],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (root / "src", root, ROOT)))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    shown: dict[str, str] = json.loads(run.stdout)
    return shown


def _navigation(shown: Mapping[str, str]) -> list[str]:
    """Return the paths of the console's pages in the order of the navigation."""
    return list(dict.fromkeys(re.findall(r'href="(/admin/[a-z-]+)"', shown["console"])))


@pytest.fixture(scope="module")
def navigation(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """The navigation with all features."""
    return _navigation(shown_without("", tmp_path_factory.mktemp("whole")))


@pytest.mark.parametrize("feature", FEATURES, ids=NAMES)
def test_server_runs_without_the_feature_and_does_not_mention_it(
    feature: Feature, tmp_path: Path, navigation: Sequence[str]
) -> None:
    settings = f"{_AUTHORIZATION}.{feature.name}.settings"
    sections = [name for name, kind in feature_sections().items() if kind.__module__ == settings]
    shown = shown_without(feature.name, tmp_path, *sections)
    places = _navigation(shown)
    assert places == [path for path in navigation if path in places]
    own = [*feature.operations, *chain.from_iterable(feature.core_operations.values())]
    core = {_collection(operation) for area in CORE.values() for operation in area}
    words = {_collection(operation) for operation in own} - core
    words |= {group.name for group in feature.commands}
    words |= {path.rpartition(" ")[2] for path in feature.handwritten}
    links = shown.pop("links")
    named = {("links", f"/{area}") for area in _AREAS.get(feature.name, ()) if f'"/{area}' in links}
    wire = {grant_type.name for grant_type in feature.grant_types} | set(feature.metadata(""))
    assert own or words | wire or sections
    named |= {(where, word) for where, text in shown.items() for word in wire if word in text}
    document, console = shown.pop(_OPENAPI), shown.pop("console")
    # Its options and fields have words of the protocol, such as claims.
    del shown["client create"], shown["/admin/clients/new?kind=server"]
    named |= {
        (where, word)
        for where, text in shown.items()
        for word in words
        # Not `claims_supported`: the member of a document that all have.
        if re.search(rf"(?<![\w-]){word}(?![\w-])", text.lower().replace(_OPENID_PROVIDER, ""))
    }
    lists = {operation.path for operation in feature.operations if operation.path.count("/") == 1}
    named |= {
        ("console", path) for path in lists if re.search(rf'href="/admin{path}["/?]', console)
    }
    named |= {(_OPENAPI, operation.id) for operation in own if f'"{operation.id}"' in document}
    named |= {(_OPENAPI, word) for word in words if f'"/{word}' in document}
    assert not named


def _collection(operation: Operation) -> str:
    return operation.path.split("/")[1]


_WORDS: Mapping[str, str] = {
    "apis": "",
    "claims": r"declared?_claim",
    "imports": r"user_imports?|import_(users|size|bytes|upload)",
    "signals": r"(?-i:SIGNALS?\b)|signal_(stream|attempt|fail)|shared_signal|security_event",
    "device": r"device[_-]?(code|authori[sz]ation|flow)",
    "providers": r"(?<!service)provider|federation",
    "alerts": r"^alerts?$|AlertSettings|alert_rounds",
}
"""What names a feature in code, beside imports and events, if it is not its name in the singular.

The core has APIs and claims, too.
"""

_ALLOWED = {
    "portal": 3,
    "claims": 2,
    "imports": 3,
    "webhooks": 5,
    "signals": 2,
    "device": 5,
    "providers": 4,
    "scim": 4,
}
"""The files that may name it, of most features none; docs/decisions/0064 has the reasons."""


@cache
def _named(file: Path) -> AbstractSet[str]:
    """Return the names in a file: identifiers, and what strings name; no prose."""
    text = file.read_text()
    if file.suffix == ".html":
        return set(re.findall(r"[\w.-]+", " ".join(re.findall(r"\{[{%](.*?)[%}]\}", text))))
    names = set[str]()
    tree = ast.parse(text)
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for attribute in ("id", "attr", "arg", "name", "module"):
            names.add(str(getattr(node, attribute, "")))
        value = getattr(node, "value", None)
        if isinstance(node, ast.Constant) and isinstance(value, str) and node not in prose:
            # A statement names tables; other texts name what has no spaces or is written together.
            words = re.findall(r"[\w.:/-]*\w", value)
            is_statement = re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH) ", value)
            names.update(
                word for word in words if is_statement or word == value or re.search("[_./]", word)
            )
    return names


@pytest.mark.parametrize("feature", FEATURES, ids=NAMES)
def test_few_files_outside_a_feature_name_it(feature: Feature) -> None:
    words = _WORDS.get(feature.name, feature.name.removesuffix("s"))
    events = {event.name for event in feature.events}
    source = ROOT / "src/valetkey"
    # Its line, and what apps use of it.
    outside = (
        source / "authorization" / feature.name,
        source / "sdk",
        source / "config/features.py",
    )
    naming = {
        str(file.relative_to(source)): sorted(names)[:4]
        for file in (*source.rglob("*.py"), *source.rglob("*.html"))
        if not any(file.is_relative_to(path) for path in outside)
        and (
            names := {
                name
                for name in _named(file)
                if name in events
                or f".authorization.{feature.name}." in f".{name}."
                or (words and re.search(words, name, re.IGNORECASE))
            }
        )
    }
    allowed = _ALLOWED.get(feature.name, 0)
    assert len(naming) <= allowed, (
        f"more than {allowed} files outside of {feature.name} name it: move what they do there, or"
        f" change `_ALLOWED` and docs/decisions/0064; a name that means something else belongs into"
        f" `_WORDS`: {naming}"
    )
