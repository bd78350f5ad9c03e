"""The public keys of clients: by value, or at an address of theirs, remembered for a while.

OpenID Connect Core section 10.1.1: a client exchanges its keys by publishing others, and tells
nobody. So a signature that no known key made is worth another look, and looks cost something.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace

from valetkey.authorization.model.register.client import Client
from valetkey.fetch.door import Door, Unfetchable
from valetkey.kernel.jose.jwe import EncryptionKeys
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, days, later, minutes, seconds
from valetkey.kernel.refusal import Refused

LIFE = minutes(5)
"""How long a set is used without another look: after that a withdrawn key is worth nothing."""

LOOK_AGAIN = seconds(30)
"""How soon another look is taken after one that brought nothing new."""

_EARLY = minutes(1)
"""As long before the end of its life a set in use is read anew, while nobody waits for it."""

_AWAY = days(1)
"""How long a set is used beyond its life while the client's server does not answer."""

_MOST = 1_000
_TYPES = ("application/json", "application/jwk-set+json")


@dataclass(frozen=True, slots=True)
class _Kept:
    """What an address said, and when somebody looked; `futile_at` for a look that was no use."""

    document: bytes
    signing: KeySet
    encryption: EncryptionKeys
    read_at: Instant
    futile_at: Instant | None = None

    def may_look(self, now: Instant) -> bool:
        return self.futile_at is None or later(self.futile_at, LOOK_AGAIN) <= now

    def is_due(self, now: Instant) -> bool:
        return later(self.read_at, LIFE) <= now


_Place = tuple[str, str]


class ClientKeys:
    """The keys that clients registered, and those at addresses that they registered."""

    def __init__(self, door: Door) -> None:
        """Know no address yet; ask through `door`."""
        self._door = door
        # By client too: what others make us look at costs this client nothing.
        self._kept: OrderedDict[_Place, _Kept] = OrderedDict()
        self._troubles: OrderedDict[_Place, str] = OrderedDict()
        self._early: dict[_Place, asyncio.Task[_Kept | None]] = {}

    async def signing(self, client: Client, now: Instant, *, kid: str | None = None) -> KeySet:
        """The keys with which this client signs; `kid` is the one that a signature names.

        Keys at a `jwks_uri` are remembered for 5 minutes and read again before; where they do not
        have `kid`, at once, though not within 30 seconds of a look that was no use. Empty for a
        client that has no keys, or whose server gave none when it was asked.
        """
        place = _place(client)
        if place is None:
            return client.key_set
        kept = await self._current(place, now)
        if kept is not None and kid is not None and kept.signing.find(kid) is None:
            kept = await self._look_again(place, kept, now)
        return KeySet() if kept is None else kept.signing

    async def signing_again(self, client: Client, now: Instant) -> KeySet:
        """The same for who met a signature that no known key made: perhaps there are new ones."""
        place = _place(client)
        if place is None:
            return client.key_set
        kept = self._kept.get(place)
        if kept is None:
            return await self.signing(client, now)
        kept = await self._look_again(place, kept, now)
        return kept.signing

    async def encryption(self, client: Client, now: Instant) -> EncryptionKeys:
        """The keys to which answers for this client are encrypted, by value or at its `jwks_uri`.

        Empty for a client that has none, or whose server gave none when it was asked.
        """
        place = _place(client)
        if place is not None:
            kept = await self._current(place, now)
            return EncryptionKeys() if kept is None else kept.encryption
        document = client.openid.encryption_keys
        return EncryptionKeys.parse(document.encode()) if document else EncryptionKeys()

    def trouble(self, client: Client) -> str:
        """The rule that failed when its `jwks_uri` was last read, for the record; "" for none."""
        place = _place(client)
        return "" if place is None else self._troubles.get(place, "")

    async def _current(self, place: _Place, now: Instant) -> _Kept | None:
        kept = self._kept.get(place)
        if kept is None:
            return await self._read(place, now)
        self._kept.move_to_end(place)
        if not kept.may_look(now):
            return kept
        if kept.is_due(now):
            return await self._read(place, now)
        if kept.is_due(later(now, _EARLY)) and place not in self._early:
            task = asyncio.create_task(self._read(place, now))
            self._early[place] = task
            task.add_done_callback(lambda _: self._early.pop(place))
        return kept

    async def _look_again(self, place: _Place, kept: _Kept, now: Instant) -> _Kept:
        if not kept.may_look(now):
            return kept
        found = await self._read(place, now) or kept
        if found.document == kept.document:
            found = replace(found, futile_at=now)
            self._keep(place, found)
        return found

    async def _read(self, place: _Place, now: Instant) -> _Kept | None:
        """What the address says now; what it said before, while it says nothing."""
        try:
            fetched = await self._door.get(place[1], accept=_TYPES)
            # A key of a kind we do not know may be meant for somebody else.
            signing = KeySet.parse(fetched.body, ignore_unknown=True)
            encryption = EncryptionKeys.parse(fetched.body)
        except (Unfetchable, Refused) as error:
            self._note(place, error)
            before = self._kept.get(place)
            if before is not None and later(before.read_at, _AWAY) > now:
                kept = replace(before, futile_at=now)
            elif isinstance(error, Unfetchable):
                # The door itself remembers for a moment what gave nothing.
                self._kept.pop(place, None)
                return None
            else:
                kept = _Kept(b"", KeySet(), EncryptionKeys(), now, futile_at=now)
        else:
            # Replaced, never merged: a key that is gone was withdrawn.
            kept = _Kept(fetched.body, signing, encryption, now)
            self._troubles.pop(place, None)
        self._keep(place, kept)
        return kept

    def _note(self, place: _Place, error: Unfetchable | Refused) -> None:
        check = error.check if isinstance(error, Unfetchable) else error.refusal.check
        self._troubles[place] = check
        if len(self._troubles) > _MOST:
            self._troubles.popitem(last=False)

    def _keep(self, place: _Place, kept: _Kept) -> None:
        self._kept[place] = kept
        self._kept.move_to_end(place)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)


def _place(client: Client) -> _Place | None:
    uri = client.openid.jwks_uri
    return (client.id, uri) if uri else None
