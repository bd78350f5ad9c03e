"""/developer/apps/{id}/people: who connected with an app."""

import re
from dataclasses import dataclass
from urllib.parse import quote

from valetkey.authorization.deeds.developer.people import ConnectedPerson, people_of
from valetkey.authorization.endpoints.account.visit import visit
from valetkey.authorization.endpoints.developer.insight.failures import not_ours
from valetkey.authorization.endpoints.developer.insight.usage import ACTIVE_DAYS
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.insight.people import PeoplePage, PersonLine
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.register.usage import day_of
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

SHOWN = 25
"""People on a page."""

_NEWEST = (Instant(1 << 53), 0)
_PLACE = re.compile(r"([1-9][0-9]{0,11})\.([1-9][0-9]{0,17})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PeopleEndpoint:
    """The people of one app."""

    site: Site

    async def get(self, request: Request) -> Response:
        """A page of them; `before` names the last one of the page above, sealed.

        To an app with pairwise subjects nobody's uid is told, and a uid cannot be guessed at.
        """
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        before = read_query(request.query).get("before")
        place = _NEWEST if before is None else self._parse(app.client.id, before)
        subjects, since = self.site.subjects, day_of(request.at) - ACTIVE_DAYS + 1
        crowd, active = await self.site.store.scan(
            lambda tx: (
                people_of(tx, app.client, subjects, place, SHOWN + 1, request.at),
                tx.usage.active_since(app.client.id, since),
            )
        )
        head, shown = head_of(app), crowd.people[:SHOWN]
        older = ""
        if len(crowd.people) > SHOWN:
            place_of_last = f"{shown[-1].since}.{shown[-1].uid}".encode()
            sealed = self.site.keyring.sealer.seal(
                place_of_last, _sealed_for(app.client.id), self.site.random
            )
            older = f"{head.at('people')}?before={quote(sealed, safe='')}"
        page = PeoplePage(
            head,
            tuple(_line(each, request.at) for each in shown),
            crowd.total,
            active,
            pairwise=app.client.openid.is_pairwise,
            newer=head.at("people") if before is not None else "",
            older=older,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    def _parse(self, client_id: str, before: str) -> tuple[Instant, int]:
        place = self.site.keyring.sealer.open(before, _sealed_for(client_id))
        match = None if place is None else _PLACE.fullmatch(place.decode())
        if match is None:
            raise not_ours()
        return Instant(int(match[1])), int(match[2])


def _line(person: ConnectedPerson, now: Instant) -> PersonLine:
    return PersonLine(
        person.subject,
        tuple(person.scope),
        When(person.since, now),
        None if person.last_used_at is None else When(person.last_used_at, now),
        person.name,
        person.email,
    )


def _sealed_for(client_id: str) -> str:
    return f"developer.people:{client_id}"
