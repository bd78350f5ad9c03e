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

from tests.architecture.tree import ROOT
from tests.documents.pages import Block, text

_KIND = re.compile(r"^### An? (?P<kind>.+)\n(?P<body>(?:(?!^##).*\n)*)", re.MULTILINE)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_NOT_EXECUTED = {"database engine"}
"""The rows of the table that no block executes; ARCHITECTURE.md names them."""

_LOOK = """
import contextlib, io, json, sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from docs.generate import client_fields
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.announcements.model import Announcement
from valetkey.authorization.announcements.storage import Announcements
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
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

SECRET = "x" * 43
CIBA = "urn:openid:params:grant-type:ciba"


def ask(url, body=None, content="application/x-www-form-urlencoded"):
    try:
        with urlopen(Request(url, body, {"Content-Type": content}), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def operation(servers):
    user = servers.register_user("ada", "correct horse battery staple")
    path = f"/admin/api/v1/users/{user.uid}/"
    options.settings_of = lambda _: servers.settings
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
        "apply": read_site(file).clients[0].given[name] == text,
        "admin API": all(name in body for body in bodies),
        "portal": f'name="{name}"' in form.body,
        "console": "Software ID" in console.text and text in console.text,
        "reference": f"## `{name}`" in "".join(client_fields()),
    }


def api_field(servers, grace):
    name, text, url = "contact", "it@example.com", "https://rooms.example.com"
    options.settings_of = lambda _: servers.settings

    def printed(*arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = run(list(arguments))
        return code, out.getvalue()

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
        "export": read_site(file).of_features["api"][0].given[name] == text,
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
    text = "The cafeteria opens at noon."
    published = Announcement("an_1", text, servers.clock.now())
    servers.write(lambda tx: Announcements.of(tx).add(published))
    page = grace.open(servers.auth_url + "/admin/announcements")
    api = json.loads(ask(servers.auth_url + "/admin/api/v1/openapi.json")[1])
    overview = grace.open(servers.auth_url + "/")
    return {
        "page": text in page.text,
        "navigation": 'href="/admin/announcements"' in page.body,
        "command": "announcement publish" in names(),
        "group": group_of("announcement").help == "Publish and list announcements.",
        "event": "announcement.published" in [event.name for event in EVENTS],
        "admin API": "/announcements" in api["paths"],
        "notice": text in overview.text,
        "setting": [line.default for line in explain(servers.settings, "announcements")] == [20],
        "settings page": 'id="announcements.shown"' in grace.open(
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
    features=(PortalSettings(Registrants.EVERYONE),),
)
with Servers(Path(sys.argv[1]), settings=open_to_all) as servers:
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
        for found in _KIND.finditer(text(page)):
            yield found["kind"], [Block(page, *fence) for fence in _FENCE.findall(found["body"])]


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


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a server of the changed tree answers."""
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for _, blocks in _kinds():
        for block in blocks:
            _apply(block, root)
    ran = subprocess.run(
        (sys.executable, "-c", _LOOK, str(root)),
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
    return told


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


def test_each_thing_is_one_file_and_one_line_in_a_registry() -> None:
    for kind, blocks in _kinds():
        # A template belongs to the handler beside it.
        touched = {block.title.removesuffix(".html").removesuffix(".py") for block in blocks}
        if kind == "feature":
            # A package and a line.
            touched = {re.sub(r"(/announcements)/.*", r"\1", each) for each in touched}
        assert touched, kind
        assert len(touched) <= 2, (kind, touched)
