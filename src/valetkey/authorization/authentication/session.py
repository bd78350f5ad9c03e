"""Sessions: start them, find the signed-in user, and end everything bound to them."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from valetkey.authorization.model.event.accounts import (
    IdentityConfirmed,
    RemovalCancelled,
    SessionEnded,
    SessionRenewed,
    SessionStarted,
)
from valetkey.authorization.model.event.event import SYSTEM, by_user
from valetkey.authorization.model.event.grants import GrantRevoked
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import Delivery, DeliveryKind, Session, Uid, User
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.storage.revocations import (
    BATCH,
    BulkRevocation,
    BulkRevocationKind,
    EndedGrant,
    RevokedKind,
)
from valetkey.authorization.storage.sessions import SessionAndUser
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant, days, later, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import (
    FingerprintKey,
    Prefix,
    Secret,
    fresh_id,
    fresh_secret,
    well_formed,
)

_KEPT = days(1)
"""How long the delivery of a logout token is retried."""


def _queue_logout_tokens(tx: Transaction, session: Session, now: Instant) -> None:
    """Queue a logout token for each app that the session signed in to.

    Only the transaction that ended the session may call this.
    """
    for client_id in tx.participants.of_session(session.id):
        client = tx.clients.find(client_id)
        if client is None or client.disabled_at or not client.openid.backchannel_logout_uri:
            continue
        delivery = Delivery(
            id=fresh_id("lt", tx.random),
            kind=DeliveryKind.LOGOUT,
            client_id=client_id,
            session_id=session.id,
            uid=session.uid,
            attempts=0,
            due_at=now,
            created_at=now,
            expires_at=later(now, _KEPT),
        )
        tx.deliveries.add(delivery)


PURPOSE = "session"
"""The purpose under which session cookies are fingerprinted."""

_SEEN_EVERY = minutes(1)

PROOF_LASTS = minutes(10)
"""How long a proof of identity is accepted for sensitive operations."""

_SECOND_FACTORS = frozenset({Amr.ONE_TIME_CODE, Amr.HARDWARE_KEY, Amr.SOFTWARE_KEY})
_LONGEST_AGENT = 200


class SignedIn(Struct, frozen=True):
    """A live session and its user."""

    session: Session
    user: User

    @property
    def must_add_factor(self) -> bool:
        """Whether the user must add a second factor before anything else."""
        return self.user.factor_required_at is not None

    def is_stale(self, now: Instant) -> bool:
        """Return whether its last use should be recorded again; at most once a minute."""
        return self.session.last_seen_at + _SEEN_EVERY <= now

    def has_proved(self, now: Instant, *, second_factor: bool) -> bool:
        """Return whether the user proved their identity within the last ten minutes.

        With `second_factor` the account has one, and a password alone is not sufficient.
        """
        session = self.session
        if later(session.proved_at, PROOF_LASTS) <= now:
            return False
        return not second_factor or not _SECOND_FACTORS.isdisjoint(session.proved_by)


class LiveSession(Struct, frozen=True):
    """The signed-in user, their consent for one client, and whether it is a participant."""

    signed_in: SignedIn
    consent: Consent | None
    is_participant: bool


class NewSession(Struct, frozen=True):
    """A session about to start: its public id and cookie, drawn before the transaction."""

    id: str
    cookie: Secret
    user_agent: str

    @staticmethod
    def fresh(user_agent: str, random: Callable[[int], bytes]) -> "NewSession":
        """Generate a session for a browser with this User-Agent."""
        shown = "".join(c for c in user_agent[:_LONGEST_AGENT] if c.isascii() and c.isprintable())
        return NewSession(fresh_id("se", random), fresh_secret(Prefix.SESSION, random), shown)


def find_present(
    tx: Transaction,
    cookie: str,
    client_id: str,
    key: FingerprintKey,
    settings: SessionSettings,
    now: Instant,
) -> LiveSession | None:
    """Return the user of this cookie, if the session is live and the account enabled.

    Includes the user's consent for the client; a `client_id` of "" reads none.
    """
    if not well_formed(Prefix.SESSION, cookie):
        return None
    return _living(tx.presences.find(key.fingerprint(PURPOSE, cookie), client_id), settings, now)


def find_still_present(
    tx: Transaction, session_id: str, client_id: str, settings: SessionSettings, now: Instant
) -> LiveSession | None:
    """Find a known session again, inside a transaction that decides."""
    return _living(tx.presences.find_by_id(session_id, client_id), settings, now)


def find_still_signed_in(
    tx: Transaction, session_id: str, settings: SessionSettings, now: Instant
) -> SignedIn | None:
    """Return the user signed in to this session, for any client, locked until the commit.

    Read again once locked: what ended every session meanwhile must not be followed by a change.
    """
    present = find_still_present(tx, session_id, "", settings, now)
    if present is None:
        return None
    tx.users.hold_alone(present.signed_in.user.uid)
    present = find_still_present(tx, session_id, "", settings, now)
    return None if present is None else present.signed_in


def find_unended(tx: Transaction, cookie: str, key: FingerprintKey, now: Instant) -> Session | None:
    """Return the session of this cookie unless it has ended, including an idle one.

    An idle session gives no access, but its apps still need a logout notification.
    """
    if not well_formed(Prefix.SESSION, cookie):
        return None
    session = tx.sessions.find(key.fingerprint(PURPOSE, cookie))
    if session is None or session.ended_at is not None or session.expires_at <= now:
        return None
    return session


def sign_in(
    tx: Transaction,
    cookie: str,
    new: NewSession,
    user: User,
    key: FingerprintKey,
    settings: SessionSettings,
    now: Instant,
    *,
    methods: tuple[str, ...],
    device_id: str = "",
    auth_time: Instant | None = None,
) -> str:
    """Sign `user` in, replacing the browser's `cookie`; return the session's id.

    `methods` are the authentication methods just used, named as in RFC 8176 (`Method`). `device_id`
    is the remembered device that replaced the second factor; `auth_time` is when another server
    authenticated the user, None for now.

    A live session of this user continues under the new cookie: its apps see a user who
    authenticated again. Another user's session ends first.
    """
    old = find_unended(tx, cookie, key, now)
    if (
        old is not None
        and old.uid == user.uid
        and find_still_present(tx, old.id, "", settings, now) is not None
    ):
        renewed = replace(
            old,
            auth_time=auth_time or now,
            methods=methods,
            user_agent=new.user_agent,
            last_seen_at=now,
            expires_at=later(now, settings.lifetime),
            proved_at=now,
            proved_by=methods,
            device_id=device_id,
            signed_in_from=tx.origin.address,
            last_seen_from=tx.origin.address,
        )
        before, after = (
            key.fingerprint(PURPOSE, cookie),
            key.fingerprint(PURPOSE, new.cookie.reveal()),
        )
        if tx.sessions.renew(renewed, before, after):
            tx.participants.extend(old.id, renewed.expires_at)
            tx.events.add(SessionRenewed(user.uid, old.id, renewed.methods), now)
            return old.id
    elif old is not None:
        end_session(tx.acting(by_user(user.uid)), old, now, "signed_in_again")
    start_session(
        *(tx, new, user, key, settings, now),
        methods=methods,
        device_id=device_id,
        auth_time=auth_time,
    )
    return new.id


def record_authentication(
    tx: Transaction,
    cookie: str,
    new: NewSession,
    signed_in: SignedIn,
    key: FingerprintKey,
    now: Instant,
    *,
    methods: tuple[str, ...],
) -> bool:
    """Record that the session's user just authenticated by `methods`.

    The session continues under the new cookie and keeps its other data. Exactly one concurrent
    caller with one cookie gets True, and none once the session has ended.
    """
    proved = replace(signed_in.session, last_seen_at=now, last_seen_from=tx.origin.address)
    # A password neither extends nor removes the proof of a second factor.
    by_password = _SECOND_FACTORS.isdisjoint(methods)
    if not (by_password and signed_in.has_proved(now, second_factor=True)):
        proved = replace(proved, proved_at=now, proved_by=methods)
    before, after = key.fingerprint(PURPOSE, cookie), key.fingerprint(PURPOSE, new.cookie.reveal())
    if not tx.sessions.renew(proved, before, after):
        return False
    tx.events.add(IdentityConfirmed(proved.uid, proved.id, methods), now)
    return True


def start_session(
    tx: Transaction,
    new: NewSession,
    user: User,
    key: FingerprintKey,
    settings: SessionSettings,
    now: Instant,
    *,
    methods: tuple[str, ...],
    device_id: str = "",
    auth_time: Instant | None = None,
) -> None:
    """Sign `user` in by these methods, at `auth_time` or now, in a new session."""
    session = Session(
        id=new.id,
        uid=user.uid,
        auth_time=auth_time or now,
        methods=methods,
        user_agent=new.user_agent,
        created_at=now,
        last_seen_at=now,
        expires_at=later(now, settings.lifetime),
        ended_at=None,
        proved_at=now,
        proved_by=methods,
        device_id=device_id,
        signed_in_from=tx.origin.address,
        last_seen_from=tx.origin.address,
    )
    tx.sessions.start(session, key.fingerprint(PURPOSE, new.cookie.reveal()))
    tx.events.add(SessionStarted(user.uid, new.id, session.methods), now)
    # A user who signs in wants the account: a planned removal is cancelled.
    if tx.account_removals.cancel(user.uid):
        tx.events.add(RemovalCancelled(user.uid), now)


def end_session(tx: Transaction, session: Session, now: Instant, because: str) -> bool:
    """End the session and the grants bound to it. Exactly one concurrent caller gets True."""
    if not close_session(tx, session, now, because):
        return False
    _end_grants_of_sessions(tx, session.uid, now, because)
    return True


def end_sessions(
    tx: Transaction, uid: Uid, now: Instant, because: str, *, keep: str = ""
) -> Sequence[Session]:
    """End every session of the user except `keep`, and the grants bound to them.

    Returns at most a batch of them: those that this transaction wrote itself.
    """
    tx.users.hold_alone(uid)
    tx.sessions.begin_generation(uid, keep=keep)
    first = tx.sessions.outdated_of(uid, now, BATCH)
    for session in first:
        close_session(tx, session, now, because)
    _end_grants_of_sessions(tx, uid, now, because, left=len(first) >= BATCH)
    return first


def _end_grants_of_sessions(
    tx: Transaction, uid: Uid, now: Instant, because: str, *, left: bool = False
) -> None:
    grants = tx.bulk_revocations.grants_of_sessions(uid, BATCH)
    revoke_ended(tx, grants, now, "session_ended")
    if len(grants) >= BATCH:
        invalidate_user_jwts(tx, uid, now)
    if left or len(grants) >= BATCH:
        tx.bulk_revocations.add(
            BulkRevocation(BulkRevocationKind.SESSIONS, str(uid), because, tx.done_by or SYSTEM),
            now,
        )


def write_ended_sessions(
    tx: Transaction, uid: Uid, now: Instant, because: str, *, others: Sequence[EndedGrant] = ()
) -> int:
    """Write a batch of sessions that ended with their generation, their grants, and `others`.

    Returns the largest of the three counts.
    """
    sessions = tx.sessions.outdated_of(uid, now, BATCH)
    for session in sessions:
        close_session(tx, session, now, because)
    bound = tx.bulk_revocations.grants_of_sessions(uid, BATCH)
    reasons = dict.fromkeys(others, because) | dict.fromkeys(bound, "session_ended")
    # Ordered by id for all reasons: a transaction that ends some of them might deadlock.
    for grant in sorted(reasons, key=lambda ended_grant: ended_grant.id):
        revoke_ended(tx, (grant,), now, reasons[grant])
    return max(len(sessions), len(bound), len(others))


def revoke_ended(tx: Transaction, grants: Sequence[EndedGrant], now: Instant, because: str) -> int:
    """Record the end of these grants and notify resource servers; return the count."""
    for grant in grants:
        if tx.grants.revoke(grant.id, now, because):
            tx.events.add(GrantRevoked(grant.uid, grant.client_id, grant.id, because), now)
    return len(grants)


def invalidate_user_jwts(tx: Transaction, uid: Uid, now: Instant) -> None:
    """Make resource servers refuse every JWT issued for the user so far.

    For an ending with too many grants to name each.
    """
    tx.revocations.add(RevokedKind.USER, str(uid), max(now, tx.events.newest_of_person(uid)))


def close_session(tx: Transaction, session: Session, now: Instant, because: str) -> bool:
    """End the session alone and queue logout for its apps. Exactly one caller gets True."""
    tx.users.hold_alone(session.uid)
    if not tx.sessions.end(session.id, now):
        return False
    tx.events.add(SessionEnded(session.uid, session.id, because), now)
    _queue_logout_tokens(tx, session, now)
    return True


def _living(
    presence: SessionAndUser | None, settings: SessionSettings, now: Instant
) -> LiveSession | None:
    if presence is None or presence.user.disabled_at is not None:
        return None
    session = presence.session
    if not session.is_live(now):
        return None
    if later(session.last_seen_at, settings.idle) <= now:
        return None
    return LiveSession(SignedIn(session, presence.user), presence.consent, presence.is_participant)
