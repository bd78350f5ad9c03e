"""The page for people: complete, on its own, and safe whatever the operator wrote."""

import ast
import asyncio
import re
import shlex
from pathlib import Path

from tests.resource.objects.books import BOOK, TASK, write_objects
from tests.resource.objects.test_declared_api import declared
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings, SettingsSource
from valetkey.resource.documentation.openapi import ApiIdentity
from valetkey.resource.documentation.page import page, programs
from valetkey.resource.documentation.schemas import actions
from valetkey.resource.objects.declared import objects_of
from valetkey.resource.resource_object import ResourceObject

_SITE = ApiIdentity("Acme", "https://api.example", "https://auth.example")


def _objects(directory: Path) -> tuple[ResourceObject, ...]:
    more = '"requires_if_match": true, "deprecated": "2026-01-01", "sunset": "2027-01-01", '
    ended = TASK.replace('"reads"', f'{more}"reads"')
    write_objects(directory, books_py=BOOK, tasks_json=ended)
    resource = ResourceSettings(objects="objects")
    return objects_of(Settings(resource=resource, source=SettingsSource(directory=directory)))


def _text(directory: Path, site: ApiIdentity = _SITE) -> str:
    return page(site, _objects(directory)).body.decode()


def test_page_is_public_and_has_a_strict_content_security_policy(tmp_path: Path) -> None:
    async def story() -> None:
        async with declared(tmp_path) as call:
            answer = await call("GET", "/v2/", token="")
            assert (answer.status, answer.headers["content-type"]) == (
                200,
                "text/html; charset=utf-8",
            )
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert policy.startswith("default-src 'none'; style-src 'sha256-")
            assert (await call("HEAD", "/v2/", token="")).body == b""

    asyncio.run(story())


def test_page_shows_every_object_operation_and_scope(tmp_path: Path) -> None:
    text = _text(tmp_path)
    for kind in _objects(tmp_path):
        assert f'<section id="{kind.name}">' in text
        assert kind.reads in text or "&#x27;" in text
        for action in actions(kind):
            assert f'id="{action.name}"' in text
            for scope in kind.scopes(action.verb):
                assert f"<code>{scope}</code>" in text
    assert (
        "Deprecated: do not use it in new programs. It may be removed from 2027-01-01 on." in text
    )


def test_page_loads_no_other_resources(tmp_path: Path) -> None:
    text = _text(tmp_path)
    assert not re.search(r"<(script\s|link|img|iframe|object|base)\b|\son\w+=|style=", text)
    assert "url(" not in text
    assert "@import" not in text
    links = set(re.findall(r'href="([^"]*)"', text))
    outside = {link for link in links if not link.startswith(("#", "/v2/"))}
    assert outside == {
        "https://auth.example/.well-known/oauth-authorization-server",
        "https://auth.example/developer",
    }
    assert all(f'id="{link[1:]}"' in text for link in links if link.startswith("#"))


def test_text_of_the_operator_is_escaped(tmp_path: Path) -> None:
    text = _text(
        tmp_path, ApiIdentity("<script>alert(1)</script>&", "https://a.example", "https://b")
    )
    assert text.count("<script") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in text
    folder = write_objects(
        tmp_path,
        odd_json="""{
          "type": "object",
          "properties": {
            "text": {"type": "string", "description": "<b onclick=x>", "examples": ["</code>'\\""]}
          },
          "x-valetkey": {"reads": "read \\"your\\" odd & things", "writes": "change & things"}
        }""",
    )
    assert (folder / "odd.json").exists()
    text = _text(tmp_path)
    assert "<b " not in text
    assert "&lt;b onclick=x&gt;" in text
    assert "</code>&" not in text
    assert text.count("<script") == 1


def test_examples_in_curl_python_and_javascript_are_well_formed(tmp_path: Path) -> None:
    for kind in _objects(tmp_path):
        for action in actions(kind):
            curl, python, javascript = programs(action, "https://api.example")
            words = shlex.split(curl.text.replace("\\\n", " "))
            assert words[0] == "curl"
            assert words[-1].startswith("https://api.example/v2/")
            ast.parse(python.text)
            demanded = kind.name == "tasks" and action.has_preconditions
            for program in (curl, python, javascript):
                assert ("If-Match" in program.text) is demanded
            assert javascript.text.count("(") == javascript.text.count(")")
