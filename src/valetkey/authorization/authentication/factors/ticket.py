"""Tickets: encrypted data that a page must return unchanged, valid for a short time."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.seal import Sealer

T = TypeVar("T", bound=msgspec.Struct)


class Ticket(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The user and browser of a ticket, and its expiry."""

    uid: int
    browser: str
    expires_at: int


def seal_ticket(
    ticket: msgspec.Struct, purpose: str, sealer: Sealer, random: Callable[[int], bytes]
) -> str:
    """Encrypt the ticket as text for this purpose."""
    return sealer.seal(msgspec.msgpack.encode(ticket), f"ticket:{purpose}", random)


def open_ticket(
    text: str, kind: type[T], purpose: str, sealer: Sealer, lifetime: Lifetime, now: Instant
) -> T | None:
    """Decrypt the output of `seal_ticket`; None for anything else.

    Also None for a ticket that has expired, or was issued in the future, for `lifetime`.
    """
    plain = sealer.open(text, f"ticket:{purpose}")
    if plain is None:
        return None
    try:
        ticket = msgspec.msgpack.decode(plain, type=kind)
    except msgspec.MsgspecError:
        # Encrypted by this server, but by a version with another ticket format.
        return None
    expires_at = Instant(getattr(ticket, "expires_at", 0))
    return ticket if is_live(Instant(expires_at - lifetime), expires_at, now) else None
