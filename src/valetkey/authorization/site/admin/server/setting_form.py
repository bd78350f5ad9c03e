"""/admin/settings/{setting}/edit: change one setting while the servers run, or reset it."""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Services,
    call_of,
    value_of,
)
from valetkey.authorization.operations.records import tag_of
from valetkey.authorization.operations.settings.stored import (
    CHANGE_SETTING,
    ONE,
    READ_SETTING,
    SettingShown,
    SettingWanted,
)
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Offer,
    Subject,
    confirmation,
    done_at,
)
from valetkey.authorization.site.admin.input_fields import InputField
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show, not_found
from valetkey.config.catalogue import Setting, catalogue
from valetkey.config.overrides import as_text
from valetkey.kernel.preconditions import FAILED, preconditions
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable
from valetkey.web.form import Form

SETTINGS = ADDRESSES["admin_settings"]
EDIT = f"{SETTINGS}/{{setting}}/edit"
ACT = f"{SETTINGS}/{{setting}}/{{act}}"
BUTTONS = Buttons.below(ONE)

_BAD_REQUEST = 400
_LONGEST = 2_000


class SettingFormPage(Struct, frozen=True):
    """The form of a setting. Posts `csrf`, `etag` and `value`."""

    template: ClassVar[str] = "admin/server/setting_form.html"

    action: str
    fields: tuple[InputField, ...]
    #: The path of the setting, and texts of the catalogue.
    path: str
    reason: str
    unit: str
    #: Valid values, for operators; and the default as they would write it.
    allowed: str
    default: str
    ways: tuple[Offer, ...] = ()
    etag: str = ""
    stale: bool = False
    #: What its template shows of other forms.
    note: str = ""
    problem: str = ""
    back: str = SETTINGS
    above: str = translatable("Settings")
    title: str = translatable("Change setting")
    submit: str = translatable("Save changes")
    frame: str = "admin/frame.html"


class SettingForms(Struct, frozen=True):
    """Show and handle the form of a setting, and confirm that it is reset."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the form and the confirmation."""
        may = administrator(Permission.SETTINGS, recent=True)
        title = translatable("Change setting")
        return (
            Page(EDIT, may, self.show, Act(self.change), title=title),
            confirmation(ACT, BUTTONS, self.services, self._subject, done_at(SETTINGS)),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the form with the current value."""
        shown = await self._read(request)
        return Show(self._page(request, shown, _current(shown)))

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the setting, unless it was changed since the form was shown."""
        shown, form = await self._read(request), request.form
        value = (form.get("value") or "").strip()[:_LONGEST]
        seen = preconditions((form.get("etag") or '""',), ())
        call = call_of(
            self.services,
            CHANGE_SETTING,
            request.actor,
            request.now,
            {"setting": shown.path},
            SettingWanted(value),
        )
        try:
            await CHANGE_SETTING.run(replace(call, preconditions=seen))
        except InvalidInput as invalid:
            page = self._page(request, shown, value, invalid.faults[0].detail)
            return Show(page, _BAD_REQUEST)
        except Refused as refused:
            if refused.refusal is not FAILED:
                raise
            page = self._page(request, shown, value)
            return Show(replace(page, stale=True), _BAD_REQUEST)
        return SeeOther(f"{SETTINGS}?done=change")

    async def _read(self, request: AdminRequest) -> SettingShown:
        path = {"setting": request.arguments["setting"]}
        call = call_of(self.services, READ_SETTING, request.actor, request.now, path)
        return await value_of(call, SettingShown)

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        shown = await self._read(request)
        facts = (shown.stored,) if shown.stored else ()
        return Subject(SETTINGS, shown.path, facts, above=translatable("Settings"))

    def _page(
        self, request: AdminRequest, shown: SettingShown, value: str, fault: str = ""
    ) -> SettingFormPage:
        setting = catalogue().get(shown.path)
        if setting is None or not shown.changeable:
            raise not_found("setting")
        return form_page(
            setting,
            shown,
            value,
            fault,
            BUTTONS.offers(shown, request.permissions, f"{SETTINGS}/{shown.path}"),
        )


def form_page(
    setting: Setting,
    shown: SettingShown,
    value: str,
    fault: str = "",
    ways: tuple[Offer, ...] = (),
) -> SettingFormPage:
    """Return the form of a setting with this value."""
    field = InputField(
        "value",
        translatable("Value"),
        "",
        "text",
        value,
        required=False,
        choices=_choices(setting),
        faulty=bool(fault),
        fault=fault,
    )
    if field.choices:
        field = replace(field, kind="choice")
    return SettingFormPage(
        action=f"{SETTINGS}/{setting.path}/edit",
        fields=(field,),
        path=setting.path,
        reason=shown.reason,
        unit=setting.rule.unit,
        allowed=setting.rule.expected,
        default=as_text(setting, setting.default),
        ways=ways,
        etag=tag_of(shown),
    )


def _current(shown: SettingShown) -> str:
    setting = catalogue().get(shown.path)
    if shown.stored is not None or setting is None:
        return shown.stored or ""
    return as_text(setting, setting.default)


def _choices(setting: Setting) -> tuple[tuple[str, str], ...]:
    default = setting.default
    if isinstance(default, bool):
        return (("true", translatable("On")), ("false", translatable("Off")))
    if isinstance(default, StrEnum):
        return tuple((each.value, each.value) for each in type(default))
    return ()
