"""Commands that invite users, and what they print of links and of empty lists."""

import re
from pathlib import Path

from tests.cli.running import valetkey
from tests.cli.site import begin

_ACCOUNTS = '[accounts]\nsign_up = "invitation"\n'


def configured(here: Path, more: str) -> None:
    """A site with these sections as well."""
    file = begin(here)
    file.write_text(file.read_text() + more)


def test_invite_prints_the_link_if_mail_is_off(tmp_path: Path) -> None:
    configured(tmp_path, _ACCOUNTS)
    ran = valetkey("user", "invite", "grace@example.com", here=tmp_path)
    assert ran.code == 0, ran.err
    assert "Mail is off" in ran.out
    assert "/account/new?link=vk_ln_" in ran.out


def test_invitation_email_is_queued_if_mail_is_configured(tmp_path: Path) -> None:
    mail = '[mail]\nhost = "mail.example"\nfrom_address = "no-reply@auth.example"\n'
    configured(tmp_path, _ACCOUNTS + mail)
    # A copied address has spaces around.
    invitation = valetkey("user", "invite", " grace@example.com ", "--json", here=tmp_path).json
    assert invitation["mailed"] is True
    assert invitation["email"] == "grace@example.com"
    database = (tmp_path / "valetkey" / "authorization.db").read_bytes()
    assert invitation["link"].partition("link=")[2].encode() not in database


def test_existing_users_and_unreachable_addresses_are_not_invited(tmp_path: Path) -> None:
    configured(tmp_path, _ACCOUNTS)
    valetkey(
        "user", "create", "ada", "--email", "ada@example.com", "--generate-password", here=tmp_path
    )
    ran = valetkey("user", "invite", "ADA@example.com", here=tmp_path)
    assert ran.code == 2
    assert "has an account" in ran.err
    ran = valetkey("user", "invite", "nowhere", here=tmp_path)
    assert ran.code == 2
    assert "email cannot be delivered to 'nowhere'" in ran.err
    ran = valetkey("user", "create", "eve", "--email", "eve @example.com", here=tmp_path)
    assert "--email: must be an email address, such as ada@example.com" in ran.err
    ran = valetkey(
        *("user", "create", "eve", "--email", " eve@example.com", "--generate-password"),
        here=tmp_path,
    )
    assert ran.code == 0, ran.err


def test_disabled_sign_up_blocks_invitations(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = valetkey("user", "invite", "grace@example.com", here=tmp_path)
    assert ran.code == 2
    assert "accounts.sign_up" in ran.err
    # The command that it names changes a stored setting, which the next command obeys.
    _, _, line = ran.err.splitlines()[0].partition("next: valetkey ")
    done = valetkey(*line.split(), here=tmp_path)
    assert done.code == 0, done.err
    ran = valetkey("user", "invite", "grace@example.com", here=tmp_path)
    assert ran.code == 0, ran.err


def test_link_that_is_shown_is_printed_and_no_email_is_announced(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = valetkey(
        *("user", "create", "eve", "--email", "eve@example.com", "--password-link", "show"),
        here=tmp_path,
    )
    assert ran.code == 0, ran.err
    assert "eve has an account" in ran.out
    assert re.search(r"password_link +http\S+link=vk_ln_", ran.out), ran.out
    again = valetkey("user", "password-link", "eve", "--password-link", "show", here=tmp_path)
    assert again.code == 0, again.err
    assert "queued" not in again.out + again.err
    assert re.search(r"password_link +http\S+link=vk_ln_", again.out), again.out


def test_filtered_list_without_rows_does_not_say_that_nothing_exists(tmp_path: Path) -> None:
    begin(tmp_path)
    assert "There are no accounts yet." in valetkey("user", "list", here=tmp_path).err
    for command in (("user", "list"), ("client", "list"), ("api", "list")):
        ran = valetkey(*command, "--q", "zzz", here=tmp_path)
        assert ran.code == 0, ran.err
        assert ran.out + ran.err == "Nothing matches.\n"
