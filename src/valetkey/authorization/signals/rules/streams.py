"""Changes of streams, by their receivers and by administrators.

The functions run inside a transaction. Callers first hold the streams, and check who may do it.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import cast

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import Uid, uid_of
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.protocol.register.openid_rules import fetch_fault
from valetkey.authorization.signals.model import (
    LEGACY_PUSH,
    MOST_EXCLUDED,
    MOST_STREAMS,
    MOST_STREAMS_OF_CLIENT,
    POLL,
    PUSH,
    STREAM_UPDATED,
    SUPPORTED,
    VERIFICATION,
    VERIFY_EVERY,
    SignalStream,
    SignalStreamChanged,
    SignalStreamCreated,
    SignalStreamRemoved,
    SignalStreamUpdated,
    SignalStreamVerified,
    StreamProfile,
    StreamStatus,
    SubjectFormat,
    TokenFacts,
    secret_place,
)
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.transaction import Transaction
from valetkey.fetch.address import Network
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id
from valetkey.kernel.text import FilledText, translatable

ENTROPY = 64
"""Random bytes for one change of a stream."""

_ID = 16
_HEADER = re.compile(r"[!-~](?:[ -~]{0,1998}[!-~])?")
_EMAIL_SCOPE = "email"
_CLEARED = 100_000


class InvalidStream(Refused):
    """A choice about a stream is invalid; `fault` names the member as SSF does."""

    def __init__(self, fault: MetadataError) -> None:
        """Refuse because of this fault."""
        text = f"{fault.field} must be {fault.detail}"
        super().__init__(Refusal(ErrorCode.INVALID_REQUEST, text, "signals.invalid"))
        self.fault = fault


class StreamDelivery(Struct, frozen=True):
    """Where tokens go: the method and, to push, the address and the Authorization header."""

    method: str = POLL
    url: str = ""
    authorization: str | None = None


class StreamChoices(Struct, frozen=True):
    """What a receiver or an administrator chooses about a stream."""

    delivery: StreamDelivery = StreamDelivery()
    events: tuple[str, ...] = SUPPORTED
    description: str = ""
    subject_format: SubjectFormat | None = None
    audience: tuple[str, ...] = ()


class StreamChanges(Struct, frozen=True):
    """Creates and changes streams. `entropy` are random bytes drawn before a transaction."""

    allowed: Collection[Network]
    sealer: Sealer

    def create(
        self, tx: Transaction, client: Client, choices: StreamChoices, entropy: bytes, now: Instant
    ) -> SignalStream:
        """Create a stream. Refused: invalid; too many."""
        stream_id = fresh_id("ss", lambda size: entropy[:size])
        legacy = choices.delivery.method == LEGACY_PUSH
        chosen = choices.subject_format or (
            SubjectFormat.EMAIL if legacy else SubjectFormat.ISS_SUB
        )
        stream = SignalStream(
            id=stream_id,
            client_id=client.id,
            profile=StreamProfile.SSE if legacy else StreamProfile.SSF,
            audience=choices.audience if legacy and choices.audience else (client.id,),
            method=choices.delivery.method,
            url=choices.delivery.url,
            sealed=self._sealed(stream_id, choices.delivery, entropy),
            events=choices.events,
            description=choices.description,
            subject_format=chosen,
            status=StreamStatus.ENABLED,
            reason="",
            locked=False,
            dropped=0,
            failures=0,
            failing_since=None,
            retry_at=Instant(0),
            last_delivery_at=None,
            verify_after=Instant(0),
            created_at=now,
        )
        self._check(stream, client)
        streams = SignalStreams.of(tx).all()
        if len(streams) >= MOST_STREAMS:
            text = FilledText(translatable("there are %(most)s streams already"), most=MOST_STREAMS)
            raise _conflict(text, "most")
        if sum(other.client_id == client.id for other in streams) >= MOST_STREAMS_OF_CLIENT:
            template = translatable("this client has %(most)s streams already")
            raise _conflict(FilledText(template, most=MOST_STREAMS_OF_CLIENT), "most")
        SignalStreams.of(tx).add(stream)
        tx.events.add(SignalStreamCreated(stream.id, client.id, stream.delivered), now)
        if legacy:
            # Receivers of that profile wait for one before they take the stream for made.
            _control(tx, stream.id, VERIFICATION, {}, entropy, now)
        return stream

    def change(
        self,
        tx: Transaction,
        stream: SignalStream,
        client: Client,
        choices: StreamChoices,
        entropy: bytes,
        now: Instant,
    ) -> SignalStream:
        """Change what is chosen; what waits is sent to the new address. Refused: invalid."""
        method = choices.delivery.method
        if (method == LEGACY_PUSH) != (stream.profile is StreamProfile.SSE):
            raise _invalid("delivery.method", "the method of the same profile as before")
        changed = replace(
            stream,
            method=method,
            url=choices.delivery.url,
            sealed=self._kept(stream, choices.delivery, entropy),
            events=choices.events,
            description=choices.description,
            subject_format=choices.subject_format or stream.subject_format,
        )
        self._check(changed, client)
        names = tuple(
            name
            for name in ("method", "url", "sealed", "events", "description", "subject_format")
            if getattr(changed, name) != getattr(stream, name)
        )
        if names and SignalStreams.of(tx).change(changed):
            names_shown = tuple(
                "authorization_header" if name == "sealed" else name for name in names
            )
            tx.events.add(SignalStreamChanged(stream.id, stream.client_id, names_shown), now)
        return changed

    def authorization(self, stream: SignalStream) -> str | None:
        """Return the Authorization header; None if the keyring does not open it, "" for none."""
        if stream.sealed is None:
            return ""
        opened = self.sealer.open(stream.sealed, secret_place(stream.id))
        return None if opened is None else opened.decode()

    def _kept(self, stream: SignalStream, delivery: StreamDelivery, entropy: bytes) -> str | None:
        if delivery.authorization and self.authorization(stream) == delivery.authorization:
            return stream.sealed
        return self._sealed(stream.id, delivery, entropy)

    def _sealed(self, stream_id: str, delivery: StreamDelivery, entropy: bytes) -> str | None:
        if not delivery.authorization:
            return None
        if _HEADER.fullmatch(delivery.authorization) is None:
            raise InvalidStream(fault("delivery.authorization_header", "header.value"))
        secret = delivery.authorization.encode()
        # Beyond the bytes of the id, so that neither reveals the other.
        return self.sealer.seal(
            secret, secret_place(stream_id), lambda size: entropy[_ID : _ID + size]
        )

    def _check(self, stream: SignalStream, client: Client) -> None:
        if stream.method not in {PUSH, POLL, LEGACY_PUSH}:
            raise _invalid("delivery.method", f"one of {PUSH}, {POLL}")
        if not stream.is_push and (stream.url or stream.sealed):
            right = "only a method: a polled stream has no address of yours"
            raise InvalidStream(MetadataError("delivery", right, "stream.polled"))
        field = "delivery.endpoint_url"
        if stream.is_push and (url_fault := fetch_fault(field, stream.url, self.allowed)):
            raise InvalidStream(url_fault)
        if stream.subject_format is SubjectFormat.EMAIL and _EMAIL_SCOPE not in client.scope:
            right = "a format without the address: the scope email is missing"
            raise InvalidStream(MetadataError("format", right, "stream.email"))


def set_status(
    tx: Transaction,
    stream: SignalStream,
    status: StreamStatus,
    reason: str,
    entropy: bytes,
    now: Instant,
    *,
    by_receiver: bool,
) -> bool:
    """Change the status; a receiver that did not ask for it is told so. False if it was so.

    Nothing waits for a disabled stream. Refused: an operator paused or disabled it.
    """
    if by_receiver and stream.locked and status is not StreamStatus.DISABLED:
        raise Refused.because(
            ErrorCode.FORBIDDEN, "an operator of this server stopped this stream", "signals.locked"
        )
    locked = stream.locked if by_receiver else status is not StreamStatus.ENABLED
    if not SignalStreams.of(tx).set_status(stream.id, status, reason, locked=locked):
        return False
    if StreamStatus.DISABLED in {status, stream.status}:
        # Also what was queued while it was being disabled.
        SignalQueue.of(tx).clear(stream.id, _CLEARED)
    if status is not stream.status:
        tx.events.add(SignalStreamUpdated(stream.id, stream.client_id, status.value), now)
        if not by_receiver:
            members = {"status": status.value} | ({"reason": reason} if reason else {})
            _control(tx, stream.id, STREAM_UPDATED, members, entropy, now)
    return True


def verify(
    tx: Transaction,
    stream: SignalStream,
    state: str | None,
    entropy: bytes,
    now: Instant,
    *,
    by_receiver: bool,
) -> None:
    """Queue a verification event. Refused: disabled; a receiver that asks too often."""
    if stream.status is StreamStatus.DISABLED:
        raise _conflict(translatable("this stream is disabled: enable it first"), "disabled")
    if by_receiver and not SignalStreams.of(tx).note_verification(
        stream.id, now, later(now, VERIFY_EVERY)
    ):
        raise Refused.because(
            ErrorCode.SLOW_DOWN,
            f"a verification can be requested every {VERIFY_EVERY} seconds",
            "signals.verification",
            retry_after=VERIFY_EVERY,
        )
    members = {} if state is None else {"state": state}
    _control(tx, stream.id, VERIFICATION, members, entropy, now)
    tx.events.add(SignalStreamVerified(stream.id, stream.client_id), now)


def remove(tx: Transaction, stream: SignalStream, now: Instant) -> bool:
    """Delete a stream with what waits for it. False if it is gone."""
    removed = SignalStreams.of(tx).remove(stream.id)
    if removed:
        SignalQueue.of(tx).clear(stream.id, _CLEARED)
        tx.events.add(SignalStreamRemoved(stream.id, stream.client_id), now)
    return removed


def choose_subject(
    tx: Transaction,
    stream: SignalStream,
    subject: Mapping[str, object],
    issuer: str,
    now: Instant,
    *,
    included: bool,
) -> None:
    """Add or remove a user; nothing is said about whether one is meant. Refused: too many."""
    uid = _user_of(tx, subject, issuer)
    if uid is None:
        return
    if included:
        SignalStreams.of(tx).include(stream.id, uid)
    elif not SignalStreams.of(tx).exclude(stream.id, uid, now, MOST_EXCLUDED):
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            f"{MOST_EXCLUDED} users are removed from this stream already",
            "signals.excluded",
        )


def reseal_all(tx: Transaction, reseal: Callable[[str, str, str], str]) -> None:
    """Seal the Authorization headers again, after a change of the keyring."""
    for stream in SignalStreams.of(tx).all():
        if stream.sealed is not None:
            where = secret_place(stream.id)
            SignalStreams.of(tx).reseal(
                stream, reseal(stream.sealed, where, f"signal stream {stream.id}")
            )


def no_such_stream() -> Refused:
    """Return the refusal of a stream that does not exist, or is another client's."""
    return Refused.because(ErrorCode.NOT_FOUND, "this stream does not exist", "signals.unknown")


_MEMBERS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "account": ("uri",),
        "did": ("url",),
        "email": ("email",),
        "iss_sub": ("iss", "sub"),
        "jwt_id": ("iss", "jti"),
        "opaque": ("id",),
        "phone_number": ("phone_number",),
        "saml_assertion_id": ("issuer", "assertion_id"),
        "uri": ("uri",),
    }
)
"""The members of each subject identifier format (RFC 9493 section 3.2, SSF section 3.5)."""

_USER = "user"
_PARTS = frozenset({_USER, "device", "session", "application", "tenant", "org_unit", "group"})


def members_of(value: object) -> Mapping[str, object] | None:
    """Return the members of a value of JSON that is an object; None for another."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def read_subject(member: object) -> Mapping[str, object]:
    """Return a subject, simple or complex. Refused: not one."""
    subject = members_of(member)
    if subject is None:
        raise _invalid("subject", "a subject identifier")
    kind = subject.get("format")
    if kind == "complex":
        parts = [subject[name] for name in subject.keys() & _PARTS]
        if not parts:
            raise _invalid("subject", "a complex subject with at least one member, such as user")
        for part in parts:
            if read_subject(part).get("format") == "complex":
                raise _invalid("subject", "a complex subject whose members are simple")
        return subject
    if not isinstance(kind, str) or not kind:
        raise _invalid("subject", "an object with a format")
    for name in _MEMBERS.get(kind, ()):
        value = subject.get(name)
        if not isinstance(value, str) or not value:
            raise _invalid(f"subject.{name}", f"a text, which the format {kind} requires")
    return subject


def _user_of(tx: Transaction, subject: Mapping[str, object], issuer: str) -> Uid | None:
    """Return the uid of the user that is meant; None if there is none."""
    kind = subject.get("format")
    if kind == "complex":
        user = subject.get(_USER)
        # Only whole users can be removed: a device or session of one is ignored.
        alone = user is not None and not (subject.keys() & (_PARTS - {_USER}))
        return _user_of(tx, read_subject(user), issuer) if alone else None
    if kind == "email":
        matched_user = tx.users.find_by_email(str(subject["email"]))
        return None if matched_user is None else matched_user.uid
    if kind == "iss_sub" and subject["iss"] == issuer:
        return uid_of(str(subject["sub"]))
    return uid_of(str(subject["id"])) if kind == "opaque" else None


def _control(
    tx: Transaction,
    stream_id: str,
    kind: str,
    members: Mapping[str, object],
    entropy: bytes,
    now: Instant,
) -> None:
    token_id = fresh_id("st", lambda size: entropy[-size:])
    facts = msgspec.json.encode(TokenFacts(members)).decode()
    SignalQueue.of(tx).append(stream_id, token_id, kind, "", facts, now)


def _invalid(field: str, right: str) -> Refused:
    return InvalidStream(MetadataError(field, right))


def _conflict(description: str, check: str) -> Refused:
    return Refused.because(ErrorCode.CONFLICT, description, f"signals.{check}")
