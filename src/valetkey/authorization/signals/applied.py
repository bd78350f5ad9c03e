"""Apply one pushed stream of the file, identified by its address."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    DeclaredKind,
    Step,
    changed_or_kept,
    invalid_entry,
    read_text,
    read_texts,
)
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.authorization.signals.model import PUSH, SignalStream, StreamProfile
from valetkey.authorization.signals.operations import (
    SignalStreamWanted,
    changes_of,
    short_names,
    uris_of,
)
from valetkey.authorization.signals.rules import streams as rules
from valetkey.authorization.signals.rules.streams import (
    ENTROPY,
    StreamChanges,
    StreamChoices,
    StreamDelivery,
)
from valetkey.authorization.signals.storage import SignalStreams
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused

_KIND = "signal stream"
_FIELDS = ("url", "events", "description", "subject_format")
_SECRET = "authorization_header"


def _prepare(services: Services, entry: DeclaredEntry) -> Callable[[Transaction, Instant], Step]:
    entropy, changes = services.random(ENTROPY), changes_of(services)
    return lambda tx, now: _apply(tx, changes, entry, entropy, now)


def _apply(
    tx: Transaction, changes: StreamChanges, entry: DeclaredEntry, entropy: bytes, now: Instant
) -> Step:
    there = _there(tx, entry)
    values = _declared_values(entry, there)
    client = tx.clients.find(values.client_id)
    if client is None:
        raise invalid_entry(entry, [MetadataError("client_id", "the id of a client")])
    kept = None if there is None else changes.authorization(there)
    header = kept if entry.secret is None else entry.secret.reveal()
    chosen = StreamChoices(
        StreamDelivery(PUSH, values.url, header),
        uris_of(values.events),
        values.description,
        values.subject_format,
    )
    try:
        if there is None:
            made = changes.create(tx, client, chosen, entropy, now)
            owned = Declared(_KIND, made.id, is_new=True)
            return Step(Action.CREATE, _KIND, made.url, declares=(owned,))
        changed = changes.change(tx, there, client, chosen, entropy, now)
    except Refused as refused:
        raise invalid_entry(entry, [MetadataError("url", refused.refusal.description)]) from None
    names = [name for name in _FIELDS if getattr(changed, name) != getattr(there, name)]
    if changed.sealed != there.sealed:
        names.append(_SECRET)
    return changed_or_kept(_KIND, changed.url, names, Declared(_KIND, changed.id))


def _remove(tx: Transaction, stream_id: str, now: Instant) -> bool:
    stream = SignalStreams.of(tx).find(stream_id)
    return stream is not None and rules.remove(tx, stream, now)


def _exported(tx: Transaction) -> Iterator[Mapping[str, object]]:
    """Return pushed streams as tables of a file that, applied, changes nothing."""
    for stream in SignalStreams.of(tx).all():
        if stream.is_push and stream.profile is StreamProfile.SSF:
            yield {
                "url": stream.url,
                "client_id": stream.client_id,
                "events": short_names(stream),
                "description": stream.description,
                "subject_format": stream.subject_format.value,
            }


def _there(tx: Transaction, entry: DeclaredEntry) -> SignalStream | None:
    """Return the stream that is pushed to this address; None without one."""
    url = entry.text("url")
    streams = [
        candidate
        for candidate in SignalStreams.of(tx).all()
        if candidate.url == url and candidate.profile is StreamProfile.SSF
    ]
    if len(streams) > 1:
        ids = ", ".join(candidate.id for candidate in streams)
        right = f"that of one stream; delete all but one: {ids}"
        raise invalid_entry(entry, [MetadataError("url", right)])
    stream = streams[0] if streams else None
    if stream is not None and entry.text("client_id") not in {"", stream.client_id}:
        right = f"{stream.client_id}, to which the stream at this address belongs"
        raise invalid_entry(entry, [MetadataError("client_id", right)])
    return stream


def _declared_values(entry: DeclaredEntry, there: SignalStream | None) -> SignalStreamWanted:
    """Return the declared values of the stream; an existing one keeps the others."""
    names = ("client_id", *_FIELDS)
    values = {name: entry.values[name] for name in names if name in entry.values}
    if there is not None:
        kept: dict[str, object] = {
            "client_id": there.client_id,
            "events": short_names(there),
            "description": there.description,
            "subject_format": there.subject_format.value,
        }
        values = kept | values
    try:
        return msgspec.convert(values, SignalStreamWanted)
    except msgspec.ValidationError as error:
        raise invalid_entry(entry, faults_of(error, values, SignalStreamWanted)) from None


DECLARED = DeclaredKind(
    name=_KIND,
    table="signal_streams",
    readers={
        "url": read_text,
        "client_id": read_text,
        "events": read_texts,
        "description": read_text,
        "subject_format": read_text,
        _SECRET: read_text,
    },
    key="url",
    example="https://…",
    secret_key=_SECRET,
    hold=lambda tx: SignalStreams.of(tx).hold_all(),
    prepare=_prepare,
    remove=_remove,
    exported=_exported,
)
