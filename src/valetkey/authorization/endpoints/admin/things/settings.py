"""/admin/settings: every setting and where its value comes from; name, logo and colour change."""

import json
from dataclasses import dataclass

from valetkey.authorization.deeds.admin.brand import brand_of, change_brand
from valetkey.authorization.deeds.admin.permissions import Permission, powers_of
from valetkey.authorization.endpoints.admin.things.addresses import BRAND, SETTINGS
from valetkey.authorization.endpoints.admin.visit import (
    actor_of,
    administered,
    administered_form,
)
from valetkey.authorization.model.server.brand import BrandField
from valetkey.authorization.pages.admin.things.server.settings import (
    BrandFormPage,
    SettingLine,
    SettingSection,
    SettingsPage,
)
from valetkey.authorization.site.site import Site
from valetkey.config.explain import Explained, explain
from valetkey.config.settings import Settings
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class SettingsEndpoint:
    """The settings."""

    site: Site
    settings: Settings

    async def get(self, request: Request) -> Response:
        """All of them; secrets are masked."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        sections: dict[str, list[SettingLine]] = {}
        for each in explain(self.settings):
            sections.setdefault(each.path.partition(".")[0], []).append(_line(each))
        file = self.settings.source.file
        may = powers_of(seen.signed_in.user.role).allow(Permission.SETTINGS)
        page = SettingsPage(
            sections=tuple(SettingSection(name, tuple(each)) for name, each in sections.items()),
            file="" if file is None else str(file),
            brand_url=BRAND if may else "",
            changed="changed" in read_query(request.query),
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask(self, request: Request) -> Response:
        """The form with the brand as it is."""
        seen = await administered(self.site, request, Permission.SETTINGS)
        if isinstance(seen, Response):
            return seen
        base = brand_of(self.settings.brand)
        own = await self.site.store.read(lambda tx: tx.brand.all())
        page = _form(seen.csrf, {**dict.fromkeys(base, ""), **own})
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def change(self, request: Request) -> Response:
        """Change it, or show beside each field what would be right."""
        found = await administered_form(self.site, request, Permission.SETTINGS)
        if isinstance(found, Response):
            return found
        seen, form = found
        typed = {field: (form.get(field.value) or "").strip() for field in BrandField}
        changes = {field: value or None for field, value in typed.items()}
        actor = actor_of(seen)
        told = await self.site.store.write(
            lambda tx: change_brand(tx, actor, self.settings.brand, changes, request.at),
            done_by=actor.done_by,
        )
        if isinstance(told, tuple):
            faults = tuple((fault.field, fault.detail) for fault in told)
            page = _form(seen.csrf, typed, faults)
            return self.site.page(
                request, page, _BAD_REQUEST, user=seen.signed_in.user, headers=seen.headers
            )
        return self.site.goes_to(f"{SETTINGS}?changed=1")


def _line(each: Explained) -> SettingLine:
    return SettingLine(
        path=each.path,
        name=each.path.partition(".")[2],
        value=shown(each.value, each.unit),
        origin=each.origin.value,
        default=shown(each.default, each.unit),
        variable=each.variable,
        reason=each.reason,
    )


def shown(value: object, unit: str) -> str:
    """A value as an operator would write it, with its unit."""
    text = json.dumps(value, ensure_ascii=False)
    return f"{text} {unit}" if unit else text


def _form(
    csrf: str, said: dict[BrandField, str], faults: tuple[tuple[str, str], ...] = ()
) -> BrandFormPage:
    return BrandFormPage(
        action=BRAND,
        back=SETTINGS,
        csrf=csrf,
        name=said[BrandField.NAME],
        accent=said[BrandField.ACCENT],
        logo_url=said[BrandField.LOGO_URL],
        terms_url=said[BrandField.TERMS_URL],
        privacy_url=said[BrandField.PRIVACY_URL],
        faults=faults,
    )
