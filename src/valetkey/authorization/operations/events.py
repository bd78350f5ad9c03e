"""Operations on the audit log: search and export."""

from collections.abc import Iterable
from urllib.parse import unquote

import msgspec

from valetkey.authorization.actions.admin import audit
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.inspection.refusals import refusal_of
from valetkey.authorization.model.event.administration import EventsExported
from valetkey.authorization.model.user import LARGEST_UID
from valetkey.authorization.operations.operation import (
    PAGING,
    Call,
    InvalidInput,
    Operation,
    QueryParameter,
    Result,
    cursor,
    limit_of,
    place_of,
    reads,
)
from valetkey.authorization.operations.server_records import (
    CopyWanted,
    EventList,
    EventShown,
    RefusalShown,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.records import NOWHERE, EventRecord
from valetkey.authorization.storage.search import EventFilter, TimeCursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import converted
from valetkey.web.exchange import Response

_LATEST = 1 << 53
_MOMENT = {"type": "integer", "minimum": 0, "maximum": _LATEST}


def shown(event: EventRecord) -> EventShown:
    """Return the event as the API shows it."""
    origin = event.origin or NOWHERE
    return converted(
        EventShown,
        event,
        data=msgspec.json.decode(event.data, type=dict[str, object]),
        ip_address=origin.address,
        browser=origin.shown_browser,
    )


def _narrowed(criteria: EventFilter, call: Call, outcome: str, subject: str) -> EventFilter:
    kinds = call.services.kinds
    about = audit.with_subject(criteria, subject, kinds)
    if about is None:
        raise InvalidInput([MetadataError("subject", audit.subject_rule(kinds))])
    return audit.with_outcome(about, outcome, kinds)


def list_events(tx: Transaction, call: Call) -> Result:
    """List events, newest first."""
    query = call.query
    criteria = EventFilter(
        uid=int(query["uid"]) if "uid" in query else None,
        client_id=query.get("client_id", ""),
        name=query.get("name", ""),
        done_by=query.get("done_by", ""),
        since=Instant(int(query.get("since", "0"))),
        until=Instant(int(query.get("until", str(_LATEST)))),
    )
    criteria = _narrowed(criteria, call, query.get("outcome", ""), query.get("subject", ""))
    limit = limit_of(query)
    events = audit.page(tx, call.actor, criteria, place_of(query), limit + 1)
    last = events[limit - 1] if len(events) > limit else None
    after = cursor(TimeCursor(last.at, last.id)) if last else ""
    return Result(EventList([shown(event) for event in events[:limit]], after or None), next=after)


def read_refusal(tx: Transaction, call: Call) -> RefusalShown:
    """Return the record behind the reference of an error. Refused (not found) if there is none."""
    refusal = refusal_of(tx, unquote(call.arguments["reference"]))
    if refusal is None:
        raise Refused.because(
            ErrorCode.NOT_FOUND,
            "there is no record of this reference; records are kept for seven days",
            "admin.refusal",
        )
    return converted(RefusalShown, refusal)


async def export_events(call: Call) -> Result:
    """Export the events that the input selects, piece by piece."""
    body = call.input(CopyWanted)
    criteria = EventFilter(
        uid=body.uid,
        client_id=body.client_id,
        name=body.name,
        done_by=body.done_by,
        since=Instant(body.since),
        until=Instant(body.until),
    )
    criteria = _narrowed(criteria, call, body.outcome, body.subject)
    store = call.services.store
    await store.write(
        lambda tx: audit.begin_export(tx, call.actor, body.format, call.now),
        done_by=call.actor.done_by,
    )
    headers = (
        ("content-type", audit.FORMATS[body.format]),
        ("content-disposition", f'attachment; filename="events.{body.format}"'),
        ("cache-control", "no-store"),
    )
    body_parts = audit.export(store, call.actor, criteria, body.format)
    return Result(download=Response(200, b"", headers, body_parts))


EXPORT_EVENTS = Operation(
    "export_events",
    "POST",
    "/events/export",
    Permission.READ,
    "A copy of events, as NDJSON or CSV",
    export_events,
    description="The export is itself an event.",
    event=EventsExported,
    requires_recent_sign_in=True,
    input=CopyWanted,
    media=("application/x-ndjson", "text/csv"),
    commands=(),
)


def event_operations(names: Iterable[str]) -> tuple[Operation, ...]:
    """Return the operations; `names` are those of all events."""
    filters = (
        QueryParameter(
            "uid", "Events of this user.", {"type": "integer", "minimum": 1, "maximum": LARGEST_UID}
        ),
        QueryParameter(
            "client_id", "Of this client.", {"type": "string", "minLength": 1, "maxLength": 100}
        ),
        QueryParameter("name", "Of this kind.", {"type": "string", "enum": sorted(names)}),
        QueryParameter(
            "done_by",
            "Done by this actor, such as `user 17`, `client web1` or `cli root`.",
            {"type": "string", "minLength": 1, "maxLength": 200},
        ),
        QueryParameter(
            "outcome",
            "Of what failed, or of anything else.",
            {"type": "string", "enum": [outcome.value for outcome in audit.EventOutcome]},
        ),
        QueryParameter(
            "subject",
            "About this object, such as `group:printers`, `user:17` or `client:web1`; or about any "
            "of a kind, such as `group`.",
            {"type": "string", "minLength": 1, "maxLength": 200},
        ),
        QueryParameter("since", "Not before this moment.", _MOMENT),
        QueryParameter("until", "Not after this moment.", _MOMENT),
    )
    return (
        Operation(
            "list_events",
            "GET",
            "/events",
            Permission.READ,
            "Events, newest first",
            reads(list_events),
            output=EventList,
            query=(*filters, *PAGING),
            returns_list=True,
            commands=(),
        ),
        EXPORT_EVENTS,
        Operation(
            "read_refusal",
            "GET",
            "/refusals/{reference}",
            Permission.READ,
            "Why a request was refused, by the reference of its error",
            reads(read_refusal),
            description="Records are kept for seven days, and written a moment after the refusal. "
            "The command `explain` finds those of the resource server, too.",
            output=RefusalShown,
            commands=(),
        ),
    )
