"""Queue security events in the transactions in which they happen."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.model.event.accounts import SessionEnded
from valetkey.authorization.model.event.event import SYSTEM, DoneBy, is_other_actor
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.claims import GROUPS, claims_of_scope, user_claims
from valetkey.authorization.signals.model import (
    HEARD,
    SecurityEvent,
    SignalStream,
    TokenFacts,
    security_events,
)
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.clients import Clients
from valetkey.authorization.storage.groups import Groups
from valetkey.authorization.storage.records import RecordedEvent
from valetkey.authorization.storage.users import Users
from valetkey.database.engine import Connection


class SecurityEvents(Struct, frozen=True):
    """Receives the events that receivers of streams may want."""

    def accepts(self, name: str, client_id: str | None) -> bool:
        """Return whether an event of this name may be a security event."""
        del client_id
        return name in HEARD

    def handle(self, db: Connection, event: RecordedEvent) -> None:
        """Queue a token for each stream that wants the event."""
        uid = getattr(event.event, "uid", None)
        if uid is None:
            return
        for number, one in enumerate(security_events(event.event)):
            streams = SignalStreams(db).wanting(one.type, uid)
            if streams:
                _queue(db, event, Uid(uid), one, number, streams)


def _queue(
    db: Connection,
    event: RecordedEvent,
    uid: Uid,
    one: SecurityEvent,
    number: int,
    streams: Sequence[SignalStream],
) -> None:
    user = Users(db).find(uid)
    members = {
        **one.members,
        "event_timestamp": event.at,
        "initiating_entity": _initiator(event.done_by, uid),
        "reason_admin": {"en": _reason(event)},
    }
    for stream in streams:
        said = dict(members)
        if one.claims:
            said["claims"] = _shown(db, stream, user, one.claims)
            if not said["claims"]:
                continue
        facts = TokenFacts(said, uid, "" if user is None else user.email, one.session_id)
        SignalQueue(db).append(
            stream.id,
            f"{event.id}.{number}.{stream.id}",
            one.type,
            event.id,
            msgspec.json.encode(facts).decode(),
            event.at,
        )


def _shown(
    db: Connection, stream: SignalStream, user: User | None, names: Sequence[str]
) -> dict[str, object]:
    """Return the new values of the claims that the client may ask for; null for none."""
    client = Clients(db).find(stream.client_id)
    if client is None or user is None:
        return {}
    known = claims_of_scope(client.scope)
    found = user_claims(user, names)
    if GROUPS in names and GROUPS in known:
        # Reading draws nothing.
        found[GROUPS] = list(Groups(db, bytes).names_of(user.uid))
    return {name: found.get(name) for name in names if name in known}


def _initiator(done_by: DoneBy, uid: int) -> str:
    """Return the `initiating_entity` (CAEP section 2)."""
    if done_by == SYSTEM:
        return "system"
    return "admin" if is_other_actor(done_by, uid) else "user"


def _reason(event: RecordedEvent) -> str:
    if isinstance(event.event, SessionEnded):
        return f"session ended: {event.event.because.replace('_', ' ')}"
    return event.name.replace(".", " ").replace("_", " ")
