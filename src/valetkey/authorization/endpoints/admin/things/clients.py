"""/admin/clients: apps, searched and filtered, page by page."""

from dataclasses import dataclass

from valetkey.authorization.deeds.admin.things import clients
from valetkey.authorization.endpoints.admin.things.addresses import (
    CLIENTS,
    client_address,
    with_query,
)
from valetkey.authorization.endpoints.admin.visit import actor_of, administered
from valetkey.authorization.endpoints.admin_api.paging import cursor, place_in
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.admin.things.register.clients import ClientRow, ClientsPage
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.administration.client_search import ClientFilter, ClientLine
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

SHOWN = 50
"""Apps on a page."""

_LONGEST = 80
_WORDS = {
    "state": {"on": False, "off": True},
    "mark": {"yes": True, "no": False},
    "origin": {"self": True, "us": False},
    "legacy": {"yes": True, "no": False},
}
_TYPES = ("confidential", "public")
_PROFILES = ("modern", "classic")


@dataclass(frozen=True, slots=True)
class ClientsEndpoint:
    """The list."""

    site: Site

    async def get(self, request: Request) -> Response:
        """A page of it. What a filter does not know is as if it was not said."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        query, actor = read_query(request.query, opaque=("q",)), actor_of(seen)
        text = (query.get("q") or "").strip()[:_LONGEST]
        chosen = _chosen(query)
        before = place_in(query.get("after"))
        found = await self.site.store.scan(
            lambda tx: clients.search(tx, actor, _filter(text, chosen), before, SHOWN)
        )
        said = {"q": text, **chosen}
        after = cursor(found.after)
        page = ClientsPage(
            action=CLIENTS,
            text=text,
            chosen=chosen,
            listed=tuple(row_of(line, request.at) for line in found.lines),
            narrowed=bool(text) or any(chosen.values()),
            deleted="deleted" in query,
            more=with_query(CLIENTS, {**said, "after": after}) if after else "",
            first=with_query(CLIENTS, said) if "after" in query else "",
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)


def row_of(line: ClientLine, now: Instant) -> ClientRow:
    """The app in one row."""
    return ClientRow(
        name=line.name or line.id,
        client_id=line.id,
        url=client_address(line.id),
        type=line.type.value,
        profile=line.profile.value,
        since=When(line.created_at, now),
        disabled=line.disabled_at is not None,
        verified=line.verified_at is not None,
        self_registered=line.self_registered,
        legacy=line.is_legacy,
    )


def _chosen(query: Form) -> dict[str, str]:
    known = {name: tuple(words) for name, words in _WORDS.items()}
    known |= {"type": _TYPES, "profile": _PROFILES}
    said = {name: query.get(name) or "" for name in known}
    return {name: value if value in known[name] else "" for name, value in said.items()}


def _filter(text: str, chosen: dict[str, str]) -> ClientFilter:
    flags = {name: words.get(chosen[name]) for name, words in _WORDS.items()}
    return ClientFilter(
        text=text,
        type=chosen["type"] or None,
        profile=chosen["profile"] or None,
        disabled=flags["state"],
        verified=flags["mark"],
        self_registered=flags["origin"],
        legacy=flags["legacy"],
    )
