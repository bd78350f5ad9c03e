"""An app's secrets in its team's hands: two may live side by side, so that none is ever missing."""

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.clients import MOST_SECRETS, Registrar
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.storage.register.clients import QuerySighting
from valetkey.authorization.storage.register.secrets import KnownSecret
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime, days, hours
from valetkey.kernel.secret import Secret

_ENDING = 4


class Overlap(StrEnum):
    """How long the previous secret remains valid after a rotation."""

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
    """Why there is no new secret."""

    GONE = "gone"  # no such app, or no member of its team any more
    OTHERS = "others"  # a secret was issued or revoked meanwhile
    FULL = "full"
    NONE = "none"  # this app has no use for one


class AppSecrets(Struct, frozen=True):
    """Makes and ends them. Its methods run inside a transaction."""

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
        """One more; the old one ends after `overlap`. `seen` is the `state` that the person saw."""
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
        keep_ending(tx, client_id, secret, now, beside=live)
        return None

    def end(self, tx: Transaction, client_id: str, uid: Uid, secret_id: str, now: Instant) -> bool:
        """End one now. False where there is none, or this person is not in the app's team."""
        tx.clients.touch()
        client = tx.clients.find_held(client_id)
        if client is None or tx.members.find(client_id, uid) is None:
            return False
        return self.registrar.end_secret(tx, client, secret_id, now)


def keep_ending(
    tx: Transaction,
    client_id: str,
    secret: Secret,
    now: Instant,
    *,
    beside: Sequence[KnownSecret] = (),
) -> None:
    """Store the last characters of the app's new secret: the one that is not among `beside`."""
    known = {each.id for each in beside}
    for fresh in tx.secrets.live(client_id, now):
        if fresh.id not in known:
            tx.secrets.keep_ending(fresh.id, secret.reveal()[-_ENDING:])


def seen_in_url(
    live: Sequence[KnownSecret], sighting: QuerySighting | None
) -> QuerySighting | None:
    """Return when one of these secrets was sent in a URL; None if none was."""
    oldest = min((each.created_at for each in live), default=None)
    if sighting is None or oldest is None or sighting.last_seen_at < oldest:
        return None
    return sighting


def state_of(live: Sequence[KnownSecret]) -> str:
    """Which secrets there are, in a word: a form made for others does nothing."""
    return hashlib.sha256(" ".join(sorted(each.id for each in live)).encode()).hexdigest()[:16]
