"""/admin/mail: how the post stands, and a letter to try it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from valetkey.authorization.deeds.account.mailroom import Mailroom
from valetkey.authorization.deeds.admin.permissions import Permission, powers_of
from valetkey.authorization.deeds.admin.things import mail
from valetkey.authorization.endpoints.admin.things.addresses import MAIL
from valetkey.authorization.endpoints.admin.visit import (
    actor_of,
    administered,
    administered_form,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.admin.things.server.mail import MailPage, PostLine
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.records import EventRecord
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_TESTED = ("queued", "refused")


class _Said(msgspec.Struct):
    kind: str = ""
    attempts: int = 1
    because: str = ""


@dataclass(frozen=True, slots=True)
class MailEndpoint:
    """The post."""

    site: Site
    mailroom: Mailroom

    async def get(self, request: Request) -> Response:
        """How it stands."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        actor, user = actor_of(seen), seen.signed_in.user
        state = await self.site.store.scan(lambda tx: mail.look(tx, actor))
        tested = read_query(request.query).get("tested") or ""
        settings = self.mailroom.settings
        page = MailPage(
            action=MAIL,
            csrf=seen.csrf,
            transport=transport_of(self.mailroom),
            server=settings.host,
            sender=settings.from_address,
            to=user.email,
            waiting=state.waiting,
            sent=_lines(state.sent, request.at),
            given_up=_lines(state.given_up, request.at),
            may_test=powers_of(user.role).allow(Permission.SETTINGS),
            tested=tested if tested in _TESTED else "",
        )
        return self.site.page(request, page, user=user, headers=seen.headers)

    async def test(self, request: Request) -> Response:
        """Write to whoever asks."""
        found = await administered_form(self.site, request, Permission.SETTINGS)
        if isinstance(found, Response):
            return found
        actor = actor_of(found[0])
        queued = await self.site.store.write(
            lambda tx: mail.send_test(tx, actor, self.mailroom, actor.uid, request.at),
            done_by=actor.done_by,
        )
        return self.site.goes_to(f"{MAIL}?tested={'queued' if queued else 'refused'}")


def transport_of(mailroom: Mailroom) -> Literal["smtp", "mailbox", "off"]:
    """How letters are sent."""
    if not mailroom.is_on:
        return "off"
    return "mailbox" if mailroom.settings.is_mailbox else "smtp"


def _lines(found: Sequence[EventRecord], now: Instant) -> tuple[PostLine, ...]:
    read = [(each, msgspec.json.decode(each.data, type=_Said)) for each in found]
    return tuple(
        PostLine(said.kind, When(each.at, now), said.attempts, said.because) for each, said in read
    )
