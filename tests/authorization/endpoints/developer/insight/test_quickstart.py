"""Quickstart: a complete app in each stack, with the app's own ids, and no secret in it."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.developer.insight.teams import (
    WEB1,
    are_for_the_team_alone,
    team,
)
from tests.support.harness import Harness
from tests.support.plain_browser import Answer
from tests.support.visitors import ISSUER, NATIVE, WEB, run
from valetkey.authorization.actions.presets import AppKind
from valetkey.authorization.model.client import GrantTypeName
from valetkey.authorization.portal.rules.quickstart import STACKS, Quickstarts
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

PAGE = f"{WEB1}/quickstart"
LOCAL = "http://localhost:4000/back"
# What is not a place: variables of JSX and curl.
NO_PLACES = {"change", "url_effective"}
SERVER_STACKS = [name for name, stack in STACKS.items() if stack.kind is AppKind.SERVER]


def _code(page: Answer) -> str:
    parts = page.body.split('<code id="file-')[1:]
    text = "\n".join(part.partition(">")[2].partition("</code>")[0] for part in parts)
    return unescape(re.sub(r"<[^>]*>", "", text))


def test_each_server_stack_has_a_program_with_the_registered_values(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await are_for_the_team_alone(it, PAGE)
        await it.change(
            replace(
                WEB,
                redirect_uris=("https://app.example/cb", LOCAL),
                scope=Scope.of("openid", "notes:read"),
            )
        )
        for name in SERVER_STACKS:
            page = await browser.get(PAGE, **{"in": name})
            code = _code(page)
            assert re.findall(r'in=([\w-]+)"\s+aria-current="true"', page.body) == [name]
            assert "CLIENT_SECRET" in page.body
            for value in ("web1", ISSUER, "openid"):
                assert value in code, name
            # The path of Auth.js is its own.
            assert knows(page, "is not registered for this app") == (name == "nextjs")
            assert ("4000" in page.body) == (name != "nextjs"), name
        for wrong in ("swift", "x", "<script>"):
            page = await browser.get(PAGE, **{"in": wrong})
            assert "authlib" in _code(page)

    run(tmp_path, story)


def test_quickstart_fills_every_placeholder() -> None:
    client = replace(WEB, redirect_uris=(LOCAL,), scope=Scope.of("openid"))
    filled = Quickstarts(ISSUER, "", (Algorithm.ES256,), bytes)
    for name in SERVER_STACKS:
        shown = filled.quickstart(client, name)
        texts = [shown.install, shown.run, *(file.text for file in shown.files)]
        left = {placeholder for text in texts for placeholder in re.findall(r"\{([a-z_]+)\}", text)}
        assert left <= NO_PLACES, name


def test_quickstart_names_missing_permissions_and_redirect_uris(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await signed_in(it)
        await it.change(replace(WEB, scope=Scope.of("notes:read")))
        page = await browser.get(PAGE)
        assert knows(page, "does not have the permission openid")
        assert knows(page, "http://localhost:5000/callback")
        assert knows(page, "is not registered for this app")

    run(tmp_path, story)


def test_service_and_native_apps_have_programs_for_their_own_grant(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await signed_in(it)
        await it.change(replace(WEB, grant_types=frozenset({GrantTypeName.CLIENT_CREDENTIALS})))
        page = await browser.get(PAGE, **{"in": "python"})
        assert "client_credentials" in _code(page)
        assert "python signin.py" in page.body
        assert "in=nextjs" not in page.body
        theirs = await signed_in(it, "mallory")
        page = await theirs.get("/developer/apps/nat1/quickstart", **{"in": "swift"})
        assert NATIVE.id in _code(page)
        assert "AppAuth" in _code(page)
        assert "CLIENT_SECRET" not in page.body

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("redirect_uri", "shown"),
    [
        ("https://shop.example/accounts/oidc/valetkey/login/callback/", "django-allauth"),
        ("https://graphs.example/login/generic_oauth", "grafana"),
        # The framework of this preset has a complete app.
        ("https://shop.example/login/oauth2/code/valetkey", "spring"),
        ("https://shop.example/callback", "python"),
    ],
)
def test_quickstart_selects_the_preset_of_the_redirect_uri(
    tmp_path: Path, redirect_uri: str, shown: str
) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await signed_in(it)
        await it.change(replace(WEB, redirect_uris=(redirect_uri,), scope=Scope.of("openid")))
        page = await browser.get(PAGE)
        assert re.findall(r'in=([\w-]+)"\s+aria-current="true"', page.body) == [shown]
        # A preset that shares its framework with a complete app is shown as that.
        express = await browser.get(PAGE, **{"in": "express"})
        assert re.findall(r'in=([\w-]+)"\s+aria-current="true"', express.body) == ["node"]

    run(tmp_path, story)


def test_configuration_of_a_preset_names_what_is_missing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await signed_in(it)
        page = await browser.get(PAGE, **{"in": "grafana"})
        code = _code(page)
        assert "client_id = web1" in code
        assert "client_secret = CLIENT_SECRET" in code
        assert "root_url = https://app.example" in code
        assert knows(page, "Replace CLIENT_SECRET by the client secret")
        assert knows(page, "<code>https://app.example/login/generic_oauth</code>, which is not")

    run(tmp_path, story)


def test_registration_links_to_the_quickstart_of_its_preset(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        form = await browser.get("/developer/new", kind="server", preset="nginx")
        action, fields = form.form("do")
        made = await browser.post(action, {**fields, "name": ["Guarded"]})
        path = re.search(r'href="(/developer/apps/[^"]+/quickstart\?in=nginx)"', made.body)
        assert path, made.body
        page = await browser.get(path[1])
        assert re.findall(r'in=([\w-]+)"\s+aria-current="true"', page.body) == ["nginx"]
        assert not knows(page, "is not registered for this app")

    run(tmp_path, story)


@pytest.mark.parametrize("redirect_uri", ["http://localhost/a\"b'", "http://localhost:4000/$(x)"])
def test_values_that_break_a_string_literal_are_not_inserted(
    tmp_path: Path, redirect_uri: str
) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await signed_in(it)
        await it.change(replace(WEB, redirect_uris=(redirect_uri,)))
        assert redirect_uri not in unescape((await browser.get(PAGE)).body)

    run(tmp_path, story)
