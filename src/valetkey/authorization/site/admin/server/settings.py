"""/admin/settings and /admin/mail: each setting with its source, and email delivery."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin import audit, server
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.language import translations
from valetkey.authorization.layout.viewer import language_of
from valetkey.authorization.model.email import label_of
from valetkey.authorization.model.event.administration import SettingChanged
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.operations.server import TEST_MAIL
from valetkey.authorization.operations.server_records import TestSent
from valetkey.authorization.operations.settings import READ_SETTINGS, SettingShown, SettingsShown
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.events.lines import EventRow, names_in, rows_of
from valetkey.authorization.site.admin.object_page import ObjectPage, Related, facts
from valetkey.authorization.site.admin.objects import (
    Line,
    LineButton,
    Part,
    badge,
    code,
    since,
    text,
    words,
)
from valetkey.authorization.site.admin.server.setting_form import BUTTONS, SettingLine, line_of
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.search import END, EventFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.paths import credential_path, database_file, keyring_path
from valetkey.config.rules import SettingsGroup
from valetkey.config.sections.people import MailSettings
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable

SETTINGS = ADDRESSES["admin_settings"]
BRAND = "/admin/settings/brand"


class SettingGroup(Struct, frozen=True):
    """The settings of one group; `title` and `sentence` are texts of the catalogue."""

    slug: str
    title: str
    sentence: str
    settings: tuple[SettingLine, ...]

    @property
    def set_count(self) -> int:
        """The number of settings that do not have their default."""
        return sum(setting.origin != "default" for setting in self.settings)


_GROUPS = {
    SettingsGroup.SIGN_UP: (
        translatable("Sign-up"),
        translatable("Who may create an account, and how long a deleted one can be kept."),
    ),
    SettingsGroup.SESSIONS: (
        translatable("Sessions"),
        translatable("How long users and administrators stay signed in."),
    ),
    SettingsGroup.PASSWORDS: (
        translatable("Passwords and factors"),
        translatable("How passwords are stored, and when a second factor is asked for."),
    ),
    SettingsGroup.EMAIL: (
        translatable("Email"),
        translatable("The mail server, and the sender of emails."),
    ),
    SettingsGroup.TOKENS: (
        translatable("Tokens"),
        translatable("How long tokens, codes and signing keys are valid."),
    ),
    SettingsGroup.APPS: (
        translatable("Registration of apps"),
        translatable("Who may register apps, and what such apps may do."),
    ),
    SettingsGroup.DIRECTORIES: (
        translatable("Providers and directories"),
        translatable("Users who come from other systems."),
    ),
    SettingsGroup.BRAND: (
        translatable("Brand and documentation"),
        translatable("How the pages look, and where the documentation is."),
    ),
    SettingsGroup.PRIVACY: (
        translatable("Privacy"),
        translatable("What is recorded about users, and for how long."),
    ),
    SettingsGroup.LIMITS: (
        translatable("Limits"),
        translatable("How much one user, app or network may do before it is delayed or refused."),
    ),
    SettingsGroup.NETWORK: (
        translatable("Network"),
        translatable("Addresses, certificates, proxies and databases of the servers."),
    ),
    SettingsGroup.MONITORING: (
        translatable("Monitoring"),
        translatable("Alerts by email, logs, events, metrics and traces."),
    ),
}


class ServerSettingsPage(Struct, frozen=True):
    """The list of settings."""

    template: ClassVar[str] = "admin/server/settings.html"

    groups: tuple[SettingGroup, ...]
    file: str
    brand_url: str
    changed: bool = False
    done: str = ""
    #: The words that were searched for; "" shows all settings.
    text: str = ""
    #: Whether only settings that do not have their default are shown.
    only_set: bool = False
    #: The group that is open at first.
    opened: str = ""
    #: The files that another node needs; empty for those who may not change settings.
    node_files: tuple[str, ...] = ()
    on_sqlite: bool = False
    action: str = SETTINGS


_DONE = {"change": translatable("Saved. All nodes apply the change within ten seconds.")}
_BAD_REQUEST = 400
_LONGEST = 200
_CHANGES = 200
"""Recorded changes that are read to say who changed a setting."""


class SettingsPages(Struct, frozen=True):
    """List the settings."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list of settings."""
        return (
            Page(
                SETTINGS,
                administrator(),
                self.show,
                title=translatable("Settings"),
                nav=SERVER,
                docs="reference/settings.html",
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the settings that contain every word of the search; secrets are masked."""
        text = (request.query.get("q") or "").strip()[:_LONGEST]
        only_set = request.query.get("show") == "set"
        groups: dict[str, list[SettingLine]] = {group.value: [] for group in SettingsGroup}
        translate = translations(language_of(request.request, request.user)).gettext
        may = request.permissions.allow(Permission.SETTINGS)
        call = call_of(self.services, READ_SETTINGS, request.actor, request.now)
        changes = await self._changes(request)
        for setting in (await value_of(call, SettingsShown)).items:
            if only_set and setting.origin == "default":
                continue
            if not contains(setting, translate, text.casefold().split()):
                continue
            line = line_of(setting, may=may, by=changes.get(setting.path))
            groups[setting.group or SettingsGroup.MONITORING].append(line)
        settings = self.services.settings
        file = settings.source.file
        page = ServerSettingsPage(
            groups=tuple(
                SettingGroup(group, *_GROUPS[group], tuple(groups[group]))
                for group in SettingsGroup
                if groups[group]
            ),
            file="" if file is None else str(file),
            brand_url=BRAND if may else "",
            changed="changed" in request.query,
            done=BUTTONS.done(request.query.get("done"), _DONE),
            text=text,
            only_set=only_set,
            opened=request.query.get("group") or "",
            node_files=_node_files(settings) if may else (),
            on_sqlite=database_file(settings, settings.authorization) is not None,
        )
        return Show(page)

    async def _changes(self, request: AdminRequest) -> Mapping[str, EventRow]:
        """Return the latest of the recorded changes of each setting."""

        def read(tx: Transaction) -> tuple[EventRow, ...]:
            criteria = EventFilter(name=SettingChanged.name)
            events = audit.page(tx, request.actor, criteria, END, _CHANGES)
            kinds = {SettingChanged.name: SettingChanged}
            return rows_of(events, names_in(tx, events), request.now, kinds)

        rows = await self.services.store.scan(read)
        return {row.values["setting"]: row for row in reversed(rows)}


def _node_files(settings: Settings) -> tuple[str, ...]:
    file = settings.source.file
    needed = (keyring_path(settings), credential_path(settings))
    return tuple(str(path) for path in (*((file,) if file else ()), *needed))


def contains(setting: SettingShown, translate: Callable[[str], str], words: Sequence[str]) -> bool:
    """Return whether every word is in the name, the variable or the explanation."""
    texts = (
        setting.label,
        setting.reason,
        *_GROUPS.get(SettingsGroup(setting.group or SettingsGroup.MONITORING), ()),
    )
    searched = " ".join(filter(None, (*texts, *(translate(it) for it in texts if it))))
    text = f"{setting.path} {setting.variable} {searched}".casefold()
    return all(word in text for word in words)


MAIL = ADDRESSES["admin_mail"]


_EMAIL = translatable("Email")
_OFF = badge(translatable("Email is disabled"), "alarm")
_SET_UP = translatable(
    "Users cannot verify addresses or reset passwords. Set your mail server: %(setting)s."
)
_IN_MAILBOX = translatable("Not sent. Emails are kept on the mailbox page, as in a demo.")
_QUEUED = translatable("Test email queued. If it does not arrive, check the list below.")
_REFUSED = Part(
    "words",
    translatable(
        "No email was sent: email is disabled, or your address has reached its hourly limit."
    ),
    tone="alarm",
)


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
        return (
            Page(
                MAIL,
                administrator(),
                self.show,
                test,
                title=_EMAIL,
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
        transport, may = server.transport_of(outbox), request.permissions.allow(Permission.SETTINGS)
        page = mail_page(
            state, outbox.settings, transport, user.email, request.now, tested, may_test=may
        )
        return Show(page)

    async def test(self, request: AdminRequest) -> Outcome:
        """Send a test email to the signed-in administrator."""
        call = call_of(self.services, TEST_MAIL, request.actor, request.now)
        queued = (await value_of(call, TestSent)).queued
        return SeeOther(f"{MAIL}?tested={'queued' if queued else 'refused'}")


def mail_page(
    state: server.EmailQueueSummary,
    settings: MailSettings,
    transport: str,
    to: str,
    now: Instant,
    tested: str = "",
    *,
    may_test: bool,
) -> ObjectPage:
    """Return the state of the email queue; a test email is sent to the address `to`.

    `transport` is `smtp`, `mailbox` or `off`; `tested` is `queued`, `refused`, or "".
    """
    if transport == "off":
        url = f"{SETTINGS}?group={SettingsGroup.EMAIL.value}"
        how = words(_SET_UP, url=url, setting="mail.host")
        return ObjectPage("", "", _EMAIL, (_OFF,), (how,))
    sender = code(settings.host) if transport == "smtp" else words(_IN_MAILBOX)
    return ObjectPage(
        "",
        "",
        _EMAIL,
        notes=(_REFUSED,) if tested == "refused" else (),
        done=_QUEUED if tested == "queued" else "",
        facts=facts(
            (
                (translatable("Sent by"), sender),
                (translatable("From"), text(settings.from_address)),
                (translatable("Queued"), Part("number", count=state.waiting)),
            )
        ),
        related=(
            *((_test(to),) if may_test else ()),
            Related(
                "failed",
                translatable("Failed"),
                _lines(state.given_up, now),
                translatable("No failed emails."),
            ),
            Related(
                "sent",
                translatable("Accepted by the mail server"),
                _lines(state.sent, now),
                translatable("No email sent yet."),
            ),
        ),
    )


def _test(to: str) -> Related:
    title = translatable("Send test email")
    act = LineButton(MAIL, title, title, to, (("to", "me"),), "do")
    line = Line(words(translatable("The test email is sent to %(address)s."), address=to), act=act)
    return Related("test", translatable("Test"), (line,))


def _lines(events: Sequence[EventRecord], now: Instant) -> tuple[Line, ...]:
    read = [(event, msgspec.json.decode(event.data, type=_EventData)) for event in events]
    return tuple(
        Line(
            # A version before or after this one may have other kinds.
            words(label) if (label := label_of(value.kind)) else code(value.kind),
            below=(
                *((text(value.because),) if value.because else ()),
                words(translatable("attempt %(number)s"), number=value.attempts),
                since(When(event.at, now)),
            ),
        )
        for event, value in read
    )
