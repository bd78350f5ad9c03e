"""`valetkey apply`: names, adoption, pruning; `valetkey export`."""

import json
import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.commands.test_apply import apply, dump
from tests.cli.running import PROGRAM, clean_environment, valetkey
from tests.cli.site import configure

NOTHING = "Nothing to change.\n"
NAME = 'name = "site"\n'
STAY = """
[[apis]]
identifier = "https://mcp.example.com/mcp"
name = "Calendar"
roles = ["editor", "reader"]

[[groups]]
name = "staff"

[[users]]
username = "ada"
email = "ada@example.com"
"""
GO = """
[[groups]]
name = "night"
parent = "staff"
members = ["ada"]

[[roles]]
api = "https://mcp.example.com/mcp"
role = "editor"
groups = ["staff"]
users = ["ada"]

[[attributes]]
name = "department"
schema = { type = "string" }

[[claims]]
name = "department"
from = "attribute:department"
in = ["id_token"]

[[clients]]
client_id = "robot"
name = "Robot"
grant_types = ["client_credentials"]

[[users]]
username = "eve"
email = "eve@example.com"

[[apis]]
identifier = "https://files.example.com"
name = "Files"

[[webhooks]]
url = "https://hooks.example.com/valetkey"
events = ["user.disabled"]
"""
REMOVED = [
    "- role editor at https://mcp.example.com/mcp: group staff",
    "- role editor at https://mcp.example.com/mcp: user ada",
    "- member ada: of group night",
    "- claim department: deleted",
    "- attribute department: deleted",
    "- group night: deleted",
    "- webhook https://hooks.example.com/valetkey: disabled",
    "- client robot: disabled",
    "- api https://files.example.com: disabled",
    "- user eve: disabled",
]


def begin(here: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """Write the configuration of a server on this engine."""
    file = configure(here)
    if engine == "postgresql":
        url = request.getfixturevalue("postgres_url")
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("workers", f'database = "{url}"\nworkers'), "utf-8")


def by_hand(here: Path) -> None:
    """Create objects that no file may prune."""
    email = ("--email", "bob@example.com", "--generate-password")
    for arguments in (
        ("user", "create", "bob", *email),
        ("group", "create", "guests"),
        ("group", "add", "staff", "bob"),
        ("client", "create", "--name", "Hand", "--grant-type", "client_credentials"),
    ):
        ran = valetkey(*arguments, here=here)
        assert ran.code == 0, ran.err


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_pruning_removes_what_the_file_created_and_nothing_else(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    begin(tmp_path, engine, request)
    assert apply(tmp_path, NAME + STAY + GO, "--yes").code == 0
    by_hand(tmp_path)
    assert apply(tmp_path, valetkey("export", "--users", here=tmp_path).out).out == NOTHING
    planned = apply(tmp_path, NAME + STAY, "--prune", "--plan")
    assert planned.code == 0
    assert planned.out.splitlines()[3:] == REMOVED
    refused = apply(tmp_path, NAME + STAY, "--prune")
    assert refused.code == 2
    assert "add --yes" in refused.err
    other = apply(tmp_path, NAME.replace("site", "other") + STAY, "--prune")
    assert other.out == NOTHING
    done = apply(tmp_path, NAME + STAY, "--prune", "--yes")
    assert done.out.splitlines()[-1] == "Done: 0 created, 0 changed, 3 unchanged, 10 removed."
    assert apply(tmp_path, NAME + STAY, "--prune").out == NOTHING
    users = valetkey("user", "list", "--json", here=tmp_path).json
    assert {user["username"]: user["disabled_at"] is None for user in users} == {
        "ada": True,
        "bob": True,
        "eve": False,
    }
    groups = valetkey("user", "groups", "bob", "--json", here=tmp_path).json
    assert groups["all"] == ["staff"]
    # The objects of the file are enabled again by declaring them again.
    again = apply(tmp_path, NAME + STAY + GO, "--yes")
    for line in ("~ user eve: enabled", "~ client robot: enabled", "+ claim department"):
        assert line in again.out
    # Of a group of the file the members that were added by hand stay, and so does the group.
    kept = apply(tmp_path, NAME, "--prune", "--yes")
    assert "- user ada: disabled" in kept.out
    assert "! kept: it has members" in kept.out
    assert valetkey("user", "groups", "bob", "--json", here=tmp_path).json["all"] == ["staff"]


def test_prune_deletes_adopted_group_but_keeps_member_added_by_hand(tmp_path: Path) -> None:
    configure(tmp_path)
    assert apply(tmp_path, STAY, "--yes").code == 0
    nameless = apply(tmp_path, STAY, "--prune", "--yes")
    assert nameless.code == 2
    assert 'write name = "…"' in nameless.err
    assert apply(tmp_path, NAME + STAY, "--yes").out == NOTHING
    assert apply(tmp_path, NAME, "--prune").out == NOTHING
    assert apply(tmp_path, NAME + STAY, "--adopt", "--yes").code == 0
    assert "- group staff: deleted" in apply(tmp_path, NAME, "--prune", "--plan").out
    member = NAME + STAY.replace('"staff"', '"staff"\nmembers = ["ada"]')
    assert apply(tmp_path, member, "--yes").code == 0
    for verb in ("remove", "add"):
        assert valetkey("group", verb, "staff", "ada", here=tmp_path).code == 0
    assert apply(tmp_path, NAME + STAY, "--prune").out == NOTHING


def test_user_disabled_by_another_command_is_not_enabled_again(tmp_path: Path) -> None:
    configure(tmp_path)
    assert apply(tmp_path, NAME + STAY, "--yes").code == 0
    assert "- user ada: disabled" in apply(tmp_path, NAME, "--prune", "--yes").out
    time.sleep(1)  # the times of both are compared, in seconds
    for command in (("enable", "ada"), ("disable", "ada", "--yes")):
        assert valetkey("user", *command, here=tmp_path).code == 0
    again = apply(tmp_path, NAME + STAY, "--yes")
    assert "+ group staff" in again.out
    assert "= user ada" in again.out
    (ada,) = valetkey("user", "list", "--json", here=tmp_path).json
    assert ada["disabled_at"] is not None


@pytest.mark.parametrize(("typed", "code"), [("sight", 1), ("site", 0)])
def test_prune_requires_typing_the_name_of_the_file(tmp_path: Path, typed: str, code: int) -> None:
    configure(tmp_path)
    assert apply(tmp_path, NAME + STAY, "--yes").code == 0
    before = dump(tmp_path)
    (tmp_path / "apply.toml").write_text(NAME, encoding="utf-8")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, "apply", "apply.toml", "--prune"],
        cwd=tmp_path,
        env=clean_environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        os.close(theirs)
        os.write(ours, f"{typed}\n".encode())
        out, err = running.communicate(timeout=60)
    os.close(ours)
    assert running.returncode == code, err
    assert b"- user ada: disabled" in out
    assert b"3 removed. Type the name of the file, site" in err
    assert (dump(tmp_path) == before) is bool(code)


def test_json_of_a_plan_names_what_would_be_removed(tmp_path: Path) -> None:
    configure(tmp_path)
    assert apply(tmp_path, NAME + STAY, "--yes").code == 0
    plan = apply(tmp_path, NAME, "--prune", "--plan", "--json")
    assert json.loads(plan.out)["applied"] is False
    assert {(step["action"], step["kind"]) for step in plan.json["steps"]} == {
        ("remove", "group"),
        ("remove", "api"),
        ("remove", "user"),
    }


def test_an_export_applied_changes_nothing(tmp_path: Path) -> None:
    configure(tmp_path)
    secret = "0123456789abcdef0123456789abcdef"
    more = f"""
[[clients]]
client_id = "printer"
client_secret = "{secret}"
name = "Printer \\"A\\""
redirect_uris = ["https://app.example/cb"]
access_token_lifetime = "10m"
backchannel_logout_uri = "https://app.example/back"
disabled = true

[[users]]
username = "max"
email = "max@example.com"
email_verified = false
address = {{ locality = "London" }}
attributes = {{ department = "optics" }}
password = "correct horse battery staple"
"""
    assert apply(tmp_path, STAY + GO + more, "--yes").code == 0
    for arguments in (("--users", "--name", "site"), ()):
        export = valetkey("export", *arguments, here=tmp_path)
        assert export.code == 0, export.err
        for hidden in (secret, "staple", "$argon2", "whsec_", "vk_cs_"):
            assert hidden not in export.out + export.err
        assert ("ada" in export.out) is bool(arguments)
        before = dump(tmp_path)
        ran = apply(tmp_path, export.out)
        assert (ran.out, ran.err) == (NOTHING, "")
        assert dump(tmp_path) == before
    everything = valetkey("export", "--users", here=tmp_path).out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    configure(elsewhere)
    assert apply(elsewhere, everything, "--yes").code == 0
    assert valetkey("export", "--users", here=elsewhere).out == everything
