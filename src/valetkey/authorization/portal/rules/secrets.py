"""Client secrets of an app, managed by its team: two may be live, so that a rotation has no gap."""

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.clients import MOST_SECRETS, Registrar
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.clients import QueryCredentialUse, SecretSummary
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime, days, hours
from valetkey.kernel.secret import Secret

_ENDING = 4


class Overlap(StrEnum):
    """The time for which the previous secret remains valid after a rotation."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"
    UNTIL_ENDED = "open"

    @property
    def lifetime(self) -> Lifetime | None:
        """Return the time; None if the previous secret is ended by hand."""
        lengths = {Overlap.HOUR: hours(1), Overlap.DAY: days(1), Overlap.WEEK: days(7)}
        return lengths.get(self)


class NoNewSecret(StrEnum):
    """The reasons why no secret is issued."""

    GONE = "gone"  # no such app, or the user is no longer in its team
    OTHERS = "others"  # a secret was issued or revoked meanwhile
    FULL = "full"
    NONE = "none"  # this client does not use secrets


class AppSecrets(Struct, frozen=True):
    """Issues and ends the secrets of apps. Its methods run inside a transaction."""

    registrar: Registrar

    def issue(
        self,
        tx: Transaction,
        client_id: str,
        uid: Uid,
        secret: Secret,
        now: Instant,
        *,
        seen: str,
        overlap: Overlap,
    ) -> NoNewSecret | None:
        """Issue a secret; the old one ends after `overlap`. `seen` is the shown `state_of`."""
        tx.clients.touch()
        tx.users.hold(uid)
        client, user = tx.clients.find_held(client_id), tx.users.find(uid)
        if client is None or tx.members.find(client_id, uid) is None:
            return NoNewSecret.GONE
        if user is None or user.disabled_at is not None:
            return NoNewSecret.GONE
        live = tx.secrets.live(client_id, now)
        if state_of(live) != seen:
            return NoNewSecret.OTHERS
        if len(live) >= MOST_SECRETS:
            return NoNewSecret.FULL
        if self.registrar.issue_secret(tx, client, secret, now, others_live=overlap.lifetime):
            return NoNewSecret.NONE
        save_last_letters(tx, client_id, secret, now, beside=live)
        return None

    def end(self, tx: Transaction, client_id: str, uid: Uid, secret_id: str, now: Instant) -> bool:
        """End a secret at once. False if there is none, or the user is not in the app's team."""
        tx.clients.touch()
        client = tx.clients.find_held(client_id)
        if client is None or tx.members.find(client_id, uid) is None:
            return False
        return self.registrar.end_secret(tx, client, secret_id, now)


def save_last_letters(
    tx: Transaction,
    client_id: str,
    secret: Secret,
    now: Instant,
    *,
    beside: Sequence[SecretSummary] = (),
) -> None:
    """Store the last characters of the app's new secret: the one that is not among `beside`."""
    known = {each.id for each in beside}
    for fresh in tx.secrets.live(client_id, now):
        if fresh.id not in known:
            tx.secrets.save_last_letters(fresh.id, secret.reveal()[-_ENDING:])


def seen_in_url(
    live: Sequence[SecretSummary], sighting: QueryCredentialUse | None
) -> QueryCredentialUse | None:
    """Return when one of these secrets was sent in a URL; None if none was."""
    oldest = min((each.created_at for each in live), default=None)
    if sighting is None or oldest is None or sighting.last_seen_at < oldest:
        return None
    return sighting


def state_of(live: Sequence[SecretSummary]) -> str:
    """Return a hash of the ids of the secrets, by which a stale form is detected."""
    return hashlib.sha256(" ".join(sorted(each.id for each in live)).encode()).hexdigest()[:16]
