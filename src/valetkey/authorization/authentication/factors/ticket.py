"""Tickets: what a page must give back unchanged and unread, sealed, for a short while."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from valetkey.kernel.moment import Instant
from valetkey.kernel.seal import Sealer

T = TypeVar("T", bound=msgspec.Struct)


class Ticket(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """For whom and for which browser; `expires_at` is when it is too late."""

    uid: int
    browser: str
    expires_at: int


def seal_ticket(
    ticket: msgspec.Struct, purpose: str, sealer: Sealer, random: Callable[[int], bytes]
) -> str:
    """The ticket as text that only this server reads, and only for this purpose."""
    return sealer.seal(msgspec.msgpack.encode(ticket), f"ticket:{purpose}", random)


def open_ticket(text: str, kind: type[T], purpose: str, sealer: Sealer, now: Instant) -> T | None:
    """What `seal_ticket` sealed; None for anything else, and when it is too late."""
    plain = sealer.open(text, f"ticket:{purpose}")
    if plain is None:
        return None
    try:
        ticket = msgspec.msgpack.decode(plain, type=kind)
    except msgspec.MsgspecError:
        # Sealed by us all the same: by a version whose tickets had another shape.
        return None
    expires_at: int = getattr(ticket, "expires_at", 0)
    return ticket if expires_at > now else None
