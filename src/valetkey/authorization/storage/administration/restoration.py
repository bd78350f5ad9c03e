"""After restoring a backup: revoke everything issued, and find revocations to repeat."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.event.clients import ClientChanged, ClientSecretIssued
from valetkey.authorization.model.event.users import UserChanged
from valetkey.authorization.storage.revision import touch
from valetkey.authorization.storage.tokens.revocations import Revocations, RevokedKind
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


class LoggedRevocation(Struct, frozen=True):
    """An event after which something of a user or client no longer worked."""

    id: str
    at: Instant
    name: str
    uid: int | None
    client_id: str | None


class RevocationPage(Struct, frozen=True):
    """A page of revocations, and the position of the last event read; None at the end."""

    found: Sequence[LoggedRevocation]
    last: tuple[Instant, str] | None


class Restoration(Struct, frozen=True):
    """End everything that was issued, and find the events that ended something."""

    db: Connection

    def revocations(self, at: Instant, after: str, limit: int) -> RevocationPage:
        """Return the revocations among at most `limit` events after a position.

        A restore must not undo them.
        """
        events = _ENDINGS.all(
            self.db,
            "SELECT * FROM events WHERE (at > :at OR (at = :at AND id > :after))"
            " AND name IN ('user.disabled', 'user.removed', 'user.secured', 'password.changed',"
            " 'password.removed', 'passkey.removed', 'authenticator.removed', 'factors.removed',"
            " 'recovery_codes.issued', 'identity.unlinked', 'email.restored', 'role.changed',"
            " 'user.changed', 'team_member.removed', 'team_member.changed', 'developer.dismissed',"
            " 'recovery_code.used', 'client.disabled', 'client.removed', 'client.changed',"
            " 'client_secret.ended', 'client_secret.issued', 'client_verification.ended')"
            " ORDER BY at, id LIMIT :limit",
            at=at,
            after=after,
            limit=limit,
        )
        found = [ending for ending, data in events if _ends_something(ending.name, data)]
        last = events[-1][0] if len(events) == limit else None
        return RevocationPage(found, None if last is None else (last.at, last.id))

    def newest(self) -> Instant:
        """Return the time of the newest event in the database; 0 before the first."""
        row = self.db.row("SELECT max(at) FROM events")
        return Instant(0 if row is None or row[0] is None else int(row[0]))

    def has_event(self, event_id: str) -> bool:
        """Return whether the event is in the database."""
        return self.db.row("SELECT id FROM events WHERE id = :id", id=event_id) is not None

    def end_everything(self, now: Instant) -> None:
        """End every grant, session, code, token, link, consent, invitation and signing key."""
        touch(self.db)
        self.db.send(
            "UPDATE grants SET revoked_at = :now, revoked_because = 'restored'"
            " WHERE revoked_at IS NULL",
            now=now,
        )
        self.db.send("UPDATE sessions SET ended_at = :now WHERE ended_at IS NULL", now=now)
        # Redeemed and not deleted: a replay must still be recognised.
        self.db.send("UPDATE vouchers SET redeemed_at = :now WHERE redeemed_at IS NULL", now=now)
        self.db.send("UPDATE api_tokens SET ended_at = :now WHERE ended_at IS NULL", now=now)
        self.db.send("DELETE FROM access_tokens")
        self.db.send("DELETE FROM consents")
        self.db.send("DELETE FROM remembered_devices")
        self.db.send("DELETE FROM administrations")
        self.db.send("DELETE FROM participants")
        self.db.send("DELETE FROM outbox")
        self.db.send("DELETE FROM deliveries")
        self.db.send("DELETE FROM mails")
        self.db.send("DELETE FROM invitations")
        self.db.send("DELETE FROM team_invitations")
        self.db.send("DELETE FROM account_removals WHERE done_at IS NULL")
        # No fingerprint has this form.
        self.db.send("UPDATE registrations SET token_print = 'restored'")
        self.db.send(
            "UPDATE signing_keys SET retires_at = :now, removed_at = :now"
            " WHERE removed_at IS NULL OR removed_at > :now",
            now=now,
        )
        Revocations(self.db).add(RevokedKind.ALL, "all", now)

    def disable_user(self, uid: int, now: Instant) -> bool:
        """Disable the account if it exists and is enabled."""
        touch(self.db)
        done = self.db.run(
            "UPDATE users SET disabled_at = :now WHERE uid = :uid AND disabled_at IS NULL",
            uid=uid,
            now=now,
        )
        return done == 1

    def disable_client(self, client_id: str, now: Instant) -> bool:
        """Disable the client if it exists and is enabled."""
        touch(self.db)
        done = self.db.run(
            "UPDATE clients SET disabled_at = :now WHERE id = :id AND disabled_at IS NULL",
            id=client_id,
            now=now,
        )
        return done == 1

    def end_secrets(self, client_id: str) -> None:
        """Delete the client's secrets."""
        touch(self.db)
        self.db.send("DELETE FROM client_secrets WHERE client_id = :id", id=client_id)

    def dismiss(self, uid: int, client_id: str | None) -> None:
        """Remove the user from the client's team; without a client, from the developers."""
        if client_id is None:
            self.db.send("DELETE FROM developers WHERE uid = :uid", uid=uid)
        else:
            self.db.send(
                "DELETE FROM memberships WHERE uid = :uid AND client_id = :client_id",
                uid=uid,
                client_id=client_id,
            )

    def end_verification(self, client_id: str) -> None:
        """Remove the verified mark."""
        self.db.send("UPDATE clients SET verified_at = NULL WHERE id = :id", id=client_id)


def _ends_something(name: str, data: str) -> bool:
    """Return whether such an event replaced something that worked before."""
    match name:
        case UserChanged.name:
            return '"email"' in data
        case ClientChanged.name:
            return any(field in data for field in _CREDENTIALS)
        case ClientSecretIssued.name:
            return '"others_expire_at":null' not in data
        case _:
            return True


_CREDENTIALS = ('"key_set"', '"authentication_method"', '"openid"')
"""The fields of a client that define its authentication; `openid` holds its jwks_uri."""


def _ending(ending: LoggedRevocation, data: str) -> tuple[LoggedRevocation, str]:
    return ending, data


_ENDINGS = Record(_ending, "events", ending=Record(LoggedRevocation, "events"))
