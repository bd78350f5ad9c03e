"""Examples of the console's forms that create and edit users and apps."""

from collections.abc import Collection, Mapping

from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.operations.client_records import ClientChange
from valetkey.authorization.operations.user_records import NewUser, UserChange
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.site.admin.clients.app_form import (
    APP_CHOICES,
    APP_GROUPS,
    APP_STATES,
    APP_WORDS,
)
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.references import Offered
from valetkey.authorization.site.admin.users.forms import (
    EDIT_GROUPS,
    EDIT_WORDS,
    NEW_CHOICES,
    NEW_WORDS,
    password_link_page,
)
from valetkey.kernel.replace import replace

_USER = "/admin/users/4419283746512"
_LINK = "https://auth.example.com/account/reset?link=lnk_" + "x" * 43
_TEXTS = {
    "username": "ada",
    "email": "ada@example.com",
    "name": "Ada Lovelace",
    "given_name": "Ada",
    "family_name": "Lovelace",
    "birthdate": "1815-12-10",
    "zoneinfo": "Europe/London",
    "locale": "en-GB",
    "address.street_address": "12 St James's Square",
    "address.locality": "London",
}


def _new(values: Mapping[str, str], *faults: MetadataError) -> InputFormPage:
    fields = input_fields(NewUser, NEW_WORDS, values, faults, choices=NEW_CHOICES)
    return InputFormPage(
        action="/admin/users/new",
        back="/admin/users",
        above="Users",
        title="New user",
        submit="Create user",
        fields=fields,
    )


def _edit(values: Mapping[str, str], *faults: MetadataError) -> InputFormPage:
    fields = input_fields(UserChange, EDIT_WORDS, values, faults, groups=EDIT_GROUPS)
    return InputFormPage(
        action=f"{_USER}/edit",
        back=_USER,
        above="Ada Lovelace",
        title="Edit profile",
        submit="Save changes",
        fields=fields,
        etag='"1"',
    )


_APP_TEXTS = {
    "name": "Notes Printer",
    "client_uri": "https://notes.example",
    "description": "Prints the notes of its users.",
    "redirect_uris": "https://notes.example/callback\nhttp://localhost:3000/callback",
    "grant_types": "authorization_code\nrefresh_token",
    "scopes": "openid\nnotes:read",
    "profile": "modern",
    "type": "confidential",
    "requires_pkce": "yes",
    "access_token_lifetime": "7200",
}
_SCOPES = (
    ("openid", "know who you are"),
    ("notes:read", "read your notes"),
    ("notes:write", "change and delete your notes"),
)
_GRANTS = ("authorization_code", "refresh_token", "client_credentials")


def _app(
    values: Mapping[str, str],
    *faults: MetadataError,
    opened: Collection[str] = (),
    hostile: str = "",
) -> InputFormPage:
    address = "/admin/clients/app_7f3k9qxmB2"
    grants = tuple((name, name) for name in _GRANTS)
    fields = input_fields(
        ClientChange,
        APP_WORDS,
        values,
        faults,
        choices={**APP_CHOICES, "grant_types": grants, "scopes": _SCOPES},
        groups=APP_GROUPS,
        states=APP_STATES,
        opened=opened,
        offers={
            "exchanges_tokens_of": Offered(
                (("app_9k2", "Diary"), ("app_2x1", hostile)), {"app_2x1": hostile}
            )
        },
        durations=("access_token_lifetime",),
    )
    return InputFormPage(
        action=f"{address}/edit",
        back=address,
        above="Notes Printer",
        title="Edit app",
        submit="Save changes",
        fields=fields,
        etag='"1"',
    )


def console_form_examples(hostile: str) -> Mapping[str, PageContext]:
    """The pages in every state."""
    taken = "another one: this user ID, username or email address is taken"
    return {
        "admin_new_user": _new({"password_link": "email"}),
        "admin_new_user_refused": replace(
            _new(
                {**_TEXTS, "groups": hostile, "role": "support"}, MetadataError("username", taken)
            ),
            problem="no email was sent: mail is off, or the address has reached its hourly limit",
        ),
        "admin_edit_user": _edit(_TEXTS),
        "admin_edit_user_refused": replace(
            _edit(
                {**_TEXTS, "nickname": hostile},
                MetadataError("birthdate", "YYYY-MM-DD, YYYY, or 0000-MM-DD without the year"),
                MetadataError("address/country", ""),
            ),
            stale=True,
        ),
        "admin_edit_app": _app(_APP_TEXTS),
        "admin_new_app": replace(
            _app({}, opened=("redirect_uris", "scopes"), hostile="a name"),
            title="Register a web application",
            submit="Register",
            etag="",
            hidden=(("kind", "server"), ("client_id", "app_1"), ("mark", "mark")),
        ),
        "admin_edit_app_open": _app(
            {**_APP_TEXTS, "exchanges_tokens_of": "app_2x1"}, opened=APP_WORDS, hostile=hostile
        ),
        "admin_edit_app_refused": replace(
            _app(
                {**_APP_TEXTS, "name": hostile},
                fault("redirect_uris/0", "list.repeated"),
                MetadataError("scopes", "one of: openid"),
            ),
            note="This app is verified. Changing its name, logo, policy links or redirect URIs "
            "removes the verification until it is reviewed again.",
        ),
        "admin_password_link": password_link_page(_USER, "Ada Lovelace", _LINK),
    }
