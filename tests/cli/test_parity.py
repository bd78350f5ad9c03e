"""Every operation is a route, a page and a command, or the absence of one is explained."""

from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from valetkey.authorization.apis import pages as apis
from valetkey.authorization.claims.pages import console_pages as claim_pages
from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.imports import pages as imports
from valetkey.authorization.operations.operation import Command
from valetkey.authorization.operations.table import LOCAL
from valetkey.authorization.providers.pages import console as provider_console
from valetkey.authorization.scim import pages as scim
from valetkey.authorization.signals.pages import SignalStreamPages
from valetkey.authorization.site.admin import api_roles
from valetkey.authorization.site.admin.clients import client, clients, edit
from valetkey.authorization.site.admin.events import events
from valetkey.authorization.site.admin.groups import group, groups
from valetkey.authorization.site.admin.server import (
    keys,
    registration,
    setting_form,
    settings,
    tokens,
)
from valetkey.authorization.site.admin.users import forms, roles, user, users
from valetkey.authorization.webhooks.pages import CONSOLE, WebhookPages
from valetkey.cli.main import COMMANDS, valetkey
from valetkey.cli.operations.command import names

# Pages that are more than a confirmation, or "none: why". Buttons derive from their operation.
PAGES = {
    "list_users": "/admin/users",
    "create_user": users.NEW,
    "list_user_imports": imports.IMPORT,
    "create_user_import": imports.IMPORT,
    **dict.fromkeys(("read_user_import", "start_user_import", "stop_user_import"), imports.ONE),
    "list_user_import_rows": imports.REPORT,
    "read_user": "/admin/users/{uid}",
    "change_user": forms.EDIT,
    "set_user_password": "none: administrators never know passwords",
    "list_roles": "/admin/roles",
    "list_groups": "/admin/groups",
    "create_group": "/admin/groups/new",
    "read_group": "/admin/groups/{group}",
    "change_group": "/admin/groups/{group}/edit",
    "list_group_members": "/admin/groups/{group}",
    "add_group_member": "/admin/groups/{group}/members",
    "list_user_groups": "/admin/users/{uid}",
    "list_scim_credentials": "/admin/scim",
    "create_scim_credential": "/admin/scim/new",
    "list_providers": "/admin/providers",
    "create_provider": "/admin/providers/new",
    "read_provider": "/admin/providers/{provider}",
    "change_provider": "/admin/providers/{provider}/edit",
    "test_provider": "/admin/providers/{provider}/test",
    "list_webhooks": "/admin/webhooks",
    "create_webhook": "/admin/webhooks/new",
    "read_webhook": "/admin/webhooks/{webhook_id}",
    "list_webhook_attempts": "/admin/webhooks/{webhook_id}",
    "change_webhook": "/admin/webhooks/{webhook_id}/edit",
    "list_signal_streams": "/admin/signal-streams",
    "create_signal_stream": "/admin/signal-streams/new",
    "read_signal_stream": "/admin/signal-streams/{stream_id}",
    "list_signal_stream_failures": "/admin/signal-streams/{stream_id}",
    "change_signal_stream": "/admin/signal-streams/{stream_id}/edit",
    "create_apple_business_manager": "none: by the command or the API",
    "list_attributes": "/admin/attributes",
    "set_attribute": "/admin/attributes/new",
    "list_claims": "/admin/claims",
    "set_claim": "/admin/claims/new",
    "read_user_attributes": "/admin/users/{uid}",
    "change_user_attributes": "/admin/users/{uid}/attributes",
    "list_api_role_users": "none: by the command or the API",
    **dict.fromkeys(("add_user_api_role", "remove_user_api_role"), api_roles.OF_USER),
    **dict.fromkeys(("add_group_api_role", "remove_group_api_role"), api_roles.OF_GROUP),
    "preview_claims": "/admin/claims/preview",
    "list_clients": "/admin/clients",
    "create_client": "/admin/clients/new",
    "read_client": "/admin/clients/{client_id}",
    "change_client": edit.EDIT,
    "add_client_owner": edit.OWNERS,
    "add_client_group": "/admin/clients/{client_id}/groups",
    "list_apis": "/admin/apis",
    "create_api": "/admin/apis/new",
    "read_api": "/admin/apis/{api_id}",
    "change_api": "/admin/apis/{api_id}/edit",
    "list_events": "/admin/events",
    "read_refusal": "/admin/events",
    "export_events": "/admin/events/export",
    "read_overview": "/admin",
    "list_keys": "/admin/keys",
    "read_settings": "/admin/settings",
    "read_setting": "/admin/settings/{setting}/edit",
    "change_setting": "/admin/settings/{setting}/edit",
    "read_brand": "/admin/settings/brand",
    "change_brand": "/admin/settings/brand",
    "upload_logo": "/admin/settings/brand",
    "read_registration": "/admin/registration",
    "list_invitations": "/admin/registration",
    "create_invitation": "/admin/registration/new",
    "read_mail": "/admin/mail",
    "test_mail": "/admin/mail",
    "read_own_token": "/admin/tokens",
    "list_tokens": "/admin/tokens",
    "create_token": "/admin/tokens/new",
    "create_user_token": "none: a user's token is made by that user",
}

# Operations whose command is written by hand, or "none: why".
COMMANDS_BY_HAND = {
    "create_user_import": "user import",
    **dict.fromkeys(
        ("list_user_imports", "read_user_import", "list_user_import_rows", "start_user_import"),
        "user import",
    ),
    "stop_user_import": "none: Ctrl-C stops the command's import",
    "create_client": "client create",
    "read_client": "client show",
    "change_client": "client change",
    "create_client_secret": "client secret",
    "list_events": "events",
    "read_refusal": "explain",
    "export_events": "events",
    "read_overview": "doctor",
    "list_keys": "key list",
    "rotate_keys": "key rotate",
    "read_brand": "brand",
    "change_brand": "brand",
    "upload_logo": "brand",
    "read_mail": "doctor",
    "test_mail": "doctor",
    "create_token": "none: with a token only; the command is that of create_user_token",
    "read_own_token": "none: the command line needs no token",
}


def _pages() -> set[str]:
    modules = (
        api_roles,
        apis,
        group,
        groups,
        imports,
        clients,
        client,
        edit,
        events,
        forms,
        keys,
        provider_console,
        registration,
        roles,
        scim,
        setting_form,
        settings,
        tokens,
        user,
        users,
    )
    listed = {v for m in modules for v in vars(m).values() if isinstance(v, str) and v[0:1] == "/"}
    claims = SimpleNamespace(default=SimpleNamespace(identifier=""))
    nothing = cast("Any", SimpleNamespace(store=None, claims=claims))
    webhooks = {page.path for page in WebhookPages(nothing, CONSOLE).pages()}
    streams = {page.path for page in SignalStreamPages(nothing).pages()}
    declared = {it.path for it in claim_pages(nothing)}
    return {*listed, *webhooks, *streams, *declared, "/admin"}


def _exists(command: str) -> bool:
    name, _, below = command.partition(" ")
    listed = next((candidate for candidate in COMMANDS if candidate.name == name), None)
    if listed is None:
        return False
    click_command = listed.command()
    context = click.Context(valetkey)
    return not below or (
        isinstance(click_command, click.Group)
        and click_command.get_command(context, below) is not None
    )


def test_operation_has_buttons_or_a_page() -> None:
    without = {operation.id for operation in (*OPERATIONS, *LOCAL) if not operation.buttons}
    assert set(PAGES) == without
    pages = _pages()
    for page in PAGES.values():
        assert page.startswith("none: ") or page in pages, page


def test_operation_that_changes_something_has_an_event() -> None:
    without = {
        operation.id
        for operation in (*OPERATIONS, *LOCAL)
        if operation.method != "GET" and not operation.event
    }
    # An email has its own events; an import is recorded from when it creates users.
    assert without == {"test_mail", "test_provider", "create_user_import", "stop_user_import"}


def test_operation_has_a_derived_command_or_one_by_hand() -> None:
    derived = {operation.id for operations in names().values() for operation in operations}
    assert set(COMMANDS_BY_HAND) == {operation.id for operation in (*OPERATIONS, *LOCAL)} - derived


@pytest.mark.parametrize("command", [*names(), *COMMANDS_BY_HAND.values()])
def test_command_exists(command: str) -> None:
    assert command.startswith("none: ") or _exists(command), command


def test_confirmation_of_a_dangerous_command_names_its_object() -> None:
    for operation in OPERATIONS:
        for command in (Command(),) if operation.commands is None else operation.commands:
            dangers = [button for button in operation.buttons if button.danger]
            if (
                any(button.path_arguments == command.path_arguments for button in dangers)
                and command.confirms
            ):
                named = {"uid", "client_id"} & set(operation.arguments)
                assert command.question or named, operation.id


def test_missing_command_is_noticed() -> None:
    assert not _exists("client levitate")
    assert not _exists("levitate")


def test_operations_have_ids_of_one_style() -> None:
    for operation in OPERATIONS:
        verb, _, noun = operation.id.partition("_")
        assert noun, operation.id
        segments, verbs = operation.path.strip("/").split("/"), set[str]()
        if operation.method == "POST" and len(segments) == 1:
            verbs = {"create"}
        if operation.method == "PATCH":
            verbs = {"change"}
        if operation.method == "DELETE" and len(segments) == 2:
            verbs = {"delete", "reset"}
        if operation.method == "GET":
            verbs = {"list", "read", "export", "preview"}
        assert not verbs or verb in verbs, (
            f"{operation.id}, {operation.method} {operation.path}: "
            f"begin its id with {' or '.join(sorted(verbs))}"
        )
