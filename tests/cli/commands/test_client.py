"""`valetkey client`: registered by the rules of every door, shown without secrets."""

import re
from pathlib import Path

import pytest

from tests.cli.running import Ran, valetkey
from tests.cli.site import begin

PRINTER = (
    "--id",
    "printer",
    "--name",
    "Notes Printer",
    "--redirect-uri",
    "https://app.example/cb",
    "--scope",
    "notes:read",
)


def client(here: Path, *arguments: str) -> Ran:
    return valetkey("client", *arguments, here=here)


def make_printer(here: Path) -> str:
    begin(here)
    ran = client(here, "create", *PRINTER, "--json")
    assert ran.code == 0, ran.err
    return str(ran.json["client_secret"])


def test_a_client_is_registered_and_its_secret_printed_once(tmp_path: Path) -> None:
    secret = make_printer(tmp_path)
    assert secret.startswith("vk_cs_")
    shown = client(tmp_path, "show", "printer", "--json")
    assert shown.json["redirect_uris"] == ["https://app.example/cb"]
    assert shown.json["grant_types"] == ["authorization_code", "refresh_token"]
    people = client(tmp_path, "show", "printer")
    assert secret not in shown.out + people.out + client(tmp_path, "list").out
    for file in (tmp_path / "valetkey").iterdir():
        assert secret.encode() not in file.read_bytes()


def test_a_client_without_an_id_is_given_one(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = client(tmp_path, "create", "--name", "Robot", "--grant-type", "client_credentials")
    assert ran.code == 0
    assert "client_id      client_" in ran.out
    assert "client_secret  vk_cs_" in ran.out


def test_a_public_client_has_no_secret(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = client(tmp_path, "create", *PRINTER, "--type", "public", "--json")
    assert ran.code == 0
    assert "client_secret" not in ran.json


def test_all_faults_of_a_client_are_reported_together(tmp_path: Path) -> None:
    begin(tmp_path)
    arguments = ("--name", "X", "--redirect-uri", "http://app.example/cb", "--scope", "everything")
    ran = client(tmp_path, "create", *arguments)
    assert ran.code == 2
    assert "redirect_uris/0" in ran.err
    assert "scopes/0" in ran.err
    assert client(tmp_path, "list", "--json").json == []


def test_client_is_disabled_and_enabled(tmp_path: Path) -> None:
    make_printer(tmp_path)
    assert client(tmp_path, "disable", "printer").code == 2
    assert client(tmp_path, "disable", "printer", "--yes").code == 0
    assert client(tmp_path, "show", "printer", "--json").json["disabled_at"] is not None
    assert client(tmp_path, "enable", "printer").code == 0
    assert client(tmp_path, "show", "printer", "--json").json["disabled_at"] is None


def test_previous_secret_stays_valid_unless_its_lifetime_is_zero(tmp_path: Path) -> None:
    first = make_printer(tmp_path)
    second = client(tmp_path, "secret", "printer", "--json").json["client_secret"]
    assert second != first
    assert "2; one ends" in client(tmp_path, "show", "printer").out
    assert client(tmp_path, "secret", "printer", "--others-live", "0").code == 0
    assert re.search(r"^secrets +1$", client(tmp_path, "show", "printer").out, re.MULTILINE)


def test_secret_is_generated_without_a_client_or_database(tmp_path: Path) -> None:
    ran = client(tmp_path, "secret", "--generate")
    assert ran.code == 0
    assert ran.out.startswith("vk_cs_")
    assert not (tmp_path / "valetkey").exists()
    assert client(tmp_path, "secret").code == 2


def test_implicit_and_password_grants_need_confirmation_of_their_risks(
    tmp_path: Path,
) -> None:
    make_printer(tmp_path)
    refused = client(tmp_path, "create", "--name", "X", "--grant-type", "implicit")
    assert refused.code == 2
    assert "allow-implicit" in refused.err
    for name, cost in (("implicit", "history and scripts"), ("password", "no second factor")):
        unasked = client(tmp_path, f"allow-{name}", "printer")
        assert unasked.code == 2
        assert cost in unasked.err
        assert client(tmp_path, f"allow-{name}", "printer", "--yes").code == 0
        shown = client(tmp_path, "show", "printer", "--json").json
        assert name in shown["grant_types"]
        assert any(shown_cost.startswith(f"{name}: ") for shown_cost in shown["costs"])
        assert client(tmp_path, f"allow-{name}", "printer", "--off").code == 0
        assert name not in client(tmp_path, "show", "printer", "--json").json["grant_types"]


@pytest.mark.parametrize("command", ["client list", "client show x", "user list", "key list"])
def test_command_without_configuration_file_creates_nothing(tmp_path: Path, command: str) -> None:
    ran = valetkey(*command.split(), here=tmp_path)
    assert ran.code == 2
    assert "there is no valetkey.toml here" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_disabling_the_only_grant_type_is_refused_with_advice(tmp_path: Path) -> None:
    begin(tmp_path)
    file = tmp_path / "apply.toml"
    file.write_text(
        '[[clients]]\nclient_id = "viewer"\nname = "Viewer"\ntype = "public"\n'
        'redirect_uris = ["https://viewer.example/cb"]\ngrant_types = ["implicit"]\n',
        encoding="utf-8",
    )
    assert valetkey("apply", "apply.toml", "--yes", here=tmp_path).code == 0
    ran = client(tmp_path, "allow-implicit", "viewer", "--off")
    assert ran.code == 2
    assert "disable the client instead" in ran.err


def test_modern_client_cannot_enable_legacy_grants(tmp_path: Path) -> None:
    begin(tmp_path)
    assert client(tmp_path, "create", *PRINTER, "--profile", "modern").code == 0
    ran = client(tmp_path, "allow-implicit", "printer", "--yes")
    assert ran.code == 2
    assert "modern" in ran.err


def test_unknown_client_is_refused_with_advice(tmp_path: Path) -> None:
    begin(tmp_path)
    for command in ("show", "disable", "enable", "secret", "allow-implicit"):
        yes = ("--yes",) if command in {"disable", "allow-implicit"} else ()
        ran = client(tmp_path, command, "nobody", *yes)
        assert ran.code == 2
        assert "valetkey client list" in ran.err


def test_openid_connect_metadata_can_be_set_and_shown(tmp_path: Path) -> None:
    begin(tmp_path)
    options = (
        "--post-logout-redirect-uri",
        "https://app.example/bye",
        "--backchannel-logout-uri",
        "https://app.example/back",
        "--backchannel-logout-session-required",
        "--default-max-age",
        "10 min",
        "--contact",
        "ada@app.example",
        "--logo-uri",
        "https://app.example/logo.png",
    )
    made = client(tmp_path, "create", *PRINTER, *options, "--json")
    assert made.code == 0, made.err
    expected = {
        "post_logout_redirect_uris": ["https://app.example/bye"],
        "backchannel_logout_uri": "https://app.example/back",
        "backchannel_logout_session_required": True,
        "default_max_age": 600,
        "contacts": ["ada@app.example"],
        "logo_uri": "https://app.example/logo.png",
    }
    assert made.json.items() >= expected.items()
    shown = client(tmp_path, "show", str(made.json["client_id"]))
    assert re.search(r"default_max_age +10m\n", shown.out)
    shown = client(tmp_path, "show", "printer", "--json").json
    assert shown.items() >= expected.items()
    assert "https://app.example/back" in client(tmp_path, "show", "printer").out


def test_change_of_a_client_affects_only_the_given_fields(tmp_path: Path) -> None:
    make_printer(tmp_path)
    before = client(tmp_path, "show", "printer", "--json").json
    ran = client(
        tmp_path, "change", "printer", "--name", "Plotter", "--contact", "a@b", "--contact", "c@d"
    )
    assert ran.code == 0, ran.err
    after = client(tmp_path, "show", "printer", "--json").json
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed - {"changed_at"} == {"name", "contacts"}
    assert client(tmp_path, "change", "printer", "--contact", "").code == 0
    assert "contacts" not in client(tmp_path, "show", "printer", "--json").json
    assert client(tmp_path, "change", "nobody", "--name", "x").code == 2


def test_secret_is_generated_if_a_change_requires_one(tmp_path: Path) -> None:
    old = make_printer(tmp_path)
    ran = client(tmp_path, "change", "printer", "--id-token-signed-response-alg", "HS256", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["client_secret"] not in {"", old}
    again = client(tmp_path, "change", "printer", "--name", "Plotter", "--json")
    assert "client_secret" not in again.json
    public = client(
        tmp_path, "change", "printer", "--type", "public", "--id-token-signed-response-alg", "ES256"
    )
    assert public.code == 0, public.err
    assert client(tmp_path, "show", "printer", "--json").json["authentication_method"] == "none"


def test_invalid_change_is_refused(tmp_path: Path) -> None:
    make_printer(tmp_path)
    for options in (
        ("--jwks-uri", "http://app.example/keys"),
        ("--frontchannel-logout-uri", "https://evil.example/"),
        ("--response-type", "id_token"),
        ("--grant-type", "implicit"),
        ("--subject-type", "ephemeral"),
        ("--key-set", "missing.json"),
        ("--sector-identifier-uri", "https://127.0.0.1:9/sector"),
    ):
        ran = client(tmp_path, "change", "printer", *options)
        assert ran.code == 2, options
        assert ran.err


def test_owner_of_a_client_is_set(tmp_path: Path) -> None:
    make_printer(tmp_path)
    made = valetkey(
        "user", "create", "ada", "--email", "ada@example.com", "--generate-password", here=tmp_path
    )
    assert made.code == 0, made.err
    ran = client(tmp_path, "owner", "printer", "ada")
    assert ran.code == 0, ran.err
    assert "ada owns printer" in ran.out
    assert "already" in client(tmp_path, "owner", "printer", "ada@example.com").out
    assert client(tmp_path, "owner", "printer", "nobody").code == 2
    assert client(tmp_path, "owner", "nothing", "ada").code == 2


def test_a_preset_registers_and_prints_its_configuration(tmp_path: Path) -> None:
    begin(tmp_path)
    presets = {preset["preset"] for preset in client(tmp_path, "presets", "--json").json}
    assert {"spring-boot", "kubelogin"} <= presets
    callback = "https://app.example/login/oauth2/code/valetkey"
    ran = client(
        tmp_path, "create", "--name", "Shop", "--preset", "spring-boot", "--redirect-uri", callback
    )
    assert ran.code == 0, ran.err
    secret = re.search(r"client_secret +(vk_cs_\S+)", ran.out)
    assert secret is not None
    assert f'client-secret: "{secret[1]}"' in ran.out
    assert re.search(r"issuer +https?://\S+\n", ran.out)
    plain = client(tmp_path, "create", "--name", "Plain", "--grant-type", "client_credentials")
    assert re.search(r"issuer +https?://\S+\n", plain.out), plain.err
    assert "/.well-known/openid-configuration" in plain.out
    made = client(
        tmp_path, "create", "--name", "Sh", "--preset", "spring-boot", "--requires-pkce", "--json"
    ).json
    assert made["redirect_uris"] == ["http://localhost:8080/login/oauth2/code/valetkey"]
    assert made["post_logout_redirect_uris"] == ["http://localhost:8080/"]
    assert made["requires_pkce"] is True
    files = made["configuration"]
    assert isinstance(files, dict)
    assert str(made["client_id"]) in files["src/main/resources/application.yaml"]
