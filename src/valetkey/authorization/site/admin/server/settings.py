"""/admin/settings and /admin/mail: each setting with its source, the brand, and email delivery."""

import json
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin import server
from valetkey.authorization.actions.admin.permissions import Permission, permissions_of
from valetkey.authorization.actions.admin.server import brand_of
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.language import translations
from valetkey.authorization.layout.language_choice import language_of
from valetkey.authorization.model.email import label_of
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Services,
    call_of,
    value_of,
)
from valetkey.authorization.operations.server import CHANGE_BRAND, TEST_MAIL
from valetkey.authorization.operations.server_records import BrandChange, TestSent
from valetkey.authorization.operations.settings.stored import (
    READ_SETTINGS,
    SettingShown,
    SettingsShown,
)
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.server.setting_form import BUTTONS
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.records import EventRecord
from valetkey.config.catalogue import catalogue
from valetkey.config.effect import Effect, effect_of
from valetkey.config.sections.portal import BrandField
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable

SETTINGS = ADDRESSES["admin_settings"]
BRAND = "/admin/settings/brand"


class SettingLine(Struct, frozen=True):
    """One setting; `origin` is `default`, `file` or `environment`. Secrets are masked.

    `unit` and `reason` are texts of the catalogue. `effect` says how a change takes effect.
    """

    path: str
    name: str
    value: str
    origin: str
    default: str
    variable: str
    reason: str
    unit: str = ""
    effect: Effect = Effect.RELOAD
    #: Addresses of the form and of the confirmation to reset; "" where the role may not.
    edit_url: str = ""
    reset_url: str = ""
    #: The stored value that is not used, and why.
    stored: str = ""
    ignored: str = ""


class SettingSection(Struct, frozen=True):
    """The settings of one section."""

    name: str
    settings: tuple[SettingLine, ...]

    @property
    def set_count(self) -> int:
        """The number of settings that do not have their default."""
        return sum(each.origin != "default" for each in self.settings)


class ServerSettingsPage(Struct, frozen=True):
    """The list of settings."""

    template: ClassVar[str] = "admin/server/settings.html"

    sections: tuple[SettingSection, ...]
    file: str
    brand_url: str
    changed: bool = False
    done: str = ""
    #: The words that were searched for; "" shows all settings.
    text: str = ""
    #: Whether only settings that do not have their default are shown.
    only_set: bool = False
    action: str = SETTINGS


_DONE = {"change": translatable("Saved. All nodes apply the change within ten seconds.")}
_LINK_FAULT = translatable("Enter a web address that begins with https://.")
_BRAND_FAULTS = {
    "name": translatable("Enter a name of up to 60 characters."),
    "accent": translatable("Enter a color such as #2456d6."),
    "logo_url": translatable("Enter a path on this server, such as /logo.png."),
    "terms_url": _LINK_FAULT,
    "privacy_url": _LINK_FAULT,
}


class BrandFormPage(Struct, frozen=True):
    """Name, color, logo and links, changed without a restart; "" uses the configuration file."""

    template: ClassVar[str] = "admin/server/brand.html"

    action: str
    back: str
    name: str
    accent: str
    logo_url: str
    terms_url: str
    privacy_url: str
    #: The fault of each invalid field, by its name.
    faults: tuple[tuple[str, str], ...] = ()


_BAD_REQUEST = 400
_LONGEST = 200


class SettingsPages(Struct, frozen=True):
    """List the settings; change the brand."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the settings, and the form of the brand."""
        editor, brand = administrator(Permission.SETTINGS), translatable("Name, logo and color")
        return (
            Page(
                SETTINGS,
                administrator(),
                self.show,
                title=translatable("Settings"),
                nav=SERVER,
                docs="reference/settings.html",
            ),
            Page(BRAND, editor, self.show_form, Act(self.change), title=brand),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the settings that contain every word of the search; secrets are masked."""
        text = (request.query.get("q") or "").strip()[:_LONGEST]
        only_set = request.query.get("show") == "set"
        sections: dict[str, list[SettingLine]] = {}
        translate = translations(language_of(request.request, request.user)).gettext
        may = request.permissions.allow(Permission.SETTINGS)
        call = call_of(self.services, READ_SETTINGS, request.actor, request.now)
        for each in (await value_of(call, SettingsShown)).items:
            if only_set and each.origin == "default":
                continue
            if not _contains(each, translate(each.reason), text.casefold().split()):
                continue
            sections.setdefault(each.path.partition(".")[0], []).append(_line(each, may=may))
        file = self.services.settings.source.file
        page = ServerSettingsPage(
            sections=tuple(SettingSection(name, tuple(each)) for name, each in sections.items()),
            file="" if file is None else str(file),
            brand_url=BRAND if may else "",
            changed="changed" in request.query,
            done=BUTTONS.done(request.query.get("done"), _DONE),
            text=text,
            only_set=only_set,
        )
        return Show(page)

    async def show_form(self, request: AdminRequest) -> Outcome:
        """Show the form with the current brand."""
        base = brand_of(self.services.settings.brand)
        own = await self.services.store.read(lambda tx: tx.brand.all())
        page = _form({**dict.fromkeys(base, ""), **own})
        return Show(page)

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the brand, or show each fault beside its field."""
        form = request.form
        typed = {field: (form.get(field.value) or "").strip() for field in BrandField}
        body = BrandChange(**{field.value: value or None for field, value in typed.items()})
        call = call_of(self.services, CHANGE_BRAND, request.actor, request.now, body=body)
        try:
            await call.operation.run(call)
        except InvalidInput as invalid:
            faults = tuple((each.field, _BRAND_FAULTS[each.field]) for each in invalid.faults)
            return Show(_form(typed, faults), _BAD_REQUEST)
        return SeeOther(f"{SETTINGS}?changed=1")


def _line(each: SettingShown, *, may: bool) -> SettingLine:
    setting = catalogue().get(each.path)
    address = f"{SETTINGS}/{each.path}"
    return SettingLine(
        path=each.path,
        name=each.path.partition(".")[2],
        value=json.dumps(each.value, ensure_ascii=False),
        origin=each.origin,
        default=json.dumps(each.default, ensure_ascii=False),
        variable=each.variable,
        reason=each.reason,
        # A length of time has its unit in the value.
        unit=setting.rule.unit if setting and isinstance(each.value, int) else "",
        effect=effect_of(each.path),
        edit_url=f"{address}/edit" if may and each.changeable else "",
        reset_url=f"{address}/reset" if may and each.stored is not None else "",
        stored=each.stored or "",
        ignored=each.ignored,
    )


def _contains(each: SettingShown, translated: str, words: Sequence[str]) -> bool:
    """Return whether every word is in the path, the variable or the explanation."""
    text = f"{each.path} {each.variable} {each.reason} {translated}".casefold()
    return all(word in text for word in words)


def _form(said: dict[BrandField, str], faults: tuple[tuple[str, str], ...] = ()) -> BrandFormPage:
    return BrandFormPage(
        action=BRAND,
        back=SETTINGS,
        name=said[BrandField.NAME],
        accent=said[BrandField.ACCENT],
        logo_url=said[BrandField.LOGO_URL],
        terms_url=said[BrandField.TERMS_URL],
        privacy_url=said[BrandField.PRIVACY_URL],
        faults=faults,
    )


MAIL = ADDRESSES["admin_mail"]


class EmailLine(Struct, frozen=True):
    """The outcome of an email; `because` is "" if the mail server accepted it.

    `label` is the name of its kind, marked for translation; "" for a kind of another version.
    """

    kind: str
    label: str
    when: When
    attempts: int
    because: str = ""


class MailPage(Struct, frozen=True):
    """The state of the email queue, with the button for a test email.

    `transport` is `smtp`, `mailbox` or `off`; `tested` is `queued`, `refused`, or "".
    """

    template: ClassVar[str] = "admin/server/mail.html"

    action: str
    transport: str
    server: str
    sender: str
    to: str
    waiting: int
    sent: tuple[EmailLine, ...]
    given_up: tuple[EmailLine, ...]
    may_test: bool = True
    tested: str = ""


_TESTED = ("queued", "refused")


class _EventData(msgspec.Struct):
    kind: str = ""
    attempts: int = 1
    because: str = ""


class Mail(Struct, frozen=True):
    """Show the email queue; send a test email."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the state of the queue, with the button for a test email."""
        test = Act(self.test, requires=administrator(Permission.SETTINGS))
        title = translatable("Email")
        return (
            Page(
                MAIL,
                administrator(),
                self.show,
                test,
                title=title,
                nav=SERVER,
                docs="how-to/operate/send-mail.html",
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the state of the email queue."""
        actor, user = request.actor, request.user
        state = await self.services.store.scan(lambda tx: server.email_queue(tx, actor))
        tested = request.query.get("tested") or ""
        outbox = self.services.outbox
        page = MailPage(
            action=MAIL,
            transport=server.transport_of(outbox),
            server=outbox.settings.host,
            sender=outbox.settings.from_address,
            to=user.email,
            waiting=state.waiting,
            sent=_lines(state.sent, request.now),
            given_up=_lines(state.given_up, request.now),
            may_test=permissions_of(user.role).allow(Permission.SETTINGS),
            tested=tested if tested in _TESTED else "",
        )
        return Show(page)

    async def test(self, request: AdminRequest) -> Outcome:
        """Send a test email to the signed-in administrator."""
        call = call_of(self.services, TEST_MAIL, request.actor, request.now)
        queued = (await value_of(call, TestSent)).queued
        return SeeOther(f"{MAIL}?tested={'queued' if queued else 'refused'}")


def _lines(found: Sequence[EventRecord], now: Instant) -> tuple[EmailLine, ...]:
    read = [(each, msgspec.json.decode(each.data, type=_EventData)) for each in found]
    return tuple(
        EmailLine(said.kind, label_of(said.kind), When(each.at, now), said.attempts, said.because)
        for each, said in read
    )
