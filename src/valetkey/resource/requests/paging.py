"""Pages of a list: `limit`, and a cursor that only we can read (sealed, bound to its list)."""

import re
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from valetkey.kernel.moment import Instant, Lifetime, days
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.seal import Sealer, SealingKey
from valetkey.resource.storage.objects import START, Owner, Place
from valetkey.web.form import read_query

USUAL = 50
"""Records on a page, if the caller does not say."""

MOST = 200
"""Records on a page, whatever the caller says."""

LIFETIME: Lifetime = days(1)
"""How long a cursor can be used."""

_LIMIT = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_LONGEST = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """Which page: beginning after that place, with so many records at most."""

    after: Place = START
    limit: int = USUAL


class Pages:
    """Reads and writes the query of a list."""

    def __init__(self, key: bytes, runtime: Runtime) -> None:
        """Seal cursors under `key`, 32 bytes that every process of this server shares."""
        self._sealer = Sealer((SealingKey(1, key),))
        self._runtime = runtime

    def read(self, query: str, kind: str, owner: Owner, now: Instant) -> Asked:
        """The page that a query asks for. Raises Refused (400)."""
        form = read_query(query)
        for name in form.names:
            if name not in ("limit", "cursor"):
                raise _refused(
                    "a list takes the query parameters limit and cursor, and no others",
                    "query.unknown",
                )
        limit = form.get("limit")
        if limit is not None and (_LIMIT.fullmatch(limit) is None or int(limit) > MOST):
            raise _refused(f"limit must be a whole number from 1 to {MOST}", "query.limit")
        cursor = form.get("cursor")
        return Asked(
            START if cursor is None else self._open(cursor, kind, owner, now),
            USUAL if limit is None else int(limit),
        )

    def next_query(self, asked: Asked, last: Place, kind: str, owner: Owner, now: Instant) -> str:
        """The query of the page that begins after `last`."""
        content = msgspec.json.encode((now, last.created_at, last.id))
        cursor = self._sealer.seal(content, _context(kind, owner), self._runtime.random)
        return urlencode({"limit": asked.limit, "cursor": cursor})

    def _open(self, cursor: str, kind: str, owner: Owner, now: Instant) -> Place:
        content = None
        if len(cursor) <= _LONGEST:
            content = self._sealer.open(cursor, _context(kind, owner))
        if content is None:
            raise _refused("this cursor was not given out for this list", "query.cursor")
        at, created_at, last = msgspec.json.decode(content, type=tuple[int, int, str])
        if at + LIFETIME <= now:
            raise _refused("this cursor is too old: begin the list again", "query.cursor_age")
        return Place(Instant(created_at), last)


def _context(kind: str, owner: Owner) -> str:
    # Whoever it is given to, a cursor opens for the one whose list it came from, nobody else.
    return f"page:{kind}:{owner}"


def _refused(description: str, check: str) -> Refused:
    return Refused(Refusal(ErrorCode.INVALID_REQUEST, description, check))
