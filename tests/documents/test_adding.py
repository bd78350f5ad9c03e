"""CONTRIBUTING.md says how to add each kind of thing: done on a copy of the tree, it works."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_features import shown_without
from tests.architecture.tree import ROOT
from tests.documents.pages import Block, text

_KIND = re.compile(r"^### An? (?P<kind>.+)\n(?P<body>(?:(?!^##).*\n)*)", re.MULTILINE)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_NOT_EXECUTED = {"database engine"}
"""The rows of the table that no block executes; ARCHITECTURE.md names them."""

_LOOK = """
import contextlib, io, json, sys
from pathlib import Path
from time import monotonic, sleep
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from docs.generate import client_fields
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.announcements import jobs
from valetkey.authorization.announcements.feature import FEATURE
from valetkey.authorization.announcements.settings import AnnouncementSettings
from valetkey.authorization.model.user import Role
from valetkey.authorization.features import EVENTS
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.site.admin.confirm import Buttons
from valetkey.cli import options
from valetkey.cli.applying.file import read_site
from valetkey.cli.commands.client import create
from valetkey.cli.commands.groups import group_of
from valetkey.cli.main import run
from valetkey.cli.operations.command import names
from valetkey.cli.register.clients import as_json
from valetkey.config.catalogue import explain
from valetkey.authorization.portal.settings import PortalSettings, Registrants
from valetkey.config.settings import RegistrationMode, RegistrationSettings, Settings
from valetkey.kernel.moment import days
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

SECRET = "x" * 43
CIBA = "urn:openid:params:grant-type:ciba"


def ask(url, body=None, content="application/x-www-form-urlencoded", **headers):
    try:
        request = Request(url, body, {"Content-Type": content, **headers})
        with urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def printed(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run(list(arguments))
    return code, out.getvalue()


def operation(servers):
    user = servers.register_user("ada", "correct horse battery staple")
    path = f"/admin/api/v1/users/{user.uid}/"
    described = json.loads(ask(servers.auth_url + "/admin/api/v1/openapi.json")[1])
    run(["user", "change", "ada", "--picture", "https://example.com/ada.png"])
    clear = ["user", "clear-picture", "ada"]
    return {
        "route": [ask(servers.auth_url + path + name, b"{}")[0] for name in ("picture", "image")],
        "described": list(described["paths"]["/users/{uid}/picture"]),
        "button": Buttons.below("/users/{uid}").by_slug["clear-picture"].button.title,
        "unasked": run(clear),
        "command": run([*clear, "--yes"]),
        "picture": servers.write(lambda tx: tx.users.find(user.uid).claims.picture),
        "events": servers.write(
            lambda tx: [[e.name, e.done_by.partition(" ")[0]] for e in tx.events.newest(9)]
        ),
    }


def field(servers, user, grace):
    name, text = "software_id", "4NRB1-0XZABZI9E6-5SM3R"
    told = {"redirect_uris": ["https://app.example/cb"], name: text}
    url, api = servers.auth_url + "/oauth/register", servers.auth_url + "/admin/api/v1/openapi.json"
    status, body = ask(url, json.dumps(told).encode(), "application/json")
    registered = json.loads(body)
    long = json.dumps({**told, name: text * 5}).encode()
    client = servers.write(lambda tx: tx.clients.find(registered["client_id"]))
    servers.write(lambda tx: tx.user_directory.set_role(user.uid, Role.OWNER, servers.clock.now()))
    file = Path(sys.argv[1], "site.toml")
    file.write_text(f'[[clients]]\\nname = "Printer"\\n{name} = "{text}"\\n')
    schemas = json.loads(ask(api)[1])["components"]["schemas"]
    console = grace.open(f"{servers.auth_url}/admin/clients/{client.id}")
    bodies = [schemas[f"Client{each}"]["properties"] for each in ("Wanted", "Change", "Shown")]
    form = grace.open(f"{servers.auth_url}/developer/new?kind=server")
    return {
        "registration": registered[name] == text,
        "bounds": "100 printable" in ask(url, long, "application/json")[1],
        "storage": getattr(metadata_of(client).openid, name) == text,
        "command": any("--software-id" in each.opts for each in create.params),
        "shown": as_json(client)[name] == text,
        "apply": read_site(file).clients[0].values[name] == text,
        "admin API": all(name in body for body in bodies),
        "portal": f'name="{name}"' in form.body,
        "console": "Software ID" in console.text and text in console.text,
        "reference": f"## `{name}`" in "".join(client_fields()),
    }


def api_field(servers, grace):
    name, text, url = "contact", "it@example.com", "https://rooms.example.com"
    declare = ("api", "declare", "--identifier", url, "--name", "Rooms", "--json")
    made = json.loads(printed(*declare, "--contact", text)[1])
    stored = servers.write(lambda tx: tx.apis.find(made["api_id"]))
    file = Path(sys.argv[1], "apis.toml")
    file.write_text(printed("export")[1])
    api = json.loads(ask(servers.auth_url + "/admin/api/v1/openapi.json")[1])
    schemas = [api["components"]["schemas"][f"Api{each}"] for each in ("Wanted", "Change", "Shown")]
    page = grace.open(f"{servers.auth_url}/admin/apis/{stored.id}")
    form = grace.open(f"{servers.auth_url}/admin/apis/{stored.id}/edit")
    too_long = printed("api", "change", stored.id, "--contact", "x" * 201)[0]
    changed = printed("api", "change", stored.id, "--contact", "help@example.com")[0]
    after = servers.write(lambda tx: tx.apis.find(stored.id))
    return {
        "command": made[name] == text,
        "storage": getattr(stored, name) == text,
        "export": read_site(file).of_features["api"][0].values[name] == text,
        "admin API": all(name in each["properties"] for each in schemas),
        "console": "Contact" in page.text and text in page.text,
        "form": f'name="{name}"' in form.body and text in form.body,
        "bounds": (too_long, changed) == (2, 0),
        "change": getattr(after, name) == "help@example.com",
    }


def method(servers, metadata, grace):
    name = "job_ticket"
    machine = ("client_credentials",)
    # A client that authenticates so has no secret.
    job = ClientMetadata("Job", grant_types=machine, authentication_method=name)
    servers.register_client(job, "job")
    form, url = "grant_type=client_credentials&client_id=job", servers.auth_url + "/oauth/token"
    with_ticket = form + "&job_ticket=x"
    choice = next(each for each in create.params if each.name == "authentication_method")
    return {
        "announced": name in metadata["token_endpoint_auth_methods_supported"],
        "refused": "invalid_client" in ask(url, with_ticket.encode())[1],
        "two methods": "invalid_request" in ask(url, f"{with_ticket}&client_secret=x".encode())[1],
        "other method": "invalid_client" in ask(url, f"{form}&client_secret=x".encode())[1],
        "option": name in choice.type.choices,
        "registration": f'"token_endpoint_auth_method":"{name}"' in ask(
            servers.auth_url + "/oauth/register",
            json.dumps(
                {"redirect_uris": ["https://app.example/"], "token_endpoint_auth_method": name}
            ).encode(),
            "application/json",
        )[1],
    }


def pages(servers, grace):
    clock = ask(servers.auth_url + "/notices/clock")
    scopes, languages, settings = (
        grace.open(servers.auth_url + path)
        for path in ("/developer/scopes", "/admin/languages", "/admin/settings")
    )
    return {
        "visitors": clock[0] == 200 and "Clock" in clock[1],
        "portal": "bookmarks:read" in scopes.text,
        "portal navigation": 'href="/developer/scopes"' in scopes.body,
        "console": "Deutsch" in languages.text,
        "console navigation": 'href="/admin/languages"' in settings.body,
    }


def feature(servers, grace):
    text, url = "The cafeteria opens at noon.", servers.auth_url + "/admin/api/v1/announcements"
    made = printed(
        *("admin-token", "create", "--for", "grace", "--name", "Announcements", "--json"),
        *("--permission", "read", "--permission", "settings"),
    )
    bearer = f"Bearer {json.loads(made[1])['token']}"
    body = json.dumps({"text": text}).encode()
    posts = [ask(url, body, "application/json", Authorization=bearer)[0] for _ in range(2)]
    (published,) = servers.write(lambda tx: tx.events.named(["announcement.published"], 0, 9))
    file = Path(sys.argv[1], "announcements.toml")
    file.write_text('name = "it"\\n[[announcements]]\\ntext = "The gym is closed."\\n')
    applied = run(["apply", str(file), "--yes"])
    exported = printed("export")[1]
    file.write_text('name = "it"\\n')
    pruned = run(["apply", str(file), "--yes", "--prune"])
    left = printed("export")[1]
    create_welcome = ["announcement", "create", "--text", "Welcome."]
    created = [run(create_welcome), run(create_welcome)]
    page = grace.open(servers.auth_url + "/admin/announcements")
    api = json.loads(ask(servers.auth_url + "/admin/api/v1/openapi.json")[1])
    overview = grace.open(servers.auth_url + "/")

    def count():
        return len(json.loads(printed("announcement", "list", "--json")[1]))

    third = run(["announcement", "create", "--text", "Lunch is ready."])
    until = monotonic() + 60
    while count() > 2 and monotonic() < until:
        sleep(0.05)
    after = servers.clock.now() + days(91)
    return {
        "POST of the admin API": posts == [200, 400],
        "event of the POST": "cli" not in published.done_by,
        "apply": applied == 0 and "The gym is closed." in exported,
        "apply with --prune": pruned == 0 and "The gym is closed." not in left,
        "command that publishes": created == [0, 2],
        "job that keeps two": (third, count()) == (0, 2),
        "sweep": servers.write(lambda tx: FEATURE.sweeps[0](tx, after)) == 2,
        "page": text in page.text,
        "navigation": 'href="/admin/announcements"' in page.body,
        "command": "announcement create" in names(),
        "group": group_of("announcement").help == "Publish and list announcements.",
        "event": "announcement.published" in [event.name for event in EVENTS],
        "admin API": "/announcements" in api["paths"],
        "notice": text in overview.text,
        "setting": [line.default for line in explain(servers.settings, "announcements")] == [20],
        "settings page": 'id="announcements.kept"' in grace.open(
            servers.auth_url + "/admin/settings"
        ).body,
    }


def command(servers):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run(["issuer"])
    return [code, out.getvalue().strip() == servers.auth_url]


open_to_all = Settings(
    registration=RegistrationSettings(mode=RegistrationMode.OPEN),
    features=(PortalSettings(Registrants.EVERYONE), AnnouncementSettings(kept=2)),
)
jobs._EVERY = 0.1
with Servers(Path(sys.argv[1]), settings=open_to_all) as servers:
    options.settings_of = lambda _: servers.settings
    grants, back = ("authorization_code", CIBA), ("https://tv.example/cb",)
    tv = ClientMetadata("TV", grant_types=grants, redirect_uris=back)
    servers.register_client(tv, "tv", SECRET)
    form = f"grant_type={CIBA}&client_id=tv&client_secret={SECRET}"
    user = servers.register_user("grace", "a good long password")
    grace, account = UserAgent(servers.auth_url), servers.auth_url + "/account"
    grace.sign_in(grace.open(f"{account}/login-history"), "grace", "a good long password")
    console = servers.auth_url + "/admin"
    page, profile = (grace.open(f"{account}/{each}") for each in ("login-history", "profile"))
    metadata = json.loads(ask(servers.auth_url + "/.well-known/openid-configuration")[1])
    seen = {
        "grant types": metadata["grant_types_supported"],
        "scopes": metadata["scopes_supported"],
        "request id": ask(servers.auth_url + "/oauth/token", (form + "&auth_req_id=x").encode()),
        "no request id": ask(servers.auth_url + "/oauth/token", form.encode()),
        "object": ask(servers.api_url + "/v2/bookmarks")[0],
        "no object": ask(servers.api_url + "/v2/bookmark")[0],
        "operation": operation(servers),
        "page": (page.status, page.text),
        "profile": profile.body,
        "events": [event.name for event in EVENTS],
        "field": field(servers, user, grace),
        "API field": api_field(servers, grace),
        "method": method(servers, metadata, grace),
        "pages": pages(servers, grace),
        "feature": feature(servers, grace),
        "command": command(servers),
        "grant in form": CIBA in grace.open(f"{console}/clients/new?kind=server").body,
        "setting": [line.default for line in explain(servers.settings, "portal.drafts_per_person")],
    }
print(json.dumps(seen))
"""


def _kinds() -> Iterator[tuple[str, list[Block]]]:
    for page in ("CONTRIBUTING.md", "CONTRIBUTING-PAGES.md", "CONTRIBUTING-FEATURES.md"):
        for match in _KIND.finditer(text(page)):
            yield match["kind"], [Block(page, *fence) for fence in _FENCE.findall(match["body"])]


def _apply(block: Block, root: Path) -> None:
    path, code = root / block.title, block.code.partition("\n")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    if block.language != "diff":
        path.write_text((path.read_text() if path.exists() else "") + code)
        return
    for part in re.split(r"^@@\n", code, flags=re.MULTILINE):
        lines = part.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        after = "".join(line[1:] for line in lines if line[0] != "-")
        assert path.read_text().count(before) == 1, f"{block.title} has not exactly once: {before}"
        path.write_text(path.read_text().replace(before, after))


def _copy(root: Path) -> None:
    """Copy what the blocks change and what is generated from it; times too, for the cache."""
    for folder in ("src", "docs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
    shutil.copy2(ROOT / "pyproject.toml", root)


def _python(root: Path, *arguments: str) -> str:
    """Run Python on the code of the tree; return what it prints."""
    ran = subprocess.run(
        (sys.executable, *arguments),
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with all blocks, after `make docs`."""
    root = tmp_path_factory.mktemp("tree")
    _copy(root)
    for _, blocks in _kinds():
        for block in blocks:
            _apply(block, root)
    _python(root, "-m", "docs.generate")
    return root


@pytest.fixture(scope="module")
def seen(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a server of the changed tree answers."""
    printed = _python(tree, "-c", _LOOK, str(tmp_path_factory.mktemp("servers")))
    answers: dict[str, object] = json.loads(printed.splitlines()[-1])
    return answers


def test_blocks_have_the_style_of_the_tree(tree: Path) -> None:
    titles = {block.title for _, blocks in _kinds() for block in blocks}
    files = sorted(title for title in titles if title.endswith(".py"))
    assert len(files) > 20
    _python(tree, "-m", "ruff", "check", "--no-cache", *files)
    _python(tree, "-m", "ruff", "format", "--no-cache", "--check", "--diff", *files)


def test_new_feature_has_the_types_of_the_tree(tmp_path: Path) -> None:
    _copy(tmp_path)
    # Only the feature: of a change to a type of the core, mypy would check the whole tree.
    for kind, blocks in _kinds():
        for block in blocks if kind == "feature" else ():
            _apply(block, tmp_path)
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / ".mypy_cache")
    _python(tmp_path, "-m", "mypy", "src/valetkey/authorization/announcements")


def test_new_feature_has_its_reference_after_one_run(tree: Path) -> None:
    reference = tree / "docs/reference"
    assert "(commands/announcement.md)" in (reference / "commands.md").read_text()
    assert "announcement create" in (reference / "commands/announcement.md").read_text()
    settings = (reference / "settings/look-and-documentation.md").read_text()
    assert "### `announcements.kept`" in settings


def test_new_grant_type_is_announced_and_served(seen: dict[str, object]) -> None:
    assert "urn:openid:params:grant-type:ciba" in str(seen["grant types"])
    assert seen["grant in form"] is True
    assert "the request id is unknown" in str(seen["request id"])
    assert "the parameter auth_req_id is missing" in str(seen["no request id"])


def test_new_client_authentication_method_is_announced_and_required(
    seen: dict[str, object],
) -> None:
    method = seen["method"]
    assert isinstance(method, dict)
    assert [name for name, there in method.items() if not there] == []


def test_new_page_of_each_other_area_is_shown(seen: dict[str, object]) -> None:
    pages = seen["pages"]
    assert isinstance(pages, dict)
    assert [name for name, there in pages.items() if not there] == []


def test_new_feature_is_served_everywhere(seen: dict[str, object]) -> None:
    feature = seen["feature"]
    assert isinstance(feature, dict)
    assert [name for name, there in feature.items() if not there] == []


def test_feature_is_gone_with_its_package_and_its_line(tree: Path, tmp_path: Path) -> None:
    root = tmp_path / "tree"
    shutil.copytree(tree, root)
    shutil.rmtree(root / "src/valetkey/authorization/announcements")
    features = root / "src/valetkey/config/features.py"
    features.write_text(features.read_text().replace('    "announcements",\n', ""))
    _python(root, "-m", "docs.generate")
    files = (
        file
        for folder in ("src", "docs/reference")
        for file in (root / folder).rglob("*")
        if file.suffix in {".py", ".html", ".json", ".md"}
    )
    named = re.compile(r"\bannouncement", re.IGNORECASE)
    assert [str(file) for file in files if named.search(file.read_text())] == []
    shown = shown_without("", tmp_path, root=root)
    assert [name for name, page in shown.items() if named.search(page)] == []


def test_new_command_runs(seen: dict[str, object]) -> None:
    assert seen["command"] == [0, True]


def test_new_resource_object_is_served_with_its_scopes(seen: dict[str, object]) -> None:
    assert (seen["object"], seen["no object"]) == (401, 404)
    assert "bookmarks:read" in str(seen["scopes"])
    assert "bookmarks:write" in str(seen["scopes"])


def test_new_operation_is_a_route_a_button_and_a_command(seen: dict[str, object]) -> None:
    operation = seen["operation"]
    assert isinstance(operation, dict)
    # POST is another method of the new route; there is none of the other name.
    assert operation["route"] == [405, 404]
    assert operation["described"] == ["delete"]
    assert operation["button"] == "Remove picture"
    assert (operation["unasked"], operation["command"], operation["picture"]) == (2, 0, "")
    assert ["user.changed", "cli"] in operation["events"]


def test_new_page_is_shown_and_in_the_navigation(seen: dict[str, object]) -> None:
    assert str(seen["page"]).startswith("[200, ")
    assert "Login history" in str(seen["page"])
    assert 'href="/account/login-history"' in str(seen["profile"])


def test_new_event_has_the_name_of_its_class(seen: dict[str, object]) -> None:
    assert "nickname.changed" in str(seen["events"])


def test_new_field_of_a_client_is_at_every_interface(seen: dict[str, object]) -> None:
    field = seen["field"]
    assert isinstance(field, dict)
    assert [name for name, there in field.items() if not there] == []


def test_new_field_of_an_api_is_at_every_interface(seen: dict[str, object]) -> None:
    field = seen["API field"]
    assert isinstance(field, dict)
    assert [name for name, there in field.items() if not there] == []


def test_new_setting_is_explained_with_its_default(seen: dict[str, object]) -> None:
    assert seen["setting"] == [5]


def test_each_row_of_the_architecture_is_executed_or_named() -> None:
    rows = re.findall(
        r"^\| an? ([^|]+) \| [^|]+ \| [^|]+ \|$", text("ARCHITECTURE.md"), re.MULTILINE
    )
    assert len(rows) > 10
    assert set(rows) - _NOT_EXECUTED == {kind for kind, _ in _kinds()}
    for kind in _NOT_EXECUTED:
        assert kind in rows
        assert f"except {kind}" in " ".join(text("ARCHITECTURE.md").split())


def test_each_kind_of_addition_changes_at_most_two_files() -> None:
    for kind, blocks in _kinds():
        # A template belongs to the handler beside it.
        touched = {block.title.removesuffix(".html").removesuffix(".py") for block in blocks}
        if kind == "feature":
            # A package and a line.
            touched = {re.sub(r"(/announcements)/.*", r"\1", path) for path in touched}
        assert touched, kind
        assert len(touched) <= 2, (kind, touched)
