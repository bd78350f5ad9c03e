"""Dynamic client registration: register, change, remove (RFC 7591, RFC 7592)."""

from collections.abc import Callable, Mapping
from typing import NoReturn

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.bulk_revocation import delete_clients
from valetkey.authorization.actions.clients import DOCUMENT, Registrar, metadata_of
from valetkey.authorization.model.client import Client, is_by_secret
from valetkey.authorization.model.event.grants import (
    ClientAdopted,
    InvitationIssued,
    InvitationWithdrawn,
    RemovedBecause,
)
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.protocol.register.self_registration import (
    SelfRules,
    refuse_registration,
)
from valetkey.authorization.storage.clients import DocumentRead
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime, days, hours, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint, FingerprintKey, Secret, same

MOST_ALIKE = 10
"""Maximum number of unused registrations with the same metadata; the next replaces the oldest."""

LEFT_ALONE = hours(1)
"""How long a registration is not evicted: a user may be about to sign in with it."""

REGISTRATION_WINDOW = hours(1)
"""Time in which the registrations of one network are counted."""

_MOST_REPLACED = 20
"""Maximum number of unused registrations that one new registration replaces."""

_BATCH = 100
_STILL_UNDER_WAY = minutes(1)
"""Time after which no request of a removed client can still be running."""

_NOTED_EVERY = days(1)
_MOST_NOTED = 10_000
_NEW = ClientMetadata(name="")


class FreshRegistration(Struct, frozen=True):
    """The random values of a new registration, generated outside any transaction."""

    client_id: str
    secret: Secret
    token: Secret


class StoredRegistration(Struct, frozen=True):
    """A stored registration; `secret` is a new secret, returned this once."""

    client: Client
    secret: Secret | None


class SelfRegistrar(Struct, frozen=True):
    """Dynamic client registration (RFC 7591, 7592). Methods run inside a transaction."""

    registrar: Registrar
    rules: SelfRules
    unused_lifetime: Lifetime

    @property
    def fingerprints(self) -> FingerprintKey:
        """Return the key of the tokens' fingerprints."""
        return self.registrar.fingerprints

    def read(self, members: Mapping[str, object], before: Client | None = None) -> ClientMetadata:
        """Return the metadata that replaces `before`, reduced to what can be kept."""
        rules = self.registrar.rules
        if before is None:
            return self.rules.read(members, _NEW, rules.faults)
        was = metadata_of(before)
        # Scopes that an operator added may stay; the transaction judges them again.
        rules = replace(rules, scopes=(*rules.scopes, *was.scopes))
        return self.rules.widened(was).read(members, was, rules.faults)

    def register(
        self,
        tx: Transaction,
        metadata: ClientMetadata,
        fresh: FreshRegistration,
        now: Instant,
        counted: str = "",
    ) -> StoredRegistration:
        """Register the client by the same rules as every other channel. Raises Refused.

        `counted` is the rate limit that counts it until a user signs in to it, "" for none.
        """
        secret = fresh.secret if is_by_secret(metadata.proof) else None
        # Locked: the removals below are counted one registration after the other.
        tx.clients.hold_all()
        client = self.registrar.register(
            tx, metadata, now, client_id=fresh.client_id, secret=secret
        )
        if isinstance(client, tuple):
            refuse_registration(client)
        appearance = self._looks(metadata)
        self._make_room(tx, appearance, now)
        token = self.fingerprints.fingerprint(_purpose(client.id), fresh.token.reveal())
        tx.registrations.add(client.id, token, appearance, now, counted=counted)
        return StoredRegistration(replace(client, self_registered=True), secret)

    def keep_document(
        self,
        tx: Transaction,
        url: str,
        metadata: ClientMetadata,
        read: DocumentRead,
        *,
        host: str,
        most: int,
        now: Instant,
    ) -> None:
        """Store the client at `url` as its document describes it; register it the first time.

        If there are `most` such clients, or ten unused ones of one host, the oldest unused one is
        removed. Refused by the rules of registration, and if none can be removed.
        """
        registrar = replace(self.registrar, channel=DOCUMENT)
        tx.clients.hold_all()
        stored = tx.clients.find_to_change(url)
        if stored is not None and (stored.disabled_at is not None or not stored.self_registered):
            # The operator disabled or adopted it while the document was fetched.
            return
        if stored is not None:
            changed = registrar.change(tx, stored, metadata, now)
            if isinstance(changed, tuple):
                refuse_registration(changed)
            tx.registrations.replace_document(url, read)
            return
        appearance = self.fingerprints.fingerprint("client documents", host)
        self._make_room(tx, appearance, now)
        if tx.registrations.has_documents(most):
            before = Instant(now - LEFT_ALONE)
            oldest = tx.registrations.unused_documents(before, 1)
            if not any(tx.registrations.end_unused(client_id, now) for client_id in oldest):
                raise Refused(_FULL)
            self._remove(tx, oldest[0], now, "replaced")
        tx.clients.release_id(url)
        client = registrar.register(tx, metadata, now, client_id=url, secret=None)
        if isinstance(client, tuple):
            refuse_registration(client)
        tx.clients.start_generation(url, now)
        # No token manages it: the fingerprint of none is empty.
        tx.registrations.add(url, Fingerprint(""), appearance, now, read)

    def _make_room(self, tx: Transaction, appearance: Fingerprint, now: Instant) -> None:
        """Remove the oldest unused clients with this metadata if there are too many."""
        alike = tx.registrations.unused_alike(appearance)
        too_many = min(max(0, len(alike) - MOST_ALIKE + 1), _MOST_REPLACED)
        for client_id, since in alike[:too_many]:
            # Only old ones: metadata are public, and identical registrations could replace others.
            if later(since, LEFT_ALONE) <= now and tx.registrations.end_unused(client_id, now):
                self._remove(tx, client_id, now, "replaced")

    def authenticate(
        self, tx: Transaction, client_id: str, token: str, *, to_change: bool
    ) -> Client:
        """Return the client that this token manages. Refused with `invalid_token` if none."""
        self._require_token(tx, client_id, token)
        find = tx.clients.find_to_change if to_change else tx.clients.find
        client = find(client_id)
        if to_change:
            # Again: it may have been adopted or removed before this transaction locked it.
            self._require_token(tx, client_id, token)
        if client is None or client.disabled_at is not None:
            refuse_token("registration.disabled", "an enabled client")
        return client

    def _require_token(self, tx: Transaction, client_id: str, token: str) -> None:
        plain = client_id.isascii() and client_id.isprintable()
        stored = tx.registrations.token_of(client_id) if plain else None
        if stored is None or not same(
            stored, self.fingerprints.fingerprint(_purpose(client_id), token)
        ):
            refuse_token("registration.token", "the token of this registration")

    def change(
        self,
        tx: Transaction,
        client: Client,
        members: Mapping[str, object],
        fresh: FreshRegistration,
        now: Instant,
    ) -> StoredRegistration:
        """Replace the registration (RFC 7592 section 2.2): omitted fields get their defaults."""
        self._check_identity(client, members, now)
        metadata = self.read(members, client)
        changed = self.registrar.change(tx, client, metadata, now)
        if isinstance(changed, tuple):
            refuse_registration(changed)
        tx.registrations.describe(client.id, self._looks(metadata))
        live = changed.live_secrets(now)
        if not changed.has_secret:
            if live:
                tx.clients.expire_other_secrets(client.id, "", now)
            return StoredRegistration(changed, None)
        if any(secret.sealed or not changed.signs_with_secret for secret in live):
            return StoredRegistration(changed, None)
        self.registrar.issue_secret(tx, changed, fresh.secret, now, others_live=Lifetime(0))
        return StoredRegistration(changed, fresh.secret)

    def remove(self, tx: Transaction, client: Client, now: Instant) -> None:
        """Remove the registration and end everything issued to the client."""
        if tx.registrations.end(client.id, now):
            self._remove(tx, client.id, now, "deleted")

    @property
    def sweeps(self) -> tuple[Callable[[Transaction, Instant], int], ...]:
        """Return the periodic maintenance jobs."""
        return (self.sweep_idle, self.sweep_removed)

    def sweep_idle(self, tx: Transaction, now: Instant) -> int:
        """Delete registrations without any use for the configured time.

        Return how many were checked.
        """
        before = Instant(now - self.unused_lifetime)
        client_ids = tx.registrations.idle(before, _BATCH)
        if client_ids:
            tx.clients.hold_all()
        for client_id in client_ids:
            if tx.registrations.end_idle(client_id, before, now):
                self._remove(tx, client_id, now, "unused")
        return len(client_ids)

    def sweep_removed(self, tx: Transaction, now: Instant) -> int:
        """Delete the rows of some clients that were removed a while ago. Return how many."""
        client_ids = tx.registrations.removed(Instant(now - _STILL_UNDER_WAY), _BATCH)
        return delete_clients(tx, client_ids, now)

    def _remove(
        self, tx: Transaction, client_id: str, now: Instant, because: RemovedBecause
    ) -> None:
        client = tx.clients.find_to_change(client_id)
        if client is not None:
            self.registrar.remove(tx, client, now, because=because)

    def _check_identity(self, client: Client, members: Mapping[str, object], now: Instant) -> None:
        if members.get("client_id") != client.id:
            refuse_registration([MetadataError("client_id", "the id of this registration")])
        for name in _NEVER_SENT:
            if name in members:
                refuse_registration(
                    [MetadataError(name, "leave it out: it is the server's to say")]
                )
        secret = members.get("client_secret")
        if secret is None:
            return
        print_ = self.fingerprints.fingerprint(secret_purpose(client.id), str(secret))
        if not any(
            same(live_secret.fingerprint, print_) for live_secret in client.live_secrets(now)
        ):
            refuse_registration([MetadataError("client_secret", "its own secret, or leave it out")])

    def _looks(self, metadata: ClientMetadata) -> Fingerprint:
        document = msgspec.json.encode(metadata, order="deterministic")
        return self.fingerprints.fingerprint("registration metadata", document.decode())


_NEVER_SENT = (
    "registration_access_token",
    "registration_client_uri",
    "client_secret_expires_at",
    "client_id_issued_at",
)
"""Members that a request to change a registration must not contain (RFC 7592 section 2.2)."""


class Uses:
    """Records once a day that a self-registered client was used."""

    def __init__(self) -> None:
        """Start without recorded uses."""
        self._noted: dict[str, Instant] = {}

    def record(self, tx: Transaction, client: Client, now: Instant) -> None:
        """Record the use in this transaction, unless this process did so today."""
        if client.self_registered and self._noted.get(client.id, 0) <= now - _NOTED_EVERY:
            tx.registrations.note_use(client.id, now)

    def remember_use(self, client: Client, now: Instant) -> None:
        """Remember that the use was committed."""
        if client.self_registered and self._noted.get(client.id, 0) <= now - _NOTED_EVERY:
            if len(self._noted) >= _MOST_NOTED:
                self._noted.clear()
            self._noted[client.id] = now


def note_sign_in(tx: Transaction, client: Client, now: Instant) -> None:
    """Record that a user signed in to the client: its registration no longer counts."""
    if not client.self_registered:
        return
    tx.registrations.note_use(client.id, now)
    if attempt := tx.registrations.end_count(client.id):
        tx.throttles.finish(*attempt, REGISTRATION_WINDOW, now)


def invite(
    tx: Transaction,
    key: FingerprintKey,
    token: Secret,
    invitation: InitialAccessToken,
    now: Instant,
) -> None:
    """Create an initial access token."""
    tx.invitations.issue(invitation_fingerprint(key, token.reveal()), invitation)
    tx.events.add(InvitationIssued(invitation.id, invitation.uses_left), now)


def withdraw(tx: Transaction, id: str, now: Instant) -> bool:
    """Withdraw an initial access token. False if there is none."""
    withdrawn = tx.invitations.withdraw(id)
    if withdrawn:
        tx.events.add(InvitationWithdrawn(id), now)
    return withdrawn


def adopt(tx: Transaction, client_id: str, now: Instant) -> bool:
    """Turn a self-registered client into one of the operator's. False if it is one already.

    From now on it cannot change its registration: neither with its token nor through the API.
    """
    # Locked: a change by the client itself is written before this, or not at all.
    tx.clients.touch()
    tx.clients.find_held(client_id)
    adopted = tx.registrations.adopt(client_id, now)
    if adopted:
        tx.logos.enqueue(client_id)
        tx.events.add(ClientAdopted(client_id), now)
    return adopted


def invitation_fingerprint(key: FingerprintKey, token: str) -> Fingerprint:
    """Return the fingerprint under which an initial access token is stored."""
    return key.fingerprint("invitation", token)


def refuse_token(check: str, expected: str) -> NoReturn:
    """Raise Refused for an initial access token that is missing, wrong, used or expired.

    The response does not tell these apart.
    """
    raise Refused.because(
        ErrorCode.INVALID_TOKEN,
        "a valid token for this registration is required, sent as Authorization: Bearer",
        check,
        expected,
        "none, or another",
    )


_FULL = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "this server knows too many apps by their URL; try again later",
    "client_document.full",
)


def _purpose(client_id: str) -> str:
    return f"registration:{client_id}"
