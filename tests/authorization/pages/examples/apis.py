"""One example of every page of administration about APIs, and those hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import HEADINGS
from valetkey.authorization.actions.admin.permissions import permissions_of
from valetkey.authorization.apis.operations import ApiChange, ApiWanted, shown
from valetkey.authorization.apis.pages import (
    API_CHOICES,
    API_GROUPS,
    API_WORDS,
    FRAMEWORKS,
    SELECTED_APIS,
    ApiPage,
    ApisPage,
    protect_page,
    row_of,
)
from valetkey.authorization.features import AREAS
from valetkey.authorization.layout.contexts import AskingApp, When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.user import Role
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.site.admin.confirm import ConfirmPage, FieldShown, Impact, Offer
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.objects import Act, Line, code, exact
from valetkey.authorization.site.paging import Figure, Paging
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_ID = "api_7f3k9qxmB2"
_PLACE = f"/admin/apis/{_ID}"
_BUTTONS = {b.slug: b for o in AREAS["apis"] for b in o.buttons}


def _ago(seconds: int) -> When:
    return When(Instant(_NOW - seconds), _NOW)


_SHOWN = Api(
    identifier="https://mcp.example.com/mcp",
    name="Calendar",
    scopes={"calendar:read": "see your calendar", "calendar:write": "change your calendar"},
    machine_scopes=("calendar:read", "calendar:sync"),
    access_token_lifetime=Lifetime(600),
    id=_ID,
    created_at=Instant(_NOW - 86_400),
    changed_at=Instant(_NOW - 3_600),
)
_PAGE = ApiPage(
    _SHOWN,
    facts=(("Format of access tokens", "jwt"), ("Signing algorithm", "ES256")),
    open=True,
    since=_ago(86_400),
    changed=_ago(3_600),
    disabled_since=None,
    apps=12,
    authorizations=1_301,
    secrets=(
        Line(
            code("cs_4fGh2kLmNpQrStUvWxYz01"),
            act=Act(f"{_PLACE}/end-secret?secret=cs_4f", "Revoke", "Revoke %(name)s", "cs_4f"),
        ),
        Line(code("cs_9aBc"), below=(exact(_ago(-86_400), "Ends %(moment)s."),)),
    ),
    ways=tuple(
        Offer(slug, _BUTTONS[slug].title, f"{_PLACE}/{slug}", _BUTTONS[slug].danger)
        for slug in ("disable", "delete", "secret")
    ),
    edit_url=f"{_PLACE}/edit",
    protect_url=f"{_PLACE}/protect",
    done="The API is changed.",
)
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
        ApiWanted, API_WORDS, _TEXTS, faults, choices=API_CHOICES, groups=API_GROUPS
    )
    return InputFormPage("/admin/apis/new", "/admin/apis", "APIs", "New API", "Create API", fields)


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
            FieldShown(each.name, each.label, tuple(each.choices), "86400")
            for each in button.fields
        ),
        hidden=(("secret", "cs_4fGh2kLmNp"),) if button.carries else (),
        confirms="Calendar" if button.irreversible else "",
    )


def apis_examples(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """All of them."""
    own = "https://api.example.com/"
    rows = (_SHOWN, replace(_SHOWN, name="Files", disabled_at=_NOW))
    odd = replace(
        _SHOWN,
        name=hostile.name,
        identifier="https://" + "a-long-name." * 20 + "example/" + "path/" * 30,
        scopes={"x" * 100: hostile.name},
        clients=frozenset(("web", "app_7f3k9qxmB2")),
        shares_scopes=True,
        access_token_lifetime=None,
    )
    page = ApisPage(
        "/admin/apis",
        "",
        tuple(row_of(shown(each), _NOW) for each in rows),
        HEADINGS,
        own,
        "/admin/apis/new",
        ways=SELECTED_APIS.offers(permissions_of(Role.OWNER)),
    )
    return {
        "admin_apis": page,
        "admin_apis_none": replace(page, listed=(), deleted=True),
        "admin_apis_nothing_found": replace(page, listed=(), text="zzz"),
        "admin_apis_hostile": replace(
            page,
            text="a",
            listed=(row_of(shown(odd), _NOW), row_of(shown(replace(_SHOWN, name=long.name)), _NOW)),
            paging=Paging("/admin/apis", "/admin/apis", "/admin/apis?after=x", Figure(120)),
        ),
        "admin_apis_one": _PAGE,
        "admin_apis_one_bare": replace(
            _PAGE,
            api=replace(_SHOWN, scopes={}, machine_scopes=(), clients=frozenset()),
            open=False,
            disabled_since=_ago(60),
            secrets=(),
            ways=(),
            edit_url="",
            done="",
        ),
        "admin_api_protect": _PROTECT,
        "admin_api_protect_go": replace(_PROTECT, framework=FRAMEWORKS["go"], files=_GO),
        "admin_apis_one_hostile": replace(_PAGE, api=odd, open=False),
        "admin_api_new": _form(),
        "admin_api_new_wrong": _form(
            (
                MetadataError("identifier", "another one: this one is taken"),
                MetadataError("scopes", ""),
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
