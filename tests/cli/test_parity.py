"""Whatever administrators can do is a page, a call of the API and a command, or says why not."""

from importlib import import_module

import click
import pytest

from valetkey.authorization.operations.table import OPERATIONS
from valetkey.authorization.site.admin import events
from valetkey.authorization.site.admin.clients import client, clients
from valetkey.authorization.site.admin.server import keys, mail, registration, settings, tokens
from valetkey.authorization.site.admin.users import roles, user, users
from valetkey.cli.main import COMMANDS, valetkey

_CLIENT = "/admin/clients/{client_id}"
_USER = "/admin/users/{uid}"
_NO_TERMINAL = "none: who reads the database needs no token of the API to know who they are"

# The operation, the page, and the command; or "none: why".
PARITY = {
    "list_users": ("/admin/users", "user list"),
    "make_user": ("none: people make accounts themselves, or by the command", "user create"),
    "read_user": (_USER, "user show"),
    "change_user": ("none: people change their own record", "user change"),
    "delete_user": (f"{_USER}/delete", "user delete"),
    "disable_user": (f"{_USER}/disable", "user disable"),
    "enable_user": (f"{_USER}/enable", "user enable"),
    "sign_out_user": (f"{_USER}/sign-out", "user sign-out"),
    "reset_user_factors": (f"{_USER}/reset-factors", "user reset-factors"),
    "send_user_reset": (
        f"{_USER}/reset-mail",
        "none: who sits at the server sets a password: user password",
    ),
    "verify_user_email": (f"{_USER}/verify-email", "user change"),
    "admit_developer": (f"{_USER}/let-register", "registration developer"),
    "dismiss_developer": (f"{_USER}/stop-register", "registration developer"),
    "end_user_app": (f"{_USER}/end-app", "user end-app"),
    "give_role": (f"{_USER}/role", "user role"),
    "list_roles": ("/admin/roles", "user roles"),
    "list_clients": ("/admin/clients", "client list"),
    "register_client": ("none: people register apps on the developer pages", "client create"),
    "read_client": (_CLIENT, "client show"),
    "change_client": ("none: its team changes it on the developer pages", "client change"),
    "delete_client": (f"{_CLIENT}/delete", "client delete"),
    "adopt_client": (f"{_CLIENT}/adopt", "registration adopt"),
    "disable_client": (f"{_CLIENT}/disable", "client disable"),
    "enable_client": (f"{_CLIENT}/enable", "client enable"),
    "verify_client": (f"{_CLIENT}/verify", "client verify"),
    "unverify_client": (f"{_CLIENT}/unverify", "client verify"),
    "allow_legacy_grant": (f"{_CLIENT}/allow-implicit", "client allow-implicit"),
    "end_legacy_grant": (f"{_CLIENT}/end-password", "client allow-password"),
    "issue_client_secret": (f"{_CLIENT}/secret", "client secret"),
    "end_client_secret": (f"{_CLIENT}/end-secret", "client secret"),
    "list_events": ("/admin/events", "events"),
    "export_events": ("/admin/events/export", "events"),
    "read_overview": ("/admin", "doctor"),
    "list_keys": ("/admin/keys", "key list"),
    "rotate_keys": ("/admin/keys/rotate", "key rotate"),
    "withdraw_key": ("/admin/keys/{kid}/withdraw", "key withdraw"),
    "read_settings": ("/admin/settings", "config explain"),
    "read_brand": ("/admin/settings/brand", "brand"),
    "change_brand": ("/admin/settings/brand", "brand"),
    "read_registration": ("/admin/registration", "config explain"),
    "list_invitations": ("/admin/registration", "registration list"),
    "invite": ("/admin/registration", "registration invite"),
    "withdraw_invitation": (
        "/admin/registration/invitations/{invitation_id}/withdraw",
        "registration withdraw",
    ),
    "read_mail": ("/admin/mail", "doctor"),
    "test_mail": ("/admin/mail", "doctor"),
    "read_own_token": ("/admin/tokens", _NO_TERMINAL),
    "list_tokens": ("/admin/tokens", "admin-token list"),
    "make_token": ("/admin/tokens/new", "admin-token create"),
    "end_token": ("/admin/tokens/{token_id}/end", "admin-token end"),
}


def _pages() -> set[str]:
    modules = (
        clients,
        client,
        events,
        keys,
        mail,
        registration,
        roles,
        settings,
        tokens,
        user,
        users,
    )
    listed = {v for m in modules for v in vars(m).values() if isinstance(v, str) and v[0:1] == "/"}
    return {*listed, *_buttons(), "/admin"}


def _exists(command: str) -> bool:
    name, _, below = command.partition(" ")
    listed = next((each for each in COMMANDS if each.name == name), None)
    if listed is None:
        return False
    found = import_module(listed.module).command
    context = click.Context(valetkey)
    if not below:
        return isinstance(found, click.Command)
    return isinstance(found, click.Group) and found.get_command(context, below) is not None


def test_every_operation_has_a_row() -> None:
    assert set(PARITY) == {operation.id for operation in OPERATIONS}


@pytest.mark.parametrize("operation", PARITY)
def test_each_is_a_page_and_a_command_or_says_why_not(operation: str) -> None:
    page, command = PARITY[operation]
    assert page.startswith("none: ") or page in _pages(), page
    assert command.startswith("none: ") or _exists(command), command


def _buttons() -> dict[str, str]:
    """The operation behind each confirmation page."""
    return {f"/admin{o.path.split('}')[0]}}}/{b.slug}": o.id for o in OPERATIONS for b in o.buttons}


def test_button_of_the_console_runs_the_operation_of_its_row() -> None:
    buttons = _buttons()
    for operation, (page, _) in PARITY.items():
        assert buttons.get(page, operation) == operation
    others = {f"{_CLIENT}/end-implicit", f"{_CLIENT}/allow-password"}
    assert set(buttons) - {page for page, _ in PARITY.values()} == others


def test_a_command_that_is_not_there_is_seen() -> None:
    assert not _exists("client levitate")
    assert not _exists("levitate")
