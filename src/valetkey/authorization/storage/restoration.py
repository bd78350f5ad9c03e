"""After a backup was restored: end everything issued, and repeat what was revoked since.

A backup does not know which accounts were disabled or which passwords were replaced after it was
made. A file beside the database does: each line is one event of that kind, with its id, time, name,
the uid and the client or "-". No secrets.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from valetkey.authorization.model.event.accounts import UserChanged
from valetkey.authorization.model.event.grants import ClientChanged, ClientSecretIssued
from valetkey.authorization.storage.revision import touch
from valetkey.authorization.storage.revocations import Revocations, RevokedKind
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.keyring import create_or_read_secret_file, replace_secret_file
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
        events = _LOGGED.all(
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
        endings = [ending for ending, data in events if _ends_something(ending.name, data)]
        last = events[-1][0] if len(events) == limit else None
        return RevocationPage(endings, None if last is None else (last.at, last.id))

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
        # They ran when the backup was made.
        self.db.send("DELETE FROM nodes")
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


def _logged(ending: LoggedRevocation, data: str) -> tuple[LoggedRevocation, str]:
    return ending, data


_LOGGED = Record(_logged, "events", ending=Record(LoggedRevocation, "events"))


OVERLAP = 90
"""Seconds that are read again, for slow transactions and differing clocks."""

_LARGEST = 8 * 1024 * 1024
_LONG = 1024 * 1024
_FIELDS = 5
_SINCE = "since "


class RevocationLog:
    """The logged revocations, and the file to append to."""

    def __init__(self, file: Path) -> None:
        """Read the file; create it if it is missing. Raises OperatorError."""
        self._file = file
        text = _read(file) if file.exists() else ""
        # A line without a line end was cut short by a crash; its event is read again.
        head, *lines = text.split("\n")[:-1] or [""]
        if not head.startswith(_SINCE):
            head, lines = f"{_SINCE}0", []
            replace_secret_file(file, f"{head}\n")
        self.since = Instant(int(head.removeprefix(_SINCE)))
        """The time since which every revocation of the database is logged; 0: always."""
        self._known = {
            revocation.id: revocation
            for revocation in map(_read_line, lines)
            if revocation is not None
        }

    @property
    def all(self) -> Sequence[LoggedRevocation]:
        """Return every logged revocation, oldest first."""
        return sorted(self._known.values(), key=lambda revocation: (revocation.at, revocation.id))

    @property
    def read_from(self) -> Instant:
        """Return the time from which to read events that may not be recorded yet."""
        newest = max((revocation.at for revocation in self._known.values()), default=self.since)
        return Instant(max(0, max(self.since, newest) - OVERLAP))

    def append(self, revocations: Sequence[LoggedRevocation]) -> None:
        """Append the new revocations, synced to disk on return. Raises OSError."""
        news = [revocation for revocation in revocations if revocation.id not in self._known]
        if not news:
            return
        # The line end in front separates them from a line that was cut short.
        text = "".join(("\n", *map(_line, news))).encode("ascii")
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            if os.write(descriptor, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._known |= {revocation.id: revocation for revocation in news}

    def compact(self) -> None:
        """Rewrite a long file without repetitions; drop the older half if it is still too long."""
        if self._file.stat().st_size < _LONG:
            return
        lines = [_line(revocation) for revocation in self.all]
        if sum(map(len, lines)) > _LARGEST:
            forgotten, lines = lines[: len(lines) // 2], lines[len(lines) // 2 :]
            self.since = Instant(int(forgotten[-1].split(" ")[1]))
        replace_secret_file(self._file, f"{_SINCE}{self.since}\n{''.join(lines)}")


def _read(file: Path) -> str:
    return create_or_read_secret_file(file, str, largest=2 * _LARGEST)


def _line(ending: LoggedRevocation) -> str:
    uid = "-" if ending.uid is None else str(ending.uid)
    return f"{ending.id} {ending.at} {ending.name} {uid} {ending.client_id or '-'}\n"


def _read_line(line: str) -> LoggedRevocation | None:
    words = line.split(" ")
    if len(words) != _FIELDS or not words[1].isdecimal():
        return None
    id_, at, name, uid, client = words
    return LoggedRevocation(
        id_,
        Instant(int(at)),
        name,
        None if uid == "-" else int(uid),
        None if client == "-" else client,
    )
