"""/admin/settings and /admin/mail: each setting with its source, and email delivery."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin import audit, server
from valetkey.authorization.actions.admin.permissions import Permission, permissions_of
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
from valetkey.authorization.site.admin.server.setting_form import BUTTONS, SettingLine, line_of
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.search import END, EventFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.rules import Group
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
        return sum(each.origin != "default" for each in self.settings)


_GROUPS = {
    Group.SIGN_UP: (
        translatable("Sign-up"),
        translatable("Who may create an account, and how long a deleted one can be kept."),
    ),
    Group.SESSIONS: (
        translatable("Sessions"),
        translatable("How long users and administrators stay signed in."),
    ),
    Group.PASSWORDS: (
        translatable("Passwords and factors"),
        translatable("How passwords are stored, and when a second factor is asked for."),
    ),
    Group.EMAIL: (
        translatable("Email"),
        translatable("The mail server, and the sender of emails."),
    ),
    Group.TOKENS: (
        translatable("Tokens"),
        translatable("How long tokens, codes and signing keys are valid."),
    ),
    Group.APPS: (
        translatable("Registration of apps"),
        translatable("Who may register apps, and what such apps may do."),
    ),
    Group.DIRECTORIES: (
        translatable("Providers and directories"),
        translatable("Users who come from other systems."),
    ),
    Group.BRAND: (
        translatable("Brand and documentation"),
        translatable("How the pages look, and where the documentation is."),
    ),
    Group.PRIVACY: (
        translatable("Privacy"),
        translatable("What is recorded about users, and for how long."),
    ),
    Group.LIMITS: (
        translatable("Limits"),
        translatable("How much one user, app or network may do before it is delayed or refused."),
    ),
    Group.NETWORK: (
        translatable("Network"),
        translatable("Addresses, certificates, proxies and databases of the servers."),
    ),
    Group.MONITORING: (
        translatable("Monitoring"),
        translatable("Logs, events, metrics and traces."),
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
        groups: dict[str, list[SettingLine]] = {each.value: [] for each in Group}
        translate = translations(language_of(request.request, request.user)).gettext
        may = request.permissions.allow(Permission.SETTINGS)
        call = call_of(self.services, READ_SETTINGS, request.actor, request.now)
        changes = await self._changes(request)
        for each in (await value_of(call, SettingsShown)).items:
            if only_set and each.origin == "default":
                continue
            if not contains(each, translate, text.casefold().split()):
                continue
            line = line_of(each, may=may, by=changes.get(each.path))
            groups[each.group or Group.MONITORING].append(line)
        file = self.services.settings.source.file
        page = ServerSettingsPage(
            groups=tuple(
                SettingGroup(each, *_GROUPS[each], tuple(groups[each]))
                for each in Group
                if groups[each]
            ),
            file="" if file is None else str(file),
            brand_url=BRAND if may else "",
            changed="changed" in request.query,
            done=BUTTONS.done(request.query.get("done"), _DONE),
            text=text,
            only_set=only_set,
            opened=request.query.get("group") or "",
        )
        return Show(page)

    async def _changes(self, request: AdminRequest) -> Mapping[str, EventRow]:
        """Return the latest of the recorded changes of each setting."""

        def read(tx: Transaction) -> tuple[EventRow, ...]:
            wanted = EventFilter(name=SettingChanged.name)
            found = audit.page(tx, request.actor, wanted, END, _CHANGES)
            kinds = {SettingChanged.name: SettingChanged}
            return rows_of(found, names_in(tx, found), request.now, kinds)

        rows = await self.services.store.scan(read)
        return {each.values["setting"]: each for each in reversed(rows)}


def contains(each: SettingShown, translate: Callable[[str], str], words: Sequence[str]) -> bool:
    """Return whether every word is in the name, the variable or the explanation."""
    told = (each.label, each.reason, *_GROUPS.get(Group(each.group or Group.MONITORING), ()))
    said = " ".join(filter(None, (*told, *(translate(it) for it in told if it))))
    text = f"{each.path} {each.variable} {said}".casefold()
    return all(word in text for word in words)


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
