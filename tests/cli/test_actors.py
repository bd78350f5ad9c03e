"""Whatever a command changes is told with the operator who ran it."""

from collections import Counter
from pathlib import Path
from typing import Any

from tests.cli.running import valetkey
from tests.cli.site import begin
from valetkey.cli.register.store import operator

_SITE = """
[[users]]
username = "grace"
email = "grace@example.com"

[[clients]]
client_id = "robot"
client_secret = "0123456789abcdef0123456789abcdef"
name = "Robot"
grant_types = ["client_credentials"]
"""

# In this order: a command, and the events that it must leave.
COMMANDS: tuple[tuple[str, set[str]], ...] = (
    ("user create ada --email ada@example.com --generate-password", {"user.registered"}),
    ("user change ada --name Ada", {"user.changed"}),
    ("user password ada --generate-password", {"password.changed"}),
    ("user disable ada --yes", {"user.disabled"}),
    ("user enable ada", {"user.enabled"}),
    ("user invite grace@example.com", {"user.invited"}),
    ("user role ada administrator", {"role.changed"}),
    ("admin-token create --for ada --name Report --permission read", {"api_token.issued"}),
    ("user role ada none", {"role.changed"}),
    ("registration developer ada", {"developer.admitted"}),
    ("registration developer ada --off", {"developer.dismissed"}),
    ("registration invite", {"invitation.issued"}),
    (
        "client create --id printer --name Printer --redirect-uri https://printer.example/back",
        {"client.registered", "client_secret.issued"},
    ),
    ("client change printer --name Press", {"client.changed"}),
    ("client secret printer", {"client_secret.issued"}),
    ("client owner printer ada", {"team_member.added"}),
    ("client verify printer", {"client.verified"}),
    ("client verify printer --off", {"client_verification.ended"}),
    ("client allow-implicit printer --yes", {"client.changed"}),
    ("client disable printer --yes", {"client.disabled"}),
    ("client enable printer", {"client.enabled"}),
    ("client delete printer --yes", {"client.removed"}),
    ("brand --name Acme", {"brand.changed"}),
    ("owner", {"owner_link.issued"}),
    ("key rotate signing --now --yes", {"signing_key.issued"}),
    ("key rotate sealing --yes", {"keyring.rotated"}),
    ("key rotate credential --yes", {"client_secret.issued"}),
    ("user delete ada --yes", {"user.removed"}),
)


def _since(here: Path) -> list[dict[str, Any]]:
    ran = valetkey("events", "--after", "1970-01-01", "--limit", "1000", "--json", here=here)
    assert ran.code == 0, ran.err
    return list(ran.json)


def test_events_of_each_command_have_the_operator_as_their_actor(tmp_path: Path) -> None:
    file = begin(tmp_path)
    file.write_text(f'{file.read_text()}[accounts]\nsign_up = "invitation"\n', encoding="utf-8")
    for line, _ in COMMANDS:
        ran = valetkey(*line.split(), here=tmp_path)
        assert ran.code == 0, f"{line}: {ran.err}"
    events = _since(tmp_path)
    expected = Counter(name for _, names in COMMANDS for name in names)
    assert Counter(event["name"] for event in events) >= expected
    # A signing key that is missing is made by the server, whoever starts it.
    others = [event for event in events if event["done_by"] != f"cli {operator()}"]
    assert {(event["name"], event["done_by"]) for event in others} <= {
        ("signing_key.issued", "system")
    }
    by_operator = Counter(event["name"] for event in events if event not in others)
    assert by_operator >= expected
    table = valetkey("events", here=tmp_path).out
    assert "DONE BY" in table.splitlines()[0]
    assert f"cli {operator()}" in table
    written = valetkey("events", "--csv", here=tmp_path).out.splitlines()
    assert written[0] == "id,server,at,name,done_by,data,ip_address,browser"
    # Events of the same second have no order among each other.
    assert any(f",user.removed,cli {operator()}," in line for line in written[1:])


def test_events_of_apply_have_apply_as_their_actor(tmp_path: Path) -> None:
    begin(tmp_path)
    file = tmp_path / "site.toml"
    file.write_text(_SITE, encoding="utf-8")
    file.chmod(0o600)
    ran = valetkey("apply", "site.toml", "--yes", here=tmp_path)
    assert ran.code == 0, ran.err
    events = _since(tmp_path)
    assert {event["name"] for event in events} == {
        "user.registered",
        "client.registered",
        "client_secret.issued",
    }
    assert {event["done_by"] for event in events} == {f"apply {operator()}"}
