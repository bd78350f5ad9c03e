"""`valetkey apply`: attributes, groups, roles, claims and the brand."""

import re
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.commands.test_apply import actions, apply, dump
from tests.cli.running import valetkey
from tests.cli.site import configure, serving

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


def test_apply_declares_attributes_and_sets_their_values(tmp_path: Path) -> None:
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


def test_export_of_an_installation_that_was_served_changes_nothing(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        exported = valetkey("export", "--users", here=tmp_path).out
        assert "resource-server" not in exported
        assert apply(tmp_path, exported).out == "Nothing to change.\n"
    # Exports of earlier versions have it.
    before = '\n[[clients]]\nclient_id = "resource-server"\nname = "Resource server"\n'
    again = apply(tmp_path, f"{exported}{before}grant_types = []\n")
    assert again.out == "Nothing to change.\n", again.err


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
    for field in ("groups[2].name", "roles[1].role", "claims[1].in"):
        assert field in refused.err
    assert dump(tmp_path) == before


BRAND = """
name = "site"

[brand]
name = "Acme"
accent = "#0A7D4F"
terms_url = "https://acme.example/terms"
logo = "images/logo.png"
"""


def begin(here: Path, engine: str, request: pytest.FixtureRequest) -> None:
    file = configure(here)
    if engine == "postgresql":
        url = request.getfixturevalue("postgres_url")
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("workers", f'database = "{url}"\nworkers'), "utf-8")
    assert valetkey("database", "migrate", here=here).code == 0
    (here / "images").mkdir()
    Image.linear_gradient("L").resize((300, 90)).save(here / "images/logo.png")


def brand_of(here: Path) -> dict[str, str]:
    shown: dict[str, str] = valetkey("brand", "--json", here=here).json
    return shown


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_apply_sets_the_brand_and_pruning_resets_it(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    begin(tmp_path, engine, request)
    before = brand_of(tmp_path)
    planned = apply(tmp_path, BRAND, "--plan")
    assert planned.out == "~ brand Acme: name, accent, logo_url, terms_url\n", planned.err
    assert brand_of(tmp_path) == before
    assert apply(tmp_path, BRAND, "--yes").code == 0
    after = brand_of(tmp_path)
    assert re.fullmatch(r"/logos/[\w-]{22}", after.pop("logo_url"))
    assert after == {
        "name": "Acme",
        "accent": "#0a7d4f",
        "logo_dark_url": "",
        "terms_url": "https://acme.example/terms",
        "privacy_url": "",
    }
    assert apply(tmp_path, BRAND, "--yes", "--prune").out == "Nothing to change.\n"
    assert '"brand.changed"' in valetkey("events", "--json", here=tmp_path).out

    # By hand: what the file did not set stays, and what it set and was reset since is not its own.
    hand = ("brand", "--privacy-url", "https://acme.example/privacy")
    assert valetkey(*hand, here=tmp_path).code == 0
    accent = BRAND.replace('accent = "#0A7D4F"', "")
    for chosen in ("#2456d6", "#112233"):
        assert valetkey("brand", "--accent", chosen, here=tmp_path).code == 0
    assert apply(tmp_path, accent, "--prune").out == "Nothing to change.\n"
    pruned = apply(tmp_path, 'name = "site"\n', "--prune", "--yes")
    assert pruned.out.splitlines()[:3] == [
        "- brand logo_url: reset to the setting",
        "- brand name: reset to the setting",
        "- brand terms_url: reset to the setting",
    ]
    assert brand_of(tmp_path) == {
        **before,
        "accent": "#112233",
        "privacy_url": "https://acme.example/privacy",
    }
    assert actions(apply(tmp_path, BRAND, "--json", "--plan")) == [("change", "brand")]


def test_exported_brand_changes_nothing_here_and_copies_the_brand_elsewhere(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
        begin(folder, "sqlite", request)
    assert "[brand]" not in valetkey("export", here=here).out
    dark = BRAND + 'logo_dark = "images/logo.png"\nprivacy_url = "https://acme.example/50%25"\n'
    assert apply(here, dark, "--yes").code == 0
    exported = valetkey("export", here=here).out
    assert exported.count("data:image/webp;base64,") == 2
    stored = dump(here)
    assert apply(here, exported).out == "Nothing to change.\n"
    assert apply(here, exported, "--yes").out == "Nothing to change.\n"
    assert dump(here) == stored
    assert apply(elsewhere, exported, "--yes").code == 0
    assert apply(elsewhere, exported).out == "Nothing to change.\n"
    links = {"logo_url": "", "logo_dark_url": ""}
    assert {**brand_of(elsewhere), **links} == {**brand_of(here), **links}


def test_invalid_brand_is_refused_with_its_place_and_nothing_is_changed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    begin(tmp_path, "sqlite", request)
    before = dump(tmp_path)
    several = (
        'name = "a\\u0007b"\naccent = "red"\nterms_url = "http://acme.example/"\n'
        'logo_url = "//elsewhere.example/x.png"'
    )
    for wrong, *places in (
        ('name = ""', "name"),
        (several, "name"),
        (several.partition("\n")[2].partition("\n")[2], "terms_url", "logo_url"),
        ('logo = "images/none.png"', "logo"),
        ('logo = "apply.toml"', "logo"),
        ('logo = "a\\u0000b"', "logo"),
        ('logo_dark = "data:image/png;base64,%%%"', "logo_dark"),
        ('logo = "images/logo.png"\nlogo_url = "/logo.png"', "logo"),
        ('accent = 3\ncolour = "#112233"', "accent", "colour"),
    ):
        ran = apply(tmp_path, f"[brand]\n{wrong}\n", "--yes")
        assert ran.code == 2, wrong
        for field in places:
            assert f"brand.{field}: " in ran.err, wrong
    for wrong in ('brand = "Acme"', '[[brand]]\nname = "Acme"'):
        ran = apply(tmp_path, wrong, "--yes")
        assert ran.code == 2
        assert "write [brand] above it" in ran.err
    assert dump(tmp_path) == before


def test_required_group_that_does_not_exist_is_remarked_on(tmp_path: Path) -> None:
    configure(tmp_path)
    app = '[[clients]]\nclient_id = "web"\nname = "Web"\nredirect_uris = ["https://a.example/cb"]\n'
    api = '[[apis]]\nidentifier = "https://b.example"\nname = "B"\nscopes = { "b:read" = "read" }\n'
    required = 'required_groups = ["staff", "team"]\n'
    file = f'{app}{required}{api}{required}[[groups]]\nname = "team"\n'
    remark = "requires the group staff, which does not exist"
    for option in ("--plan", "--yes"):
        ran = apply(tmp_path, file, option)
        assert ran.code == 0, ran.err
        assert ran.out.count(f"  ! {remark}\n") == 2
        assert "team," not in ran.out
    assert f"client web {remark}\n" in apply(tmp_path, file).err
    for command in (
        ("client", "change", "web"),
        ("client", "create", "--name", "C", "--redirect-uri", "https://a.example/cb"),
        ("api", "change", "https://b.example"),
    ):
        groups = ("--required-group", "staff", "--required-group", "team")
        ran = valetkey(*command, *groups, "--json", here=tmp_path)
        assert ran.code == 0, ran.err
        assert ran.err.count(remark) == 1
        assert "team" not in ran.err


def test_spaces_around_names_are_left_out(tmp_path: Path) -> None:
    configure(tmp_path)
    user = '[[users]]\nusername = "ada"\nemail = "ada@example.com"\nname = " Ada "\n'
    api = '[[apis]]\nidentifier = "https://b.example"\nname = "B "\nscopes = { "b" = "b" }\n'
    client = '[[clients]]\nname = " C"\nredirect_uris = ["https://c.example/cb "]\n'
    done = apply(tmp_path, f"{user}{api}{client}", "--yes")
    assert done.code == 0, done.err
    again = apply(tmp_path, f"{user}{api}{client}".replace('"B "', '" B"').replace('" C"', '"C "'))
    assert again.out == "Nothing to change.\n"
    exported = valetkey("export", "--users", here=tmp_path).out
    assert 'name = "Ada"\n' in exported
    assert 'name = "B"\n' in exported
    assert 'name = "C"\n' in exported
    assert '"https://c.example/cb"' in exported
