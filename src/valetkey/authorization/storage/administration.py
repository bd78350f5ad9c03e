"""Stores of administration: API tokens, changed settings, response times, applied files."""

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.model.user import ApiToken, Uid
from valetkey.authorization.storage.revision import touch
from valetkey.config.sections.people import BrandField
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Fingerprint

_NOTED_EVERY = 60
_KEPT = days(90)


class ApiTokens(Struct, frozen=True):
    """Issue, find and revoke API tokens; revoked ones are kept for a while, to be looked up."""

    db: Connection

    def issue(self, print_: Fingerprint, token: ApiToken) -> None:
        """Insert the token."""
        _TOKENS.send(
            self.db,
            "INSERT INTO api_tokens (*, token_print) VALUES (*, :print)",
            token,
            print=print_,
        )

    def find_by_fingerprint(self, print_: Fingerprint) -> ApiToken | None:
        """Return the token with this fingerprint, live or not."""
        return _TOKENS.find(
            self.db,
            "SELECT * FROM api_tokens WHERE token_print = :print",
            print=print_,
        )

    def find(self, id: str) -> ApiToken | None:
        """Return the token with this id, live or not."""
        return _TOKENS.find(
            self.db,
            "SELECT * FROM api_tokens WHERE id = :id",
            id=id,
        )

    def page(self, before: Instant, before_id: str, limit: int) -> Sequence[ApiToken]:
        """Return at most `limit` tokens, newest first, before a position."""
        return _TOKENS.all(
            self.db,
            "SELECT * FROM api_tokens WHERE created_at < :before OR (created_at = :before AND id <"
            " :before_id) ORDER BY created_at DESC, id DESC LIMIT :limit",
            before=before,
            before_id=before_id,
            limit=limit,
        )

    def count_live(self, uid: Uid, now: Instant) -> int:
        """Return the number of a user's live tokens."""
        row = self.db.row(
            "SELECT count(*) FROM api_tokens"
            " WHERE uid = :uid AND ended_at IS NULL AND expires_at > :now",
            uid=uid,
            now=now,
        )
        return 0 if row is None else int(row[0])

    def live_of(self, uid: Uid, now: Instant) -> Sequence[ApiToken]:
        """Return a user's live tokens, oldest first."""
        return _TOKENS.all(
            self.db,
            "SELECT * FROM api_tokens WHERE uid = :uid AND ended_at IS NULL AND expires_at > :now"
            " ORDER BY created_at, id",
            uid=uid,
            now=now,
        )

    def end(self, id: str, now: Instant) -> bool:
        """Revoke the token. Exactly one concurrent caller gets True."""
        ended = self.db.run(
            "UPDATE api_tokens SET ended_at = :now"
            " WHERE id = :id AND ended_at IS NULL AND expires_at > :now",
            id=id,
            now=now,
        )
        return ended == 1

    def note_use(self, id: str, now: Instant) -> None:
        """Record that it was used; at most once a minute."""
        self.db.send(
            "UPDATE api_tokens SET last_used_at = :now"
            " WHERE id = :id AND (last_used_at IS NULL OR last_used_at <= :before)",
            id=id,
            now=now,
            before=now - _NOTED_EVERY,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` tokens that ended over 90 days ago."""
        return self.db.run(
            "DELETE FROM api_tokens WHERE id IN"
            " (SELECT id FROM api_tokens WHERE expires_at <= :before"
            " ORDER BY expires_at LIMIT :limit)",
            before=now - _KEPT,
            limit=limit,
        )


_TOKENS = Record(ApiToken, "api_tokens")


class StoredSettings(Struct, frozen=True):
    """A row for each changed setting, with its value as in the environment."""

    db: Connection

    def take_turn(self) -> None:
        """Lock the settings against other changes, and make every process read them again."""
        touch(self.db)

    def all(self) -> Mapping[str, str]:
        """Return the stored values by path, also those of paths that this version does not know."""
        return dict(self.db.rows("SELECT path, value FROM stored_settings ORDER BY path"))

    def set(self, path: str, value: str, now: Instant) -> None:
        """Store a value."""
        self.db.send(
            "INSERT INTO stored_settings (path, value, changed_at) VALUES (:path, :value, :now)"
            " ON CONFLICT (path) DO UPDATE SET value = :value, changed_at = :now",
            path=path,
            value=value,
            now=now,
        )

    def drop(self, path: str) -> bool:
        """Delete a value. Exactly one concurrent caller gets True."""
        return self.db.run("DELETE FROM stored_settings WHERE path = :path", path=path) == 1


class BrandChanges(Struct, frozen=True):
    """A value for each part that differs from the settings."""

    db: Connection

    def take_turn(self) -> None:
        """Lock the brand against other changes, and make every process reload it."""
        touch(self.db)

    def all(self) -> Mapping[BrandField, str]:
        """Return all changes. Parts that this version does not know are left out."""
        rows = self.db.rows("SELECT field, value FROM brand")
        fields = {field.value: field for field in BrandField}
        return {fields[field]: value for field, value in rows if field in fields}

    def set(self, field: BrandField, value: str, now: Instant) -> None:
        """Set a part."""
        self.db.send(
            "INSERT INTO brand (field, value, changed_at) VALUES (:field, :value, :now)"
            " ON CONFLICT (field) DO UPDATE SET value = :value, changed_at = :now",
            field=field.value,
            value=value,
            now=now,
        )

    def store_logo(self, name: str, image: bytes, now: Instant) -> None:
        """Store an image under the name of its content."""
        self.db.send(
            "INSERT INTO brand_logos (name, image, changed_at) VALUES (:name, :image, :now)"
            " ON CONFLICT (name) DO NOTHING",
            name=name,
            image=b64encode(image).decode("ascii"),
            now=now,
        )

    def logo(self, name: str) -> bytes | None:
        """Return the uploaded image of that name."""
        row = self.db.row("SELECT image FROM brand_logos WHERE name = :name", name=name)
        return None if row is None else b64decode(row[0])

    def drop_logos(self, but: Collection[str]) -> None:
        """Delete the uploaded images that have none of these names."""
        for (name,) in self.db.rows("SELECT name FROM brand_logos"):
            if name not in but:
                self.db.send("DELETE FROM brand_logos WHERE name = :name", name=name)

    def drop(self, field: BrandField) -> None:
        """Reset a part to the settings."""
        self.db.send("DELETE FROM brand WHERE field = :field", field=field.value)
        Applied(self.db).release(AppliedKind.BRAND, field.value)


Key = tuple[int, str, int]
"""Hour since 1970, outcome, and upper bound in milliseconds; 0 for the unbounded bucket."""


class ResponseTimes(Struct, frozen=True):
    """Counters that every process adds to."""

    db: Connection

    def add(self, amounts: Mapping[Key, int]) -> None:
        """Add to each counter."""
        # In one order everywhere: otherwise two processes could deadlock.
        for (hour, outcome, within), amount in sorted(amounts.items()):
            self.db.send(
                "INSERT INTO answer_times (hour, outcome, within, amount)"
                " VALUES (:hour, :outcome, :within, :amount)"
                " ON CONFLICT (hour, outcome, within) DO UPDATE"
                " SET amount = answer_times.amount + :amount",
                hour=hour,
                outcome=outcome,
                within=within,
                amount=amount,
            )

    def since(self, hour: int, width: int = 1) -> Sequence[tuple[Key, int]]:
        """Return the counters of that hour and later, in order.

        Those of `width` hours are added up, and have the number of these hours divided by it.
        """
        rows = self.db.rows(
            "SELECT hour / :width AS period, outcome, within, sum(amount) FROM answer_times"
            " WHERE hour >= :hour GROUP BY period, outcome, within"
            " ORDER BY period, outcome, within",
            hour=hour,
            width=width,
        )
        # PostgreSQL returns such a sum as a decimal number.
        return [((at, outcome, within), int(amount)) for at, outcome, within, amount in rows]

    def sweep(self, before_hour: int, limit: int) -> int:
        """Delete at most `limit` counters of earlier hours."""
        return self.db.run(
            "DELETE FROM answer_times WHERE (hour, outcome, within) IN"
            " (SELECT hour, outcome, within FROM answer_times WHERE hour < :hour"
            " ORDER BY hour LIMIT :limit)",
            hour=before_hour,
            limit=limit,
        )


class AppliedKind(StrEnum):
    """The kinds of core objects that a file declares; features have others."""

    ROLE = "role"
    MEMBER = "member"
    GROUP = "group"
    CLIENT = "client"
    USER = "user"
    BRAND = "brand"


class AppliedObject(Struct, frozen=True):
    """An object of a file, by its id; `part` names a member of a group or a role at an API."""

    kind: str
    id: str
    part: str
    file: str
    pruned_at: Instant | None = None


class Applied(Struct, frozen=True):
    """Store which file declares an object: at most one. Rows of deleted objects may remain."""

    db: Connection

    def of_file(self, file: str) -> Sequence[AppliedObject]:
        """Return everything that belongs to the file, also what was pruned."""
        return _APPLIED.all(
            self.db, "SELECT * FROM applied WHERE file = :file ORDER BY kind, id, part", file=file
        )

    def claim(self, applied_object: AppliedObject) -> None:
        """Let the object belong to the file, and to no other one."""
        self.db.send(
            "INSERT INTO applied (kind, id, part, file, pruned_at)"
            " VALUES (:kind, :id, :part, :file, :pruned_at) ON CONFLICT (kind, id, part)"
            " DO UPDATE SET file = :file, pruned_at = :pruned_at",
            kind=applied_object.kind,
            id=applied_object.id,
            part=applied_object.part,
            file=applied_object.file,
            pruned_at=applied_object.pruned_at,
        )

    def release(self, kind: str, object_id: str, part: str = "") -> None:
        """Let the object belong to no file: it was deleted, and may be created by hand."""
        self.db.send(
            "DELETE FROM applied WHERE kind = :kind AND id = :id AND part = :part",
            kind=str(kind),
            id=object_id,
            part=part,
        )


def member_part(uid: int) -> str:
    """Name a user as a member of a group."""
    return f"user {uid}"


def role_part(role: str, holder: int | str) -> str:
    """Name a role at an API that a user (its uid) or a group (its id) has."""
    return f"{role} {f'user {holder}' if isinstance(holder, int) else f'group {holder}'}"


_APPLIED = Record(AppliedObject, "applied")
