"""/admin/settings/{setting}/edit: change one setting while the servers run, or reset it."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Services,
    call_of,
    tag_of,
    value_of,
)
from valetkey.authorization.operations.settings import (
    CHANGE_SETTING,
    ONE,
    READ_SETTING,
    SettingShown,
    SettingWanted,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.events.lines import EventRow
from valetkey.authorization.site.admin.input_fields import (
    InputField,
    entries,
    field_at_fault,
    grown_list,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show, not_found
from valetkey.config.catalogue import Effect, Setting, as_text, catalogue, effect_of
from valetkey.config.rules import Kind
from valetkey.kernel.moment import UNITS, parse_lifetime
from valetkey.kernel.preconditions import FAILED, preconditions
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

SETTINGS = ADDRESSES["admin_settings"]
EDIT = f"{SETTINGS}/{{setting}}/edit"
ACT = f"{SETTINGS}/{{setting}}/{{act}}"
BUTTONS = Buttons.below(ONE)

_BAD_REQUEST = 400
_LONGEST = 2_000


class ItemShown(Struct, frozen=True):
    """One part of a value, with its words if it is one of a choice, translatable."""

    value: str
    words: str = ""


class ValueShown(Struct, frozen=True):
    """A value as the pages say it: `number` of a duration in seconds, 1 of a flag that is on."""

    kind: str
    number: int = 0
    unit: str = ""
    items: tuple[ItemShown, ...] = ()


class SettingLine(Struct, frozen=True):
    """One setting; `origin` is `default`, `stored`, `file` or `environment`.

    `label`, `reason` and the values of `names` are texts of the catalogue; `names` are the labels
    of settings that the reason names. The first sentence of the reason ends at `stop`.
    """

    path: str
    label: str
    value: ValueShown
    default: ValueShown
    origin: str
    variable: str
    reason: str
    names: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    stop: str = ". "
    line: int = 0
    #: The latest recorded change.
    by: EventRow | None = None
    #: Addresses of the form and of the confirmation to reset; "" where the role may not.
    edit_url: str = ""
    reset_url: str = ""
    #: The stored value that is not used, and why.
    stored: str = ""
    ignored: str = ""
    #: Whether a change in the file takes effect after a restart only.
    restarts: bool = False


def line_of(shown: SettingShown, *, may: bool, by: EventRow | None = None) -> SettingLine:
    """Return a setting as the pages show it; `may` says whether this user may change settings."""
    setting = catalogue().get(shown.path)
    address = f"{SETTINGS}/{shown.path}"
    return SettingLine(
        path=shown.path,
        label=shown.label or shown.path,
        value=value_shown(setting, shown.value),
        default=value_shown(setting, shown.default),
        origin=shown.origin,
        variable=shown.variable,
        reason=shown.reason,
        names=_named(shown),
        stop=": " if setting is not None and setting.rule.kind is Kind.CHOICE else ". ",
        line=shown.line or 0,
        by=by,
        edit_url=f"{address}/edit" if may and shown.changeable else "",
        reset_url=f"{address}/reset" if may and shown.stored is not None else "",
        stored=shown.stored or "",
        ignored=shown.ignored,
        restarts=effect_of(shown.path) is Effect.RESTART,
    )


def value_shown(setting: Setting | None, value: object) -> ValueShown:
    """Return a value, as an operator would write it, in the form in which the pages say it."""
    rule = None if setting is None else setting.rule
    words = dict(rule.words) if rule else {}
    kind = rule.kind if rule else Kind.TEXT
    match value:
        case bool():
            return ValueShown(Kind.FLAG, int(value))
        case int():
            return ValueShown(Kind.NUMBER, value, rule.unit if rule else "")
        case str() if kind is Kind.DURATION:
            return ValueShown(Kind.DURATION, parse_lifetime(value))
        case list():
            items = tuple(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case None | "":
            items = ()
        case _:
            items = (str(value),)
    return ValueShown(kind, items=tuple(ItemShown(item, words.get(item, "")) for item in items))


def _named(shown: SettingShown) -> Mapping[str, str]:
    section = shown.path.partition(".")[0]
    labels: dict[str, str] = {}
    for word in shown.reason.split("`")[1::2]:
        setting = catalogue().get(word) or catalogue().get(f"{section}.{word}")
        # A choice of this setting may have the name of another setting.
        if setting is not None and word not in dict(catalogue()[shown.path].rule.words):
            labels[word] = setting.label
    return labels


class SettingFormPage(Struct, frozen=True):
    """The form of a setting. Posts `csrf`, `etag`, `value`, and `unit` of a duration.

    `kind` is a kind of setting. `typed` are the values of the fields named `value`, `bounds` the
    smallest and the largest number. With `out_of_range`, the value is outside of them.
    """

    template: ClassVar[str] = "admin/server/setting_form.html"
    scripts: ClassVar[tuple[str, ...]] = ("select.js",)

    action: str
    setting: SettingLine
    kind: str
    typed: tuple[str, ...]
    chosen_unit: str = "m"
    unit: str = ""
    bounds: tuple[int, int] | None = None
    choices: tuple[tuple[str, str], ...] = ()
    out_of_range: bool = False
    error: InputField | None = None
    #: Whether an entry was just added or removed.
    grown: bool = False
    file: str = ""
    etag: str = ""
    stale: bool = False
    back: str = SETTINGS
    title: str = translatable("Change setting")


class SettingForms(Struct, frozen=True):
    """Show and handle the form of a setting, and confirm that it is reset."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the form and the confirmation."""
        may = administrator(Permission.SETTINGS, recent=True)
        title = translatable("Change setting")
        return (
            Page(EDIT, may, self.show, Act(self.change, multiple=("value",)), title=title),
            confirmation(ACT, BUTTONS, self.services, self._subject, _reset),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the form with the current value."""
        shown = await self._read(request)
        return Show(self._page(shown, _current(shown)))

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the setting, unless it was changed since the form was shown."""
        shown, form = await self._read(request), request.form
        setting = _changeable(shown)
        if grown_list(form) is not None:
            page = self._page(shown, ",".join(entries(form, "value")))
            return Show(replace(page, etag=form.get("etag") or "", grown=True))
        value = _typed(setting, form)
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
            page = self._page(shown, value, invalid.faults[0])
            return Show(page, _BAD_REQUEST)
        except Refused as refused:
            if refused.refusal is not FAILED:
                raise
            return Show(replace(self._page(shown, value), stale=True), _BAD_REQUEST)
        return SeeOther(f"{SETTINGS}?done=change&group={setting.group.value}#{shown.path}")

    async def _read(self, request: AdminRequest) -> SettingShown:
        path = {"setting": request.arguments["setting"]}
        call = call_of(self.services, READ_SETTING, request.actor, request.now, path)
        return await value_of(call, SettingShown)

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        shown = await self._read(request)
        facts = (shown.stored,) if shown.stored else ()
        return Subject(SETTINGS, shown.path, facts, above=translatable("Settings"))

    def _page(
        self, shown: SettingShown, value: str, error: MetadataError | None = None
    ) -> SettingFormPage:
        file = self.services.settings.source.file
        page = form_page(_changeable(shown), shown, value, error)
        return replace(page, file="" if file is None else str(file))


async def _reset(request: AdminRequest, confirmed: Confirmed, _result: object) -> Outcome:
    path = request.arguments["setting"]
    setting = catalogue().get(path)
    group = "" if setting is None else setting.group.value
    return SeeOther(f"{SETTINGS}?done={confirmed.button.slug}&group={group}#{path}")


def form_page(
    setting: Setting, shown: SettingShown, value: str, error: MetadataError | None = None
) -> SettingFormPage:
    """Return the form of a setting with this value, written as in its environment variable."""
    rule = setting.rule
    typed: tuple[str, ...] = (value,)
    unit = "m"
    if rule.kind is Kind.DURATION:
        # What was not understood is shown again as it was typed.
        number = value[:-1] if value[-1:] in UNITS and value[:-1].isdigit() else value
        typed, unit = (number,), value[-1:] if number != value else "m"
    elif rule.kind is Kind.LIST:
        typed = tuple(part.strip() for part in value.split(",") if part.strip())
        if not rule.words:
            typed = (*typed, "")
    out_of_range = error is not None and rule.bounds is not None and error.detail == rule.expected
    words = dict(rule.words)
    choices = rule.words
    if rule.kind is Kind.FLAG:
        choices = (("true", translatable("On")), ("false", translatable("Off")))
    elif rule.kind is Kind.LIST and rule.words:
        choices = (*choices, *((choice, choice) for choice in typed if choice not in words))
    return SettingFormPage(
        action=f"{SETTINGS}/{setting.path}/edit",
        setting=line_of(shown, may=True),
        kind=rule.kind.value,
        typed=typed,
        chosen_unit=unit,
        unit="" if rule.unit == "time" else rule.unit,
        bounds=rule.bounds,
        choices=choices,
        out_of_range=out_of_range,
        error=None if error is None or out_of_range else field_at_fault(error),
        etag=tag_of(shown),
    )


def _changeable(shown: SettingShown) -> Setting:
    setting = catalogue().get(shown.path)
    if setting is None or not shown.changeable:
        raise not_found("setting")
    return setting


def _typed(setting: Setting, form: Form) -> str:
    """Return the submitted value as its environment variable would have it."""
    entries = [value.strip() for value in form.all("value")]
    if setting.rule.kind is Kind.LIST:
        text = ",".join(entry for entry in entries if entry)
    else:
        text = entries[0] if entries else ""
        unit = form.get("unit") or ""
        if setting.rule.kind is Kind.DURATION and unit in UNITS and text.isdigit():
            text += unit
    return text[:_LONGEST]


def _current(shown: SettingShown) -> str:
    setting = catalogue().get(shown.path)
    if shown.stored is not None or setting is None:
        return shown.stored or ""
    return as_text(setting, setting.default)
