"""Commands on the pages: each names the configuration of the server whose page it is."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.authorization.pages.examples.every import EXAMPLES
from tests.authorization.pages.shown import viewer_of
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import render
from valetkey.authorization.layout.viewer import configuration_of
from valetkey.config.load import load
from valetkey.kernel.replace import replace

FILE = "/srv/acme/valetkey.toml"
_COMMAND = re.compile(r"valetkey [a-z][^<\n]*")
_DESCRIBED = "valetkey registration invite"
"""A command that the description of a setting names."""
PUBLIC = """
[authorization]
url = "https://auth.example"
tls_proxy = true
[resource]
url = "https://api.example"
tls_proxy = true
"""


def test_every_shown_command_has_the_config_option() -> None:
    commands: set[str] = set()
    for name, page in EXAMPLES.items():
        viewer = replace(viewer_of(page), configuration=FILE)
        html = unescape(render(page, brand=Brand(), viewer=viewer).decode())
        for command in set(_COMMAND.findall(html)) - {_DESCRIBED}:
            assert command.endswith(f" --config {FILE}"), (name, command)
            commands.add(" ".join(command.split()[1:3]))
    assert {
        "doctor --config",
        "explain REFERENCE",
        "client show",
        "client secret",
        "registration invite",
        "owner --config",
    } <= commands


@pytest.mark.parametrize(
    ("text", "public", "administrator"),
    [
        ("", "{path}", "{path}"),
        (PUBLIC, "FILE", "{path}"),
    ],
)
def test_path_of_a_public_server_is_shown_to_administrators_only(
    tmp_path: Path, text: str, public: str, administrator: str
) -> None:
    file = tmp_path / "a b.toml"
    file.write_text(text, encoding="utf-8")
    configuration = configuration_of(load(file, {}))
    path = f"'{file}'"
    assert configuration.shown(administers=False) == public.format(path=path)
    assert configuration.shown(administers=True) == administrator.format(path=path)


def test_configuration_in_the_default_location_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not configuration_of(load(None, {})).shown(administers=True)
    usual = tmp_path / "valetkey.toml"
    usual.write_text(PUBLIC, encoding="utf-8")
    settings = load(usual, {})
    assert not configuration_of(settings).shown(administers=True)
    monkeypatch.chdir("/")
    assert configuration_of(settings).shown(administers=True) == str(usual)
