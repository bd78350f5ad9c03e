"""User administration: find users by a part of a word, list and count them.

A word is a username, an email address, the domain of one, or a part of a name. The index holds each
word and what remains of it from each of its letters on, so that a part is found as a beginning.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice

from msgspec import Struct

from valetkey.authorization.model.account.email_address import shown_email
from valetkey.authorization.model.account.user import Role, Uid, User, fold, fold_letters
from valetkey.authorization.model.event.event import DoneBy, written
from valetkey.database.engine import Connection, Row
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
        place = max(after, UserCursor(start, 0))
        rows = self.db.rows(
            "SELECT word, uid FROM people_words WHERE (word, uid) > (:word, :uid) AND word < :end"
            " ORDER BY word, uid LIMIT :limit",
            word=place.word,
            uid=place.uid,
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
