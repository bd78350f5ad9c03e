"""One example of every page of administration about APIs, and those hardest to lay out."""

from collections.abc import Mapping

from valetkey.authorization.apis.operations import ApiChange, ApiWanted
from valetkey.authorization.apis.pages import (
    API_CHOICES,
    API_GROUPS,
    API_WORDS,
    FRAMEWORKS,
    protect_page,
)
from valetkey.authorization.features import AREAS
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.api import Api
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.site.admin.confirm import ConfirmPage, FieldShown, Impact
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_ID = "api_7f3k9qxmB2"
_PLACE = f"/admin/apis/{_ID}"
_BUTTONS = {b.slug: b for o in AREAS["apis"] for b in o.buttons}


_API = Api(
    identifier="https://mcp.example.com/mcp",
    name="Calendar",
    scopes={"calendar:read": "see your calendar"},
    signing_algorithm=Algorithm.EDDSA,
    id=_ID,
    created_at=_NOW,
    changed_at=_NOW,
)
_PROTECT = protect_page(_API, "https://auth.example.com", None)
_GO = FRAMEWORKS["go"].code(_API, "https://auth.example.com")
_TEXTS = {
    "identifier": "https://mcp.example.com/mcp",
    "name": "Calendar",
    "scopes": "calendar:read see your calendar\ncalendar:write change your calendar",
    "machine_scopes": "calendar:sync",
    "access_token_lifetime": "600",
    "clients": "any",
    "shares_scopes": "yes",
}


def _form(faults: tuple[MetadataError, ...] = ()) -> InputFormPage:
    fields = input_fields(
        ApiWanted,
        API_WORDS,
        _TEXTS,
        faults,
        choices=API_CHOICES,
        groups=API_GROUPS,
        durations=("access_token_lifetime",),
    )
    return InputFormPage(
        action="/admin/apis/new",
        back="/admin/apis",
        above="APIs",
        title="New API",
        submit="Create API",
        fields=fields,
    )


def _ask(slug: str) -> ConfirmPage:
    button = _BUTTONS[slug]
    return ConfirmPage(
        f"{_PLACE}/{slug}",
        _PLACE,
        button.title,
        button.text,
        "Calendar",
        ("https://mcp.example.com/mcp",),
        ends=Impact(apps=12, authorizations=1_301) if button.shows_impact else None,
        danger=button.danger,
        fields=tuple(
            FieldShown(field.name, field.label, tuple(field.choices), "86400")
            for field in button.fields
        ),
        hidden=(("secret", "cs_4fGh2kLmNp"),) if button.carries else (),
        confirms="Calendar" if button.irreversible else "",
    )


def apis_examples(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """All of them."""
    return {
        "admin_api_protect": _PROTECT,
        "admin_api_protect_go": replace(_PROTECT, framework=FRAMEWORKS["go"], files=_GO),
        "admin_api_new": _form(),
        "admin_api_new_wrong": _form(
            (
                MetadataError("identifier", "another one: this one is taken"),
                MetadataError("scopes/1", ""),
                MetadataError("access_token_lifetime", ""),
            )
        ),
        "admin_api_edit_stale": replace(
            _form(),
            action=f"{_PLACE}/edit",
            above=hostile.name,
            back=_PLACE,
            title="Edit API",
            submit="Save changes",
            fields=input_fields(
                ApiChange,
                {name: words for name, words in API_WORDS.items() if name != "identifier"},
                _TEXTS,
                choices=API_CHOICES,
                groups=API_GROUPS,
            ),
            stale=True,
        ),
        **{f"admin_api_{slug.replace('-', '_')}": _ask(slug) for slug in _BUTTONS},
    }
