"""An operation of the admin API: one row of the table behind routes, checks and documents."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import msgspec

from valetkey.authorization.deeds.admin.api_tokens import Program
from valetkey.authorization.deeds.admin.permissions import Permission, Powers
from valetkey.authorization.deeds.foundation import Foundation
from valetkey.authorization.storage.records import DecisionQueue
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import Instant
from valetkey.kernel.preconditions import NO_PRECONDITIONS, Preconditions
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Pairs, Response

PREFIX = "/admin/api/v1"
"""What every path begins with."""

Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of a query: what it narrows, and what it may say."""

    name: str
    description: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Desk:
    """What operations work with."""

    foundation: Foundation
    decisions: DecisionQueue

    @property
    def store(self) -> Store:
        """What the server remembers."""
        return self.foundation.store

    def random(self, size: int) -> bytes:
        """So many bytes that nobody can guess."""
        return self.foundation.runtime.random(size)


@dataclass(frozen=True, slots=True)
class Call:
    """One call by somebody who may make it: everything about it was read and fits its schema."""

    actor: Program
    powers: Powers
    now: Instant
    arguments: Mapping[str, str]
    query: Mapping[str, str]
    body: object
    preconditions: Preconditions = NO_PRECONDITIONS

    def named(self, name: str) -> str:
        """This segment of the path, decoded; Refused (not found) for what names nothing."""
        text = unquote_to_bytes(self.arguments[name]).decode("latin-1")
        if not text.isascii() or not text.isprintable():
            raise Refused(
                Refusal(ErrorCode.NOT_FOUND, "nothing is at this address", "admin_api.name")
            )
        return text


@dataclass(frozen=True, slots=True)
class Told:
    """What an operation answers: a value for its schema, and what stands in the headers."""

    value: object = None
    etag: str = ""
    next: str = ""
    headers: Pairs = ()


Act = Callable[[Desk, Call], Awaitable["Told | Response"]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One row.

    `takes` is the type of the body, `gives` that of the answer; None for none. A `guarded` one
    wants the ETag of what it changes in If-Match. `refuses` are the statuses beyond those that
    every operation has. `media` are what it answers instead of JSON.
    """

    id: str
    method: str
    path: str
    permission: Permission
    summary: str
    act: Act
    description: str = ""
    takes: type[msgspec.Struct] | None = None
    gives: object = None
    status: int = 200
    query: Sequence[Parameter] = ()
    guarded: bool = False
    tagged: bool = False
    lists: bool = False
    refuses: Sequence[int] = ()
    media: Sequence[str] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(segment[1:-1] for segment in self.path.split("/") if segment.startswith("{"))
