"""/admin/users: people, searched and filtered, page by page."""

import re
from dataclasses import dataclass
from urllib.parse import urlencode

from valetkey.authorization.deeds.admin.search import find_people
from valetkey.authorization.endpoints.admin.people.addresses import USERS, user_address
from valetkey.authorization.endpoints.admin.visit import actor_of, administered
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.user import LARGEST_UID, Uid, User
from valetkey.authorization.pages.admin.people.users import ROLE_WORDS, PersonLine, UsersPage
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.administration.people import Filter
from valetkey.kernel.moment import Instant, minutes
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

SHOWN = 50
"""People on a page."""

_LONGEST = 200
_NEWS = minutes(5)
_UID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class UsersEndpoint:
    """The list."""

    site: Site

    async def get(self, request: Request) -> Response:
        """A page of it."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        query, actor = read_query(request.query, opaque=("q",)), actor_of(seen)
        text = (query.get("q") or "")[:_LONGEST]
        said, after = query.get("show") or "", query.get("after") or ""
        chosen = Filter(said) if said in set(Filter) else Filter.ALL
        gone, since = uid_of(query.get("deleted") or ""), Instant(request.at - _NEWS)
        found, deleted = await self.site.store.scan(
            lambda tx: (
                find_people(tx, actor, text, chosen, after, SHOWN),
                # True, whatever the address says.
                gone is not None and tx.people.did(actor.done_by, "user.removed", gone, since),
            )
        )
        page = UsersPage(
            action=USERS,
            text=text,
            chosen=chosen.value,
            listed=tuple(line_of(user, request.at) for user in found.users),
            more=_address(text, chosen, found.more) if found.more else "",
            first=_address(text, chosen, "") if after else "",
            deleted=deleted,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)


def uid_of(text: str) -> Uid | None:
    """The uid that is written so; None for what is none."""
    if _UID.fullmatch(text) is None or int(text) > LARGEST_UID:
        return None
    return Uid(int(text))


def line_of(user: User, now: Instant) -> PersonLine:
    """The person in one line."""
    return PersonLine(
        uid=user.uid,
        username=user.username,
        name=user.name,
        email=user.email,
        verified=user.email_verified_at is not None,
        disabled=user.disabled_at is not None,
        role="" if user.role is None else ROLE_WORDS[user.role],
        since=When(user.created_at, now),
        url=user_address(user.uid),
    )


def _address(text: str, chosen: Filter, after: str) -> str:
    said = {"q": text, "show": "" if chosen is Filter.ALL else chosen.value, "after": after}
    query = urlencode({name: value for name, value in said.items() if value})
    return f"{USERS}?{query}" if query else USERS
