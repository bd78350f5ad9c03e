"""`valetkey owner` and `valetkey user role`: the first owner, and roles for others."""

import stat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cli.commands.test_user import make_ada, user
from tests.cli.running import valetkey
from tests.cli.site import configure


def test_ad_01_owner_link_is_printed_and_stored_in_a_private_file(
    tmp_path: Path,
) -> None:
    # In a container, only the folder of the keyring can be written to.
    state = tmp_path / "state"
    state.mkdir()
    settings = configure(tmp_path)
    keyring = f'[authorization]\nkeyring = "{state}/valetkey.keyring"'
    settings.write_text(settings.read_text().replace("[authorization]", keyring))
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    ran = valetkey("owner", here=tmp_path)
    assert ran.code == 0, ran.err
    url = ran.out.strip()
    assert urlsplit(url).path == "/admin/owner"
    (link,) = parse_qs(urlsplit(url).query)["link"]
    file = state / "owner.link"
    assert file.read_text() == f"{url}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # Nowhere else: the database keeps a fingerprint.
    others = [other for other in file.parent.iterdir() if other != file]
    assert others
    assert not [other for other in others if link.encode() in other.read_bytes()]
    again = valetkey("owner", "--json", here=tmp_path).json
    assert again["expires_in"] == 900
    assert link not in again["url"]


@pytest.mark.parametrize("configured", [True, False])
def test_owner_link_of_a_server_that_does_not_exist_is_refused_and_makes_nothing(
    tmp_path: Path, configured: bool
) -> None:
    if configured:
        configure(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for arguments in ((), ("--break-glass",), ("--json",)):
        ran = valetkey("owner", *arguments, here=tmp_path)
        assert (ran.code, ran.out) == (2, "")
        assert "`valetkey serve` or `valetkey apply`" in ran.err
        assert sorted(tmp_path.rglob("*")) == before


def test_ad_01_another_owner_link_needs_break_glass(
    tmp_path: Path,
) -> None:
    make_ada(tmp_path)
    assert user(tmp_path, "role", "ada", "owner").out == "The role of ada is changed.\n"
    ran = valetkey("owner", here=tmp_path)
    assert ran.code == 2
    assert "--break-glass" in ran.err
    assert not (tmp_path / "valetkey" / "owner.link").exists()
    assert valetkey("owner", "--break-glass", here=tmp_path).code == 0
    events = valetkey("events", "--json", here=tmp_path)
    assert '"break_glass": true' in events.out
    assert '"owner_link.issued"' in events.out


def test_roles_are_assigned_listed_and_removed(tmp_path: Path) -> None:
    make_ada(tmp_path)
    assert "valetkey owner" in user(tmp_path, "roles").err
    assert user(tmp_path, "role", "ada", "support", "--json").json == {
        "uid": 1001,
        "role": "support",
        "changed": True,
    }
    assert user(tmp_path, "role", "ada", "support").out == "No changes.\n"
    (ada,) = user(tmp_path, "roles", "--json").json
    assert (ada["role"], ada["protected"]) == ("support", False)
    assert "support" in user(tmp_path, "roles").out
    assert "support" in user(tmp_path, "show", "ada").out
    assert user(tmp_path, "role", "ada", "none").out == "The role of ada is changed.\n"
    assert user(tmp_path, "role", "ada", "king").code == 2


def test_last_owner_cannot_lose_the_role_or_be_disabled(tmp_path: Path) -> None:
    make_ada(tmp_path)
    user(tmp_path, "role", "ada", "owner")
    for arguments in (("role", "ada", "none"), ("disable", "ada", "--yes")):
        ran = user(tmp_path, *arguments)
        assert ran.code == 2, arguments
        assert "last owner" in ran.err
    (ada,) = user(tmp_path, "roles", "--json").json
    assert ada["disabled_at"] is None


def test_user_is_signed_out_everywhere(tmp_path: Path) -> None:
    make_ada(tmp_path)
    assert user(tmp_path, "sign-out", "ada").out == "ada is signed out. Sessions ended: 0\n"
    result = user(tmp_path, "sign-out", "1001", "--json").json
    assert result == {"uid": 1001, "sessions": 0}
    assert user(tmp_path, "sign-out", "bob").code == 2
