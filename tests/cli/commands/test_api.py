"""`valetkey api`: named by identifier or id; unknown objects are refused with their list."""

from pathlib import Path

from tests.cli.running import valetkey
from tests.cli.site import begin

URL = "https://mcp.example.com/mcp"
DECLARED = ("--identifier", URL, "--name", "Calendar", "--scopes", '{"calendar:read": "read"}')


def test_an_api_is_named_by_its_identifier_or_its_id(tmp_path: Path) -> None:
    begin(tmp_path)
    ada = ("user", "create", "ada", "--email", "ada@example.com", "--generate-password")
    assert valetkey(*ada, here=tmp_path).code == 0
    refused = valetkey("api", "declare", *DECLARED, "--access-token-lifetime", "90", here=tmp_path)
    assert refused.code == 2
    assert "add a unit: 90s, 90m, 90h or 90d" in refused.err
    lifetime = ("--access-token-lifetime", "10 min")
    declared = ("api", "declare", *DECLARED, "--role", "editor", *lifetime, "--json")
    made = valetkey(*declared, here=tmp_path)
    assert made.code == 0, made.err
    assert made.json["access_token_lifetime"] == 600
    shown = valetkey("api", "show", URL, here=tmp_path)
    assert made.json["api_id"] in shown.out
    assert "10m" in shown.out
    for api in (URL, made.json["api_id"]):
        done = valetkey("api", "add-role", api, "editor", "ada", "--json", here=tmp_path)
        assert done.code == 0, done.err
        assert done.json["api_id"] == made.json["api_id"]
    changed = valetkey("api", "change", URL, "--access-token-lifetime", "none", here=tmp_path)
    assert changed.code == 0, changed.err
    assert "access_token_lifetime" not in changed.out
    for words, see in (
        (("api", "add-role", URL, "boss", "ada"), "valetkey api show"),
        (("api", "add-group-role", URL, "editor", "nobody"), "valetkey group list"),
        (("api", "end-secret", URL, "cs_none"), "valetkey api show"),
    ):
        ran = valetkey(*words, here=tmp_path)
        assert ran.code == 2
        assert f"see: {see}\n" in ran.err


def test_unknown_object_is_refused_with_the_command_that_lists_others(tmp_path: Path) -> None:
    begin(tmp_path)
    for words, see in (
        ("api show https://none.example", "valetkey api list"),
        ("api delete none --yes", "valetkey api list"),
        ("attribute remove none --yes", "valetkey attribute list"),
        ("claims remove none --yes", "valetkey claims list"),
        ("client enable none", "valetkey client list"),
        ("group show none", "valetkey group list"),
        ("provider enable none", "valetkey provider list"),
        ("registration withdraw none", "valetkey registration list"),
        ("signal-stream show none", "valetkey signal-stream list"),
        ("user enable none", "valetkey user list"),
        ("webhook replay none ev_none", "valetkey webhook list"),
    ):
        ran = valetkey(*words.split(), here=tmp_path)
        assert ran.code == 2, ran.err
        assert f"see: {see}\n" in ran.err
    for command in ("set", "show", "reset"):
        value = ("1h",) if command == "set" else ()
        ran = valetkey("settings", command, "token.acess_token_lifetime", *value, here=tmp_path)
        assert ran.code == 2
        assert "did you mean tokens.access_token_lifetime?" in ran.err


def test_several_values_in_one_option_are_several(tmp_path: Path) -> None:
    begin(tmp_path)
    for group in ("staff", "team"):
        assert valetkey("group", "create", group, here=tmp_path).code == 0
    api = ("api", "declare", *DECLARED, "--role", "editor, owner", "--required-group", "staff team")
    made = valetkey(*api, "--json", here=tmp_path)
    assert made.code == 0, made.err
    assert made.json["roles"] == ["editor", "owner"]
    assert made.json["required_groups"] == ["staff", "team"]
    app = ("client", "create", "--name", " Web ", "--redirect-uri", "https://a.example/cb?x=1,2")
    web = valetkey(*app, "--scope", "openid profile", "--scope", "email", "--json", here=tmp_path)
    assert web.code == 0, web.err
    assert web.json["name"] == "Web"
    assert web.json["scopes"] == ["openid", "profile", "email"]
    assert web.json["redirect_uris"] == ["https://a.example/cb?x=1,2"]
    ada = ("user", "create", "ada", "--email", "ada@example.com", "--name", " Ada ")
    for groups in ("staff,team", "team; staff"):
        done = valetkey(*ada, "--groups", groups, "--generate-password", here=tmp_path)
        ada = ("user", "create", "bob", "--email", "bob@example.com", "--name", "Bob")
        assert done.code == 0, done.err
    of_ada = valetkey("user", "groups", "ada", "--json", here=tmp_path).json
    assert of_ada["direct"] == ["staff", "team"]
    assert valetkey("user", "show", "ada", "--json", here=tmp_path).json["name"] == "Ada"
