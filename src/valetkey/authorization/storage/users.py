"""Stores of users: their names and passwords, and the directory in which they are found.

A word is a username, an email address, the domain of one, or a part of a name. The index holds each
word and what remains of it from each of its letters on, so that a part is found as a beginning.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import islice

from msgspec import Struct

from valetkey.authorization.model.event.event import DoneBy, written
from valetkey.authorization.model.user import (
    Role,
    Uid,
    User,
    UserAttributes,
    fold,
    fold_letters,
    shown_email,
    uid_of,
)
from valetkey.database.engine import Connection, Row
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant

_KEPT = 40
"""Maximum number of indexed bytes of a word."""

_WORDS = 12
"""Maximum number of indexed words of one name."""

_PARTS = 64
"""Maximum number of indexed parts of the words of one user, beside the words."""

_SHORTEST_PART = 2
"""Minimum number of characters of an indexed part."""

_SPACES = re.compile(r"[\s.,;()\"'<>/-]+")


class Filter(StrEnum):
    """A filter of users."""

    ALL = "all"
    ROLE = "role"
    DISABLED = "disabled"
    UNVERIFIED = "unverified"

    def fits(self, user: User) -> bool:
        """Return whether this user matches."""
        match self:
            case Filter.ALL:
                return True
            case Filter.ROLE:
                return user.role is not None
            case Filter.DISABLED:
                return user.disabled_at is not None
            case Filter.UNVERIFIED:
                return user.email_verified_at is None


class Order(StrEnum):
    """An order of users."""

    NEWEST = "newest"
    OLDEST = "oldest"
    USERNAME = "username"
    USERNAME_DESCENDING = "-username"


class UserCursor(Struct, frozen=True, order=True):
    """The start of a page of a search: after this word and uid."""

    word: str
    uid: int


START = UserCursor("", 0)


def search_words(username: str, email: str, name: str) -> Sequence[str]:
    """Return every word by which a user is found, as stored, in order."""
    words = {_hex(word) for word in _words(username, email, name)}
    parts = islice((_hex(part) for part in _parts(username, email, name)), _PARTS)
    return sorted((words | set(parts)) - {""})


def prefix_range(text: str) -> tuple[str, str]:
    """Return the range of indexed words and parts that begin with this text."""
    start = _hex(fold_letters(text))
    return start, f"{start}g"  # g is the first letter that no hexadecimal number has


class UserDirectory(Struct, frozen=True):
    """The register of users, for searches and lists."""

    db: Connection

    def index_user(self, uid: Uid, username: str, email: str, name: str) -> None:
        """Replace the user's search words by those of the current record."""
        self.db.send("DELETE FROM people_words WHERE uid = :uid", uid=uid)
        for word in search_words(username, email, name):
            self.db.send(
                "INSERT INTO people_words (word, uid) VALUES (:word, :uid)"
                " ON CONFLICT (word, uid) DO NOTHING",
                word=word,
                uid=uid,
            )

    def find(self, text: str, after: UserCursor, limit: int) -> Sequence[tuple[str, Uid]]:
        """Return at most `limit` words with this prefix and their users, in order, after a place.

        A user with several such words appears once for each.
        """
        start, end = prefix_range(text)
        cursor = max(after, UserCursor(start, 0))
        rows = self.db.rows(
            "SELECT word, uid FROM people_words WHERE (word, uid) > (:word, :uid) AND word < :end"
            " ORDER BY word, uid LIMIT :limit",
            word=cursor.word,
            uid=cursor.uid,
            end=end,
            limit=limit,
        )
        return [(word, uid) for word, uid in rows]

    def newest(self, chosen: Filter, before: Instant, before_uid: int, limit: int) -> Sequence[Uid]:
        """Return at most `limit` matching users, newest first, before a position."""
        off = _DISABLED if chosen is Filter.DISABLED else _UNVERIFIED
        part = _ROLE if chosen is Filter.ROLE else off
        statement = _ALL if chosen is Filter.ALL else part
        rows = self.db.rows(statement, before=before, before_uid=before_uid, limit=limit)
        return [Uid(row[0]) for row in rows]

    def oldest(self, after: Instant, after_uid: int, limit: int) -> Sequence[tuple[Instant, Uid]]:
        """Return creation and uid of at most `limit` users, oldest first, after a position."""
        rows = self.db.rows(
            "SELECT created_at, uid FROM users WHERE (created_at, uid) > (:after, :after_uid)"
            " ORDER BY created_at, uid LIMIT :limit",
            after=after,
            after_uid=after_uid,
            limit=limit,
        )
        return [(Instant(at), Uid(uid)) for at, uid in rows]

    def by_username(self, after: str, limit: int) -> Sequence[tuple[str, Uid]]:
        """Return at most `limit` folded usernames and their users, in order, after a username."""
        rows = self.db.rows(
            "SELECT username_key, uid FROM users WHERE username_key > :after"
            " ORDER BY username_key LIMIT :limit",
            after=after,
            limit=limit,
        )
        return [(key, Uid(uid)) for key, uid in rows]

    def by_username_descending(self, before: str, limit: int) -> Sequence[tuple[str, Uid]]:
        """Return at most `limit` folded usernames and their users, last first, before a username.

        Before "" means from the end on.
        """
        first = "SELECT username_key, uid FROM users ORDER BY username_key DESC LIMIT :limit"
        following = (
            "SELECT username_key, uid FROM users WHERE username_key < :before"
            " ORDER BY username_key DESC LIMIT :limit"
        )
        if before:
            rows = self.db.rows(following, before=before, limit=limit)
        else:
            rows = self.db.rows(first, limit=limit)
        return [(key, Uid(uid)) for key, uid in rows]

    def with_roles(self, limit: int) -> Sequence[Uid]:
        """Return at most `limit` users who have a role."""
        rows = self.db.rows(
            "SELECT uid FROM users WHERE role IS NOT NULL ORDER BY role, uid LIMIT :limit",
            limit=limit,
        )
        return [Uid(row[0]) for row in rows]

    def factors_of(self, uid: Uid) -> Sequence[tuple[str, str, Instant, Instant | None]]:
        """Return kind, name, creation and last use of everything a user signs in with."""
        rows = self.db.rows(
            "SELECT kind, name, created_at, last_used_at FROM credentials WHERE uid = :uid"
            " ORDER BY kind, created_at, id",
            uid=uid,
        )
        return [(kind, name, created, used) for kind, name, created, used in rows]

    def has_acted(self, done_by: DoneBy, name: str, uid: Uid, since: Instant) -> bool:
        """Return whether an actor has done this to the user since then."""
        row = self.db.row(
            "SELECT id FROM events WHERE uid = :uid AND at >= :since AND name = :name"
            " AND done_by = :done_by LIMIT 1",
            uid=uid,
            since=since,
            name=name,
            done_by=written(done_by, uid, None),
        )
        return row is not None

    def set_role(self, uid: Uid, role: Role | None, now: Instant) -> bool:
        """Set the role, or remove it; False if there is no such user."""
        changed = self.db.run(
            "UPDATE users SET role = :role, changed_at = :now WHERE uid = :uid",
            uid=uid,
            role=None if role is None else role.value,
            now=now,
        )
        return changed == 1

    def take_turn(self) -> None:
        """Lock the set of owners against other changes until the transaction ends."""
        self.db.run("UPDATE turns SET taken = taken + 1 WHERE name = 'owners'")

    def has_owner(self, but: int = 0) -> bool:
        """Return whether there is an owner other than `but`, enabled and not being removed."""
        row = self.db.row(
            "SELECT uid FROM users WHERE role = 'owner' AND disabled_at IS NULL"
            " AND uid <> :uid AND NOT EXISTS"
            " (SELECT 1 FROM account_removals WHERE account_removals.uid = users.uid) LIMIT 1",
            uid=but,
        )
        return row is not None

    def index_more(self, limit: int) -> int:
        """Index at most `limit` users from before parts of words were; return how many."""
        row = self.db.row("SELECT taken FROM turns WHERE name = 'word_parts'")
        last = 0 if row is None else int(row[0])
        rows = self.db.rows(
            "SELECT uid, username, email, name FROM users WHERE uid > :uid ORDER BY uid"
            " LIMIT :limit",
            uid=last,
            limit=limit,
        )
        if not rows:
            return 0
        moved = self.db.run(
            "UPDATE turns SET taken = :uid WHERE name = 'word_parts' AND taken = :last",
            uid=max(uid for uid, *_ in rows),
            last=last,
        )
        if not moved:
            return 0
        for uid, username, email, name in rows:
            self.index_user(uid, username, email, name)
        return len(rows)

    def count_matching(self, chosen: Filter, most: int) -> int:
        """Count the users that match, up to `most`, without those who were deleted."""
        off = _COUNT_DISABLED if chosen is Filter.DISABLED else _COUNT_UNVERIFIED
        part = _COUNT_ROLE if chosen is Filter.ROLE else off
        statement = _COUNT_ALL if chosen is Filter.ALL else part
        return _number(self.db.row(statement, limit=most))

    def count_grants(self, most: int, now: Instant) -> int:
        """Count the live grants, up to `most`."""
        row = self.db.row(
            "SELECT count(*) FROM (SELECT uid FROM live_grants WHERE ends_at > :now LIMIT :limit)"
            " AS counted",
            limit=most,
            now=now,
        )
        return _number(row)


_ALL = (
    "SELECT uid FROM users WHERE (created_at, uid) < (:before, :before_uid)"
    " ORDER BY created_at DESC, uid DESC LIMIT :limit"
)
_ROLE = (
    "SELECT uid FROM users WHERE role IS NOT NULL"
    " AND (created_at, uid) < (:before, :before_uid)"
    " ORDER BY created_at DESC, uid DESC LIMIT :limit"
)
_DISABLED = (
    "SELECT uid FROM users WHERE disabled_at IS NOT NULL"
    " AND (created_at, uid) < (:before, :before_uid)"
    " ORDER BY created_at DESC, uid DESC LIMIT :limit"
)
_UNVERIFIED = (
    "SELECT uid FROM users WHERE email_verified_at IS NULL"
    " AND (created_at, uid) < (:before, :before_uid)"
    " ORDER BY created_at DESC, uid DESC LIMIT :limit"
)
_COUNT_ALL = (
    "SELECT count(*) FROM (SELECT uid FROM users WHERE email <> ''"
    " ORDER BY created_at, uid LIMIT :limit) AS counted"
)
_COUNT_ROLE = (
    "SELECT count(*) FROM (SELECT uid FROM users WHERE role IS NOT NULL"
    " ORDER BY role LIMIT :limit) AS counted"
)
_COUNT_DISABLED = (
    "SELECT count(*) FROM (SELECT uid FROM users WHERE disabled_at IS NOT NULL"
    " AND email <> '' ORDER BY created_at, uid LIMIT :limit) AS counted"
)
_COUNT_UNVERIFIED = (
    "SELECT count(*) FROM (SELECT uid FROM users WHERE email_verified_at IS NULL"
    " AND email <> '' ORDER BY created_at, uid LIMIT :limit) AS counted"
)


def _number(row: Row | None) -> int:
    return 0 if row is None else int(row[0])


def _words(username: str, email: str, name: str) -> Iterator[str]:
    yield fold(username)
    # An international domain in ASCII, and in its letters.
    for address in dict.fromkeys((fold(email), fold_letters(shown_email(email)))):
        yield address
        local, at, domain = address.rpartition("@")
        if at:
            yield f"@{domain}"
            yield domain
            yield from _SPACES.split(local)
    yield from [word for word in _SPACES.split(fold(name)) if word][:_WORDS]


def _parts(username: str, email: str, name: str) -> Iterator[str]:
    # Not of the domain, which most users may share.
    local = fold(email).rpartition("@")[0]
    for word in (*_SPACES.split(fold(name))[:_WORDS], fold(username), local):
        for start in range(1, len(word) - _SHORTEST_PART + 1):
            yield word[start:]


def _hex(word: str) -> str:
    return word.encode("utf-8", "replace")[:_KEPT].hex()


class AccountSummary(Struct, frozen=True):
    """The sign-in state of a user: live sessions, age of the password, second factor."""

    sessions: int
    password_set_at: Instant | None
    second_factor: bool


class Users(Struct, frozen=True):
    """The register of users. A uid is never reused."""

    db: Connection

    def find(self, uid: Uid) -> User | None:
        """Return the user, disabled or not."""
        return USERS.find(
            self.db,
            "SELECT * FROM users WHERE uid = :uid",
            uid=uid,
        )

    def hold(self, uid: Uid) -> None:
        """Lock the user against concurrent revocations: for transactions that issue something.

        Call it before reading what is judged: the user, a session, a consent, a grant.
        """
        self.db.share("SELECT :uid", uid=uid)

    def hold_alone(self, uid: Uid) -> None:
        """Lock the user so that nothing is issued meanwhile: for transactions that end something.

        Call it before reading what there is to end.
        """
        self.db.exclude("SELECT :uid", uid=uid)

    def begin_generation(self, uid: Uid) -> None:
        """End every code, grant and link that was issued to the user."""
        self.db.send("UPDATE users SET generation = generation + 1 WHERE uid = :uid", uid=uid)

    def find_to_change(self, uid: Uid) -> User | None:
        """Return the user, locked against other changes until the transaction ends."""
        self.hold_alone(uid)
        self.db.run("UPDATE users SET changed_at = changed_at WHERE uid = :uid", uid=uid)
        return self.find(uid)

    def find_by_name(self, name: str) -> User | None:
        """Return the user with this username or email address, in any spelling."""
        users = USERS.all(
            self.db,
            "SELECT * FROM users WHERE username_key = :key OR email_key = :key"
            " OR email_key = :former",
            key=fold(name),
            former=fold_letters(shown_email(name)),
        )
        return _best(users, name)

    def find_by_username(self, username: str) -> User | None:
        """Return the user with this username, in any spelling."""
        return USERS.find(
            self.db,
            "SELECT * FROM users WHERE username_key = :key",
            key=fold(username),
        )

    def find_by_email(self, email: str) -> User | None:
        """Return the user with this email address, in any spelling."""
        users = USERS.all(
            self.db,
            "SELECT * FROM users WHERE email_key = :key OR email_key = :former",
            key=fold(email),
            former=fold_letters(shown_email(email)),
        )
        return _best(users, email)

    def page(self, after: int, limit: int) -> Sequence[User]:
        """Return at most `limit` users in the order of their uids, after `after`."""
        return USERS.all(
            self.db,
            "SELECT * FROM users WHERE uid > :after ORDER BY uid LIMIT :limit",
            after=after,
            limit=limit,
        )

    def register(self, user: User) -> bool:
        """Add a user; False if uid, username or email is taken, or reserved for another user.

        A username of digits is taken by the user with this uid, and the other way around.
        """
        if self._is_taken(user, user.created_at) or self.is_number_taken(user.username, user.uid):
            return False
        if self.find_by_username(str(user.uid)) is not None:
            return False
        row_count = self.db.run(
            "INSERT INTO uids (uid, given_at) VALUES (:uid, :now) ON CONFLICT (uid) DO NOTHING",
            uid=user.uid,
            now=user.created_at,
        )
        if not row_count:
            return False
        # Another transaction may have taken it since the check above.
        registered = USERS.run(
            self.db,
            "INSERT INTO users (*, username_key, email_key)"
            " VALUES (*, :username_key, :email_key) ON CONFLICT DO NOTHING",
            user,
            username_key=fold(user.username),
            email_key=fold(user.email),
        )
        if registered:
            UserDirectory(self.db).index_user(user.uid, user.username, user.email, user.name)
        return registered == 1

    def change(self, user: User) -> bool:
        """Write everything about a user except the role, which `People.set_role` changes.

        False if there is no such user, or if username or email is taken or reserved.
        """
        # Before the row, in the order of `find_to_change`: otherwise the two could deadlock.
        self.hold_alone(user.uid)
        if self._is_taken(user, user.changed_at):
            return False
        before = self.find(user.uid)
        renames = before is not None and fold(before.username) != fold(user.username)
        if renames and self.is_number_taken(user.username, user.uid):
            return False
        changed = self.db.run(
            "UPDATE users SET username = :username, username_key = :username_key, email = :email,"
            " email_key = CASE WHEN email = :email THEN email_key ELSE :email_key END,"
            " email_verified_at = :email_verified_at, name = :name,"
            " changed_at = :changed_at, disabled_at = :disabled_at,"
            " disabled_by = :disabled_by, claims = :claims WHERE uid = :uid",
            uid=user.uid,
            username=user.username,
            username_key=fold(user.username),
            email=user.email,
            email_key=fold(user.email),
            email_verified_at=user.email_verified_at,
            name=user.name,
            changed_at=user.changed_at,
            disabled_at=user.disabled_at,
            disabled_by=user.disabled_by,
            claims=user.claims.encode(),
        )
        if changed:
            UserDirectory(self.db).index_user(user.uid, user.username, user.email, user.name)
        return changed == 1

    def set_attributes(self, uid: Uid, attributes: UserAttributes, now: Instant) -> bool:
        """Replace the values of the user's declared attributes; False if there is no such user."""
        changed = self.db.run(
            "UPDATE users SET attributes = :attributes, changed_at = :now WHERE uid = :uid",
            uid=uid,
            attributes=attributes.encode(),
            now=now,
        )
        return changed == 1

    def password_hash(self, uid: Uid) -> str | None:
        """Return the hash of the user's password, as a PHC string; None without a password."""
        row = self.db.row(
            "SELECT data FROM credentials WHERE uid = :uid AND kind = 'password'", uid=uid
        )
        return None if row is None else str(row[0])

    def password_set_at(self, uid: Uid) -> Instant | None:
        """Return when the user's password was set; None without a password."""
        row = self.db.row(
            "SELECT created_at FROM credentials WHERE uid = :uid AND kind = 'password'", uid=uid
        )
        return None if row is None else Instant(row[0])

    def set_password_hash(self, uid: Uid, credential_id: str, data: str, now: Instant) -> None:
        """Replace the hash of the user's password."""
        self.db.run("DELETE FROM credentials WHERE uid = :uid AND kind = 'password'", uid=uid)
        self.db.run(
            "INSERT INTO credentials (id, uid, kind, data, created_at)"
            " VALUES (:id, :uid, 'password', :data, :now)",
            id=credential_id,
            uid=uid,
            data=data,
            now=now,
        )

    def drop_password(self, uid: Uid) -> None:
        """Delete the user's password."""
        self.db.run("DELETE FROM credentials WHERE uid = :uid AND kind = 'password'", uid=uid)

    def email_held_until(self, uid: Uid) -> Instant | None:
        """Return until when the email address may not change again; None if it may."""
        row = self.db.row("SELECT email_held_until FROM users WHERE uid = :uid", uid=uid)
        return None if row is None or row[0] is None else Instant(row[0])

    def hold_email(self, uid: Uid, email: str, until: Instant) -> None:
        """Hold this address for the account, which can take it back until then."""
        self.db.run(
            "UPDATE users SET email_held_until = :until, email_held_key = :key WHERE uid = :uid",
            uid=uid,
            key=fold(email),
            until=until,
        )

    def release_email(self, uid: Uid) -> None:
        """Remove the account's email address."""
        self.db.run(
            "UPDATE users SET email_held_until = NULL, email_held_key = NULL WHERE uid = :uid",
            uid=uid,
        )

    def is_number_taken(self, username: str, own: int = 0) -> bool:
        """Return whether the username is the uid of a user other than `own`, removed or not."""
        number = uid_of(fold(username))
        if number is None or number == own:
            return False
        return self.db.row("SELECT uid FROM uids WHERE uid = :uid", uid=number) is not None

    def _is_taken(self, user: User, now: Instant) -> bool:
        username, key = fold(user.username), fold(user.email)
        rows = self.db.rows(
            "SELECT uid, username_key, email_key, email, email_held_key = :email"
            " AND email_held_until > :now FROM users WHERE username_key = :username"
            " OR email_key = :email OR email_key = :former OR email_held_key = :email",
            username=username,
            email=key,
            former=fold_letters(shown_email(user.email)),
            now=now,
        )
        # An address that an account has already was judged when it got it.
        stays = any(uid == user.uid and email == user.email for uid, _, _, email, _ in rows)
        for uid, username_key, email_key, email, is_held in rows:
            if uid == user.uid:
                continue
            if username_key == username:
                return True
            if not stays and (key in {email_key, fold(email)} or is_held):
                return True
        return False

    def renew_password_hash(self, uid: Uid, old: str, new: str) -> bool:
        """Replace the hash of an unchanged password; False if the password was changed."""
        renewed = self.db.run(
            "UPDATE credentials SET data = :new"
            " WHERE uid = :uid AND kind = 'password' AND data = :old",
            uid=uid,
            old=old,
            new=new,
        )
        return renewed == 1

    def summary(
        self, uid: Uid, here: str, seen_after: Instant, now: Instant, limit: int
    ) -> Callable[[], AccountSummary]:
        """Read a summary of the account, sent at once as by `Connection.ahead`.

        Counts at most `limit` live sessions: those used after `seen_after`, and the one `here`.
        """
        rows = self.db.ahead(
            "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM sessions WHERE sessions.uid = :uid"
            " AND ended_at IS NULL AND expires_at > :now"
            " AND (last_seen_at > :seen_after OR id = :here) AND generation ="
            " (SELECT session_generation FROM users WHERE users.uid = :uid)"
            " LIMIT :limit) AS counted),"
            " (SELECT created_at FROM credentials WHERE uid = :uid AND kind = 'password'),"
            " (SELECT COUNT(*) FROM (SELECT 1 FROM credentials WHERE uid = :uid"
            " AND kind IN ('passkey', 'totp') LIMIT 1) AS counted)",
            uid=uid,
            here=here,
            seen_after=seen_after,
            now=now,
            limit=limit,
        )

        def read() -> AccountSummary:
            sessions, since, factors = rows()[0]
            return AccountSummary(sessions, None if since is None else Instant(since), factors > 0)

        return read

    def require_factor(self, uid: Uid, now: Instant) -> None:
        """Require that the user adds a second factor before anything else."""
        self.db.send(
            "UPDATE users SET factor_required_at = :now WHERE uid = :uid", uid=uid, now=now
        )

    def waive_factor(self, uid: Uid) -> bool:
        """Require no second factor of the user any more. False if none was required."""
        waived = self.db.run(
            "UPDATE users SET factor_required_at = NULL"
            " WHERE uid = :uid AND factor_required_at IS NOT NULL",
            uid=uid,
        )
        return waived == 1

    def has_second_factor(self, uid: Uid) -> bool:
        """Return whether the user needs more than a password to sign in."""
        row = self.db.row(
            "SELECT id FROM credentials WHERE uid = :uid AND kind IN ('passkey', 'totp') LIMIT 1",
            uid=uid,
        )
        return row is not None


USERS = Record(
    User,
    "users",
    develops=Column(
        sql="EXISTS (SELECT 1 FROM memberships WHERE memberships.uid = users.uid)"
        " OR EXISTS (SELECT 1 FROM developers WHERE developers.uid = users.uid)"
    ),
)


def _best(users: Sequence[User], name: str) -> User | None:
    """Return the user with this name: the ASCII one if two of version 0.2 have the same address."""
    key = fold(name)
    fitting = [user for user in users if key in {fold(user.username), fold(user.email)}]
    return min(fitting, key=lambda user: not user.email.isascii(), default=None)
