"""Pages of a list: sort, filters, `limit`, and an encrypted cursor bound to its list."""

import re
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from valetkey.kernel.keyring import Sealer, SealingKey
from valetkey.kernel.moment import Instant, Lifetime, days
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.runtime import Runtime
from valetkey.resource.resource_object import WORDS, ResourceObject
from valetkey.resource.storage.objects import CREATED, ListPosition, Owner
from valetkey.web.body import Form, read_query

USUAL = 50
"""Default number of records on a page."""

MOST = 200
"""Maximum number of records on a page."""

LIFETIME: Lifetime = days(1)
"""How long a cursor is valid."""

LONGEST = 200
"""Maximum number of characters in a filter value."""

LONGEST_CURSOR = 1_000
"""Maximum number of characters in a cursor; no valid one is longer."""

RESERVED = ("limit", "cursor", "sort")

_LIMIT = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)

Value = str | int | float | bool


class PageRequest(Struct, frozen=True):
    """A requested page of a list: its order, filters, start position and size."""

    after: ListPosition | None = None
    limit: int = USUAL
    by: str = CREATED
    descending: bool = False
    filters: tuple[tuple[str, Value], ...] = ()

    @property
    def sort(self) -> str:
        """Return the order as the query spells it."""
        return f"-{self.by}" if self.descending else self.by

    def next_query(self, cursor: str) -> str:
        """Return the query of the page that begins at a cursor."""
        parameters: dict[str, object] = {"limit": self.limit, "cursor": cursor}
        if self.sort != CREATED:
            parameters["sort"] = self.sort
        return urlencode({**parameters, **{name: _text(value) for name, value in self.filters}})


class Pages:
    """Parse and build the query of a list."""

    def __init__(self, key: bytes, runtime: Runtime) -> None:
        """Encrypt cursors under `key`, 32 bytes that all processes of this server share."""
        self._sealer = Sealer((SealingKey(1, key),))
        self._runtime = runtime

    def read(self, query: str, kind: ResourceObject, owner: Owner, now: Instant) -> PageRequest:
        """Parse a query. Raises Refused (400)."""
        if not query:
            return PageRequest()
        form = read_query(query)
        for name in form.names:
            if name not in RESERVED and name not in kind.filter:
                names = ", ".join((*RESERVED, *kind.filter))
                raise _refused(
                    f"this list takes the query parameters {names}, and no others", "query.unknown"
                )
        limit = form.get("limit")
        if limit is not None and (_LIMIT.fullmatch(limit) is None or int(limit) > MOST):
            raise _refused(f"limit must be a whole number from 1 to {MOST}", "query.limit")
        by, descending = _sort(form.get("sort"), kind)
        page_request = PageRequest(
            None, USUAL if limit is None else int(limit), by, descending, _filters(form, kind)
        )
        cursor = form.get("cursor")
        if cursor is None:
            return page_request
        after = self._open(cursor, page_request, kind, owner, now)
        return PageRequest(after, page_request.limit, by, descending, page_request.filters)

    def cursor(
        self,
        page_request: PageRequest,
        last: ListPosition,
        kind: ResourceObject,
        owner: Owner,
        now: Instant,
    ) -> str:
        """Return the cursor of the page after `last`, for the same order and filters."""
        content = msgspec.json.encode((now, last.value, last.id))
        return self._sealer.seal(content, _context(page_request, kind, owner), self._runtime.random)

    def _open(
        self,
        cursor: str,
        page_request: PageRequest,
        kind: ResourceObject,
        owner: Owner,
        now: Instant,
    ) -> ListPosition:
        content = None
        if len(cursor) <= LONGEST_CURSOR:
            content = self._sealer.open(cursor, _context(page_request, kind, owner))
        if content is None:
            raise _refused("this cursor was not given out for this list", "query.cursor")
        at, value, last = msgspec.json.decode(content, type=tuple[int, int | str, str])
        if at + LIFETIME <= now:
            raise _refused("this cursor is too old: begin the list again", "query.cursor_age")
        return ListPosition(value, last)


def _sort(text: str | None, kind: ResourceObject) -> tuple[str, bool]:
    if text is None:
        return CREATED, False
    by = text.removeprefix("-")
    if by != CREATED and by not in kind.sort:
        names = ", ".join((CREATED, *kind.sort))
        raise _refused(f"sort must be one of {names}, or that with - before it", "query.sort")
    return by, text.startswith("-")


def _filters(form: Form, kind: ResourceObject) -> tuple[tuple[str, Value], ...]:
    # In the order of declaration: one list for every order of the query's parameters.
    filters: list[tuple[str, Value]] = []
    for name in kind.filter:
        text = form.get(name)
        if text is None:
            continue
        scalar = kind.scalars[name]
        value = scalar.read(text) if len(text) <= LONGEST else None
        if value is None:
            raise _refused(f"{name} must be {WORDS[scalar]}, not too long", "query.filter")
        # A value that no object can have is a mistake, not an empty list.
        if fault := kind.fields.fault(name, value):
            raise _refused(f"{name}: {fault}", "query.filter")
        filters.append((name, value))
    return tuple(filters)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _context(page_request: PageRequest, kind: ResourceObject, owner: Owner) -> str:
    # A cursor only works for the owner and list it was issued for.
    which = msgspec.json.encode((page_request.sort, page_request.filters)).decode()
    return f"page:{kind.name}:{owner}:{which}"


def _refused(description: str, check: str) -> Refused:
    return Refused.because(ErrorCode.INVALID_REQUEST, description, check)
