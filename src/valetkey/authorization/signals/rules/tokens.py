"""Security event tokens (RFC 8417), queued in the transactions of their events."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.accounts import SessionEnded
from valetkey.authorization.model.event.event import SYSTEM, DoneBy, is_other_actor
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.claims import GROUPS, claims_of_scope, user_claims
from valetkey.authorization.signals.model import (
    CONTROL,
    HEARD,
    SecurityEvent,
    SignalMessage,
    SignalStream,
    StreamProfile,
    SubjectFormat,
    TokenFacts,
    security_events,
)
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.clients import Clients
from valetkey.authorization.storage.groups import Groups
from valetkey.authorization.storage.records import RecordedEvent
from valetkey.authorization.storage.users import Users
from valetkey.authorization.tokens.client_keys import default_id_token_algorithm
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.database.engine import Connection
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant

TYPE = "secevent+jwt"
MEDIA_TYPE = "application/secevent+jwt"

_FACTS = msgspec.json.Decoder(TokenFacts)


class EventTokens(Struct, frozen=True):
    """Composes and signs the tokens of this server."""

    issuer: str
    keys: SigningKeyRing
    subjects: Subjects

    def claims(
        self, stream: SignalStream, client: Client, message: SignalMessage
    ) -> dict[str, object]:
        """Return the claims of a token: the same at each attempt, and never `sub` or `exp`."""
        facts = _FACTS.decode(message.facts)
        aud = stream.audience
        event = dict(facts.event)
        claims: dict[str, object] = {
            "iss": self.issuer,
            "jti": message.id,
            "iat": message.created_at,
            "aud": aud[0] if len(aud) == 1 else list(aud),
            "events": {message.kind: event},
        }
        if message.subject == CONTROL:
            # SSF sections 8.1.4.1 and 8.1.5: the stream itself.
            return claims | {"sub_id": {"format": "opaque", "id": stream.id}}
        claims["txn"] = message.event_id
        parts = {"user": self._user(stream, client, facts)}
        if facts.session_id:
            session = self.subjects.session(facts.session_id, client)
            parts["session"] = {"format": "opaque", "id": session}
        if stream.profile is StreamProfile.SSE:
            event["subject"] = parts
            return claims
        sub_id = parts["user"] if len(parts) == 1 else {"format": "complex", **parts}
        return claims | {"sub_id": sub_id}

    async def sign(self, claims: Mapping[str, object], now: Instant) -> str:
        """Return the token. Raises NoSigningKey."""
        await self.keys.refresh_each_second(now)
        algorithm = Algorithm(default_id_token_algorithm(self.keys.algorithms))
        return jwt.sign(claims, self.keys.current(now, algorithm), typ=TYPE)

    def _user(
        self, stream: SignalStream, client: Client, facts: TokenFacts
    ) -> Mapping[str, object]:
        if stream.subject_format is SubjectFormat.EMAIL and facts.email:
            return {"format": "email", "email": facts.email}
        sub = self.subjects.of_uid(Uid(facts.uid or 0), client)
        if stream.subject_format is SubjectFormat.OPAQUE:
            return {"format": "opaque", "id": sub}
        return {"format": "iss_sub", "iss": self.issuer, "sub": sub}


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
        claims = dict(members)
        if one.claims:
            claims["claims"] = _shown(db, stream, user, one.claims)
            if not claims["claims"]:
                continue
        facts = TokenFacts(claims, uid, "" if user is None else user.email, one.session_id)
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
    scope_claims = claims_of_scope(client.scope)
    values = user_claims(user, names)
    if GROUPS in names and GROUPS in scope_claims:
        # Reading draws nothing.
        values[GROUPS] = list(Groups(db, bytes).names_of(user.uid))
    return {name: values.get(name) for name in names if name in scope_claims}


def _initiator(done_by: DoneBy, uid: int) -> str:
    """Return the `initiating_entity` (CAEP section 2)."""
    if done_by == SYSTEM:
        return "system"
    return "admin" if is_other_actor(done_by, uid) else "user"


def _reason(event: RecordedEvent) -> str:
    if isinstance(event.event, SessionEnded):
        return f"session ended: {event.event.because.replace('_', ' ')}"
    return event.name.replace(".", " ").replace("_", " ")
