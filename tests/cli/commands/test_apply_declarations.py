"""`valetkey apply`: attributes, groups, roles and claims."""

from pathlib import Path

from tests.cli.commands.test_apply import apply, dump
from tests.cli.running import valetkey
from tests.cli.site import configure

DECLARED = """
[[attributes]]
name = "department"
label = "Department"
schema = { type = "string", maxLength = 40 }

[[attributes]]
name = "level"
schema = { type = "integer", minimum = 1 }
editable = true

[[users]]
username = "ada"
email = "ada@example.com"
attributes = { department = "physics", level = 3 }
"""


def test_a_file_declares_attributes_and_those_of_its_users(tmp_path: Path) -> None:
    configure(tmp_path)
    ran = apply(tmp_path, DECLARED, "--yes")
    assert ran.code == 0, ran.err
    plan = ["+ attribute department", "+ attribute level", "+ user ada"]
    assert ran.out.splitlines()[:3] == plan
    assert apply(tmp_path, DECLARED).out == "Nothing to change.\n"
    changed = apply(tmp_path, DECLARED.replace("physics", "optics"), "--yes")
    assert "~ user ada: attributes.department" in changed.out
    shown = valetkey("user", "attributes", "ada", "--json", here=tmp_path).json
    assert shown["attributes"] == {"department": "optics", "level": 3}
    wrong = apply(tmp_path, DECLARED.replace("level = 3", "level = 0").replace("40", "-1"))
    assert wrong.code == 2
    assert "attributes[1].schema" in wrong.err
    assert "users[1].attributes" in wrong.err
    assert valetkey("user", "attributes", "ada", "--json", here=tmp_path).json == shown


def test_values_without_a_declaration_are_not_exported(tmp_path: Path) -> None:
    configure(tmp_path)
    assert apply(tmp_path, DECLARED, "--yes").code == 0
    assert valetkey("attribute", "remove", "level", "--yes", here=tmp_path).code == 0
    exported = valetkey("export", "--users", here=tmp_path).out
    assert '"department" = "physics"' in exported
    assert "level" not in exported
    assert apply(tmp_path, exported).out == "Nothing to change.\n"


GROUPS = """
[[groups]]
name = "staff"

[[groups]]
name = "night"
parent = "staff"
members = ["ada"]

[[apis]]
identifier = "https://mcp.example.com/mcp"
name = "Calendar"
roles = ["editor"]

[[roles]]
api = "https://mcp.example.com/mcp"
role = "editor"
groups = ["staff"]
users = ["ada"]

[[claims]]
name = "department"
from = "attribute:department"
in = ["id_token", "userinfo"]
scope = "profile"
"""


def test_a_file_declares_groups_roles_and_claims(tmp_path: Path) -> None:
    configure(tmp_path)
    ran = apply(tmp_path, GROUPS + DECLARED, "--yes")
    assert ran.code == 0, ran.err
    for line in ("+ group night", "+ claim department", "+ api https://mcp.example.com/mcp"):
        assert line in ran.out
    assert "~ role editor at https://mcp.example.com/mcp: 2 added" in ran.out
    before = dump(tmp_path)
    assert apply(tmp_path, GROUPS + DECLARED).out == "Nothing to change.\n"
    assert dump(tmp_path) == before
    groups = valetkey("user", "groups", "ada", "--json", here=tmp_path).json
    assert groups["all"] == ["night", "staff"]
    night = GROUPS.replace('"night"', '"late"\nrenamed_from = "night"')
    late = night.replace('parent = "staff"', 'description = "After six"')
    on_its_own = late.replace('name = "late"', 'name = "late"\nparent = ""')
    moved = apply(tmp_path, on_its_own + DECLARED, "--yes")
    assert "~ group late: name, description, parent" in moved.out
    assert apply(tmp_path, late + DECLARED).out == "Nothing to change.\n"
    assert valetkey("user", "groups", "ada", "--json", here=tmp_path).json["all"] == ["late"]
    both = apply(tmp_path, late.replace('"night"', '"staff"') + DECLARED)
    assert "groups[2].renamed_from" in both.err
    before = dump(tmp_path)
    wrong = GROUPS.replace('["ada"]', '["nobody"]').replace('role = "editor"', 'role = "king"')
    wrong = wrong.replace('"userinfo"]', '"cookie"]').replace('"night"', '"two words"')
    refused = apply(tmp_path, wrong + DECLARED, "--yes")
    assert refused.code == 2
    for place in ("groups[2].name", "roles[1].role", "claims[1].in"):
        assert place in refused.err
    assert dump(tmp_path) == before
