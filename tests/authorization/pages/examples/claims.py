"""One example of every page about attributes, claims, previews and SCIM credentials."""

from collections.abc import Mapping

from valetkey.authorization.claims.operations import REMOVE_CLAIM, ClaimWanted
from valetkey.authorization.claims.pages.declarations import (
    CLAIMS,
    KINDS,
    PLACE_WORDS,
    PREVIEW,
    ListPage,
    ListRow,
)
from valetkey.authorization.claims.pages.users import PreviewPage, TokenPreview
from valetkey.authorization.layout.contexts import AskingApp, When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.scim.pages import ScimLine, ScimPage, scim_token_page
from valetkey.authorization.site.admin.confirm import ConfirmPage
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.users.users import UserLine
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_SINCE = When(Instant(_NOW - 90_000), _NOW)
_SCIM = "/admin/scim"
_ENDPOINT = "https://id.example.com/scim/v2"
_ADA = UserLine(1001, "ada", "Ada", "ada@example.com", True, False, "", _SINCE, "/admin/users/1001")


def claims_examples(
    long: AskingApp, rtl: AskingApp, hostile: AskingApp
) -> Mapping[str, PageContext]:
    """All of them."""
    texts = KINDS[1].texts
    deletes = (("Delete", f"{CLAIMS}/department/delete"),)
    rows = (
        ListRow(
            "department",
            f"{CLAIMS}/department/edit",
            ("attribute:department", ("ID token", "Userinfo response"), ""),
            ways=deletes,
        ),
        ListRow(
            "groups",
            f"{CLAIMS}/groups/edit",
            ("groups", ("ID token",), "scope groups"),
            "",
            deletes,
        ),
        ListRow(
            "https://example.com/claims/tier",
            f"{CLAIMS}/x/edit",
            ("constant:gold", ("Access token",), "app_7f3k9qxmB2"),
            ways=deletes,
        ),
    )
    listed = ListPage(
        texts.title,
        texts.text,
        texts.columns,
        rows,
        texts.new,
        f"{CLAIMS}/new",
        texts.empty_title,
        texts.empty_text,
        KINDS[1].links,
    )
    words = KINDS[1].words
    values = {"from": "groups", "in": "id_token\nuserinfo"}
    fields = tuple(
        replace(each, choices=tuple(PLACE_WORDS.items()), faulty=True)
        if each.name == "in"
        else each
        for each in input_fields(ClaimWanted, words, values)
    )
    form = InputFormPage(f"{CLAIMS}/new", CLAIMS, texts.title, texts.new, texts.create, fields)
    preview = PreviewPage(
        PREVIEW,
        CLAIMS,
        {"person": "ada", "client": "app_7f3k9qxmB2", "api": "", "scope": ""},
        ("https://api.example.com", "https://calendar.example/"),
        {},
        scope="openid profile email groups",
        by_reference=True,
        tokens=(
            TokenPreview("id_token", "ID token", '{\n  "sub": "1001",\n  "groups": ["staff"]\n}'),
            TokenPreview("access_token", "Access token", '{\n  "sub": "1001"\n}'),
        ),
        missing=("Userinfo response",),
    )
    empty = replace(
        preview, typed=dict.fromkeys(preview.typed, ""), scope=None, tokens=(), missing=()
    )
    line = ScimLine(
        "sc_1", "Okta", _SINCE, _SINCE, None, f"{_SCIM}/sc_1/rotate", f"{_SCIM}/sc_1/end"
    )
    scim = ScimPage(
        (line, replace(line, id="sc_2", name="Entra", last_used=_SINCE)),
        _ENDPOINT,
        True,
        f"{_SCIM}/new",
    )
    button = REMOVE_CLAIM.buttons[0]
    return {
        "admin_claims": replace(listed, done=button.done),
        "admin_claims_none": replace(listed, rows=()),
        "admin_claims_reader": replace(
            listed, new_url="", rows=tuple(replace(row, url="", ways=()) for row in rows)
        ),
        "admin_claims_hostile": replace(
            listed,
            rows=tuple(
                ListRow(app.name, CLAIMS, (app.name, "x" * 80, ""), app.name, deletes)
                for app in (long, rtl, hostile)
            ),
        ),
        "admin_claim_form": form,
        "admin_claim_delete": ConfirmPage(
            f"{CLAIMS}/department/delete",
            CLAIMS,
            button.title,
            button.text,
            "department",
            ("attribute:department",),
            danger=True,
        ),
        "admin_preview": preview,
        "admin_preview_empty": empty,
        "admin_preview_faults": replace(
            empty,
            faults=dict.fromkeys(("person", "client", "api", "scope"), "App not found."),
            several=(_ADA, replace(_ADA, uid=1002)),
        ),
        "admin_scim": scim,
        "admin_scim_none": replace(scim, listed=(), enabled=False),
        "admin_scim_hostile": replace(
            scim,
            listed=tuple(replace(line, name=app.name) for app in (long, rtl, hostile)),
            new_url="",
        ),
        "admin_scim_token": scim_token_page("Okta", "vks_" + "x" * 43, _ENDPOINT),
    }
