"""/developer/apps/{client_id}/people: the users who connected with an app."""

import re
from collections.abc import Callable, Sequence
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.developer.people import (
    ConnectedUser,
    ConnectedUsers,
    people_of,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.protocol.resource import ScopeText, described
from valetkey.authorization.site.developer.app import APP, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.developer.monitoring.requests import unknown_place
from valetkey.authorization.site.developer.monitoring.usage import ACTIVE_DAYS
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show
from valetkey.authorization.storage.register.usage import day_of
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.subject import Subjects
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable

SHOWN = 25
"""Users on a page."""

_NEWEST = (Instant(1 << 53), 0)
_PLACE = re.compile(r"([1-9][0-9]{0,11})\.([1-9][0-9]{0,17})", re.ASCII)


class PersonLine(Struct, frozen=True):
    """One user as the app knows them; `name` and `email` where it may read those."""

    subject: str
    scope: tuple[ScopeText, ...]
    since: When
    #: None where the app has no access now and only need not ask again.
    last_used: When | None
    name: str = ""
    email: str = ""


class PeoplePage(Struct, frozen=True):
    """The context of people.html, newest first."""

    template: ClassVar[str] = "developer/monitoring/people.html"

    app: AppHead
    lines: tuple[PersonLine, ...]
    total: int
    #: How many used it in the last 30 days.
    active: int
    #: The app has pairwise subject identifiers (OpenID Connect Core 8.1).
    pairwise: bool = False
    newer: str = ""
    older: str = ""


class People(Struct, frozen=True):
    """List the users of one app."""

    store: Store
    keyring: Keyring
    random: Callable[[int], bytes]

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        title = translatable("Connected users")
        return (Page(f"{APP}/people", member_of_app, self.show, title=title, nav=True),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show a page of the users; `before` is the encrypted position of the previous page's end.

        Encrypted, because an app with pairwise subjects must not learn or guess a uid.
        """
        client, now, head = request.client, request.now, request.head
        before = request.query.get("before")
        place = _NEWEST if before is None else self._parse(client.id, before)
        subjects, since = Subjects(self.keyring.fingerprint_key), day_of(now) - ACTIVE_DAYS + 1

        def read(tx: Transaction) -> tuple[ConnectedUsers, Sequence[Api], int]:
            crowd = people_of(tx, client, subjects, place, SHOWN + 1, now)
            apis = tx.apis.of_scopes(name for each in crowd.people for name in each.scope)
            return crowd, apis, tx.usage.active_since(client.id, since)

        crowd, apis, active = await self.store.scan(read)
        shown = crowd.people[:SHOWN]
        older = ""
        if len(crowd.people) > SHOWN:
            place_of_last = f"{shown[-1].since}.{shown[-1].uid}".encode()
            sealed = self.keyring.sealer.seal(place_of_last, _sealed_for(client.id), self.random)
            older = f"{head.at('people')}?before={quote(sealed, safe='')}"
        return Show(
            PeoplePage(
                head,
                tuple(_line(each, apis, now) for each in shown),
                crowd.total,
                active,
                pairwise=client.openid.is_pairwise,
                newer=head.at("people") if before is not None else "",
                older=older,
            )
        )

    def _parse(self, client_id: str, before: str) -> tuple[Instant, int]:
        place = self.keyring.sealer.open(before, _sealed_for(client_id))
        match = None if place is None else _PLACE.fullmatch(place.decode())
        if match is None:
            raise unknown_place()
        return Instant(int(match[1])), int(match[2])


def _line(person: ConnectedUser, apis: Sequence[Api], now: Instant) -> PersonLine:
    return PersonLine(
        person.subject,
        tuple(described(person.scope, apis, {})),
        When(person.since, now),
        None if person.last_used_at is None else When(person.last_used_at, now),
        person.name,
        person.email,
    )


def _sealed_for(client_id: str) -> str:
    return f"developer.people:{client_id}"
