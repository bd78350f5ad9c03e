"""Store of users, the names they sign in with, and their passwords."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from valetkey.authorization.model.account.email_address import shown_email
from valetkey.authorization.model.account.user import (
    Uid,
    User,
    UserAttributes,
    fold,
    fold_letters,
    uid_of,
)
from valetkey.authorization.storage.administration.user_directory import UserDirectory
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant


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
        found = USERS.all(
            self.db,
            "SELECT * FROM users WHERE username_key = :key OR email_key = :key"
            " OR email_key = :former",
            key=fold(name),
            former=fold_letters(shown_email(name)),
        )
        return _best(found, name)

    def find_by_username(self, username: str) -> User | None:
        """Return the user with this username, in any spelling."""
        return USERS.find(
            self.db,
            "SELECT * FROM users WHERE username_key = :key",
            key=fold(username),
        )

    def find_by_email(self, email: str) -> User | None:
        """Return the user with this email address, in any spelling."""
        found = USERS.all(
            self.db,
            "SELECT * FROM users WHERE email_key = :key OR email_key = :former",
            key=fold(email),
            former=fold_letters(shown_email(email)),
        )
        return _best(found, email)

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
        given = self.db.run(
            "INSERT INTO uids (uid, given_at) VALUES (:uid, :now) ON CONFLICT (uid) DO NOTHING",
            uid=user.uid,
            now=user.created_at,
        )
        if not given:
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
        found = self.db.rows(
            "SELECT uid, username_key, email_key, email, email_held_key = :email"
            " AND email_held_until > :now FROM users WHERE username_key = :username"
            " OR email_key = :email OR email_key = :former OR email_held_key = :email",
            username=username,
            email=key,
            former=fold_letters(shown_email(user.email)),
            now=now,
        )
        # An address that an account has already was judged when it got it.
        stays = any(uid == user.uid and email == user.email for uid, _, _, email, _ in found)
        for uid, username_key, email_key, email, is_held in found:
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


def _best(found: Sequence[User], name: str) -> User | None:
    """Return the user with this name: the ASCII one if two of version 0.2 have the same address."""
    key = fold(name)
    fitting = [each for each in found if key in {fold(each.username), fold(each.email)}]
    return min(fitting, key=lambda each: not each.email.isascii(), default=None)
