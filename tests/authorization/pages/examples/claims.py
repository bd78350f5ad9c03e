"""One example of every page about attributes, claims, previews and SCIM credentials."""

from collections.abc import Mapping

from valetkey.authorization.claims.operations import (
    REMOVE_CLAIM,
    AttributeShown,
    ClaimShown,
)
from valetkey.authorization.claims.pages.declarations import (
    CLAIMS,
    KINDS,
    PLACE_WORDS,
    PREVIEW,
    SOURCES,
    ClaimForm,
)
from valetkey.authorization.claims.pages.users import PreviewPage, TokenPreview
from valetkey.authorization.layout.contexts import AskingApp, When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.api import ClaimLocation
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.scim.pages import scim_token_page
from valetkey.authorization.site.admin.confirm import ConfirmPage
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.object_page import ObjectPage
from valetkey.authorization.site.admin.objects import ObjectList
from valetkey.authorization.site.admin.users.users import UserLine
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_SINCE = When(Instant(_NOW - 90_000), _NOW)
_ENDPOINT = "https://id.example.com/scim/v2"
_ADA = UserLine(1001, "ada", "Ada", "ada@example.com", True, False, "", _SINCE, "/admin/users/1001")


def claims_examples(
    long: AskingApp, rtl: AskingApp, hostile: AskingApp
) -> Mapping[str, PageContext]:
    """All of them."""
    claims, texts = KINDS[1], KINDS[1].texts
    places = [ClaimLocation.ID_TOKEN, ClaimLocation.USERINFO]
    department = ClaimShown("department", "attribute:department", places, "", [], [])
    tier = ClaimShown(
        "https://example.com/claims/tier",
        "constant:gold",
        [ClaimLocation.ACCESS_TOKEN],
        "groups",
        ["app_7f3k9qxmB2"],
        ["https://api.example.com"],
    )
    shown = (department, replace(department, name="groups", source="groups"), tier)
    odd = [replace(tier, name=app.name, scope="x" * 80) for app in (long, rtl, hostile)]
    listed = ObjectList(
        CLAIMS,
        claims.listed.words,
        tuple(claims.row(claim) for claim in shown),
        tuple((title, None) for title, _ in claims.listed.columns),
        longest=250,
        new_url=f"{CLAIMS}/new",
        links=claims.links,
    )
    names = {"clients": {"app_7f3k9qxmB2": hostile.name}, "apis": {}}
    page = ObjectPage(
        CLAIMS, claims.title, tier.name, facts=claims.facts(tier, names), links=claims.links
    )
    attribute = AttributeShown("department", "Department", {"type": "string"}, True)
    words = KINDS[1].words
    values = {"from": "groups", "in": "id_token\nuserinfo"}
    choices = {"from": SOURCES, "in": tuple(PLACE_WORDS.items())}
    fields = input_fields(ClaimForm, words, values, (MetadataError("in", ""),), choices=choices)
    form = InputFormPage(
        action=f"{CLAIMS}/new",
        back=CLAIMS,
        above="Claims",
        title="New claim",
        submit=texts.create,
        fields=fields,
    )
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
    button = REMOVE_CLAIM.buttons[0]
    return {
        "admin_claims": replace(listed, done=button.done),
        "admin_claims_none": replace(listed, rows=()),
        "admin_claims_hostile": replace(listed, rows=tuple(claims.row(claim) for claim in odd)),
        "admin_claim": page,
        "admin_attribute": replace(
            page, name="department", facts=KINDS[0].facts(attribute, names), links=()
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
        "admin_scim_token": scim_token_page("Okta", "vks_" + "x" * 43, _ENDPOINT),
    }
