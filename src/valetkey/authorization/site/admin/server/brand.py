"""/admin/settings/brand: name, color, logos and links, with a preview of what users see."""

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import ClassVar
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.server import current_brand
from valetkey.authorization.layout.assets import (
    DARK_CARD,
    LIGHT_CARD,
    CurrentBrand,
    assets,
    colours_of,
)
from valetkey.authorization.layout.brand import TEXT_CONTRAST, Brand, accent_shades, contrast
from valetkey.authorization.layout.contexts import AskingApp, CurrentUser
from valetkey.authorization.layout.render import PageContext, render
from valetkey.authorization.layout.viewer import Viewer, language_of
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Services,
    UploadedFile,
    call_of,
)
from valetkey.authorization.operations.server import (
    CHANGE_BRAND,
    LARGEST_LOGO,
    LOGO_FIELDS,
    UPLOAD_LOGO,
)
from valetkey.authorization.operations.server_records import BrandChange
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator
from valetkey.authorization.site.admin.server.settings import BRAND, SETTINGS
from valetkey.authorization.site.consent import ConsentPage, ScopeLine
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show, not_found
from valetkey.authorization.site.sign_in.sign_in import SignInPage
from valetkey.config import rules
from valetkey.config.sections.people import BrandField, BrandSettings
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.exchange import Interrupt, html_response

PREVIEW = f"{BRAND}/preview/{{page}}"
_SCRIPT = re.compile(r"<script\b[^>]*></script>")
LOGO = f"{BRAND}/logo"
REMOVE_LOGO = f"{LOGO}/remove"

_FORM = 64 * 1024
_BAD_REQUEST = 400
_LONGEST = 60

_LINK_FAULT = translatable("Enter a web address that begins with https://.")
_PATH_FAULT = translatable("Enter a path on this server, such as /logo.png.")
_FAULTS = {
    "name": translatable("Enter a name of up to 60 characters."),
    "accent": translatable("Enter a color such as #2456d6."),
    "logo_url": _PATH_FAULT,
    "logo_dark_url": _PATH_FAULT,
    "terms_url": _LINK_FAULT,
    "privacy_url": _LINK_FAULT,
}
_LOGO_FAULTS = {
    "missing": translatable("Choose a file first."),
    "large": translatable("This picture is too large. Choose a smaller one."),
    "vector": translatable(
        "SVG files can contain programs, so they are not accepted. Export the logo as PNG or WebP,"
        " 96 pixels high or more."
    ),
    "unusable": translatable(
        "This file is not a picture, or it is damaged. Choose a PNG, JPEG, WebP or GIF file."
    ),
}
_TYPED = (BrandField.NAME, BrandField.ACCENT, BrandField.TERMS_URL, BrandField.PRIVACY_URL)


class ContrastShown(Struct, frozen=True):
    """How an accent can be read as text on one background; `used` is the color of links there."""

    mode: str
    ratio: float
    passes: bool
    used: str
    ground: str


class LogoShown(Struct, frozen=True):
    """The logo for light or dark mode; `url` is "" for none, `fault` a text of the catalogue."""

    mode: str
    url: str
    can_remove: bool = False
    fault: str = ""


class BrandFormPage(Struct, frozen=True):
    """The form of the brand, with what it looks like. Posts `csrf`, the fields and `preview`."""

    template: ClassVar[str] = "admin/server/brand.html"
    scripts: ClassVar[tuple[str, ...]] = ("preview.js",)

    typed: Mapping[str, str]
    defaults: Mapping[str, str]
    logos: tuple[LogoShown, ...]
    contrasts: tuple[ContrastShown, ...]
    #: The color of buttons, of the text on them, and its contrast.
    on_button: tuple[str, str, float]
    previews: tuple[tuple[str, str], ...]
    #: The fault of each invalid field, by its name.
    faults: Mapping[str, str] = {}
    is_preview: bool = False
    saved: bool = False
    action: str = BRAND
    back: str = SETTINGS
    upload: str = LOGO
    remove: str = REMOVE_LOGO


class BrandPages(Struct, frozen=True):
    """Show and change the brand."""

    services: Services
    brands: CurrentBrand

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the form, the previews beside it, and the forms of the logos."""
        editor = administrator(Permission.SETTINGS)
        upload = Act(self.upload, upload=LARGEST_LOGO + _FORM)
        title = translatable("Name, logo and color")
        return (
            Page(BRAND, editor, self.show, Act(self.change), title=title),
            Page(PREVIEW, editor, self.preview, title=title),
            Page(LOGO, editor, act=upload),
            Page(REMOVE_LOGO, editor, act=Act(self.remove)),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the form with the current brand."""
        brand_values = await self._current()
        return self._form(
            brand_values,
            {field.value: brand_values[field] for field in _TYPED},
            saved="saved" in request.query,
        )

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the brand, show what it would look like, or show each fault beside its field."""
        form, brand_values = request.form, await self._current()
        typed = {field.value: (form.get(field.value) or "").strip() for field in _TYPED}
        if form.get("preview"):
            return self._form(brand_values, typed, is_preview=True)
        body = BrandChange(**{name: value or None for name, value in typed.items()})
        call = call_of(self.services, CHANGE_BRAND, request.actor, request.now, body=body)
        try:
            await call.operation.run(call)
        except InvalidInput as invalid:
            faults = {fault.field: _FAULTS[fault.field] for fault in invalid.faults}
            return self._form(brand_values, typed, faults)
        return await self._saved()

    async def upload(self, request: AdminRequest) -> Outcome:
        """Store a copy of an image as the logo, or show why it cannot be used."""
        file, mode = request.form.file("file"), request.form.get("mode") or ""
        if mode not in LOGO_FIELDS:
            raise not_found("logo")
        if file is None or not file.content:
            return await self._refuse(mode, "missing")
        body = UploadedFile("", file.content)
        call = call_of(self.services, UPLOAD_LOGO, request.actor, request.now, {"mode": mode}, body)
        try:
            await UPLOAD_LOGO.run(call)
        except Refused as refused:
            fault = refused.refusal.check.removeprefix("logo.")
            if fault not in _LOGO_FAULTS:
                raise
            return await self._refuse(mode, fault)
        return await self._saved()

    async def remove(self, request: AdminRequest) -> Outcome:
        """Use the logo of the configuration again."""
        field = LOGO_FIELDS.get(request.form.get("mode") or "")
        if field is None:
            raise not_found("logo")
        body = BrandChange(**{field.value: None})
        call = call_of(self.services, CHANGE_BRAND, request.actor, request.now, body=body)
        await call.operation.run(call)
        return await self._saved()

    async def preview(self, request: AdminRequest) -> Outcome:
        """Show the sign-in page or the consent page with the name and the color of the query."""
        query, language = request.query, language_of(request.request, request.user)
        html, policy = previewed(
            request.arguments["page"],
            self.brands.current,
            (query.get("name") or "").strip()[:_LONGEST],
            query.get("accent") or "",
            Viewer(language),
        )
        raise Interrupt(html_response(html, 200, policy, (("x-frame-options", "SAMEORIGIN"),)))

    async def _saved(self) -> Outcome:
        # The next page shows the change, although other processes follow within seconds.
        await self.brands.refresh(self.services.store)
        return SeeOther(f"{BRAND}?saved=1")

    async def _current(self) -> Mapping[BrandField, str]:
        base = self.services.settings.brand
        return await self.services.store.read(lambda tx: current_brand(tx, base))

    async def _refuse(self, mode: str, fault: str) -> Show:
        brand_values = await self._current()
        typed = {field.value: brand_values[field] for field in _TYPED}
        return self._form(brand_values, typed, {f"logo-{mode}": _LOGO_FAULTS[fault]})

    def _form(
        self,
        brand_values: Mapping[BrandField, str],
        typed: Mapping[str, str],
        faults: Mapping[str, str] | None = None,
        *,
        is_preview: bool = False,
        saved: bool = False,
    ) -> Show:
        base = self.services.settings.brand
        page = brand_form(
            brand_values, typed, base, faults or {}, is_preview=is_preview, saved=saved
        )
        issuer = self.services.settings.authorization.url
        return Show(page, _BAD_REQUEST if faults else 200, frames=(issuer,))


def previewed(
    page: str, current: Brand, name: str, accent: str, viewer: Viewer
) -> tuple[bytes, str]:
    """Return the page with this name and accent, and its Content-Security-Policy.

    Raises Refused (not found).
    """
    shown = _PREVIEWED.get(page)
    if shown is None:
        raise not_found("page")
    accent = _accent(accent, current.accent)
    brand = replace(current, name=name or current.name, accent=accent)
    html = render(shown, brand=brand, viewer=viewer).decode()
    # The style of a brand that is not stored has no address: only its colors are replaced.
    own, theirs = assets(brand), assets(current)
    html = html.replace(own.style.path, theirs.style.path)
    html = html.replace(own.icon.path, theirs.icon.path)
    colours = colours_of(accent)
    # Neither runs in a sandboxed frame, and the browser would report each attempt.
    html = _SCRIPT.sub("", html).replace(" autofocus", "")
    html = html.replace("</head>", f"<style>{colours}</style></head>", 1)
    digest = b64encode(sha256(colours.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'self' 'sha256-{digest}'; img-src 'self'; sandbox"
        " allow-same-origin; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
    )
    return html.encode(), policy


def brand_form(
    brand_values: Mapping[BrandField, str],
    typed: Mapping[str, str],
    base: BrandSettings,
    faults: Mapping[str, str],
    *,
    is_preview: bool = False,
    saved: bool = False,
) -> BrandFormPage:
    """Return the form with what was typed; `brand_values` are current, `base` the configured."""
    accent = _accent(typed["accent"], brand_values[BrandField.ACCENT])
    shades = accent_shades(accent, LIGHT_CARD)
    query = urlencode({"name": typed["name"], "accent": accent})
    return BrandFormPage(
        typed=typed,
        defaults={field.value: str(getattr(base, field.value)) for field in BrandField},
        logos=tuple(
            LogoShown(
                mode,
                brand_values[field],
                brand_values[field] != getattr(base, field.value),
                faults.get(f"logo-{mode}", ""),
            )
            for mode, field in LOGO_FIELDS.items()
        ),
        contrasts=tuple(_contrast(mode, accent, card) for mode, card in _CARDS),
        on_button=(shades.fill, shades.on_fill, round(contrast(shades.on_fill, shades.fill), 1)),
        previews=tuple(
            (title, f"{PREVIEW.replace('{page}', page)}?{query}") for page, title in _TITLES.items()
        ),
        faults=faults,
        is_preview=is_preview,
        saved=saved,
    )


def _accent(typed: str, otherwise: str) -> str:
    try:
        return str(rules.COLOUR.read(typed.strip()))
    except rules.InvalidValue:
        return otherwise


def _contrast(mode: str, accent: str, card: str) -> ContrastShown:
    ratio = contrast(accent, card)
    # Rounded down: 4.49 does not pass, and must not be shown as 4.5.
    shown = int(ratio * 10) / 10
    used = accent_shades(accent, card).text
    return ContrastShown(mode, shown, ratio >= TEXT_CONTRAST, used, card)


_CARDS = (("light", LIGHT_CARD), ("dark", DARK_CARD))
_APP = AskingApp("Printer", "printer.example.com", verified=True)
_PREVIEWED: Mapping[str, PageContext] = {
    "sign-in": SignInPage("", app=_APP, username="ada", forgotten_url="#", sign_up_url="#"),
    "consent": ConsentPage(
        "",
        "",
        _APP,
        CurrentUser("ada", "", "ada@example.com"),
        (
            ScopeLine("profile", IDENTITY_SCOPES["profile"], required=True),
            ScopeLine("email", IDENTITY_SCOPES["email"]),
        ),
        30 * 86_400,
    ),
}
_TITLES = {"sign-in": translatable("Sign in"), "consent": translatable("Consent")}
