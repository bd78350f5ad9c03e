"""`valetkey apply`: the plan, what it does, that twice is once, and what it refuses."""

import base64
import json
import sqlite3
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.running import Ran, valetkey
from tests.cli.site import configure, serving
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey

SECRET = "0123456789abcdef0123456789abcdef"
FILE = f"""
[[users]]
uid = 1001
username = "ada"
email = "ada@example.com"
name = "Ada Lovelace"
password = "correct horse battery staple"

[[clients]]
client_id = "printer"
client_secret = "{SECRET}"
name = "Notes Printer"
description = "Prints your notes"
redirect_uris = ["https://app.example/cb"]
grant_types = ["authorization_code", "refresh_token"]
scopes = ["read", "write", "notes:read"]
profile = "classic"
type = "confidential"
access_token_format = "jwt"

[[clients]]
name = "Robot"
grant_types = ["client_credentials"]
"""

APIS = """
[[apis]]
identifier = "https://mcp.example.com/mcp"
name = "Calendar"
scopes = { "calendar:read" = "see your calendar" }
machine_scopes = ["calendar:sync"]
access_token_lifetime = "10m"
clients = "any"

[[clients]]
client_id = "bot"
name = "Bot"
grant_types = ["client_credentials"]
scopes = ["calendar:sync"]
"""


def apply(here: Path, text: str, *arguments: str) -> Ran:
    file = here / "apply.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return valetkey("apply", "apply.toml", *arguments, here=here)


def actions(ran: Ran) -> list[tuple[str, str]]:
    return [(step["action"], step["kind"]) for step in ran.json["steps"]]


def dump(here: Path) -> list[str]:
    """Everything the register holds; events and revisions apart."""
    with sqlite3.connect(here / "valetkey/authorization.db") as database:
        lines = list(database.iterdump())
    database.close()
    return [line for line in lines if "revision" not in line]


def token(url: str, client_id: str, secret: str) -> int:
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    request = urllib.request.Request(
        f"{url}/token",
        data=b"grant_type=client_credentials",
        headers={"Authorization": f"Basic {basic}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


def test_apply_creates_users_and_clients_and_repeated_changes_nothing(tmp_path: Path) -> None:
    configure(tmp_path)
    ran = apply(tmp_path, FILE, "--yes")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[:2] == ["+ user ada", "+ client printer"]
    assert "Done: 3 created, 0 changed, 0 unchanged." in ran.out
    assert "client_secret vk_cs_" in ran.out
    assert SECRET not in ran.out + ran.err
    before = dump(tmp_path)
    again = apply(tmp_path, FILE)
    assert again.code == 0
    assert again.out == "Nothing to change.\n"
    assert dump(tmp_path) == before
    (ada,) = valetkey("user", "list", "--json", here=tmp_path).json
    assert (ada["uid"], ada["name"]) == (1001, "Ada Lovelace")


def test_user_without_password_is_reported(tmp_path: Path) -> None:
    configure(tmp_path)
    users = '[[users]]\nusername = "eve"\nemail = "eve@example.com"\n'
    ran = apply(tmp_path, users, "--yes")
    assert ran.out.splitlines()[:2] == [
        "+ user eve",
        "  ! cannot sign in without a password; next: valetkey user password eve",
    ]
    assert "password" not in apply(tmp_path, users + 'name = "Eve"\n', "--yes").out


def test_plan_without_confirmation_is_shown_and_not_applied(tmp_path: Path) -> None:
    configure(tmp_path)
    ran = apply(tmp_path, FILE)
    assert ran.code == 2
    assert "+ user ada" in ran.out
    assert "--yes" in ran.err
    plan = apply(tmp_path, FILE, "--json")
    assert plan.code == 2
    assert plan.json["applied"] is False
    assert "client_secret" not in json.dumps(plan.json)
    assert valetkey("user", "list", "--json", here=tmp_path).json == []
    assert valetkey("client", "list", "--json", here=tmp_path).json == []


def test_records_that_the_file_does_not_name_stay_unchanged(tmp_path: Path) -> None:
    configure(tmp_path)
    apply(tmp_path, FILE, "--yes")
    changed = """
[[users]]
username = "ADA"
name = "Countess Lovelace"

[[clients]]
client_id = "printer"
description = "Shows your notes"
disabled = true
"""
    ran = apply(tmp_path, changed, "--yes")
    assert ran.out.splitlines()[0] == "~ user ADA: username, name"
    assert ran.out.splitlines()[1] == "~ client printer: description, disabled"
    printer = valetkey("client", "show", "printer", "--json", here=tmp_path).json
    assert printer["description"] == "Shows your notes"
    assert printer["redirect_uris"] == ["https://app.example/cb"]
    assert printer["disabled_at"] is not None
    (ada,) = valetkey("user", "list", "--json", here=tmp_path).json
    assert (ada["email"], ada["name"]) == ("ada@example.com", "Countess Lovelace")
    assert len(valetkey("client", "list", "--json", here=tmp_path).json) == 2


def test_a_password_or_secret_that_differs_is_replaced(tmp_path: Path) -> None:
    configure(tmp_path)
    apply(tmp_path, FILE, "--yes")
    other = FILE.replace("staple", "stapler").replace(SECRET, SECRET[::-1])
    ran = apply(tmp_path, other, "--yes")
    assert "~ user ada: password (signs out everywhere)" in ran.out
    assert "~ client printer: client_secret (others end in a day)" in ran.out
    assert apply(tmp_path, other).out == "Nothing to change.\n"


def test_client_without_an_id_is_matched_by_its_name(tmp_path: Path) -> None:
    configure(tmp_path)
    first = apply(tmp_path, FILE, "--yes", "--json")
    assert actions(first) == [("create", "user"), ("create", "client"), ("create", "client")]
    again = apply(tmp_path, FILE, "--yes", "--json")
    assert actions(again) == [("keep", "user"), ("keep", "client"), ("keep", "client")]
    valetkey(
        "client", "create", "--name", "Robot", "--grant-type", "client_credentials", here=tmp_path
    )
    ran = apply(tmp_path, FILE, "--yes")
    assert ran.code == 2
    assert "2 clients have this name" in ran.err


def test_apply_takes_effect_on_running_servers_at_once(tmp_path: Path) -> None:
    configure(tmp_path)
    robot = f'[[clients]]\nclient_id = "robot"\nname = "Robot"\nclient_secret = "{SECRET}"\n'
    grants = 'grant_types = ["client_credentials"]\n'
    with serving(tmp_path) as site:
        assert token(site.authorization, "robot", SECRET) == 401
        assert apply(tmp_path, robot + grants, "--yes").code == 0
        assert token(site.authorization, "robot", SECRET) == 200
        assert apply(tmp_path, robot + grants + "disabled = true\n", "--yes").code == 0
        assert token(site.authorization, "robot", SECRET) != 200


_UNREADABLE = (
    (FILE.replace("redirect_uris", "redirect_uri"), "did you mean redirect_uris?"),
    (FILE.replace("1001", '"1001"'), "users[1].uid"),
    (FILE.replace('username = "ada"', ""), "users[1]: it has no username"),
    (FILE + '[[clients]]\nclient_id = "printer"\n', "clients[1] has the same"),
    (FILE + '[[users]]\nusername = "Ada"\nemail = "a@b.c"\n', "users[1] has the same"),
    (FILE + '[[client]]\nname = "x"\n', "did you mean clients?"),
    (FILE.replace("uid = 1001", 'groups = ["staff"]'), "unknown key; groups name their members"),
    (
        FILE.replace("redirect_uris", "client_name"),
        "clients[1].client_name: unknown key; write name",
    ),
    (FILE.replace("scopes = [", "scope = [", 1), "clients[1].scope: unknown key; write scopes"),
    (FILE + "[people]\n", "people: unknown table"),
    ("users = 3\n", "users: it is not a list"),
    ("[[users]\n", "is not TOML"),
)
_REFUSED = (
    (FILE.replace(SECRET, "short"), "valetkey client secret --generate"),
    (FILE.replace(SECRET, SECRET[:31]), "at least 32"),
    (
        FILE.replace('"notes:read"', '"notes:raed"'),
        'clients[1].scopes[3]: "notes:raed" is not valid',
    ),
    (
        FILE.replace('"notes:read"', '"files:read"')
        + '[[apis]]\nidentifier = "https://files.example"\nname = "Files"\n'
        'scopes = { "files:read" = "see your files" }\n',
        "a scope of the API https://files.example needs no registration",
    ),
    (FILE.replace("1001", "0"), "users[1].uid"),
    (FILE.replace("https://app", "http://app"), 'clients[1].redirect_uris[1]: "http://app'),
    (
        FILE.replace("https://app.example/cb", "https://app.example/cb?state=1"),
        "its query must not have what answers bring",
    ),
    (FILE.replace("battery staple", "\\u0000 staple"), "users[1].password"),
    (FILE.replace("correct horse battery staple", "short"), "at least 8 characters"),
)


@pytest.mark.parametrize(
    ("text", "said", "begun"),
    [*((*case, False) for case in _UNREADABLE), *((*case, True) for case in _REFUSED)],
)
def test_invalid_file_is_refused_with_its_place_and_changes_nothing(
    tmp_path: Path, text: str, said: str, begun: bool
) -> None:
    """A file that cannot be read does not even begin the database."""
    configure(tmp_path)
    ran = apply(tmp_path, text, "--yes")
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert SECRET not in ran.err
    assert (tmp_path / "valetkey" / "authorization.db").exists() is begun
    for kind in ("client", "user") if begun else ():
        assert valetkey(kind, "list", "--json", here=tmp_path).json == []


def test_all_faults_of_the_file_are_reported_together(tmp_path: Path) -> None:
    configure(tmp_path)
    text = FILE.replace(SECRET, "short").replace('"read"', '"raed"').replace("ada@", "ada.")
    ran = apply(tmp_path, text, "--yes")
    assert ran.code == 2
    for field in ("users[1].email", "clients[1].scopes[1]", "clients[1].client_secret"):
        assert field in ran.err


def test_legacy_grant_type_is_warned_about_before_it_is_enabled(tmp_path: Path) -> None:
    configure(tmp_path)
    assert apply(tmp_path, FILE, "--yes").code == 0
    old = FILE.replace('"refresh_token"]', '"refresh_token", "password"]')
    plan = apply(tmp_path, old)
    assert plan.code == 2
    assert "! password: users enter their password in this application" in plan.out
    assert apply(tmp_path, old, "--yes", "--json").json["steps"][1]["costs"] != []
    # Who has it already is not told again.
    again = apply(tmp_path, old.replace("Prints your notes", "Prints"), "--yes")
    assert "~ client printer" in again.out
    assert "!" not in again.out


def test_a_file_of_secrets_that_others_may_read_is_warned_about(tmp_path: Path) -> None:
    configure(tmp_path)
    file = tmp_path / "open.toml"
    file.write_text(FILE, encoding="utf-8")
    file.chmod(0o644)
    ran = valetkey("apply", "open.toml", "--yes", here=tmp_path)
    assert ran.code == 0
    assert "chmod 600 open.toml" in ran.err


def test_apply_on_postgresql_writes_all_or_nothing(tmp_path: Path, postgres_url: str) -> None:
    file = configure(tmp_path)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("workers", f'database = "{postgres_url}"\nworkers'), "utf-8")
    planned = apply(tmp_path, FILE)
    assert planned.code == 2
    assert valetkey("client", "list", "--json", here=tmp_path).json == []
    wrong = apply(tmp_path, FILE.replace('"read"', '"raed"'), "--yes")
    assert wrong.code == 2
    assert valetkey("user", "list", "--json", here=tmp_path).json == []
    assert apply(tmp_path, FILE + APIS, "--yes").code == 0
    assert apply(tmp_path, FILE + APIS).out == "Nothing to change.\n"
    # Beside the configuration, where there is no database file to lie beside.
    assert (tmp_path / "valetkey.keyring").stat().st_mode & 0o077 == 0
    findings = valetkey("doctor", "--json", here=tmp_path).json["findings"]
    levels = {finding["about"]: finding["level"] for finding in findings}
    assert levels["authorization database"] == "ok"
    assert levels["authorization database's clock"] == "ok"


def test_standard_claims_of_users_are_applied(tmp_path: Path) -> None:
    configure(tmp_path)
    text = """
[[users]]
username = "ada"
email = "ada@example.com"
nickname = "Countess"
phone_number = "+442079460000"
phone_number_verified = true
address = { locality = "London", country = "UK" }
"""
    assert actions(apply(tmp_path, text, "--yes", "--json")) == [("create", "user")]
    assert actions(apply(tmp_path, text, "--yes", "--json")) == [("keep", "user")]
    other = text.replace("Countess", "Ada").replace(', country = "UK"', "")
    ran = apply(tmp_path, other, "--yes", "--json")
    assert actions(ran) == [("change", "user")]
    assert "nickname" in ran.out
    shown = valetkey("user", "show", "ada", "--json", here=tmp_path).json
    assert shown["address"] == {"locality": "London"}
    assert (shown["nickname"], shown["phone_number_verified"]) == ("Ada", True)


def test_invalid_claim_is_reported_with_its_place(tmp_path: Path) -> None:
    configure(tmp_path)
    text = '[[users]]\nusername = "ada"\nemail = "a@example.com"\n'
    for line, field in (
        ('address = "London"', "users[1].address"),
        ('address = { planet = "Mars" }', "users[1].address"),
        ("nickname = 5", "users[1].nickname"),
        ('zoneinfo = "Europe/Atlantis"', "zoneinfo"),
        ("phone_number_verified = true", "phone_number_verified"),
    ):
        ran = apply(tmp_path, text + line, "--yes")
        assert ran.code == 2
        assert field in ran.err


def test_unreachable_sector_of_a_client_with_api_scopes_is_refused(tmp_path: Path) -> None:
    configure(tmp_path)
    sector = 'sector_identifier_uri = "https://nowhere.invalid/list"\n'
    ran = apply(tmp_path, APIS + sector, "--yes")
    assert ran.code == 2
    assert "clients[1].sector_identifier_uri" in ran.err
    assert apply(tmp_path, APIS, "--yes").code == 0
    change = ("client", "change", "bot", "--sector-identifier-uri", "https://nowhere.invalid/list")
    ran = valetkey(*change, here=tmp_path)
    assert ran.code == 2
    assert "sector" in ran.err


def test_openid_metadata_of_clients_is_applied_and_checked(tmp_path: Path) -> None:
    configure(tmp_path)
    more = """
response_types = ["code"]
post_logout_redirect_uris = ["https://app.example/bye"]
backchannel_logout_uri = "https://app.example/back"
backchannel_logout_session_required = true
default_max_age = "10m"
"""
    text = FILE.replace('profile = "classic"\n', f'profile = "classic"\n{more}')
    assert apply(tmp_path, text, "--yes").code == 0
    again = apply(tmp_path, text, "--yes", "--json")
    assert {step["action"] for step in again.json["steps"]} == {"keep"}
    shown = valetkey("client", "show", "printer", "--json", here=tmp_path).json
    assert shown["post_logout_redirect_uris"] == ["https://app.example/bye"]
    assert shown["default_max_age"] == 600
    for wrong, field in (
        ('jwks_uri = "http://app.example/"', "clients[1].jwks_uri"),
        ('default_max_age = "x"', "clients[1].default_max_age"),
        ('request_uris = ["x"]', "clients[1].request_uris[1]"),
        ('sector_identifier_uri = "https://127.0.0.1:9/"', "clients[1].sector_identifier_uri"),
    ):
        ran = apply(tmp_path, FILE.replace('type = "conf', f'{wrong}\ntype = "conf', 1), "--yes")
        assert ran.code == 2, wrong
        assert field in ran.err, ran.err


def test_client_keys_are_accepted_as_table_or_text(tmp_path: Path) -> None:
    configure(tmp_path)
    key = SigningKey.generate(Algorithm.ES256)
    document = json.loads(KeySet.of(key.public).document())
    (public,) = document["keys"]
    table = ", ".join(f'{name} = "{value}"' for name, value in public.items())
    site = """
[[clients]]
client_id = "robot"
name = "Robot"
type = "confidential"
grant_types = ["client_credentials"]
authentication_method = "private_key_jwt"
"""
    ran = apply(tmp_path, f"{site}jwks = {{ keys = [{{ {table} }}] }}\n", "--yes")
    assert ran.code == 0, ran.err
    shown = valetkey("client", "show", "robot", "--json", here=tmp_path).json
    assert json.loads(str(shown["key_set"]))["keys"][0]["x"] == public["x"]
    for name in ("jwks", "key_set"):
        same = f"{site}{name} = '{json.dumps(document)}'\n"
        assert apply(tmp_path, same).out == "Nothing to change.\n"
    for wrong, message in (
        ("jwks = 7", "write a JWK set: a table such as"),
        ("jwks = '{}'\nkey_set = '{}'", "write one of them"),
        ("jwk = '{}'", "did you mean jwks?"),
        ("jwks = { keys = [1979-05-27] }", "clients[1].jwks"),
    ):
        refused = apply(tmp_path, f"{site}{wrong}\n")
        assert refused.code == 2
        assert message in refused.err
