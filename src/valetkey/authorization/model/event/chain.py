"""The hash chain of the audit log: blocks of events, each with a signed checkpoint.

A block lists the id, time, name and hash of each of its events. Its own hash covers that list, the
block's time, the retention that applied, and the hash of the block before it. Events can therefore
be deleted at the end of their retention while the chain still verifies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from types import ModuleType

import msgspec
from msgspec import Struct

from valetkey.authorization.model.event import accounts, administration, grants
from valetkey.authorization.model.event.event import Event
from valetkey.kernel.keyring import CheckpointKey, verifies
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import FingerprintKey, to_base64url


def _defined_in(module: ModuleType) -> tuple[type[Event], ...]:
    return tuple(
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, Event)
        and member.__module__ == module.__name__
    )


_MODULES = (grants, accounts, administration)

EVENTS: tuple[type[Event], ...] = tuple(
    event for module in _MODULES for event in _defined_in(module)
)


BLOCK = 256
"""Maximum number of events in one block."""

_GENESIS = "valetkey"


class ChainedEvent(msgspec.Struct, frozen=True, array_like=True):
    """The columns of an event as they are stored; the hash covers exactly these."""

    id: str
    at: Instant
    name: str
    client_id: str | None
    uid: int | None
    grant_id: str | None
    data: str
    done_by: str


class Retention(Struct, frozen=True):
    """The time for which events are kept: `usual`, or shorter for names in `of_name`."""

    usual: Lifetime
    of_name: Mapping[str, Lifetime]

    def lifetime_of(self, name: str) -> Lifetime:
        """Return the retention of events of this name."""
        return self.of_name.get(name, self.usual)

    def encode(self) -> str:
        """Return it as text: seconds, then `name=seconds` in the order of names."""
        return " ".join((str(self.usual), *(f"{n}={s}" for n, s in sorted(self.of_name.items()))))

    @staticmethod
    def decode(text: str) -> "Retention":
        """Parse the output of `encode`."""
        usual, *rest = text.split()
        pairs = (pair.split("=") for pair in rest)
        return Retention(
            Lifetime(int(usual)), {name: Lifetime(int(number)) for name, number in pairs}
        )


def retention(
    usual: Lifetime, shorter: Mapping[str, Lifetime], kinds: Iterable[type[Event]] = EVENTS
) -> Retention:
    """Return the retention by event name; a key of `shorter` is a name, or what its dot follows.

    Raises OperatorError for names that no event has, and for times longer than `usual`.
    """
    of_name: dict[str, Lifetime] = {}
    # The longer key is the narrower one.
    for key, lifetime in sorted(shorter.items(), key=lambda pair: len(pair[0])):
        names = [e.name for e in kinds if key in {e.name, e.name.partition(".")[0]}]
        if not names:
            raise OperatorError(f'there is no event "{key}"', "log.keep_events_of")
        if lifetime > usual:
            raise OperatorError(f'"{key}" is longer than log.keep_events', "log.keep_events_of")
        of_name.update(dict.fromkeys(names, lifetime))
    return Retention(usual, of_name)


class Entry(Struct, frozen=True):
    """One event of a block."""

    id: str
    at: Instant
    name: str
    hash: str


class Block(Struct, frozen=True):
    """A stored block; `number` counts from 1. Its events are from `first_at` to `last_at`."""

    number: int
    at: Instant
    first_at: Instant
    last_at: Instant
    keep: str
    """The retention that applied, as `Retention.encode` writes it."""
    entries: str
    """One line for each event: id, time, name and hash."""
    previous: str
    hash: str
    signature: str

    def listed(self) -> Iterator[Entry]:
        """Return the entries in the order of the chain. Raises ValueError for malformed ones."""
        for line in self.entries.splitlines():
            id_, at, name, hash_ = line.split(" ")
            yield Entry(id_, Instant(int(at)), name, hash_)

    def true_hash(self) -> str:
        """Compute the hash of its content."""
        content = (
            self.number,
            self.at,
            self.first_at,
            self.last_at,
            self.keep,
            self.entries,
            self.previous,
        )
        return _hash(_encode(content))

    def is_signed(self, public: str) -> bool:
        """Return whether the key `public` signed its hash."""
        return verifies(public, self.signature, _signed(self.number, self.hash))


class Checkpoint(msgspec.Struct, frozen=True):
    """Evidence outside the database of the chain's length at some time."""

    block: int
    at: Instant
    hash: str
    key: str
    signature: str

    def is_signed(self, public: str) -> bool:
        """Return whether the key `public` made it."""
        return verifies(public, self.signature, _signed(self.block, self.hash))


def checkpoint_key(key: FingerprintKey) -> CheckpointKey:
    """Return the key that signs the blocks of the server with this keyring."""
    return CheckpointKey.derive(key, "audit log")


def checkpoint(block: Block, public: str) -> Checkpoint:
    """Return what an auditor keeps of a block to verify the chain up to it later."""
    return Checkpoint(block.number, block.at, block.hash, public, block.signature)


def next_block(
    previous: Block | None,
    events: Sequence[ChainedEvent],
    keep: Retention,
    now: Instant,
    key: CheckpointKey,
) -> Block:
    """Return the block of these events behind `previous`; without it, the first block.

    Its time is never before that of the previous block.
    """
    at = now if previous is None else max(now, previous.at)
    block = Block(
        number=1 if previous is None else previous.number + 1,
        at=at,
        first_at=min((event.at for event in events), default=at),
        last_at=max((event.at for event in events), default=at),
        keep=keep.encode(),
        entries="\n".join(
            f"{event.id} {event.at} {event.name} {event_hash(event)}" for event in events
        ),
        previous=_GENESIS if previous is None else previous.hash,
        hash="",
        signature="",
    )
    hash_ = block.true_hash()
    return replace(block, hash=hash_, signature=key.sign(_signed(block.number, hash_)))


def follows(block: Block, previous: Block | None) -> bool:
    """Return whether `block` is the one behind `previous`; the first block follows nothing."""
    if previous is None:
        return block.number == 1 and block.previous == _GENESIS
    return block.number == previous.number + 1 and block.previous == previous.hash


def event_hash(event: ChainedEvent) -> str:
    """Return the hash of an event: SHA-256 of its columns as a JSON array, in base64url."""
    return _hash(_encode(event))


def _hash(content: bytes) -> str:
    return to_base64url(sha256(content).digest())


def _signed(number: int, hash_: str) -> str:
    return f"valetkey audit block {number} {hash_}"


_encode = msgspec.json.Encoder().encode
