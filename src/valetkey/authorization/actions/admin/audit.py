"""The audit log for administrators: search, export, and verify its hash chain."""

import csv
import io
from collections.abc import AsyncGenerator, Mapping, Sequence
from enum import StrEnum
from functools import partial

import msgspec
from msgspec import Struct, field

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.model.event.administration import EventsExported
from valetkey.authorization.model.event.chain import (
    Block,
    ChainedEvent,
    Checkpoint,
    Entry,
    Retention,
    event_hash,
    follows,
)
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.user import LARGEST_UID
from valetkey.authorization.storage.records import NOWHERE, EventRecord
from valetkey.authorization.storage.search import END, EventFilter, TimeCursor
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant, written
from valetkey.kernel.replace import replace

MOST_FAULTS = 1_000
"""Maximum number of faults that are reported; verification stops there."""

_BLOCKS = 20
_EVENTS = 5_000


class FaultKind(StrEnum):
    """The kind of fault in an event, a block or the end of the chain."""

    REMOVED = "removed"
    CHANGED = "changed"
    INSERTED = "inserted"
    BLOCK = "block"
    CUT = "cut"


class Fault(Struct, frozen=True):
    """A record that was altered; `record_id` is the event's id or the block's number."""

    kind: FaultKind
    record_id: str
    detail: str


class VerificationResult(Struct):
    """Counts of what was verified, and what was found wrong in the chain."""

    blocks: int = 0
    events: int = 0
    expired: int = 0
    """Events that were deleted at the end of their retention."""
    waiting: Instant | None = None
    """The time of the oldest event that is not in the chain yet."""
    head: Block | None = None
    faults: list[Fault] = field(default_factory=list[Fault])

    @property
    def is_whole(self) -> bool:
        """Return whether no record was altered."""
        return not self.faults


async def verify(
    store: Store, public: str, checkpoints: Sequence[Checkpoint] = ()
) -> VerificationResult:
    """Verify every block and event. The server may be running.

    `public` is the key that has signed the blocks. Earlier `checkpoints` reveal that the end of the
    chain was cut off or rewritten; a checkpoint not signed by this key is a fault.
    """
    walk = _Verification(public, await store.scan(partial(_expired, public)))
    while pages := await store.scan(partial(walk.read, walk.verdict.head)):
        walk.verify_blocks(pages)
        if len(walk.missing) + len(walk.verdict.faults) >= MOST_FAULTS:
            break
    # Read again: more events may have expired since the first read.
    walk.end(await store.scan(partial(_expired, public)))
    position: tuple[Instant, str] | None = (Instant(-1), "")
    while position is not None and len(walk.verdict.faults) < MOST_FAULTS:
        position = await store.scan(partial(walk.read_unlisted, *position))
    walk.compare(checkpoints, await store.scan(partial(_blocks_at, checkpoints)))
    walk.verdict.waiting = await store.scan(lambda tx: tx.audit_chain.oldest_waiting())
    return walk.verdict


class _Expired(Struct, frozen=True):
    """The retentions that signed blocks state, each with the time of its newest block."""

    stated: Sequence[tuple[Retention, Instant]]

    def event(self, entry: Entry) -> bool:
        """Return whether the event could be deleted by its retention."""
        return any(entry.at < at - keep.lifetime_of(entry.name) for keep, at in self.stated)

    def block(self, block: Block) -> bool:
        """Return whether retention allows every event of the block to be deleted."""
        return any(block.last_at < at - keep.usual for keep, at in self.stated)


class _Page(Struct, frozen=True):
    block: Block
    wrong: str
    """Why the block itself is not genuine, or ""."""
    events: Mapping[str, ChainedEvent]
    elsewhere: frozenset[str]
    """Ids of listed events that are stored, but with another block or time."""


class _Verification(Struct):
    public: str
    expired: _Expired
    verdict: VerificationResult = field(default_factory=VerificationResult)
    missing: list[Entry] = field(default_factory=list[Entry])
    first: Block | None = None

    def read(self, after: Block | None, tx: Transaction) -> list[_Page]:
        """Read the next blocks with their events."""
        blocks = tx.audit_chain.page(0 if after is None else after.number, _BLOCKS)
        return [self._page(tx, block) for block in blocks]

    def _page(self, tx: Transaction, block: Block) -> _Page:
        wrong = _fault_of(block, self.public)
        if wrong:
            return _Page(block, wrong, {}, frozenset())
        events = {event.id: event for event in tx.audit_chain.events_of(block)}
        absent = (e for e in block.listed() if e.id not in events and not self.expired.event(e))
        elsewhere = {e.id for e in absent if tx.audit_chain.event(e.id) is not None}
        return _Page(block, wrong, events, frozenset(elsewhere))

    def verify_blocks(self, pages: Sequence[_Page]) -> None:
        """Judge blocks in their order, each with its events."""
        for page in pages:
            block, before = page.block, self.verdict.head
            self.first = self.first or block
            self.verdict.blocks += 1
            self.verdict.head = block
            if before is not None and not follows(block, before):
                detail = f"it does not follow block {before.number}"
                self._fault(FaultKind.BLOCK, str(block.number), detail)
            if page.wrong:
                self._fault(FaultKind.BLOCK, str(block.number), page.wrong)
            else:
                self._judge_events(page)

    def _judge_events(self, page: _Page) -> None:
        listed = list(page.block.listed())
        for entry in listed:
            self.verdict.events += 1
            event = page.events.get(entry.id)
            if event is not None:
                if event_hash(event) != entry.hash:
                    detail = f"{entry.name} in block {page.block.number}"
                    self._fault(FaultKind.CHANGED, entry.id, detail)
            elif entry.id in page.elsewhere:
                self._fault(FaultKind.CHANGED, entry.id, f"{entry.name}: its block or its time")
            elif self.expired.event(entry):
                self.verdict.expired += 1
            else:
                self.missing.append(entry)
        for id_ in page.events.keys() - {entry.id for entry in listed}:
            self._fault(FaultKind.INSERTED, id_, f"block {page.block.number} does not list it")

    def end(self, expired: _Expired) -> None:
        """Check what can be judged only after the whole chain was read."""
        for entry in self.missing:
            if expired.event(entry):
                self.verdict.expired += 1
            else:
                self._fault(FaultKind.REMOVED, entry.id, entry.name)
        first = self.first
        if first is not None and first.number != 1 and not expired.block(first):
            detail = "the blocks before it were removed before their retention ended"
            self._fault(FaultKind.BLOCK, str(first.number), detail)

    def read_unlisted(self, at: Instant, after: str, tx: Transaction) -> tuple[Instant, str] | None:
        """Look at a page of events for those that no block can list."""
        events, position = tx.audit_chain.unlisted_events(at, after, _EVENTS)
        for id_, name in events:
            # An event that a block lists was reported there: it was changed, not inserted.
            if not any(fault.record_id == id_ for fault in self.verdict.faults):
                self._fault(FaultKind.INSERTED, id_, f"{name}: no block lists it")
        return position

    def compare(self, checkpoints: Sequence[Checkpoint], blocks: Sequence[Block | None]) -> None:
        """Judge earlier checkpoints by the blocks that have their numbers now."""
        for checkpoint, block in zip(checkpoints, blocks, strict=True):
            if not checkpoint.is_signed(self.public):
                self._fault(
                    FaultKind.CUT, str(checkpoint.block), "another key signed the checkpoint"
                )
            elif block is not None and block.hash != checkpoint.hash:
                self._fault(FaultKind.CUT, str(checkpoint.block), "another block had this number")
            elif block is None and (self.first is None or checkpoint.block >= self.first.number):
                self._fault(
                    FaultKind.CUT, str(checkpoint.block), "the chain ended behind this block"
                )

    def _fault(self, kind: FaultKind, what: str, detail: str) -> None:
        if len(self.verdict.faults) < MOST_FAULTS:
            self.verdict.faults.append(Fault(kind, what, detail))


def _fault_of(block: Block, public: str) -> str:
    if block.true_hash() != block.hash:
        return "its content does not match its hash"
    return "" if block.is_signed(public) else "this server's key did not sign it"


def _expired(public: str, tx: Transaction) -> _Expired:
    newest = (
        tx.audit_chain.find(number) for number in tx.audit_chain.newest_by_retention(MOST_FAULTS)
    )
    genuine = [block for block in newest if block is not None and not _fault_of(block, public)]
    return _Expired([(Retention.decode(block.keep), block.at) for block in genuine])


def _blocks_at(checkpoints: Sequence[Checkpoint], tx: Transaction) -> Sequence[Block | None]:
    return [tx.audit_chain.find(checkpoint.block) for checkpoint in checkpoints]


FORMATS = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
"""The formats of a copy, with their media types."""

MOST_EVENTS = 100_000
"""Maximum number of events in one copy."""

_PIECE = 500
_HEAD = (
    "id",
    "at",
    "name",
    "client_id",
    "uid",
    "grant_id",
    "done_by",
    "data",
    "ip_address",
    "browser",
    "subject",
)
BYTE_ORDER_MARK = "\ufeff"
"""The beginning of CSV for spreadsheets: without it, Excel does not read it as UTF-8."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def page(
    tx: Transaction, actor: Actor, criteria: EventFilter, before: TimeCursor, limit: int
) -> Sequence[EventRecord]:
    """Return at most `limit` events, newest first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.event_search.page(criteria, before, limit)


class EventOutcome(StrEnum):
    """What events are about: something that failed, or anything else."""

    SUCCESS = "success"
    FAILURE = "failure"


def with_outcome(
    criteria: EventFilter, outcome: str, kinds: Mapping[str, type[Event]]
) -> EventFilter:
    """Return the filter for events with this outcome, "" for any."""
    failures = tuple(sorted(name for name, kind in kinds.items() if kind.is_failure))
    if outcome == EventOutcome.FAILURE:
        return _only(criteria, failures)
    return replace(criteria, without=failures) if outcome == EventOutcome.SUCCESS else criteria


_USER = "user"
_CLIENT = "client"


def subject_rule(kinds: Mapping[str, type[Event]]) -> str:
    """Return what `with_subject` accepts, as a text for errors."""
    kinds_shown = sorted({kind.subject_kind() for kind in kinds.values()} - {""})
    return f"user:UID, client:ID, KIND:ID or KIND, which is one of {', '.join(kinds_shown)}"


def with_subject(
    criteria: EventFilter, subject: str, kinds: Mapping[str, type[Event]]
) -> EventFilter | None:
    """Return the filter for events about an object, `KIND:ID`, or all of a kind; "" for any.

    None for another text. Of users and clients it takes one, not all.
    """
    kind, _, id_ = subject.partition(":")
    if not subject:
        return criteria
    if kind == _USER and id_.isascii() and id_.isdigit() and 0 < int(id_) <= LARGEST_UID:
        matches = criteria.uid in {None, int(id_)}
        return replace(criteria, uid=int(id_)) if matches else _only(criteria, ())
    if kind == _CLIENT and id_:
        matches = criteria.client_id in {"", id_}
        return replace(criteria, client_id=id_) if matches else _only(criteria, ())
    of_kind = tuple(
        sorted(
            name for name, event_type in kinds.items() if kind and event_type.subject_kind() == kind
        )
    )
    if not of_kind:
        return None
    return replace(criteria, subject=subject) if id_ else _only(criteria, of_kind)


def _only(criteria: EventFilter, names: Sequence[str]) -> EventFilter:
    before = criteria.only
    return replace(criteria, only=tuple(n for n in names if before is None or n in before))


def begin_export(tx: Transaction, actor: Actor, format: str, now: Instant) -> None:
    """Record in the log that a copy is taken. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    tx.events.add(EventsExported(format), now)


async def export(
    store: Store, actor: Actor, criteria: EventFilter, format: str
) -> AsyncGenerator[bytes]:
    """Yield the copy in pieces, newest first; a piece is read once the one before was sent."""
    if format == "csv":
        yield BYTE_ORDER_MARK.encode() + table_of([_HEAD])
    cursor, left = END, MOST_EVENTS
    while left > 0:
        before, limit = cursor, min(_PIECE, left)
        events = await store.scan(
            # Checked for each piece: the actor may lose the role meanwhile.
            lambda tx, before=before, limit=limit: page(tx, actor, criteria, before, limit)  # type: ignore[misc]
        )
        if events:
            yield (
                table_of([_row(event) for event in events]) if format == "csv" else _ndjson(events)
            )
            cursor = TimeCursor(events[-1].at, events[-1].id)
        left -= len(events)
        if len(events) < limit:
            return


def _row(event: EventRecord) -> Sequence[str]:
    origin = event.origin or NOWHERE
    cells = (
        event.id,
        written(event.at),
        event.name,
        event.client_id,
        event.uid,
        event.grant_id,
        event.done_by,
        event.data,
        origin.address,
        origin.shown_browser,
        event.subject,
    )
    return ["" if cell is None else str(cell) for cell in cells]


def escape_formula(text: str) -> str:
    """Return the text, after an apostrophe if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def table_of(rows: Sequence[Sequence[str]]) -> bytes:
    """Return the rows as CSV, without a cell that is a formula."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([escape_formula(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def _ndjson(events: Sequence[EventRecord]) -> bytes:
    return b"".join(msgspec.json.encode(as_json(event)) + b"\n" for event in events)


def as_json(event: EventRecord) -> dict[str, object]:
    """Return the event as it appears in NDJSON and in the admin API."""
    origin = event.origin or NOWHERE
    return {
        "id": event.id,
        "at": event.at,
        "name": event.name,
        "client_id": event.client_id,
        "uid": event.uid,
        "grant_id": event.grant_id,
        "done_by": event.done_by,
        "data": msgspec.json.decode(event.data, type=dict[str, object]),
        "ip_address": origin.address,
        "browser": origin.shown_browser,
        "subject": event.subject,
    }
