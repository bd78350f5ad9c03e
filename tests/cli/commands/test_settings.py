"""`valetkey settings`: running servers apply a change; the file wins; a reset undoes it."""

import json
import os
import re
import shutil
import signal
import urllib.request
from functools import partial
from pathlib import Path

import pytest

import valetkey.cli as valetkey_cli
from bench.ports import free_port
from tests.cli.running import valetkey
from tests.cli.site import begin, configure, serving
from tests.reliability import nodes
from tests.stories.processes.serving import workers_of
from tests.support.wait import wait_until
from valetkey.config.catalogue import catalogue, is_changeable

MODE = "registration.mode"


def _registers(url: str) -> bool:
    metadata_url = f"{url}/.well-known/openid-configuration"
    try:
        with urllib.request.urlopen(metadata_url, timeout=10) as answer:
            return "registration_endpoint" in json.load(answer)
    except OSError:
        return False


def _follows(url: str, *, expected: bool) -> bool:
    return _registers(url) is expected


def test_running_servers_apply_a_stored_setting_and_its_reset(tmp_path: Path) -> None:
    file = configure(tmp_path)
    with serving(tmp_path) as site:
        assert not _registers(site.authorization)
        done = valetkey("settings", "set", MODE, "open", here=tmp_path)
        assert done.code == 0, done.err
        wait_until(lambda: _registers(site.authorization))
        listed = valetkey("settings", "list", here=tmp_path)
        assert any(MODE in line and "stored" in line for line in listed.out.splitlines())
        # A worker that is killed starts with the stored value.
        (worker,) = workers_of(site.process.pid, site.authorization)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: _registers(site.authorization))

        for wrong in (
            ("set", MODE, "sometimes"),
            ("set", "authorization.url", "https://x.example"),
        ):
            assert valetkey("settings", *wrong, here=tmp_path).code == 2
        assert valetkey("settings", "reset", "no.setting", here=tmp_path).code != 0
        assert valetkey("settings", "reset", MODE, here=tmp_path).code == 0
        wait_until(lambda: not _registers(site.authorization))

        text = file.read_text(encoding="utf-8")
        file.write_text(f'{text}[registration]\nmode = "open"\n', encoding="utf-8")
        os.kill(site.process.pid, signal.SIGHUP)
        wait_until(lambda: _registers(site.authorization))
        pinned = valetkey("settings", "set", MODE, "off", here=tmp_path)
        assert pinned.code == 2
        assert "configuration file" in pinned.err


@pytest.mark.parametrize("written", ["a@x.example, b@x.example", '["a@x.example", "b@x.example"]'])
def test_list_setting_accepts_commas_or_toml_syntax(tmp_path: Path, written: str) -> None:
    begin(tmp_path)
    done = valetkey("settings", "set", "alerts.to", written, here=tmp_path)
    assert done.code == 0, done.err
    listed = valetkey("settings", "list", here=tmp_path)
    assert "a@x.example, b@x.example" in next(
        line for line in listed.out.splitlines() if line.startswith("alerts.to")
    )


def test_both_nodes_on_one_database_apply_a_stored_setting_and_its_reset(
    postgres_url: str, tmp_path: Path
) -> None:
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    first, second = pair = [nodes.Node(tmp_path / name) for name in ("first", "second")]
    for node, address in zip(pair, addresses, strict=True):
        url = f"http://{addresses[0]}"
        nodes.configure(node.here, url=url, listen=address, database=postgres_url)
    assert valetkey("database", "migrate", here=first.here).code == 0
    shutil.copy2(first.here / "valetkey.keyring", second.here)
    with nodes.stopped_in_the_end(*pair):
        for node in pair:
            node.start()
        # Each change is made at one node and awaited at both.
        for at, change, expected in (
            (first, ("set", MODE, "open"), True),
            (second, ("reset", MODE), False),
        ):
            done = valetkey("settings", *change, here=at.here)
            assert done.code == 0, done.err
            for address in addresses:
                wait_until(partial(_follows, f"http://{address}", expected=expected))


def test_commands_judge_settings_in_effect_and_not_those_of_the_file() -> None:
    program = Path(str(valetkey_cli.__file__)).parent
    reads = re.compile(r"(?<![.\w])settings\.([a-z]+\.[a-z_]+)\b")
    judged = {
        f"{file.relative_to(program)}: {path}"
        for file in program.rglob("*.py")
        for path in reads.findall(file.read_text(encoding="utf-8"))
        if is_changeable(path)
    }
    assert reads.findall("if settings.accounts.sign_up:") == ["accounts.sign_up"]
    assert is_changeable("accounts.sign_up")
    assert judged == set()


def test_every_choice_that_a_setting_offers_is_accepted(tmp_path: Path) -> None:
    begin(tmp_path)
    offered = [
        (path, value)
        for path, setting in catalogue().items()
        if is_changeable(path)
        for value, _ in setting.rule.words
    ]
    refused = [
        (path, value, ran.err)
        for path, value in offered
        if (ran := valetkey("settings", "set", path, value, here=tmp_path)).code
    ]
    assert ("registration.grant_types", "implicit") in offered
    assert len(offered) > 20
    assert refused == []


def test_words_of_people_are_read_as_values(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = valetkey("scim", "create", "Okta", here=tmp_path)
    assert "scim.enabled" in ran.err
    for path, typed, value in (
        ("scim.enabled", "Yes", True),
        ("scim.enabled", "off", False),
        ("scim.enabled", " TRUE ", True),
        (MODE, "Open", "open"),
    ):
        ran = valetkey("settings", "set", path, typed, here=tmp_path)
        assert ran.code == 0, ran.err
        shown = valetkey("settings", "show", path, "--json", here=tmp_path).json
        assert shown["value"] == value
    assert valetkey("settings", "set", "scim.enabled", "maybe", here=tmp_path).code == 2
    assert "scim.enabled" not in valetkey("scim", "create", "Entra", here=tmp_path).err
