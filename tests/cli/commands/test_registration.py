"""`valetkey registration`: tokens are printed once, spent by registering, and taken back."""

import re
from pathlib import Path

import requests

from tests.cli.running import Ran, valetkey
from tests.cli.site import Site, begin, serving

_SAID = {
    "redirect_uris": ["https://app.example/cb"],
    "client_name": "Printer",
    "grant_types": ["authorization_code", "client_credentials"],
}


def registration(here: Path, *arguments: str) -> Ran:
    return valetkey("registration", *arguments, here=here)


def _configure(here: Path, mode: str) -> None:
    file = begin(here)
    text = file.read_text(encoding="utf-8")
    file.write_text(
        f'{text}\n[registration]\nmode = "{mode}"\n'
        'grant_types = ["authorization_code", "refresh_token", "client_credentials"]\n',
        encoding="utf-8",
    )


def test_invitation_token_is_printed_once_and_listed_by_its_id(tmp_path: Path) -> None:
    _configure(tmp_path, "token")
    valetkey("client", "list", here=tmp_path)
    ran = registration(tmp_path, "invite", "--uses", "3", "--days", "2", "--note", "Ada")
    assert ran.code == 0, ran.err
    token = ran.out.strip()
    assert token.startswith("vk_in_")
    assert "Uses: 3" in ran.err
    assert "off" not in ran.err
    listed = registration(tmp_path, "list")
    assert token not in listed.out
    assert re.search(r"in_\S+ +3 +\S+.* Ada", listed.out)
    (one,) = registration(tmp_path, "list", "--json").json
    assert (one["uses_left"], one["note"]) == (3, "Ada")
    assert registration(tmp_path, "withdraw", str(one["id"])).code == 0
    again = registration(tmp_path, "withdraw", str(one["id"]))
    assert again.code == 2
    assert "this invitation does not exist" in again.err
    assert "There are no tokens" in registration(tmp_path, "list").err


def test_invite_warns_if_registration_is_off(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = registration(tmp_path, "invite", "--json")
    assert ran.code == 0, ran.err
    assert 'registration.mode is "off"' in ran.err
    assert str(ran.json["initial_access_token"]).startswith("vk_in_")


def test_invite_obeys_a_stored_registration_mode(tmp_path: Path) -> None:
    begin(tmp_path)
    done = valetkey("settings", "set", "registration.mode", "token", here=tmp_path)
    assert done.code == 0, done.err
    ran = registration(tmp_path, "invite")
    assert ran.code == 0, ran.err
    assert "registration.mode" not in ran.err


def test_an_invited_app_registers_and_is_adopted(tmp_path: Path) -> None:
    _configure(tmp_path, "token")
    token = registration(tmp_path, "invite").out.strip()
    with serving(tmp_path) as site:
        url = f"{site.authorization}/oauth/register"
        headers = {"Authorization": f"Bearer {token}"}
        assert requests.post(url, json=_SAID, timeout=60).status_code == 401
        made = requests.post(url, json=_SAID, headers=headers, timeout=60)
        assert made.status_code == 201, made.text
        assert requests.post(url, json=_SAID, headers=headers, timeout=60).status_code == 401
        record = made.json()
        shown = valetkey("client", "show", record["client_id"], here=tmp_path)
        assert "registered itself" in shown.out
        assert _changes_itself(site, record, "https://app.example/second") == 200
        adopted = registration(tmp_path, "adopt", record["client_id"])
        assert adopted.code == 0, adopted.err
        assert "No changes" in registration(tmp_path, "adopt", record["client_id"]).out
        own = {"Authorization": f"Bearer {record['registration_access_token']}"}
        uri = record["registration_client_uri"]
        assert requests.get(uri, headers=own, timeout=60).status_code == 401
        assert _changes_itself(site, record, "https://evil.example/cb") == 403
        shown = valetkey("client", "show", record["client_id"], here=tmp_path)
        assert "https://app.example/second" in shown.out
        assert "evil" not in shown.out
    assert registration(tmp_path, "adopt", "nobody").code == 2


def _changes_itself(site: Site, record: dict[str, str], uri: str) -> int:
    """What a client is answered that reads itself and changes its redirect URI."""
    token = requests.post(
        f"{site.authorization}/oauth/token",
        data={"grant_type": "client_credentials"},
        auth=(record["client_id"], record["client_secret"]),
        timeout=60,
    ).json()["access_token"]
    own, headers = f"{site.resource}/v2/client", {"Authorization": f"Bearer {token}"}
    assert requests.get(own, headers=headers, timeout=60).status_code == 200
    change = {"redirect_uri": uri}
    return requests.patch(own, json=change, headers=headers, timeout=60).status_code


def test_note_of_two_lines_and_zero_uses_are_refused(tmp_path: Path) -> None:
    begin(tmp_path)
    assert registration(tmp_path, "invite", "--note", "a\nb").code == 2
    assert registration(tmp_path, "invite", "--uses", "0").code == 2


def test_developer_permission_is_granted_and_revoked(tmp_path: Path) -> None:
    file = begin(tmp_path)
    text = file.read_text(encoding="utf-8")
    file.write_text(f'{text}\n[portal]\nwho = "invited"\n', encoding="utf-8")
    made = valetkey(
        "user", "create", "ada", "--email", "ada@example.com", "--generate-password", here=tmp_path
    )
    assert made.code == 0, made.err
    ran = registration(tmp_path, "developer", "ada")
    assert ran.code == 0, ran.err
    assert "ada may register applications" in ran.out
    assert "has no effect" not in ran.err
    assert "nothing changed" in registration(tmp_path, "developer", "ada").out
    assert "may not" in registration(tmp_path, "developer", "ada", "--off").out
    assert registration(tmp_path, "developer", "nobody").code == 2


def test_unused_lifetime_is_shown_with_its_unit(tmp_path: Path) -> None:
    _configure(tmp_path, "token")
    assert re.search(r"unused_lifetime +30d\n", registration(tmp_path, "show").out)
