"""/admin/mail: the state of email delivery, and a test email."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin import server
from valetkey.authorization.actions.admin.permissions import Permission, powers_of
from valetkey.authorization.email.outbox import MailOutbox
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable

MAIL = "/admin/mail"


class EmailLine(Struct, frozen=True):
    """The outcome of an email; `because` is "" for one that the mail server took."""

    kind: str
    when: When
    attempts: int
    because: str = ""


class MailPage(Struct, frozen=True):
    """The state of the outbox, and the button.

    `transport` is `smtp`, `mailbox` or `off`; `tested` is `queued`, `refused`, or "".
    """

    template: ClassVar[str] = "admin/server/mail.html"

    action: str
    csrf: str
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


class _Said(msgspec.Struct):
    kind: str = ""
    attempts: int = 1
    because: str = ""


class Mail(Struct, frozen=True):
    """The post."""

    store: Store
    outbox: MailOutbox

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The state of delivery, with the button for a test email."""
        test = Act(self.test, requires=administrator(Permission.SETTINGS))
        title = translatable("Email")
        return (Page(MAIL, administrator(), self.show, test, title=title, nav=SERVER),)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the state of the email queue."""
        actor, user = request.actor, request.user
        state = await self.store.scan(lambda tx: server.email_queue(tx, actor))
        tested = request.query.get("tested") or ""
        settings = self.outbox.settings
        page = MailPage(
            action=MAIL,
            csrf=request.csrf,
            transport=server.transport_of(self.outbox),
            server=settings.host,
            sender=settings.from_address,
            to=user.email,
            waiting=state.waiting,
            sent=_lines(state.sent, request.now),
            given_up=_lines(state.given_up, request.now),
            may_test=powers_of(user.role).allow(Permission.SETTINGS),
            tested=tested if tested in _TESTED else "",
        )
        return Show(page)

    async def test(self, request: AdminRequest) -> Outcome:
        """Send a test email to the signed-in administrator."""
        actor = request.actor
        queued = await self.store.write(
            lambda tx: server.send_test(tx, actor, self.outbox, actor.uid, request.now),
            done_by=actor.done_by,
        )
        return SeeOther(f"{MAIL}?tested={'queued' if queued else 'refused'}")


def _lines(found: Sequence[EventRecord], now: Instant) -> tuple[EmailLine, ...]:
    read = [(each, msgspec.json.decode(each.data, type=_Said)) for each in found]
    return tuple(
        EmailLine(said.kind, When(each.at, now), said.attempts, said.because) for each, said in read
    )
